public import Foundation
package import Records
import Wire

/// A subscription to records that match a query, in any database.
///
/// The predicate can be any that `CKQuery` supports. The predicate object of a fetched or decoded subscription may
/// differ from the original, but matches the same records. It is `NSPredicate(value: true)` if another client's query
/// cannot be expressed as a predicate; saving the subscription does not change the query.
public final class CKQuerySubscription: CKSubscription, @unchecked Sendable {
    // Unchecked because of `predicate`, which never changes, and `zoneID`, which must be used by one thread at a time.

    /// The events that trigger a notification.
    public struct Options: OptionSet, Sendable {
        /// CloudKit's bits.
        public let rawValue: UInt

        /// Creates a set from CloudKit's bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// A record was created.
        public static let firesOnRecordCreation = Options(rawValue: 1)
        /// A record was changed.
        public static let firesOnRecordUpdate = Options(rawValue: 2)
        /// A record was deleted.
        public static let firesOnRecordDeletion = Options(rawValue: 4)
        /// The subscription ends after the first notification.
        public static let firesOnce = Options(rawValue: 8)
    }

    /// The record type of the query.
    ///
    /// Never `nil`; CloudKit declares the same type.
    public var recordType: CKRecord.RecordType? { watchedType }
    private let watchedType: CKRecord.RecordType
    /// The condition for the records.
    public let predicate: NSPredicate
    /// The events that trigger a notification.
    public let querySubscriptionOptions: Options
    /// The zone to watch; `nil` for all zones of the database.
    public var zoneID: CKRecordZone.ID?
    /// The query in the relay's JSON format; `nil` if the relay does not support the predicate.
    private let query: [UInt8]?
    /// The reason why the relay does not support it, as a sentence.
    private let whyNot: String?

    /// Creates a subscription to records of a type.
    ///
    /// - Parameters:
    ///   - recordType: The record type.
    ///   - predicate: The condition for the records. Unsupported predicates are reported when the subscription is
    ///     saved.
    ///   - subscriptionID: The ID, unique among the user's subscriptions in one database.
    ///   - querySubscriptionOptions: The events that trigger a notification. The default is creation, update and
    ///     deletion.
    public init(
        recordType: CKRecord.RecordType,
        predicate: NSPredicate,
        subscriptionID: CKSubscription.ID = UUID().uuidString,
        options querySubscriptionOptions: Options = [
            .firesOnRecordCreation, .firesOnRecordUpdate, .firesOnRecordDeletion,
        ]
    ) {
        watchedType = recordType
        self.predicate = predicate
        self.querySubscriptionOptions = querySubscriptionOptions
        do {
            query = try CKQuery(recordType: recordType, predicate: predicate).query().map { ClientRequest.encode($0) }
            whyNot = query == nil ? "The predicate matches no record, so no notification would ever be sent." : nil
        } catch {
            query = nil
            whyNot = error.localizedDescription
        }
        super.init(subscriptionID: subscriptionID, type: .query)
    }

    /// Creates a fetched subscription.
    ///
    /// `caller` is the current user's record name, if it is known.
    package init(
        _ query: SubscribedQuery,
        subscriptionID: CKSubscription.ID,
        zoneID: CKRecordZone.ID?,
        caller: String?
    ) {
        watchedType = query.recordType
        predicate = Self.predicate(of: query.json, in: zoneID, caller: caller)
        querySubscriptionOptions = Options(
            rawValue: UInt(query.firesOn.rawValue) | (query.firesOnce ? Options.firesOnce.rawValue : 0)
        )
        self.query = query.json
        whyNot = nil
        self.zoneID = zoneID
        super.init(subscriptionID: subscriptionID, type: .query)
    }

    private init(copying other: CKQuerySubscription) {
        watchedType = other.watchedType
        predicate = other.predicate
        querySubscriptionOptions = other.querySubscriptionOptions
        query = other.query
        whyNot = other.whyNot
        zoneID = other.zoneID
        super.init(
            subscriptionID: other.subscriptionID,
            type: .query,
            info: other.notificationInfo?.copy() as? CKNotificationInfo
        )
    }

    /// Creates a subscription from the output of `encode(with:)`.
    public required init?(coder: NSCoder) {
        guard let type = coder.text("RecordType"), let query = coder.bytes("Query") else { return nil }
        let zoneID = coder.object(CKRecordZone.ID.self, "ZoneID")
        watchedType = type
        predicate = Self.predicate(of: query, in: zoneID, caller: nil)
        querySubscriptionOptions = Options(rawValue: UInt(coder.number("Options")))
        self.query = query.isEmpty ? nil : query
        whyNot = coder.text("Refusal")
        self.zoneID = zoneID
        super.init(coder: coder)
    }

    /// Returns a predicate for a query in the relay's JSON format.
    private static func predicate(of query: [UInt8], in zoneID: CKRecordZone.ID?, caller: String?) -> NSPredicate {
        guard let json = try? JSONDocument(parsing: query, limits: .response),
            let read = try? QueryCodec.read(json.root, schema: Schema())
        else { return NSPredicate(value: true) }
        let filters = caller.map { name in read.filters.map { $0.withoutName(of: name) } } ?? read.filters
        return .asking(filters, in: zoneID ?? .default) ?? NSPredicate(value: true)
    }

    /// Encodes the ID, the query, the zone and the notification info.
    public override func encode(with coder: NSCoder) {
        super.encode(with: coder)
        coder.encode(watchedType as NSString, forKey: "RecordType")
        coder.encode(Data(query ?? []) as NSData, forKey: "Query")
        coder.encode(Int(querySubscriptionOptions.rawValue), forKey: "Options")
        if let zoneID { coder.encode(zoneID, forKey: "ZoneID") }
        if let whyNot { coder.encode(whyNot as NSString, forKey: "Refusal") }
    }

    /// Returns an independent copy.
    public override func copy(with zone: NSZone? = nil) -> Any { CKQuerySubscription(copying: self) }

    package override var refusal: CKError? { whyNot.map { CKError(.invalidArguments, $0) } }

    package override var kind: Subscription.Kind {
        .query(
            SubscribedQuery(
                recordType: watchedType,
                // Without a query the relay returns an error, as it does for a subscription without events.
                json: query ?? Array("{}".utf8),
                zone: zoneID?.zone,
                firesOn: RecordEvents(rawValue: Int(querySubscriptionOptions.rawValue) & 7),
                firesOnce: querySubscriptionOptions.contains(.firesOnce)
            )
        )
    }
}
