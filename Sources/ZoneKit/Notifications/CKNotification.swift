public import Foundation

/// What can be made of a push or of a relay's notice.
///
/// An initializer of a class cannot give an object of a subclass, but one that comes from a protocol can: so
/// `CKNotification(fromRemoteNotificationDictionary:)` gives a `CKDatabaseNotification` where it is one, as in CloudKit.
public protocol RemoteNotificationReading {}

extension RemoteNotificationReading {
    /// Reads a payload as a push or a relay's notice carries it.
    ///
    /// - Parameter notificationDictionary: The payload, with its `ck` part; `nil` comes back when it has none, and for a
    ///   subclass when it is of another kind.
    public init?(fromRemoteNotificationDictionary notificationDictionary: [AnyHashable: Any]) {
        let made = CKNotification.notification(fromRemoteNotificationDictionary: notificationDictionary)
        guard let made = made as? Self else { return nil }
        self = made
    }
}

/// A notice that something has changed, read from its payload.
///
/// It holds no data: fetch changes with the stored token. Notices may be lost, doubled, reordered and merged.
open class CKNotification: NSObject, RemoteNotificationReading, @unchecked Sendable {
    // Unchecked only because the class is inherited from: nothing in it changes.

    /// Names one notice.
    public typealias ID = CKNotificationID

    /// What kind of subscription it comes from.
    public enum NotificationType: Int, Sendable {
        /// A query's.
        case query = 1
        /// A zone's.
        case recordZone = 2
        /// Never sent; kept for its number.
        case readNotification = 3
        /// A database's.
        case database = 4
    }

    /// What kind of subscription it comes from.
    public let notificationType: NotificationType
    /// Names this notice.
    public let notificationID: CKNotification.ID?
    /// The container in which something changed.
    public let containerIdentifier: String?
    /// The user the notice is for.
    public let subscriptionOwnerUserRecordID: CKRecord.ID?
    /// The subscription that asked for it.
    public let subscriptionID: CKSubscription.ID?
    /// Whether the notice had to leave out something for its size.
    public let isPruned: Bool
    /// The text of the alert, if it has one.
    public let alertBody: String?
    /// The title of the alert, if it has one.
    public let title: String?
    /// The second line of the alert, if it has one.
    public let subtitle: String?
    /// The key of the alert's text in the program's own tables.
    public let alertLocalizationKey: String?
    /// What goes into that text.
    public let alertLocalizationArgs: [String]?
    /// The key of the title in the program's own tables.
    public let titleLocalizationKey: String?
    /// What goes into the title.
    public let titleLocalizationArgs: [String]?
    /// The key of the second line in the program's own tables.
    public let subtitleLocalizationKey: String?
    /// What goes into the second line.
    public let subtitleLocalizationArgs: [String]?
    /// The key of the button's text in the program's own tables.
    public let alertActionLocalizationKey: String?
    /// The picture that is shown while the program starts.
    public let alertLaunchImage: String?
    /// The sound to play.
    public let soundName: String?
    /// The number to show on the program's badge.
    public let badge: NSNumber?
    /// The kind of alert.
    public let category: String?

    init(_ payload: NoticePayload, _ type: NotificationType) {
        notificationType = type
        notificationID = payload.text("nid").map { CKNotificationID($0) }
        containerIdentifier = payload.text("cid")
        subscriptionOwnerUserRecordID = payload.text("ckuserid").map { CKRecord.ID(recordName: $0) }
        subscriptionID = payload.detailText("sid")
        isPruned = payload.isPruned
        alertBody = payload.alertBody
        title = payload.alertText("title")
        subtitle = payload.alertText("subtitle")
        alertLocalizationKey = payload.alertText("loc-key")
        alertLocalizationArgs = payload.alertTexts("loc-args")
        titleLocalizationKey = payload.alertText("title-loc-key")
        titleLocalizationArgs = payload.alertTexts("title-loc-args")
        subtitleLocalizationKey = payload.alertText("subtitle-loc-key")
        subtitleLocalizationArgs = payload.alertTexts("subtitle-loc-args")
        alertActionLocalizationKey = payload.alertText("action-loc-key")
        alertLaunchImage = payload.alertText("launch-image")
        soundName = payload.presentation["sound"] as? String
        badge =
            (payload.presentation["badge"] as? NSNumber)
            ?? (payload.presentation["badge"] as? Int).map { $0 as NSNumber }
        category = payload.presentation["category"] as? String
    }

    /// The notice as an object of its kind.
    ///
    /// - Parameter dictionary: The payload, with its `ck` part.
    /// - Returns: A `CKDatabaseNotification`, `CKRecordZoneNotification` or `CKQueryNotification`; `nil` for other pushes.
    public static func notification(fromRemoteNotificationDictionary dictionary: [AnyHashable: Any]) -> CKNotification?
    {
        guard let payload = NoticePayload(dictionary) else { return nil }
        return switch payload.type {
        case .database, .readNotification: CKDatabaseNotification(payload)
        case .recordZone: CKRecordZoneNotification(payload)
        case .query: CKQueryNotification(payload)
        }
    }
}

/// Something changed in a database.
public final class CKDatabaseNotification: CKNotification, @unchecked Sendable {
    /// Whose.
    public let databaseScope: CKDatabase.Scope

    init(_ payload: NoticePayload) {
        databaseScope = payload.scope
        super.init(payload, .database)
    }
}

/// Something changed in a zone.
public final class CKRecordZoneNotification: CKNotification, @unchecked Sendable {
    /// The zone.
    public let recordZoneID: CKRecordZone.ID?
    /// Whose database it is in.
    public let databaseScope: CKDatabase.Scope

    init(_ payload: NoticePayload) {
        databaseScope = payload.scope
        recordZoneID = payload.zoneID
        super.init(payload, .recordZone)
    }
}

/// A record that a query matches was made, changed or deleted.
public final class CKQueryNotification: CKNotification, @unchecked Sendable {
    /// What happened to the record.
    public enum Reason: Int, Sendable {
        /// It is new.
        case recordCreated = 1
        /// It was changed.
        case recordUpdated = 2
        /// It is gone.
        case recordDeleted = 3
    }

    /// What happened to the record.
    public let queryNotificationReason: Reason
    /// The record.
    public let recordID: CKRecord.ID?
    /// Whose database it is in.
    public let databaseScope: CKDatabase.Scope
    /// Whether that is the public one.
    @available(*, deprecated, message: "Use databaseScope instead")
    public var isPublicDatabase: Bool { databaseScope == .public }
    /// Those of the fields asked for by `desiredKeys` that are text, numbers, references or locations; `nil` if none were
    /// asked for.
    ///
    /// A date comes as a number: milliseconds since 1970.
    public let recordFields: [String: any CKRecordValueProtocol]?

    init(_ payload: NoticePayload) {
        databaseScope = payload.scope
        recordFields = payload.fields
        queryNotificationReason = payload.detailNumber("fo").flatMap(Reason.init(rawValue:)) ?? .recordUpdated
        recordID = payload.detailText("rid").map { CKRecord.ID(recordName: $0, zoneID: payload.zoneID ?? .default) }
        super.init(payload, .query)
    }
}
