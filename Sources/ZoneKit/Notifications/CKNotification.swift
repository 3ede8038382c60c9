public import Foundation

/// Types that can be created from the payload of a push or of a relay's notice.
///
/// An initializer of a class cannot return a subclass, but a protocol's initializer can.
/// `CKNotification(fromRemoteNotificationDictionary:)` therefore returns a `CKDatabaseNotification` for such a payload,
/// as in CloudKit.
public protocol RemoteNotificationReading {}

extension RemoteNotificationReading {
    /// Creates a notification from the payload of a push or of a relay's notice.
    ///
    /// - Parameter notificationDictionary: The payload. The result is `nil` if it has no `ck` part or belongs to
    ///   another subclass.
    public init?(fromRemoteNotificationDictionary notificationDictionary: [AnyHashable: Any]) {
        let made = CKNotification.notification(fromRemoteNotificationDictionary: notificationDictionary)
        guard let made = made as? Self else { return nil }
        self = made
    }
}

/// A notification that something has changed.
///
/// It contains no data: fetch the changes with the stored token. Notifications may be lost, duplicated, reordered and
/// merged.
open class CKNotification: NSObject, RemoteNotificationReading, @unchecked Sendable {
    // Unchecked only because the class can be subclassed: the object is immutable.

    /// The type of a notification's ID.
    public typealias ID = CKNotificationID

    /// The kinds of notifications.
    public enum NotificationType: Int, Sendable {
        /// A notification of a query subscription.
        case query = 1
        /// A notification of a zone subscription.
        case recordZone = 2
        /// Never used by the relay; exists for source compatibility.
        case readNotification = 3
        /// A notification of a database subscription.
        case database = 4
    }

    /// The kind of notification.
    public let notificationType: NotificationType
    /// The ID of the notification.
    public let notificationID: CKNotification.ID?
    /// The container of the change.
    public let containerIdentifier: String?
    /// The user who gets the notification.
    public let subscriptionOwnerUserRecordID: CKRecord.ID?
    /// The subscription that triggered the notification.
    public let subscriptionID: CKSubscription.ID?
    /// Whether some values were omitted because of the size limit.
    public let isPruned: Bool
    /// The text of the alert.
    public let alertBody: String?
    /// The title of the alert.
    public let title: String?
    /// The subtitle of the alert.
    public let subtitle: String?
    /// The key of the alert's text in the app's localized strings.
    public let alertLocalizationKey: String?
    /// The arguments of the localized text.
    public let alertLocalizationArgs: [String]?
    /// The key of the title in the app's localized strings.
    public let titleLocalizationKey: String?
    /// The arguments of the localized title.
    public let titleLocalizationArgs: [String]?
    /// The key of the subtitle in the app's localized strings.
    public let subtitleLocalizationKey: String?
    /// The arguments of the localized subtitle.
    public let subtitleLocalizationArgs: [String]?
    /// The key of the action button's title in the app's localized strings.
    public let alertActionLocalizationKey: String?
    /// The launch image to show when the user opens the app from the alert.
    public let alertLaunchImage: String?
    /// The sound to play.
    public let soundName: String?
    /// The number for the app's badge.
    public let badge: NSNumber?
    /// The category of the alert.
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

    /// Returns the notification as an object of the right subclass.
    ///
    /// - Parameter dictionary: The payload.
    /// - Returns: A `CKDatabaseNotification`, `CKRecordZoneNotification` or `CKQueryNotification`; `nil` for other
    ///   pushes.
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

/// A notification about a change in a database.
public final class CKDatabaseNotification: CKNotification, @unchecked Sendable {
    /// The database.
    public let databaseScope: CKDatabase.Scope

    init(_ payload: NoticePayload) {
        databaseScope = payload.scope
        super.init(payload, .database)
    }
}

/// A notification about a change in a zone.
public final class CKRecordZoneNotification: CKNotification, @unchecked Sendable {
    /// The zone.
    public let recordZoneID: CKRecordZone.ID?
    /// The database of the zone.
    public let databaseScope: CKDatabase.Scope

    init(_ payload: NoticePayload) {
        databaseScope = payload.scope
        recordZoneID = payload.zoneID
        super.init(payload, .recordZone)
    }
}

/// A notification about a record that matches a query.
public final class CKQueryNotification: CKNotification, @unchecked Sendable {
    /// The event that happened to the record.
    public enum Reason: Int, Sendable {
        /// The record was created.
        case recordCreated = 1
        /// The record was changed.
        case recordUpdated = 2
        /// The record was deleted.
        case recordDeleted = 3
    }

    /// The event that happened to the record.
    public let queryNotificationReason: Reason
    /// The ID of the record.
    public let recordID: CKRecord.ID?
    /// The database of the record.
    public let databaseScope: CKDatabase.Scope
    /// Whether the record is in the public database.
    @available(*, deprecated, message: "Use databaseScope instead")
    public var isPublicDatabase: Bool { databaseScope == .public }
    /// The values of the fields in `desiredKeys` that are strings, numbers, references or locations; `nil` if none were
    /// requested.
    ///
    /// A date is a number: the milliseconds since 1970.
    public let recordFields: [String: any CKRecordValueProtocol]?

