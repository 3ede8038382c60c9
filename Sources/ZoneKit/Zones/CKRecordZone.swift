public import Foundation
package import Records
import Synchronization

/// A part of a database, whose records can be saved together and which has its own change feed.
///
/// The default zone always exists; it has no change feed and no atomic saves. Custom zones exist in the private
/// database and have both.
public final class CKRecordZone: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// The ID of a zone.
    public typealias ID = CKRecordZoneID

    /// The capabilities of a zone, which are known after the zone has been saved or fetched.
    public struct Capabilities: OptionSet, Sendable {
        /// The bits, with CloudKit's numbers.
        public let rawValue: UInt

        /// Creates a set from its bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// The zone has a change feed; see `CKDatabase.recordZoneChanges`.
        public static let fetchChanges = Capabilities(rawValue: 1)
        /// A batch of changes can succeed or fail as a whole.
        public static let atomic = Capabilities(rawValue: 2)
        /// Record hierarchies in the zone can be shared.
        public static let sharing = Capabilities(rawValue: 4)
        /// The whole zone can be shared.
        public static let zoneWideSharing = Capabilities(rawValue: 8)
    }

    /// The scope of the keys for encrypted values.
    public enum EncryptionScope: Int, Sendable {
        /// Each record has its own key.
        case perRecord = 0
        /// The zone has one key.
        case perZone = 1
    }

    private let scope = Mutex(EncryptionScope.perRecord)

    /// Has no effect, because a zone always has one key for all participants; it exists for source compatibility.
    public var encryptionScope: EncryptionScope {
        get { scope.withLock { $0 } }
        set { scope.withLock { $0 = newValue } }
    }

    /// The ID of the zone.
    public let zoneID: CKRecordZone.ID
    /// The capabilities of the zone; empty for a new custom zone that was not saved yet.
    public let capabilities: Capabilities
    /// The share of the whole zone, if there is one.
    public let share: CKRecord.Reference?

    /// Creates a custom zone of the current user.
    ///
    /// Save it to create it on the relay.
    public convenience init(zoneName: String) {
        self.init(zoneID: CKRecordZone.ID(zoneName: zoneName))
    }

    /// Creates a custom zone.
    ///
    /// Save it to create it on the relay.
    public convenience init(zoneID: CKRecordZone.ID) {
        self.init(zoneID: zoneID, capabilities: [])
    }

    package init(zoneID: CKRecordZone.ID, capabilities: Capabilities, share: CKRecord.Reference? = nil) {
        self.zoneID = zoneID
        self.capabilities = capabilities
        self.share = share
    }

    /// Creates a zone from the output of `encode(with:)`.
    public convenience init?(coder: NSCoder) {
        guard let zoneID = coder.object(CKRecordZone.ID.self, "ZoneID") else { return nil }
        let bits = UInt(bitPattern: coder.number("Capabilities"))
        let share = coder.object(CKRecord.Reference.self, "Share")
        self.init(zoneID: zoneID, capabilities: Capabilities(rawValue: bits), share: share)
    }

    /// Returns the current user's default zone.
    public static func `default`() -> CKRecordZone { CKRecordZone(zoneID: .default, capabilities: []) }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes the ID, the capabilities and the share.
    public func encode(with coder: NSCoder) {
        coder.encode(zoneID, forKey: "ZoneID")
        coder.encode(Int(bitPattern: capabilities.rawValue), forKey: "Capabilities")
        if let share { coder.encode(share, forKey: "Share") }
    }

    /// Returns the same object, because it is immutable.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Returns whether two zones have the same ID, capabilities and share.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKRecordZone else { return false }
        return zoneID == other.zoneID && capabilities == other.capabilities && share == other.share
    }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int { zoneID.hash }

    /// The ID and the capabilities of the zone.
    public override var description: String { "<CKRecordZone: \(zoneID), capabilities \(capabilities.rawValue)>" }
}

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
