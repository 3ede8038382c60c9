public import Foundation
package import Records

/// A zone's address, known to programs as `CKRecordZone.ID`: its name and whose it is.
///
/// Immutable. Zones of the signed-in user have the owner `CKCurrentUserDefaultName`, whatever their record name is.
public final class CKRecordZoneID: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// Unique among the owner's zones; 1 to 255 ASCII characters, no leading underscore but in the default zone's own.
    public let zoneName: String
    /// The owner's user record name, or `CKCurrentUserDefaultName`.
    public let ownerName: String

    /// Makes a zone's address.
    ///
    /// - Parameters:
    ///   - zoneName: Left out, the default zone's.
    ///   - ownerName: Left out, the current user's.
    public init(zoneName: String = CKRecordZone.ID.defaultZoneName, ownerName: String = CKCurrentUserDefaultName) {
        self.zoneName = zoneName
        self.ownerName = ownerName
    }

    /// Reads what `encode(with:)` wrote.
    public init?(coder: NSCoder) {
        guard let name = coder.text("ZoneName"),
            // Apple's framework writes it small.
            let owner = coder.text("OwnerName") ?? coder.text("ownerName")
        else { return nil }
        zoneName = name
        ownerName = owner
    }

    /// The name of the zone that every private and public database has.
    public static let defaultZoneName = "_defaultZone"

    /// The current user's default zone.
    public static let `default` = CKRecordZoneID(zoneName: defaultZoneName, ownerName: CKCurrentUserDefaultName)

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes both names.
    public func encode(with coder: NSCoder) {
        coder.encode(zoneName as NSString, forKey: "ZoneName")
        coder.encode(ownerName as NSString, forKey: "OwnerName")
    }

    /// The same object: it cannot change.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Equal by value.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKRecordZoneID else { return false }
        return self === other || (zoneName == other.zoneName && ownerName == other.ownerName)
    }

    /// Agrees with `isEqual(_:)`.
    public override var hash: Int {
        var hasher = Hasher()
        hasher.combine(zoneName)
        hasher.combine(ownerName)
        return hasher.finalize()
    }

    /// Name and owner, for logs.
    public override var description: String { "\(zoneName):\(ownerName)" }
}

extension CKRecordZoneID {
    /// The zone as the modules below know it.
    package var zone: ZoneID { ZoneID(zoneName, owner: UserID(ownerName)) }

    package convenience init(_ zone: ZoneID) {
        self.init(zoneName: zone.zoneName, ownerName: zone.owner.recordName)
    }
}

extension CKRecordID {
    /// The address as the modules below know it.
    package var record: RecordID { RecordID(recordName, in: zoneID.zone) }

    package convenience init(_ record: RecordID) {
        self.init(recordName: record.recordName, zoneID: CKRecordZoneID(record.zone))
    }
}
