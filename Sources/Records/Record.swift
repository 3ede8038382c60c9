/// A record as both sides of the wire know it.
///
/// See Wire.md, "Records".
package struct Record: Hashable, Sendable {
    /// Who wrote it, when, and from which device.
    package struct Stamp: Hashable, Sendable {
        package var at: Timestamp
        package var by: UserID
        package var deviceID: String

        package init(at: Timestamp, by: UserID, deviceID: String) {
            self.at = at
            self.by = by
            self.deviceID = deviceID
        }
    }

    package var id: RecordID
    package var type: String
    /// Present fields only; a cleared field is not here.
    package var fields: [String: FieldValue]
    /// Names of the fields that the schema keeps encrypted.
    package var encryptedFields: Set<String>
    /// Changes with every write; `nil` before the first save.
    package var changeTag: String?
    package var created: Stamp?
    package var modified: Stamp?
    /// The record above it in a shared hierarchy, by name, in the same zone.
    package var parent: String?
    /// The share this record is the root of, by name, in the same zone.
    package var share: String?

    package init(
        id: RecordID,
        type: String,
        fields: [String: FieldValue] = [:],
        encryptedFields: Set<String> = [],
        changeTag: String? = nil,
        created: Stamp? = nil,
        modified: Stamp? = nil,
        parent: String? = nil,
        share: String? = nil
    ) {
        self.id = id
        self.type = type
        self.fields = fields
        self.encryptedFields = encryptedFields
        self.changeTag = changeTag
        self.created = created
        self.modified = modified
        self.parent = parent
        self.share = share
    }
}

/// The seven ways to write a record.
///
/// See Wire.md, "Saving records".
package enum OperationType: String, Hashable, Sendable, CaseIterable {
    case create, update, forceUpdate, replace, forceReplace, delete, forceDelete

    package var isDelete: Bool { self == .delete || self == .forceDelete }
    /// Whether the record must exist, under the change tag that the caller names.
    package var needsChangeTag: Bool { self == .update || self == .replace || self == .delete }
    /// Whether fields that the caller leaves out are kept.
    package var mergesFields: Bool { self == .update || self == .forceUpdate }
}