    init(_ payload: NoticePayload) {
        databaseScope = payload.scope
        recordFields = payload.fields
        queryNotificationReason = payload.detailNumber("fo").flatMap(Reason.init(rawValue:)) ?? .recordUpdated
        recordID = payload.detailText("rid").map { CKRecord.ID(recordName: $0, zoneID: payload.zoneID ?? .default) }
        super.init(payload, .query)
    }
}

/// The ID of a notification; also available as `CKNotification.ID`.
///
/// IDs are immutable and compared by value.
public final class CKNotificationID: NSObject, NSSecureCoding, NSCopying, Sendable {
    package let text: String

    package init(_ text: String) { self.text = text }

    /// Creates an ID from the output of `encode(with:)`.
    public init?(coder: NSCoder) {
        guard let text = coder.text("NotificationID") else { return nil }
        self.text = text
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes the ID.
    public func encode(with coder: NSCoder) { coder.encode(text as NSString, forKey: "NotificationID") }

    /// Returns the same object, because it is immutable.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Returns whether two IDs are equal.
    public override func isEqual(_ object: Any?) -> Bool { text == (object as? CKNotificationID)?.text }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int { text.hashValue }

    /// The text of the ID.
    public override var description: String { text }
}

/// The parsed payload of a push.
///
/// See Wire.md, "Notification payload".
struct NoticePayload {
    let type: CKNotification.NotificationType
    let alertBody: String?
    /// The `aps` part: the presentation of the push.
    let presentation: [AnyHashable: Any]
    private let content: [AnyHashable: Any]
    /// The object that belongs to the kind of notification.
    private let detail: [AnyHashable: Any]

    /// Parses a payload.
    ///
    /// Returns `nil` if it is not CloudKit's.
    init?(_ dictionary: [AnyHashable: Any]) {
        guard let content = dictionary["ck"] as? [AnyHashable: Any] else { return nil }
        self.content = content
        if let met = content["met"] as? [AnyHashable: Any] {
            (type, detail) = (.database, met)
        } else if let fet = content["fet"] as? [AnyHashable: Any] {
            (type, detail) = (.recordZone, fet)
        } else if let qry = content["qry"] as? [AnyHashable: Any] {
            (type, detail) = (.query, qry)
        } else {
            return nil
        }
        presentation = dictionary["aps"] as? [AnyHashable: Any] ?? [:]
        let alert = presentation["alert"]
        alertBody = (alert as? String) ?? (alert as? [AnyHashable: Any])?["body"] as? String
    }

    func alertText(_ key: String) -> String? {
        (presentation["alert"] as? [AnyHashable: Any])?[key] as? String
    }

    func alertTexts(_ key: String) -> [String]? {
        (presentation["alert"] as? [AnyHashable: Any])?[key] as? [String]
    }

    func text(_ key: String) -> String? { content[key] as? String }
    func detailText(_ key: String) -> String? { detail[key] as? String }
    func detailNumber(_ key: String) -> Int? { (detail[key] as? NSNumber)?.intValue ?? detail[key] as? Int }

    /// The fields in the notification of a query: strings, numbers, references and locations.
    ///
    /// A date is its milliseconds.
    var fields: [String: any CKRecordValueProtocol]? {
        guard let values = detail["af"] as? [AnyHashable: Any] else { return nil }
        var fields: [String: any CKRecordValueProtocol] = [:]
        for (name, value) in values {
            guard let name = name as? String else { continue }
            if let text = value as? String {
                fields[name] = text
            } else if let number = value as? Int64 ?? (value as? NSNumber).flatMap({ Int64(exactly: $0) }) {
                fields[name] = NSNumber(value: number)
            } else if let number = value as? Double ?? (value as? NSNumber)?.doubleValue {
                fields[name] = NSNumber(value: number)
            } else if let parts = value as? [AnyHashable: Any] {
                fields[name] = reference(parts) ?? place(parts)
            }
        }
        return fields
    }

    private func reference(_ parts: [AnyHashable: Any]) -> CKRecord.Reference? {
        guard let name = parts["recordName"] as? String else { return nil }
        let id = CKRecord.ID(recordName: name, zoneID: zoneID ?? .default)
        let isOwning = parts["action"] as? String == "DELETE_SELF"
        return CKRecord.Reference(recordID: id, action: isOwning ? .deleteSelf : .none)
    }

    private func place(_ parts: [AnyHashable: Any]) -> CLLocation? {
        guard let latitude = parts["latitude"] as? NSNumber, let longitude = parts["longitude"] as? NSNumber else {
            return nil
        }
        return CLLocation(latitude: latitude.doubleValue, longitude: longitude.doubleValue)
    }

    var isPruned: Bool { content["p"] != nil }

    var scope: CKDatabase.Scope {
        detailNumber("dbs").flatMap(CKDatabase.Scope.init(rawValue:)) ?? .private
    }

    /// The zone's ID as the app knows it: in the private database every zone is the current user's.
    var zoneID: CKRecordZone.ID? {
        guard let name = detailText("zid") else { return nil }
        let owner = detailText("zoid") ?? CKCurrentUserDefaultName
        let isOwn = scope != .shared || owner == text("ckuserid")
        return CKRecordZone.ID(zoneName: name, ownerName: isOwn ? CKCurrentUserDefaultName : owner)
    }
}
