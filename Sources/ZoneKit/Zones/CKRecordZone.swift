public import Foundation
import Synchronization

/// A part of a database whose records change together, with a change feed of its own.
///
/// The default zone exists from the start, has no change feed and no atomic saves; custom zones live in the private
/// database and have both.
public final class CKRecordZone: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// A zone's address.
    public typealias ID = CKRecordZoneID

    /// What a zone can do; known once the zone has been saved or fetched.
    public struct Capabilities: OptionSet, Sendable {
        /// The bits, as CloudKit numbers them.
        public let rawValue: UInt

        /// Makes a set of capabilities of their bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// `recordZoneChanges` works.
        public static let fetchChanges = Capabilities(rawValue: 1)
        /// A batch of changes succeeds or fails as a whole.
        public static let atomic = Capabilities(rawValue: 2)
        /// Record hierarchies in it can be shared.
        public static let sharing = Capabilities(rawValue: 4)
        /// The whole zone can be shared.
        public static let zoneWideSharing = Capabilities(rawValue: 8)
    }

    /// How far one key of encrypted values reaches.
    public enum EncryptionScope: Int, Sendable {
        /// Each record has one of its own.
        case perRecord = 0
        /// The zone has one.
        case perZone = 1
    }

    private let scope = Mutex(EncryptionScope.perRecord)

    /// Kept for programs that set it: here a zone has one key in any case, given to those it is shared with.
    public var encryptionScope: EncryptionScope {
        get { scope.withLock { $0 } }
        set { scope.withLock { $0 = newValue } }
    }

    /// The zone's address.
    public let zoneID: CKRecordZone.ID
    /// What the zone can do; empty for a custom zone that was made here and not yet saved.
    public let capabilities: Capabilities
    /// The share of the whole zone, if there is one.
    public let share: CKRecord.Reference?

    /// Makes a custom zone of the current user, to be saved.
    public convenience init(zoneName: String) {
        self.init(zoneID: CKRecordZone.ID(zoneName: zoneName))
    }

    /// Makes a custom zone, to be saved.
    public convenience init(zoneID: CKRecordZone.ID) {
        self.init(zoneID: zoneID, capabilities: [])
    }

    package init(zoneID: CKRecordZone.ID, capabilities: Capabilities, share: CKRecord.Reference? = nil) {
        self.zoneID = zoneID
        self.capabilities = capabilities
        self.share = share
    }

    /// Reads what `encode(with:)` wrote.
    public convenience init?(coder: NSCoder) {
        guard let zoneID = coder.object(CKRecordZone.ID.self, "ZoneID") else { return nil }
        let bits = UInt(bitPattern: coder.number("Capabilities"))
        let share = coder.object(CKRecord.Reference.self, "Share")
        self.init(zoneID: zoneID, capabilities: Capabilities(rawValue: bits), share: share)
    }

    /// The current user's default zone.
    public static func `default`() -> CKRecordZone { CKRecordZone(zoneID: .default, capabilities: []) }

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes address, capabilities and share.
    public func encode(with coder: NSCoder) {
        coder.encode(zoneID, forKey: "ZoneID")
        coder.encode(Int(bitPattern: capabilities.rawValue), forKey: "Capabilities")
        if let share { coder.encode(share, forKey: "Share") }
    }

    /// The same object: it cannot change.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Equal when address and capabilities are.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKRecordZone else { return false }
        return zoneID == other.zoneID && capabilities == other.capabilities && share == other.share
    }

    /// Agrees with `isEqual(_:)`.
    public override var hash: Int { zoneID.hash }

    /// The zone's address and capabilities, for logs.
    public override var description: String { "<CKRecordZone: \(zoneID), capabilities \(capabilities.rawValue)>" }
}
