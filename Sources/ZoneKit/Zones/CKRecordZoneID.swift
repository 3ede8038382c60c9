public import Foundation
package import Records

/// The ID of a zone: its name and its owner; also available as `CKRecordZone.ID`.
///
/// IDs are immutable. The owner of the signed-in user's zones is `CKCurrentUserDefaultName`, whatever the user's record
/// name is.
public final class CKRecordZoneID: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// The zone's name, unique among the owner's zones.
    ///
    /// 1 to 255 ASCII characters. Only the default zone's name may begin with an underscore.
    public let zoneName: String
    /// The owner's user record name, or `CKCurrentUserDefaultName`.
    public let ownerName: String

    /// Creates an ID.
    ///
    /// - Parameters:
    ///   - zoneName: The name of the zone. The default is the default zone.
    ///   - ownerName: The name of the owner. The default is the current user.
    public init(zoneName: String = CKRecordZone.ID.defaultZoneName, ownerName: String = CKCurrentUserDefaultName) {
        self.zoneName = zoneName
        self.ownerName = ownerName
    }

    /// Creates an ID from the output of `encode(with:)`.
    public init?(coder: NSCoder) {
        guard let name = coder.text("ZoneName"),
            // Apple's framework uses a lower-case initial.
            let owner = coder.text("OwnerName") ?? coder.text("ownerName")
        else { return nil }
        zoneName = name
        ownerName = owner
    }

    /// The name of the default zone, which every private and public database has.
    public static let defaultZoneName = "_defaultZone"

    /// The ID of the current user's default zone.
    public static let `default` = CKRecordZoneID(zoneName: defaultZoneName, ownerName: CKCurrentUserDefaultName)

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes both names.
    public func encode(with coder: NSCoder) {
        coder.encode(zoneName as NSString, forKey: "ZoneName")
        coder.encode(ownerName as NSString, forKey: "OwnerName")
    }

    /// Returns the same object, because it is immutable.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Returns whether two IDs are equal.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKRecordZoneID else { return false }
        return self === other || (zoneName == other.zoneName && ownerName == other.ownerName)
    }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int {
        var hasher = Hasher()
        hasher.combine(zoneName)
        hasher.combine(ownerName)
        return hasher.finalize()
    }

    /// The name and the owner.
    public override var description: String { "\(zoneName):\(ownerName)" }
}

extension CKRecordZoneID {
    /// The zone ID as a value of the lower modules.
    package var zone: ZoneID { ZoneID(zoneName, owner: UserID(ownerName)) }

    package convenience init(_ zone: ZoneID) {
        self.init(zoneName: zone.zoneName, ownerName: zone.owner.recordName)
    }
}

extension CKRecordID {
    /// The record ID as a value of the lower modules.
    package var record: RecordID { RecordID(recordName, in: zoneID.zone) }

    package convenience init(_ record: RecordID) {
        self.init(recordName: record.recordName, zoneID: CKRecordZoneID(record.zone))
    }
}
