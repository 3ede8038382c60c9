public import Foundation

/// A record's address, known to programs as `CKRecord.ID`: its name and its zone.
///
/// Immutable; two IDs are equal when record name, zone name and zone owner are.
public final class CKRecordID: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// Unique within the zone; 1 to 255 ASCII characters.
    public let recordName: String
    /// The zone that holds the record.
    public let zoneID: CKRecordZone.ID

    /// Makes the address of a record, of a new one if no name is given.
    ///
    /// - Parameters:
    ///   - recordName: The name; left out, a new UUID.
    ///   - zoneID: The zone; left out, the default zone of the current user.
    public init(recordName: String = UUID().uuidString, zoneID: CKRecordZone.ID = .default) {
        self.recordName = recordName
        self.zoneID = zoneID
    }

    /// Reads what `encode(with:)` wrote.
    public init?(coder: NSCoder) {
        guard let name = coder.text("RecordName"),
            let zone = coder.object(CKRecordZone.ID.self, "ZoneID")
        else { return nil }
        recordName = name
        zoneID = zone
    }

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes name and zone.
    public func encode(with coder: NSCoder) {
        coder.encode(recordName as NSString, forKey: "RecordName")
        coder.encode(zoneID, forKey: "ZoneID")
    }

    /// The same object: it cannot change.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Equal by value.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKRecordID else { return false }
        return self === other || (recordName == other.recordName && zoneID == other.zoneID)
    }

    /// Agrees with `isEqual(_:)`.
    public override var hash: Int {
        var hasher = Hasher()
        hasher.combine(recordName)
        hasher.combine(zoneID.zoneName)
        return hasher.finalize()
    }

    /// Name, zone and owner, for logs.
    public override var description: String { "\(recordName):(\(zoneID.zoneName):\(zoneID.ownerName))" }
}
