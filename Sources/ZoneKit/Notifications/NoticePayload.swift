import Foundation

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
