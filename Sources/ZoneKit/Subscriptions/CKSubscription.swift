public import Foundation
package import Records
import Synchronization
import Wire

/// The base class of subscriptions, which request notifications about changes.
///
/// Create a `CKDatabaseSubscription`, `CKRecordZoneSubscription` or `CKQuerySubscription`. The ID is unique among the
/// user's subscriptions in one database; saving a subscription replaces one with the same ID.
open class CKSubscription: NSObject, NSSecureCoding, NSCopying, @unchecked Sendable {
    // Unchecked only because the class can be subclassed: the mutable state is in `info`, a mutex.

    /// The type of a subscription's ID.
    public typealias ID = String
    /// The presentation of a subscription's notifications.
    public typealias NotificationInfo = CKNotificationInfo

    /// The kinds of subscriptions.
    public enum SubscriptionType: Int, Sendable {
        /// A subscription to records that match a query.
        case query = 1
        /// A subscription to one zone.
        case recordZone = 2
        /// A subscription to all zones of a database.
        case database = 3
    }

    /// The ID of the subscription.
    public let subscriptionID: CKSubscription.ID
    /// The kind of subscription.
    public let subscriptionType: SubscriptionType
    private let info: Mutex<CKNotificationInfo?>

    package init(subscriptionID: CKSubscription.ID, type: SubscriptionType, info: CKNotificationInfo? = nil) {
        self.subscriptionID = subscriptionID
        subscriptionType = type
        self.info = Mutex(info)
    }

    /// Creates a subscription from the output of `encode(with:)`.
    public required init?(coder: NSCoder) {
        guard let id = coder.text("SubscriptionID"),
            let type = SubscriptionType(rawValue: coder.number("SubscriptionType"))
        else { return nil }
        subscriptionID = id
        subscriptionType = type
        info = Mutex(coder.object(CKNotificationInfo.self, "NotificationInfo"))
    }

    /// The presentation of the notifications.
    ///
    /// Required for alerts, and for silent pushes through Apple's push service. The getter and the setter copy the
    /// object.
    public var notificationInfo: NotificationInfo? {
        get { info.withLock { $0 } }
        set {
            let copy = newValue?.copy() as? CKNotificationInfo
            info.withLock { $0 = copy }
        }
    }

    /// Whether the class supports secure coding: always `true`.
    open class var supportsSecureCoding: Bool { true }

    /// Encodes the ID, the kind and the notification info.
    open func encode(with coder: NSCoder) {
        coder.encode(subscriptionID as NSString, forKey: "SubscriptionID")
        coder.encode(subscriptionType.rawValue, forKey: "SubscriptionType")
        if let info = notificationInfo { coder.encode(info, forKey: "NotificationInfo") }
    }

    /// Returns an independent copy.
    open func copy(with zone: NSZone? = nil) -> Any {
        CKSubscription(
            subscriptionID: subscriptionID,
            type: subscriptionType,
            info: notificationInfo?.copy() as? CKNotificationInfo
        )
    }

    /// Returns whether two subscriptions have the same ID and all their settings are equal.
    open override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKSubscription else { return false }
        return subscriptionID == other.subscriptionID && subscriptionType == other.subscriptionType
            && kind == other.kind && observedRecordType == other.observedRecordType
            && notificationInfo == other.notificationInfo
    }

    /// A hash that is consistent with `isEqual(_:)`.
    open override var hash: Int { subscriptionID.hashValue }

    /// The kind of subscription in the relay's terms.
    package var kind: Subscription.Kind { .database }

    /// The error if the relay cannot support the subscription, as far as this is known without a request.
    package var refusal: CKError? { nil }

    /// The record type that a database or zone subscription is interested in.
    package var observedRecordType: CKRecord.RecordType? { nil }

    /// The subscription as a value of the lower modules.
    package final var subscription: Subscription {
        Subscription(
            id: subscriptionID,
            kind: kind,
            recordType: observedRecordType,
            notificationInfo: notificationInfo?.json
        )
    }

    /// Creates a subscription from the relay's description.
    ///
    /// `zoneID` is the ID of the watched zone as the app knows it.
    package static func make(_ subscription: Subscription, zoneID: CKRecordZone.ID?) -> CKSubscription {
        let made: CKSubscription
        if let zoneID {
            let zone = CKRecordZoneSubscription(zoneID: zoneID, subscriptionID: subscription.id)
            zone.recordType = subscription.recordType
            made = zone
        } else {
            let database = CKDatabaseSubscription(subscriptionID: subscription.id)
            database.recordType = subscription.recordType
            made = database
        }
        made.notificationInfo = subscription.notificationInfo.flatMap { CKNotificationInfo(json: $0) }
        return made
    }
}

