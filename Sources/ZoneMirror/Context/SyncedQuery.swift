#if canImport(SwiftUI)
    public import SwiftUI

    /// A view's property with the objects that match a request.
    ///
    /// The view is drawn again when one of them changes, here or on another device:
    ///
    ///     @SyncedQuery<Note> private var list: [Note]
    ///
    ///     init(notes: Notes) {
    ///         _list = SyncedQuery(Note.self, sortedBy: .ascending(\.title), in: notes.container.viewContext)
    ///     }
    ///
    /// Outside of SwiftUI, use `LiveObjects`.
    @MainActor @propertyWrapper public struct SyncedQuery<T: SyncedRecord>: DynamicProperty {
        @SwiftUI.State private var live: LiveObjects<T>

        /// Observes all objects of an entity that match a condition.
        public init(
            _ type: T.Type,
            _ predicate: Condition<T>? = nil,
            sortedBy sorts: SortKey<T>...,
            in context: MirrorContext
        ) {
            var request = FetchRequest(type, predicate)
            request.sorts = sorts
            _live = SwiftUI.State(initialValue: LiveObjects(request, in: context))
        }

        /// The current result.
        public var wrappedValue: [T] { live.objects }

        /// The live objects themselves; `$list.error` is the error of the last read, if it failed.
        public var projectedValue: LiveObjects<T> { live }
    }
#endif
