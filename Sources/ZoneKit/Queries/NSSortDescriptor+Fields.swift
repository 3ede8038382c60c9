public import Foundation
import Records
import Synchronization

#if canImport(Darwin)
    extension NSSortDescriptor {
        /// The name that the descriptor was made with; `nil` where it was made with a key path.
        var fieldName: String? { key }
    }
#else
    extension NSSortDescriptor {
        /// A sort order by a field's name: for `CKQuery`, and in memory for records and dictionaries of values.
        ///
        /// In memory what has no value comes before what has one, and values without an order are left as they stand.
        ///
        /// - Parameters:
        ///   - key: The field.
        ///   - ascending: Smallest first.
        public convenience init(key: String?, ascending: Bool) {
            self.init(keyPath: \NSObject[sortedBy: key ?? ""], ascending: ascending)
        }

        /// The name that the descriptor was made with; `nil` where it was made with a key path.
        var fieldName: String? { (keyPath as? KeyPath<NSObject, SortedField>).map { NSObject()[keyPath: $0].name } }
    }

    /// Gives `NSSortDescriptor` its `key`, which Foundation's own one here is not available for.
    ///
    /// As a member of the class itself it makes Foundation's ambiguous in the table of every subclass: optimized programs that
    /// use one, such as `CKLocationSortDescriptor`, crash the compiler (Swift 6.3).
    public protocol CKSortKeyed {}

    extension NSSortDescriptor: CKSortKeyed {}

    extension CKSortKeyed where Self: NSSortDescriptor {
        /// The name that the descriptor was made with; `nil` where it was made with a key path.
        public var key: String? { fieldName }

        /// Nothing: one that comes out of an archive may be used at once.
        public func allowEvaluation() {}
    }
#endif

extension NSObject {
    /// A field of a record or of a dictionary; of anything else the name alone.
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

/// What things are sorted by in memory, with its name.
struct SortedField: Comparable {
    var name: String
    var value: FieldValue?

    static func == (a: SortedField, b: SortedField) -> Bool { !(a < b) && !(b < a) }

    static func < (a: SortedField, b: SortedField) -> Bool {
        guard let one = a.value, let other = b.value else { return a.value == nil && b.value != nil }
        return one.order(other).map { $0 < 0 } ?? false
    }
}