/// A subscription to all zones of a private or shared database.
public final class CKDatabaseSubscription: CKSubscription, @unchecked Sendable {
    // Unchecked because of `recordType`, which must be used by one thread at a time.

    /// The record type to watch; `nil` for all types.
    ///
    /// The relay stores the value, but notifies about all record types, because its notifications contain no data.
    public var recordType: CKRecord.RecordType?

    /// Creates a subscription to the database in which it is saved.
    public init(subscriptionID: CKSubscription.ID = UUID().uuidString) {
        super.init(subscriptionID: subscriptionID, type: .database)
    }

    /// Creates a subscription from the output of `encode(with:)`.
    public required init?(coder: NSCoder) {
        super.init(coder: coder)
        recordType = coder.text("RecordType")
    }

    /// Encodes the ID, the record type and the notification info.
    public override func encode(with coder: NSCoder) {
        super.encode(with: coder)
        if let recordType { coder.encode(recordType as NSString, forKey: "RecordType") }
    }

    /// Returns an independent copy.
    public override func copy(with zone: NSZone? = nil) -> Any {
        let copy = CKDatabaseSubscription(subscriptionID: subscriptionID)
        copy.recordType = recordType
        copy.notificationInfo = notificationInfo
        return copy
    }

    package override var observedRecordType: CKRecord.RecordType? { recordType }
}

/// A subscription to one zone of a private or shared database.
public final class CKRecordZoneSubscription: CKSubscription, @unchecked Sendable {
    // Unchecked because of `recordType`, which must be used by one thread at a time.

    /// The zone to watch.
    public let zoneID: CKRecordZone.ID
    /// The record type to watch; `nil` for all types.
    ///
    /// The relay stores the value, but notifies about all record types, because its notifications contain no data.
    public var recordType: CKRecord.RecordType?

    /// Creates a subscription to a zone.
    public init(zoneID: CKRecordZone.ID, subscriptionID: CKSubscription.ID = UUID().uuidString) {
        self.zoneID = zoneID
        super.init(subscriptionID: subscriptionID, type: .recordZone)
    }

    /// Creates a subscription from the output of `encode(with:)`.
    public required init?(coder: NSCoder) {
        guard let zoneID = coder.object(CKRecordZone.ID.self, "ZoneID") else { return nil }
        self.zoneID = zoneID
        super.init(coder: coder)
        recordType = coder.text("RecordType")
    }

    /// Encodes the ID, the zone, the record type and the notification info.
    public override func encode(with coder: NSCoder) {
        super.encode(with: coder)
        coder.encode(zoneID, forKey: "ZoneID")
        if let recordType { coder.encode(recordType as NSString, forKey: "RecordType") }
    }

    /// Returns an independent copy.
    public override func copy(with zone: NSZone? = nil) -> Any {
        let copy = CKRecordZoneSubscription(zoneID: zoneID, subscriptionID: subscriptionID)
        copy.recordType = recordType
        copy.notificationInfo = notificationInfo
        return copy
    }

