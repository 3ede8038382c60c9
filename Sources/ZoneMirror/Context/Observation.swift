public import Observation

extension MirrorContext {
    /// What a request finds, now and again after each change, local or imported, for as long as somebody listens.
    ///
    /// Equal results in a row are given once; of several changes in a row only the newest result. Ends when the
    /// container closes, or with an error that a plain `fetch` would throw. Changes of this context that are not saved
    /// show with the next commit.
    public func objects<T: SyncedRecord>(_ request: FetchRequest<T>) -> AsyncStream<[T]> {
        let (ticks, tick) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let listener = stores.listen(to: [T.entityName], end: { tick.finish() }, { _ in tick.yield() })
        tick.yield()
        return AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let task = Task { [self] in
                var last: [Origin?]?
                for await _ in ticks {
                    guard let found = try? fetch(request) else { break }
                    let rows = found.map(\.id.origin)
                    if let last, Self.same(last, rows, found) { continue }
                    last = rows
                    continuation.yield(found)
                }
                continuation.finish()
            }
            continuation.onTermination = { [stores] _ in
                stores.stopListening(listener)
                tick.finish()
                task.cancel()
            }
        }
    }

    /// The objects of an entity, now and again after each change.
    public func objects<T: SyncedRecord>(
        _ type: T.Type,
        _ predicate: Condition<T>? = nil,
        sortedBy sorts: SortKey<T>...
    ) -> AsyncStream<[T]> {
        var request = FetchRequest(type, predicate)
        request.sorts = sorts
        return objects(request)
    }

    private static func same<T: SyncedRecord>(_ old: [Origin?], _ new: [Origin?], _ objects: [T]) -> Bool {
        guard old.count == new.count else { return false }
        // Rows in another order are told apart by their names, which the rows do not hold.
        return zip(old, new).allSatisfy { a, b in
            guard let a, let b else { return false }
            return a.row == b.row && a.store == b.store && a.name == b.name
        }
    }
}

/// A request's result that stays up to date, for views.
@MainActor @Observable public final class LiveObjects<T: SyncedRecord> {
    /// What the request finds; empty until the first read.
    public private(set) var objects: [T] = []
    @ObservationIgnored private var task: Task<Void, Never>?

    /// Begins to follow a request.
    public init(_ request: FetchRequest<T>, in context: MirrorContext) {
        objects = (try? context.fetch(request)) ?? []
        task = Task { [weak self] in
            for await found in context.objects(request) {
                guard let self else { return }
                self.objects = found
            }
        }
    }

    isolated deinit { task?.cancel() }
}

#if canImport(SwiftUI)
    public import SwiftUI

    /// A request's result in a view: `@SyncedQuery(Note.self, in: context) var notes`.
    @MainActor @propertyWrapper public struct SyncedQuery<T: SyncedRecord>: DynamicProperty {
        @SwiftUI.State private var live: LiveObjects<T>

        /// Follows all objects of an entity that a condition holds for.
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

        /// What is found now.
        public var wrappedValue: [T] { live.objects }
    }
#endif
