public import Foundation
package import Records
import Synchronization
import Wire

/// Which records of one type to find, and in what order.
///
/// The predicate may be `NSPredicate(value:)`, or comparisons joined by `AND`, each of one of the record's fields or of those
/// that every record has (`creationDate`, `modificationDate`, `recordID`, `creatorUserRecordID`,
/// `lastModifiedUserRecordID`). The schema must have an index for what is asked; the error names the one that is missing.
///
/// Archives with secure coding as far as it can be sent: one that comes out of an archive asks what it asked before. Its
/// predicate is one that asks the same, and `NSPredicate(value: true)` where the query cannot be sent.
public final class CKQuery: NSObject, NSSecureCoding, NSCopying, @unchecked Sendable {
    // Unchecked for `predicate`, which nobody changes, and the sort descriptors, which the Mutex guards.

    /// The kind of records to find.
    public let recordType: CKRecord.RecordType
    /// Which of them.
    public let predicate: NSPredicate
    private let order: Mutex<[NSSortDescriptor]?>
    /// What to send, where the predicate does not say it: of a query that comes from elsewhere.
    private let kept: PredicateForm?
    private var form: PredicateForm { kept ?? PredicateForm(predicate) }

    /// Makes a query; whether its predicate can be sent is said when it is.
    public init(recordType: CKRecord.RecordType, predicate: NSPredicate) {
        self.recordType = recordType
        self.predicate = predicate
        kept = nil
        order = Mutex(nil)
    }

    /// A query by values, for callers that need no predicate text.
    package init(_ query: Query) {
        recordType = query.recordType
        predicate = .asking(query.filters, in: .default) ?? NSPredicate(value: true)
        kept = query.filters.isEmpty ? .all : .filters(query.filters)
        let sorts = query.sorts.map { sort in
            if let place = sort.relativeLocation {
                CKLocationSortDescriptor(key: sort.field.name, relativeLocation: CLLocation(place))
            } else {
                NSSortDescriptor(key: sort.field.name, ascending: sort.isAscending)
            }
        }
        order = Mutex(sorts.isEmpty ? nil : sorts)
    }

    /// Reads what `encode(with:)` wrote.
    public convenience init?(coder: NSCoder) {
        if coder.containsValue(forKey: "Refusal") {
            self.init(recordType: coder.text("RecordType") ?? "", form: .refused(coder.text("Refusal") ?? ""))
        } else if let bytes = coder.bytes("Query"), let json = try? JSONDocument(parsing: bytes, limits: .response),
            let query = try? QueryCodec.read(json.root, schema: Schema())
        {
            self.init(query)
        } else if let type = coder.text("RecordType") {
            self.init(recordType: type, form: PredicateForm.none)
        } else {
            return nil
        }
    }

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes the query as it would be sent; of one that cannot be, why.
    public func encode(with coder: NSCoder) {
        coder.encode(recordType as NSString, forKey: "RecordType")
        do {
            guard let query = try query() else { return }
            coder.encode(Data(ClientRequest.encode(query)) as NSData, forKey: "Query")
        } catch {
            coder.encode(error.localizedDescription as NSString, forKey: "Refusal")
        }
    }

    private init(
        recordType: CKRecord.RecordType,
        predicate: NSPredicate = NSPredicate(value: true),
        form: PredicateForm?
    ) {
        self.recordType = recordType
        self.predicate = predicate
        kept = form
        order = Mutex(nil)
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
        let copy = CKQuery(recordType: recordType, predicate: predicate, form: kept)
        copy.sortDescriptors = sortDescriptors
        return copy
    }

    /// What to send; `nil` when no record can match.
    package func query() throws(CKError) -> Query? {
        var query = Query(recordType: recordType)
        switch form {
        case .all: break
        case .none: return nil
        case .filters(let filters):
            try Self.refuseInfinity(in: filters)
            query.filters = filters
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

    /// In memory anything can be compared with infinity; the wire has no such number.
    private static func refuseInfinity(in filters: [Query.Filter]) throws(CKError) {
        for filter in filters {
            guard let words = filter.values.compactMap(\.unsendableWords).first else { continue }
            throw CKError(
                .invalidArguments,
                "The predicate cannot be sent: '\(filter.field.name)' is compared with a \(words)."
            )
        }
    }
}

/// Carries sort descriptors, which nobody changes, over the edge of a lock.
private struct Ordered: @unchecked Sendable {
    let descriptors: [NSSortDescriptor]?
    init(_ descriptors: [NSSortDescriptor]?) { self.descriptors = descriptors }
}