    package override var kind: Subscription.Kind { .zone(zoneID.zone) }
    package override var observedRecordType: CKRecord.RecordType? { recordType }
}

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
    private let refusalReason: String?

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
            refusalReason =
                query == nil ? "The predicate matches no record, so no notification would ever be sent." : nil
        } catch {
            query = nil
            refusalReason = error.localizedDescription
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
        refusalReason = nil
        self.zoneID = zoneID
        super.init(subscriptionID: subscriptionID, type: .query)
    }

    private init(copying other: CKQuerySubscription) {
        watchedType = other.watchedType
        predicate = other.predicate
        querySubscriptionOptions = other.querySubscriptionOptions
        query = other.query
        refusalReason = other.refusalReason
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
        refusalReason = coder.text("Refusal")
        self.zoneID = zoneID
        super.init(coder: coder)
    }

    /// Returns a predicate for a query in the relay's JSON format.
    private static func predicate(of query: [UInt8], in zoneID: CKRecordZone.ID?, caller: String?) -> NSPredicate {
        guard let json = try? JSONDocument(parsing: query, limits: .response),
            let read = try? QueryCodec.read(json.root, schema: Schema())
        else { return NSPredicate(value: true) }
        let filters = caller.map { name in read.filters.map { $0.replacingName(of: name) } } ?? read.filters
        return .matching(filters, in: zoneID ?? .default) ?? NSPredicate(value: true)
    }

    /// Encodes the ID, the query, the zone and the notification info.
    public override func encode(with coder: NSCoder) {
        super.encode(with: coder)
        coder.encode(watchedType as NSString, forKey: "RecordType")
        coder.encode(Data(query ?? []) as NSData, forKey: "Query")
        coder.encode(Int(querySubscriptionOptions.rawValue), forKey: "Options")
        if let zoneID { coder.encode(zoneID, forKey: "ZoneID") }
        if let refusalReason { coder.encode(refusalReason as NSString, forKey: "Refusal") }
    }

    /// Returns an independent copy.
    public override func copy(with zone: NSZone? = nil) -> Any { CKQuerySubscription(copying: self) }

    package override var refusal: CKError? { refusalReason.map { CKError(.invalidArguments, $0) } }

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

/// Adds the oldest initializers to `CKSubscription`.
///
/// An initializer of a class cannot return a subclass, but a protocol's initializer can.
/// `CKSubscription(recordType:predicate:options:)` therefore returns a `CKQuerySubscription`.
public protocol OlderSubscriptionMaking {}

extension CKSubscription: OlderSubscriptionMaking {}

extension OlderSubscriptionMaking where Self == CKSubscription {
    /// Creates a subscription to records of a type, as a `CKQuerySubscription`.
    ///
    /// - Parameters:
    ///   - recordType: The record type.
    ///   - predicate: The condition for the records. Unsupported predicates are reported when the subscription is
    ///     saved.
    ///   - subscriptionID: The ID, unique among the user's subscriptions in one database. The default is a new UUID.
    ///   - subscriptionOptions: The events that trigger a notification. A subscription without events cannot be saved.
    @available(*, deprecated, message: "Use CKQuerySubscription instead")
    public init(
        recordType: CKRecord.RecordType,
        predicate: NSPredicate,
        subscriptionID: CKSubscription.ID = UUID().uuidString,
        options subscriptionOptions: CKQuerySubscription.Options = []
    ) {
        self = CKQuerySubscription(
            recordType: recordType,
            predicate: predicate,
            subscriptionID: subscriptionID,
            options: subscriptionOptions
        )
    }

    /// Creates a subscription to a zone, as a `CKRecordZoneSubscription`.
    ///
    /// - Parameters:
    ///   - zoneID: The zone to watch.
    ///   - subscriptionID: The ID, unique among the user's subscriptions in one database. The default is a new UUID.
    ///   - subscriptionOptions: Has no effect for zones, as in CloudKit.
    @available(*, deprecated, message: "Use CKRecordZoneSubscription instead")
    public init(
        zoneID: CKRecordZone.ID,
        subscriptionID: CKSubscription.ID = UUID().uuidString,
        options subscriptionOptions: CKQuerySubscription.Options = []
    ) {
        self = CKRecordZoneSubscription(zoneID: zoneID, subscriptionID: subscriptionID)
    }
}

/// The older name of `CKQuerySubscription.Options`.
@available(*, deprecated, renamed: "CKQuerySubscription.Options")
public typealias CKSubscriptionOptions = CKQuerySubscription.Options
