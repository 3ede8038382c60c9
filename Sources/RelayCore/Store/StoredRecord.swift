package import Records
import Wire

/// A record as the relay stores it: decoded system values, and fields as the bytes that are sent on the wire.
package struct StoredRecord: Hashable, Sendable {
    /// The user, time and device of a write; the device as a `DeviceFingerprint` because every reader of the record sees it.
    package struct Stamp: Hashable, Sendable {
        package var at: Timestamp
        package var by: UserID
        package var device: DeviceFingerprint

        package init(at: Timestamp, by: UserID, device: DeviceFingerprint) {
            self.at = at
            self.by = by
            self.device = device
        }

        /// Returns a stamp that is later than the record's last modification.
        ///
        /// Clients that keep the newer of two versions compare these times, and the clock may stand still or go back.
        package func later(than record: StoredRecord?) -> Stamp {
            guard let last = record?.modified.at, at <= last else { return self }
            return Stamp(at: Timestamp(milliseconds: last.milliseconds + 1), by: by, device: device)
        }
    }

    /// The number of the record's latest change, of which the change tag is another representation.
    ///
    /// Kept outside `content` because a new record is assigned its number last.
    package var change: UInt64
    @usableFromInline var content: Content

    /// All values except the change number, behind one reference because requests and pages pass records along often.
    @usableFromInline final class Content: Sendable {
        @usableFromInline let values: Values

        init(_ values: Values) { self.values = values }
    }

    package struct Values: Hashable, Sendable {
        package var name: String
        package var type: String
        package var created: Stamp
        package var modified: Stamp
        package var parent: String?
        /// In the form that `ShareReference` writes.
        package var share: String?
        /// The JSON object `fields`; in a tombstone `{}` or the zone to which the record was moved.
        package var fields: [UInt8]
        /// Whether this is a tombstone, kept so that devices that were offline learn about the deletion.
        package var isDeleted: Bool
        /// Boxed because almost no record is a share.
        fileprivate var boxedShare: ShareBox?

        /// The participants and permissions of a live share record.
        ///
        /// The store keeps them apart from the fields and returns them with the record.
        package var sharing: Share? {
            get { boxedShare?.share }
            set { boxedShare = newValue.map { ShareBox($0) } }
        }
    }

    package init(
        name: String,
        type: String,
        change: UInt64,
        created: Stamp,
        modified: Stamp,
        parent: String? = nil,
        share: String? = nil,
        fields: [UInt8],
        isDeleted: Bool = false
    ) {
        self.change = change
        content = Content(
            Values(
                name: name,
                type: type,
                created: created,
                modified: modified,
                parent: parent,
                share: share,
                fields: fields,
                isDeleted: isDeleted
            )
        )
    }

    /// Changes several values at once, with a single copy of the record's content.
    package mutating func update(_ change: (inout Values) -> Void) {
        var values = content.values
        change(&values)
        content = Content(values)
    }

    package var name: String {
        @inlinable get { content.values.name }
        set { update { $0.name = newValue } }
    }
    package var type: String {
        @inlinable get { content.values.type }
        set { update { $0.type = newValue } }
    }
    package var created: Stamp {
        @inlinable get { content.values.created }
        set { update { $0.created = newValue } }
    }
    package var modified: Stamp {
        @inlinable get { content.values.modified }
        set { update { $0.modified = newValue } }
    }
    package var parent: String? {
        @inlinable get { content.values.parent }
        set { update { $0.parent = newValue } }
    }
    package var share: String? {
        @inlinable get { content.values.share }
        set { update { $0.share = newValue } }
    }
    package var fields: [UInt8] {
        @inlinable get { content.values.fields }
        set { update { $0.fields = newValue } }
    }
    package var isDeleted: Bool {
        @inlinable get { content.values.isDeleted }
        set { update { $0.isDeleted = newValue } }
    }
    package var sharing: Share? {
        get { content.values.sharing }
        set { update { $0.sharing = newValue } }
    }

    package static func == (left: StoredRecord, right: StoredRecord) -> Bool {
        left.change == right.change && (left.content === right.content || left.content.values == right.content.values)
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(change)
        hasher.combine(content.values)
    }

    package var changeTag: String { ChangeTag.text(of: change) }

    package var isShare: Bool { type == Share.recordType }

    /// In a tombstone, the name of the same owner's zone to which the record was moved; `nil` if it was deleted.
    package var movedTo: String? {
        guard isDeleted, fields != FieldsJSON.empty,
            let entry = (try? FieldsJSON.decode(fields))?.first(where: { $0.name == Self.movedToKey })
        else { return nil }
        return if case .string(let zone) = entry.value { zone } else { nil }
    }

    /// Returns the fields of the tombstone that a move leaves behind.
    static func fields(movedTo zone: ZoneID) -> [UInt8] {
        FieldsJSON.encode([.init(name: movedToKey, value: .string(zone.zoneName))])
    }

    private static let movedToKey = "movedTo"

    /// Whether a tombstone tells a participant of a record that still exists, outside of what that user sees of the zone.
    package var isOutOfSight: Bool { isDeleted && fields != FieldsJSON.empty }

    /// The fields of a tombstone for a participant from whose sight a live record has gone.
    package static let fieldsOutOfSight = FieldsJSON.encode([.init(name: "outOfSight", value: .int64(1))])

    /// The share of which the record is the root or the share record.
    package var shareReference: ShareReference? {
        get { ShareReference(share) }
        set { share = newValue?.text }
    }
}

