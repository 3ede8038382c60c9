package import Records
import Wire

/// A record as the relay keeps it: system values apart, its fields still the bytes that go on the wire.
package struct StoredRecord: Hashable, Sendable {
    /// Who wrote, when, on which device; the device only as `DeviceMark`, since every reader of the record sees it.
    package struct Stamp: Hashable, Sendable {
        package var at: Timestamp
        package var by: UserID
        package var device: DeviceMark

        package init(at: Timestamp, by: UserID, device: DeviceMark) {
            self.at = at
            self.by = by
            self.device = device
        }
    }

    package var name: String
    package var type: String
    /// The number of its latest change; its change tag is another way to write it.
    package var change: UInt64
    package var created: Stamp
    package var modified: Stamp
    package var parent: String?
    /// As `ShareMark` writes it.
    package var share: String?
    /// The `fields` object; of a tombstone `{}`, or where the record went.
    package var fields: [UInt8]
    /// A tombstone: kept so that devices which were away hear of the deletion.
    package var isDeleted: Bool
    /// In a box, since nearly all records are none.
    private var boxedShare: ShareBox?

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
        self.name = name
        self.type = type
        self.change = change
        self.created = created
        self.modified = modified
        self.parent = parent
        self.share = share
        self.fields = fields
        self.isDeleted = isDeleted
    }

    package var changeTag: String { ChangeTag.text(of: change) }

    /// What is shared, of a live share record; the store keeps it apart from the fields and gives it with the record.
    package var sharing: Share? {
        get { boxedShare?.share }
        set { boxedShare = newValue.map { ShareBox($0) } }
    }

    package var isShare: Bool { type == Share.recordType }

    /// Of a tombstone: the zone of the same owner to which the record was moved; `nil` where it was deleted.
    package var movedTo: String? {
        guard isDeleted, fields != FieldsJSON.empty,
            let entry = (try? FieldsJSON.decode(fields))?.first(where: { $0.name == Self.movedToKey })
        else { return nil }
        return if case .string(let zone) = entry.value { zone } else { nil }
    }

    /// The fields of the tombstone that a move leaves behind.
    static func fields(movedTo zone: ZoneID) -> [UInt8] {
        FieldsJSON.encode([.init(name: movedToKey, value: .string(zone.zoneName))])
    }

    private static let movedToKey = "movedTo"

    /// The share that it is the root or the record of.
    package var shareMark: ShareMark? {
        get { ShareMark(share) }
        set { share = newValue?.text }
    }
}

private final class ShareBox: Hashable, Sendable {
    let share: Share

    init(_ share: Share) { self.share = share }

    static func == (left: ShareBox, right: ShareBox) -> Bool { left.share == right.share }
    func hash(into hasher: inout Hasher) { hasher.combine(share) }
}

/// A change number as clients see it on a record: short, opaque, lower-case base 36.
///
/// Wire reference 4.3.
package enum ChangeTag {
    package static func text(of change: UInt64) -> String { String(change, radix: 36) }
}

/// 48 bits that tell a user's devices apart without telling anybody their identifiers.
package struct DeviceMark: Hashable, Sendable {
    package let bits: UInt64

    package init(bits: UInt64) { self.bits = bits & 0xFFFF_FFFF_FFFF }

    /// The FNV-1a hash of the identifier.
    package init(deviceID: String) {
        self.init(bits: deviceID.utf8.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 } >> 16)
    }

    /// Its form in `created` and `modified`.
    package var text: String { String(bits, radix: 16) }
}
