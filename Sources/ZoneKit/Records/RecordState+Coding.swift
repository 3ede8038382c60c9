package import Foundation
package import Records

/// How records are archived: system fields one by one, values as the wire's own JSON.
extension RecordState {
    package func encodeSystemFields(with coder: NSCoder) {
        coder.encode(type as NSString, forKey: "RecordType")
        coder.encode(id, forKey: "RecordID")
        coder.encode(changeTag as NSString?, forKey: "ETag")
        coder.encode(parent as NSString?, forKey: "Parent")
        coder.encode(share as NSString?, forKey: "Share")
        Self.encode(created, "Created", with: coder)
        Self.encode(modified, "Modified", with: coder)
    }

    package init?(coder: NSCoder) {
        func text(_ key: String) -> String? { coder.decodeObject(of: NSString.self, forKey: key) as String? }
        guard let type = text("RecordType"), let id = coder.decodeObject(of: CKRecord.ID.self, forKey: "RecordID") else {
            return nil
        }
        self.init(type: type, id: id)
        changeTag = text("ETag")
        parent = text("Parent")
        share = text("Share")
        created = Self.decodeStamp("Created", from: coder)
        modified = Self.decodeStamp("Modified", from: coder)
        guard decodeValues(from: coder) else { return nil }
    }

    private static func encode(_ stamp: Record.Stamp?, _ prefix: String, with coder: NSCoder) {
        guard let stamp else { return }
        coder.encode(stamp.at.milliseconds, forKey: prefix + "Time")
        coder.encode(stamp.by.recordName as NSString, forKey: prefix + "User")
        coder.encode(stamp.deviceID as NSString, forKey: prefix + "Device")
    }

    private static func decodeStamp(_ prefix: String, from coder: NSCoder) -> Record.Stamp? {
        guard let user = coder.decodeObject(of: NSString.self, forKey: prefix + "User"),
            let device = coder.decodeObject(of: NSString.self, forKey: prefix + "Device")
        else { return nil }
        let milliseconds = coder.decodeInt64(forKey: prefix + "Time")
        return Record.Stamp(
            at: Timestamp(milliseconds: milliseconds), by: UserID(user as String), deviceID: device as String
        )
    }
}