private final class ShareBox: Hashable, Sendable {
    let share: Share

    init(_ share: Share) { self.share = share }

    static func == (left: ShareBox, right: ShareBox) -> Bool { left.share == right.share }
    func hash(into hasher: inout Hasher) { hasher.combine(share) }
}

/// The change tag of a record: its change number as a short, opaque, lower-case base-36 string.
///
/// See Wire.md, "Records".
package enum ChangeTag {
    package static func text(of change: UInt64) -> String { String(change, radix: 36) }
}

/// A 48-bit value that distinguishes a user's devices without revealing their identifiers.
package struct DeviceFingerprint: Hashable, Sendable {
    package let bits: UInt64

    package init(bits: UInt64) { self.bits = bits & 0xFFFF_FFFF_FFFF }

    /// Derives the mark from the identifier's fingerprint.
    package init(deviceID: String) {
        self.init(bits: Fingerprint(of: deviceID).sum >> 16)
    }

    /// The mark as it appears in `created` and `modified`.
    package var text: String { String(bits, radix: 16) }
}

/// A reference that affects the deletion of its target, indexed by target.
///
/// References with the action `NONE` have no effect and are not stored.
package struct StoredReference: Hashable, Sendable {
    package enum Kind: Int, Hashable, Sendable {
        /// Deletes the source with the target.
        case deleteSelf = 1
        /// Blocks the deletion of the target.
        case validate = 2
        /// Blocks the deletion of the target; given by the source's `parent`.
        case parent = 3
    }

    package var kind: Kind
    /// The name of the referenced record.
    package var target: String
    /// The name of the referencing record, and the field with the reference; empty for the parent.
    package var source: String
    package var field: String

    package init(_ kind: Kind, to target: String, from source: String, field: String) {
        self.kind = kind
        self.target = target
        self.source = source
        self.field = field
    }

    /// Returns `nil` for a reference without effect.
    package init?(_ reference: Reference, from source: String, field: String) {
        switch reference.action {
        case .none: return nil
        case .deleteSelf: self.init(.deleteSelf, to: reference.recordName, from: source, field: field)
        case .validate: self.init(.validate, to: reference.recordName, from: source, field: field)
        }
    }

    package static func parent(_ target: String, of source: String) -> StoredReference {
        StoredReference(.parent, to: target, from: source, field: "")
    }

    /// The maximum number of DELETE_SELF references to one record.
    ///
    /// See Wire.md, "Limits".
    package static let mostDeleteSelf = 750
}

/// A live record read in place from the store's row, valid only during one visit.
///
/// The record's name and fields are not copied: a page of a change feed holds hundreds of records, and building a
/// `StoredRecord` costs more than finding the row. Only plain records are visited this way: no tombstones, no shares
/// and no share roots.
package struct RecordRow {
    /// UTF-8; invalid after the visit ends, like `fields`.
    package var name: UnsafeBufferPointer<UInt8>
    package var fields: UnsafeBufferPointer<UInt8>
    package var type: String
    package var change: UInt64
    package var created: Timestamp
    package var modified: Timestamp
    /// The same object as in the previous row if the values are equal, so that callers can compare by identity.
    package var authors: Authors
    package var parent: UnsafeBufferPointer<UInt8>?

    /// The creator and last modifier of a record, with their devices.
    package final class Authors: Sendable {
        package let creator: UserID
        package let creatingDevice: DeviceFingerprint
        package let modifier: UserID
        package let modifyingDevice: DeviceFingerprint

        package init(
            creator: UserID,
            creatingDevice: DeviceFingerprint,
            modifier: UserID,
            modifyingDevice: DeviceFingerprint
        ) {
            self.creator = creator
            self.creatingDevice = creatingDevice
            self.modifier = modifier
            self.modifyingDevice = modifyingDevice
        }
    }

    /// Creates an empty row, which the store fills for one record after the other.
    package init() {
        let nothing = UnsafeBufferPointer<UInt8>(start: nil, count: 0)
        (name, fields, type, change, parent) = (nothing, nothing, "", 0, nil)
        (created, modified) = (Timestamp(milliseconds: 0), Timestamp(milliseconds: 0))
        let (user, device) = (UserID(""), DeviceFingerprint(bits: 0))
        authors = Authors(creator: user, creatingDevice: device, modifier: user, modifyingDevice: device)
    }
}

/// A record passed to the visitor of `StoreReader.visitRecords`.
package enum VisitedRecord {
    case whole(StoredRecord)
    /// A row that is valid until the visit ends; by its address, because copying it costs as much as reading a column.
    case lent(UnsafePointer<RecordRow>)

    var type: String {
        switch self {
        case .whole(let record): record.type
        case .lent(let row): row.pointee.type
        }
    }

    /// The number of the record's latest change.
    package var change: UInt64 {
        switch self {
        case .whole(let record): record.change
        case .lent(let row): row.pointee.change
        }
    }

    /// Approximate cost of reading the record, in bytes.
    var bytes: Int {
        switch self {
        case .whole(let record): record.fields.count + 512
        case .lent(let row): row.pointee.fields.count + 512
        }
    }

    var isDeleted: Bool {
        if case .whole(let record) = self { record.isDeleted } else { false }
    }
}
