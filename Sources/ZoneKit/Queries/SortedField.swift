public import Foundation
import Records
import Synchronization

#if canImport(Darwin)
    extension NSSortDescriptor {
        /// The key of the descriptor; `nil` if it was created with a key path.
        var fieldName: String? { key }
    }
#else
    extension NSSortDescriptor {
        /// Creates a sort descriptor with a field's name, for `CKQuery` and for sorting records and dictionaries in
        /// memory.
        ///
        /// In memory, objects without a value come first, and values without an order keep their places.
        ///
        /// - Parameters:
        ///   - key: The name of the field.
        ///   - ascending: Whether the smallest value comes first.
        public convenience init(key: String?, ascending: Bool) {
            self.init(keyPath: \NSObject[sortedBy: key ?? ""], ascending: ascending)
        }

        /// The key of the descriptor; `nil` if it was created with a key path.
        var fieldName: String? { (keyPath as? KeyPath<NSObject, SortedField>).map { NSObject()[keyPath: $0].name } }
    }

    /// Adds `key` to `NSSortDescriptor`, because Foundation's property is not available on Linux.
    ///
    /// Declared in the class itself, it would be ambiguous with Foundation's property in the table of every subclass,
    /// and the Swift 6.3 compiler would crash on optimized apps that use a subclass, such as
    /// `CKLocationSortDescriptor`.
    public protocol CKSortKeyed {}

    extension NSSortDescriptor: CKSortKeyed {}

    extension CKSortKeyed where Self: NSSortDescriptor {
        /// The key of the descriptor; `nil` if it was created with a key path.
        public var key: String? { fieldName }

        /// Has no effect: a decoded sort descriptor can be used at once.
        public func allowEvaluation() {}
    }
#endif

extension NSObject {
    /// The value of a field of a record or dictionary; for other objects only the name.
    subscript(sortedBy name: String) -> SortedField {
        switch self {
        case let record as CKRecord:
            let value = record.state.withLock { $0.value(of: Query.Field(named: name, in: nil)) }
            return SortedField(name: name, value: value)
        case let values as NSDictionary:
            return SortedField(name: name, value: values.object(forKey: name).flatMap { FieldValue($0, in: .default) })
        default: return SortedField(name: name)
        }
    }
}

/// The value by which objects are sorted in memory, with its name.
struct SortedField: Comparable {
    var name: String
    var value: FieldValue?

    static func == (a: SortedField, b: SortedField) -> Bool { !(a < b) && !(b < a) }

    static func < (a: SortedField, b: SortedField) -> Bool {
        guard let one = a.value, let other = b.value else { return a.value == nil && b.value != nil }
        return one.order(other).map { $0 < 0 } ?? false
    }
}
