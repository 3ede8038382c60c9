public import Foundation
package import Records
import Synchronization

/// A standing request for notices; made as a `CKDatabaseSubscription` or a `CKRecordZoneSubscription`.
///
/// The identifier names it among the user's subscriptions of one database: saving one of the same name replaces it.
open class CKSubscription: NSObject, NSSecureCoding, NSCopying, @unchecked Sendable {
    // Unchecked only because the class is inherited from: what can change is behind `info`, a Mutex.

    /// A subscription's name.
    public typealias ID = String
    /// How its notices are to look.
    public typealias NotificationInfo = CKNotificationInfo

    /// What a subscription watches.
    public enum SubscriptionType: Int, Sendable {
        /// Records that match a query.
        case query = 1
        /// One zone.
        case recordZone = 2
        /// All zones of a database.
        case database = 3
    }

    /// The subscription's name.
    public let subscriptionID: CKSubscription.ID
    /// What it watches.
    public let subscriptionType: SubscriptionType
    private let info: Mutex<CKNotificationInfo?>

    package init(subscriptionID: CKSubscription.ID, type: SubscriptionType, info: CKNotificationInfo? = nil) {
        self.subscriptionID = subscriptionID
        subscriptionType = type
        self.info = Mutex(info)
    }

    /// Reads what `encode(with:)` wrote.
    public required init?(coder: NSCoder) {
        guard let id = coder.text("SubscriptionID"),
            let type = SubscriptionType(rawValue: coder.number("SubscriptionType"))
        else { return nil }
        subscriptionID = id
        subscriptionType = type
        info = Mutex(coder.object(CKNotificationInfo.self, "NotificationInfo"))
    }

    /// How its notices are to look; needed for alerts, and for silent notices at Apple.
    ///
    /// A copy goes in and comes out.
    public var notificationInfo: NotificationInfo? {
        get { info.withLock { $0 } }
        set {
            let copy = newValue?.copy() as? CKNotificationInfo
            info.withLock { $0 = copy }
        }
    }

    /// Secure coding is supported.
    open class var supportsSecureCoding: Bool { true }

    /// Writes name, type and the look of notices.
    open func encode(with coder: NSCoder) {
        coder.encode(subscriptionID as NSString, forKey: "SubscriptionID")
        coder.encode(subscriptionType.rawValue, forKey: "SubscriptionType")
        if let info = notificationInfo { coder.encode(info, forKey: "NotificationInfo") }
    }

    /// An independent copy.
    open func copy(with zone: NSZone? = nil) -> Any {
        CKSubscription(
            subscriptionID: subscriptionID,
            type: subscriptionType,
            info: notificationInfo?.copy() as? CKNotificationInfo
        )
    }

    /// Equal when they are of one name, watch the same and ask for the same notices.
    open override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKSubscription else { return false }
        return subscriptionID == other.subscriptionID && subscriptionType == other.subscriptionType
            && kind == other.kind && heededType == other.heededType && notificationInfo == other.notificationInfo
    }

    /// Agrees with `isEqual(_:)`.
    open override var hash: Int { subscriptionID.hashValue }

    /// What the relay is told to watch.
    package var kind: Subscription.Kind { .database }

    /// Why the relay cannot be asked to watch it, where that is known without asking.
    package var refusal: CKError? { nil }

    /// Of one that watches zones: the kind of records that the program cares for.
    package var heededType: CKRecord.RecordType? { nil }

    /// The subscription as the modules below know it.
    package final var subscription: Subscription {
        Subscription(
            id: subscriptionID,
            kind: kind,
            recordType: heededType,
            notificationInfo: notificationInfo?.json
        )
    }

    /// The subscription that the relay describes; `zoneID` is the watched zone as programs know it.
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

/// Notices for every zone of a private or shared database.
public final class CKDatabaseSubscription: CKSubscription, @unchecked Sendable {
    // Unchecked for `recordType`, which is for one thread.

    /// The one kind of records to watch; `nil`: every kind.
    ///
    /// Kept by the relay for programs that set it; its notices hold no data and tell of every kind all the same.
    public var recordType: CKRecord.RecordType?

    /// Names a subscription to the database that it is saved in.
    public init(subscriptionID: CKSubscription.ID = UUID().uuidString) {
        super.init(subscriptionID: subscriptionID, type: .database)
    }

    /// Reads what `encode(with:)` wrote.
    public required init?(coder: NSCoder) {
        super.init(coder: coder)
        recordType = coder.text("RecordType")
    }

    /// Writes name, kind of records and the look of notices.
    public override func encode(with coder: NSCoder) {
        super.encode(with: coder)
        if let recordType { coder.encode(recordType as NSString, forKey: "RecordType") }
    }

    /// An independent copy.
    public override func copy(with zone: NSZone? = nil) -> Any {
        let copy = CKDatabaseSubscription(subscriptionID: subscriptionID)
        copy.recordType = recordType
        copy.notificationInfo = notificationInfo
        return copy
    }

    package override var heededType: CKRecord.RecordType? { recordType }
}

/// Notices for one zone of a private or shared database.
public final class CKRecordZoneSubscription: CKSubscription, @unchecked Sendable {
    // Unchecked for `recordType`, which is for one thread.

    /// The zone that is watched.
    public let zoneID: CKRecordZone.ID
    /// The one kind of records to watch; `nil`: every kind.
    ///
    /// Kept by the relay for programs that set it; its notices hold no data and tell of every kind all the same.
    public var recordType: CKRecord.RecordType?

    /// Names a subscription to a zone.
    public init(zoneID: CKRecordZone.ID, subscriptionID: CKSubscription.ID = UUID().uuidString) {
        self.zoneID = zoneID
        super.init(subscriptionID: subscriptionID, type: .recordZone)
    }

    /// Reads what `encode(with:)` wrote.
    public required init?(coder: NSCoder) {
        guard let zoneID = coder.object(CKRecordZone.ID.self, "ZoneID") else { return nil }
        self.zoneID = zoneID
        super.init(coder: coder)
        recordType = coder.text("RecordType")
    }

    /// Writes name, zone, kind of records and the look of notices.
    public override func encode(with coder: NSCoder) {
        super.encode(with: coder)
        coder.encode(zoneID, forKey: "ZoneID")
        if let recordType { coder.encode(recordType as NSString, forKey: "RecordType") }
    }

    /// An independent copy.
    public override func copy(with zone: NSZone? = nil) -> Any {
        let copy = CKRecordZoneSubscription(zoneID: zoneID, subscriptionID: subscriptionID)
        copy.recordType = recordType
        copy.notificationInfo = notificationInfo
        return copy
    }

    package override var kind: Subscription.Kind { .zone(zoneID.zone) }
    package override var heededType: CKRecord.RecordType? { recordType }
}
