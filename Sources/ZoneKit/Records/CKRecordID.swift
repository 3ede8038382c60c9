public import Foundation

/// The ID of a record: its name and its zone; also available as `CKRecord.ID`.
///
/// IDs are immutable. Two IDs are equal if their record names, zone names and zone owners are equal.
public final class CKRecordID: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// The record's name, unique within the zone; 1 to 255 ASCII characters.
    public let recordName: String
    /// The zone that contains the record.
    public let zoneID: CKRecordZone.ID

    /// Creates an ID.
    ///
    /// - Parameters:
    ///   - recordName: The record's name. The default is a new UUID.
    ///   - zoneID: The zone. The default is the current user's default zone.
    public init(recordName: String = UUID().uuidString, zoneID: CKRecordZone.ID = .default) {
        self.recordName = recordName
        self.zoneID = zoneID
    }

    /// Creates an ID from the output of `encode(with:)`.
    public init?(coder: NSCoder) {
        guard let name = coder.text("RecordName"),
            let zone = coder.object(CKRecordZone.ID.self, "ZoneID")
        else { return nil }
        recordName = name
        zoneID = zone
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes the name and the zone.
    public func encode(with coder: NSCoder) {
        coder.encode(recordName as NSString, forKey: "RecordName")
        coder.encode(zoneID, forKey: "ZoneID")
    }

    /// Returns the same object, because it is immutable.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Returns whether two IDs are equal.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKRecordID else { return false }
        return self === other || (recordName == other.recordName && zoneID == other.zoneID)
    }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int {
        var hasher = Hasher()
        hasher.combine(recordName)
        hasher.combine(zoneID.zoneName)
        return hasher.finalize()
    }

    /// The name, the zone and its owner.
    public override var description: String { "\(recordName):(\(zoneID.zoneName):\(zoneID.ownerName))" }
}
