public import Foundation
package import Records
import Synchronization
import Wire

/// A query: which records of one type to find, and in what order.
///
/// The predicate can be `NSPredicate(value:)`, or comparisons joined by `AND`. Each comparison concerns one of the
/// record's fields or a system field (`creationDate`, `modificationDate`, `recordID`, `creatorUserRecordID`,
/// `lastModifiedUserRecordID`). The schema must have an index for each comparison; the error names a missing index.
///
/// A query supports secure coding. A decoded query finds the same records as the original, but its predicate object may
/// differ; it is `NSPredicate(value: true)` if the relay does not support the original predicate.
public final class CKQuery: NSObject, NSSecureCoding, NSCopying, @unchecked Sendable {
    // Unchecked because of `predicate`, which never changes, and the sort descriptors, which the mutex protects.

    /// The record type to find.
    public let recordType: CKRecord.RecordType
    /// The condition for the records.
    public let predicate: NSPredicate
    private let order: Mutex<[NSSortDescriptor]?>
    /// The condition to send if it cannot be derived from `predicate`, as in a decoded query.
    private let knownForm: PredicateConditions?
    private var form: PredicateConditions { knownForm ?? PredicateConditions(predicate) }

    /// Creates a query.
    ///
    /// Unsupported predicates are reported when the query runs.
    public init(recordType: CKRecord.RecordType, predicate: NSPredicate) {
        self.recordType = recordType
        self.predicate = predicate
        knownForm = nil
        order = Mutex(nil)
    }

    /// Creates a query from filters and sorts, without a predicate text.
    package init(_ query: Query) {
        recordType = query.recordType
        predicate = .matching(query.filters, in: .default) ?? NSPredicate(value: true)
        knownForm = query.filters.isEmpty ? .all : .filters(query.filters)
        let sorts = query.sorts.map { sort in
            if let place = sort.relativeLocation {
                CKLocationSortDescriptor(key: sort.field.name, relativeLocation: CLLocation(place))
            } else {
                NSSortDescriptor(key: sort.field.name, ascending: sort.isAscending)
            }
        }
        order = Mutex(sorts.isEmpty ? nil : sorts)
    }

    /// Creates a query from the output of `encode(with:)`.
    public convenience init?(coder: NSCoder) {
        if coder.containsValue(forKey: "Refusal") {
            self.init(recordType: coder.text("RecordType") ?? "", form: .refused(coder.text("Refusal") ?? ""))
        } else if let bytes = coder.bytes("Query"), let json = try? JSONDocument(parsing: bytes, limits: .response),
            let query = try? QueryCodec.read(json.root, schema: Schema())
        {
            self.init(query)
        } else if let type = coder.text("RecordType") {
            self.init(recordType: type, form: PredicateConditions.none)
        } else {
            return nil
        }
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes the query in the form in which it is sent, or the reason why it cannot be sent.
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
        form: PredicateConditions?
    ) {
        self.recordType = recordType
        self.predicate = predicate
        knownForm = form
        order = Mutex(nil)
    }

    /// The order of the results; `nil` for any order.
    public var sortDescriptors: [NSSortDescriptor]? {
        get { order.withLock { SortDescriptors($0) }.descriptors }
        set {
            let value = SortDescriptors(newValue)
            order.withLock { $0 = value.descriptors }
        }
    }

    /// Returns an independent copy.
    public func copy(with zone: NSZone? = nil) -> Any {
        let copy = CKQuery(recordType: recordType, predicate: predicate, form: knownForm)
        copy.sortDescriptors = sortDescriptors
        return copy
    }

    /// Returns the query to send; `nil` if no record can match.
    package func query() throws(CKError) -> Query? {
        var query = Query(recordType: recordType)
        switch form {
        case .all: break
        case .none: return nil
        case .filters(let filters):
            try Self.rejectInfinity(in: filters)
            query.filters = filters
        case .refused(let reason): throw CKError(.invalidArguments, reason)
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

    /// Throws if a filter compares a field with infinity or NaN, which JSON cannot represent.
    private static func rejectInfinity(in filters: [Query.Filter]) throws(CKError) {
        for filter in filters {
            guard let words = filter.values.compactMap(\.unsendableReason).first else { continue }
            throw CKError(
                .invalidArguments,
                "The predicate cannot be sent: '\(filter.field.name)' is compared with a \(words)."
            )
        }
    }
}

/// Carries sort descriptors, which are immutable, across the lock.
private struct SortDescriptors: @unchecked Sendable {
    let descriptors: [NSSortDescriptor]?
    init(_ descriptors: [NSSortDescriptor]?) { self.descriptors = descriptors }
}

/// The position at which a page of a query's results ended; also available as `CKQueryOperation.Cursor`.
///
/// A cursor supports secure coding. It remains valid while records are added and removed, because it stores the last
/// record and not a count.
public final class CKQueryCursor: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// The relay's continuation marker.
    package let marker: String
    /// The query as it was sent.
    package let query: [UInt8]
    /// The zone to search; `nil` for all zones.
    package let zoneID: CKRecordZone.ID?

    package init(marker: String, query: [UInt8], zoneID: CKRecordZone.ID?) {
        self.marker = marker
        self.query = query
        self.zoneID = zoneID
    }

    /// Creates a cursor from the output of `encode(with:)`.
    public init?(coder: NSCoder) {
        guard let marker = coder.text("Marker"),
            let query = coder.bytes("Query")
        else { return nil }
        self.marker = marker
        self.query = query
        zoneID = coder.object(CKRecordZone.ID.self, "ZoneID")
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes the marker, the query and the zone.
    public func encode(with coder: NSCoder) {
        coder.encode(marker as NSString, forKey: "Marker")
        coder.encode(Data(query) as NSData, forKey: "Query")
        if let zoneID { coder.encode(zoneID, forKey: "ZoneID") }
    }

    /// Returns the same object, because it is immutable.
    public func copy(with zone: NSZone? = nil) -> Any { self }
}
