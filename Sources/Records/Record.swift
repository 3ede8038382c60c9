/// A record as exchanged on the wire.
///
/// See Wire.md, "Records".
package struct Record: Hashable, Sendable {
    /// The user, time and device of a write.
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
    /// The fields with a value; cleared fields are absent.
    package var fields: [String: FieldValue]
    /// The names of the fields that the schema declares as encrypted.
    package var encryptedFields: Set<String>
    /// Changes with every write; `nil` before the first save.
    package var changeTag: String?
    package var created: Stamp?
    package var modified: Stamp?
    /// The name of the parent in a shared hierarchy, in the same zone.
    package var parent: String?
    /// The name of the share of which this record is the root, in the same zone.
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

/// The seven write operations of the wire format.
///
/// See Wire.md, "Saving records".
package enum OperationType: String, Hashable, Sendable, CaseIterable {
    case create, update, forceUpdate, replace, forceReplace, delete, forceDelete

    package var isDelete: Bool { self == .delete || self == .forceDelete }
    /// Whether the record must exist with the caller's change tag.
    package var needsChangeTag: Bool { self == .update || self == .replace || self == .delete }
    /// Whether fields that the caller omits are kept.
    package var mergesFields: Bool { self == .update || self == .forceUpdate }
}
