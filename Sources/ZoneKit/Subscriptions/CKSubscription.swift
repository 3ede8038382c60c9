public import Foundation
package import Records
import Synchronization

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
            && kind == other.kind && heededType == other.heededType && notificationInfo == other.notificationInfo
    }

    /// A hash that is consistent with `isEqual(_:)`.
    open override var hash: Int { subscriptionID.hashValue }

    /// The kind of subscription in the relay's terms.
    package var kind: Subscription.Kind { .database }

    /// The error if the relay cannot support the subscription, as far as this is known without a request.
    package var refusal: CKError? { nil }

    /// The record type that a database or zone subscription is interested in.
    package var heededType: CKRecord.RecordType? { nil }

    /// The subscription as a value of the lower modules.
    package final var subscription: Subscription {
        Subscription(
            id: subscriptionID,
            kind: kind,
            recordType: heededType,
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

    package override var heededType: CKRecord.RecordType? { recordType }
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
    package override var heededType: CKRecord.RecordType? { recordType }
}
