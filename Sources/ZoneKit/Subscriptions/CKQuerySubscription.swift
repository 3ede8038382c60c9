public import Foundation
package import Records
import Wire

/// Notices for records that match a query, in any database.
///
/// The predicate may ask what a `CKQuery`'s may. One that the relay or an archive gave back has a predicate that asks the
/// same, and `NSPredicate(value: true)` where another client's query cannot be written as a predicate; saved anew it still
/// asks what it asked before.
public final class CKQuerySubscription: CKSubscription, @unchecked Sendable {
    // Unchecked for `predicate`, which nobody changes, and for `zoneID`, which like the info of its base is for one thread.

    /// What is to be told of.
    public struct Options: OptionSet, Sendable {
        /// CloudKit's bits.
        public let rawValue: UInt

        /// Makes a set from CloudKit's bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// A record is new.
        public static let firesOnRecordCreation = Options(rawValue: 1)
        /// A record was changed.
        public static let firesOnRecordUpdate = Options(rawValue: 2)
        /// A record is gone.
        public static let firesOnRecordDeletion = Options(rawValue: 4)
        /// The first notice is the last.
        public static let firesOnce = Options(rawValue: 8)
    }

    /// The kind of records to watch; never `nil`, though CloudKit declares it so.
    public var recordType: CKRecord.RecordType? { watchedType }
    private let watchedType: CKRecord.RecordType
    /// Which of them.
    public let predicate: NSPredicate
    /// What is to be told of.
    public let querySubscriptionOptions: Options
    /// The zone to watch; `nil`: every zone of the database.
    public var zoneID: CKRecordZone.ID?
    /// The query as the wire has it; `nil` where the predicate cannot be sent.
    private let query: [UInt8]?
    /// Why it cannot be, in a sentence.
    private let whyNot: String?

    /// Watches records of a type.
    ///
    /// - Parameters:
    ///   - recordType: The kind of records.
    ///   - predicate: Which of them; whether it can be sent is said when the subscription is saved.
    ///   - subscriptionID: Names the subscription among the user's of one database.
    ///   - querySubscriptionOptions: What is to be told of: one or more of creation, update and deletion; left out, all.
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
            whyNot = query == nil ? "The predicate matches no record, so nothing would ever be told of." : nil
        } catch {
            query = nil
            whyNot = error.localizedDescription
        }
        super.init(subscriptionID: subscriptionID, type: .query)
    }

    /// `caller` is the current user's record name, where that is known.
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

    /// Reads what `encode(with:)` wrote.
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

    /// What the wire's query asks, as a predicate.
    private static func predicate(of query: [UInt8], in zoneID: CKRecordZone.ID?, caller: String?) -> NSPredicate {
        guard let json = try? JSONDocument(parsing: query, limits: .response),
            let read = try? QueryCodec.read(json.root, schema: Schema())
        else { return NSPredicate(value: true) }
        let filters = caller.map { name in read.filters.map { $0.withoutName(of: name) } } ?? read.filters
        return .asking(filters, in: zoneID ?? .default) ?? NSPredicate(value: true)
    }

    /// Writes name, query, zone and the look of notices.
    public override func encode(with coder: NSCoder) {
        super.encode(with: coder)
        coder.encode(watchedType as NSString, forKey: "RecordType")
        coder.encode(Data(query ?? []) as NSData, forKey: "Query")
        coder.encode(Int(querySubscriptionOptions.rawValue), forKey: "Options")
        if let zoneID { coder.encode(zoneID, forKey: "ZoneID") }
        if let whyNot { coder.encode(whyNot as NSString, forKey: "Refusal") }
    }

    /// An independent copy.
    public override func copy(with zone: NSZone? = nil) -> Any { CKQuerySubscription(copying: self) }

    package override var refusal: CKError? { whyNot.map { CKError(.invalidArguments, $0) } }

    package override var kind: Subscription.Kind {
        .query(
            SubscribedQuery(
                recordType: watchedType,
                // Without a query the relay says what is wrong, as it does for one that fires on nothing.
                json: query ?? Array("{}".utf8),
                zone: zoneID?.zone,
                firesOn: RecordEvents(rawValue: Int(querySubscriptionOptions.rawValue) & 7),
                firesOnce: querySubscriptionOptions.contains(.firesOnce)
            )
        )
    }
}
