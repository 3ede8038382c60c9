public import Foundation
package import Records
import Synchronization

/// Which records of one type to find, and in what order.
///
/// The predicate may be `NSPredicate(value:)`, or comparisons joined by `AND`, each of one of the record's fields or of those
/// that every record has (`creationDate`, `modificationDate`, `recordID`, `creatorUserRecordID`,
/// `lastModifiedUserRecordID`). The schema must have an index for what is asked; the error names the one that is missing.
public final class CKQuery: NSObject, NSCopying, @unchecked Sendable {
    // Unchecked for `predicate`, which nobody changes, and the sort descriptors, which the Mutex guards.

    /// The kind of records to find.
    public let recordType: CKRecord.RecordType
    /// Which of them.
    public let predicate: NSPredicate
    private let order: Mutex<[NSSortDescriptor]?>
    private let form: PredicateForm

    /// Makes a query; whether its predicate can be sent is said when it is.
    public init(recordType: CKRecord.RecordType, predicate: NSPredicate) {
        self.recordType = recordType
        self.predicate = predicate
        form = PredicateForm(predicate)
        order = Mutex(nil)
    }

    /// A query by values, for callers that need no predicate text.
    package init(_ query: Query) {
        recordType = query.recordType
        predicate = NSPredicate(value: true)
        form = query.filters.isEmpty ? .all : .filters(query.filters)
        order = Mutex(
            query.sorts.map { NSSortDescriptor(key: $0.field.name, ascending: $0.isAscending) }
        )
    }

    /// In what order; `nil`: in any.
    public var sortDescriptors: [NSSortDescriptor]? {
        get { order.withLock { Ordered($0) }.descriptors }
        set {
            let value = Ordered(newValue)
            order.withLock { $0 = value.descriptors }
        }
    }

    /// An independent copy.
    public func copy(with zone: NSZone? = nil) -> Any {
        let copy = CKQuery(recordType: recordType, predicate: predicate)
        copy.sortDescriptors = sortDescriptors
        return copy
    }

    /// What to send; `nil` when no record can match.
    package func query() throws(CKError) -> Query? {
        var query = Query(recordType: recordType)
        switch form {
        case .all: break
        case .none: return nil
        case .filters(let filters): query.filters = filters
        case .refused(let why): throw CKError(.invalidArguments, why)
        }
        for descriptor in sortDescriptors ?? [] {
            guard let name = descriptor.fieldName else {
                throw CKError(.invalidArguments, "A sort descriptor of a query needs the key of a field.")
            }
            let place = (descriptor as? CKLocationSortDescriptor)?.relativeLocation.value
            query.sorts.append(
                Query.Sort(Query.Field(named: name, in: nil), ascending: descriptor.ascending, relativeTo: place)
            )
        }
        return query
    }
}

/// Carries sort descriptors, which nobody changes, over the edge of a lock.
private struct Ordered: @unchecked Sendable {
    let descriptors: [NSSortDescriptor]?
    init(_ descriptors: [NSSortDescriptor]?) { self.descriptors = descriptors }
}
