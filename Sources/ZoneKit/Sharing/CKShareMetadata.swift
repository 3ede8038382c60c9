public import Foundation
package import Wire

/// A share as somebody who holds its link sees it, before and after they come in; known to programs as
/// `CKShare.Metadata`.
///
/// Immutable.
public final class CKShareMetadata: NSObject, NSSecureCoding, NSCopying, @unchecked Sendable {
    // Unchecked for the records inside: fetched for this object, and for reading.

    /// The container that it is in.
    public let containerIdentifier: String
    /// The share.
    public let share: CKShare
    /// The root record's address; `nil` when a whole zone is shared.
    public let hierarchicalRootRecordID: CKRecord.ID?
    /// The root record, where it was asked for.
    public let rootRecord: CKRecord?
    /// What the current user is to the share.
    public let participantRole: CKShare.ParticipantRole
    /// How far the current user's invitation has come.
    public let participantStatus: CKShare.ParticipantAcceptanceStatus
    /// What the current user may do.
    public let participantPermission: CKShare.ParticipantPermission
    /// Whose records are shared.
    public let ownerIdentity: CKUserIdentity
    /// The last part of the share's link.
    package let shortGUID: String

    package init(
        _ thing: ClientResponse.SharedThing,
        share: CKShare,
        rootRecord: CKRecord?,
        zoneID: CKRecordZone.ID,
        callerName: String?
    ) {
        containerIdentifier = thing.containerIdentifier
        shortGUID = thing.shortGUID
        self.share = share
        self.rootRecord = rootRecord
        hierarchicalRootRecordID = thing.rootRecordName.map { CKRecord.ID(recordName: $0, zoneID: zoneID) }
        participantRole = CKShare.ParticipantRole(word: thing.participantType)
        participantStatus = CKShare.ParticipantAcceptanceStatus(word: thing.participantStatus)
        participantPermission = CKShare.ParticipantPermission(word: thing.participantPermission)
        ownerIdentity = CKUserIdentity(thing.owner, callerName: callerName)
    }

    /// The root record's address; the share's own when a whole zone is shared.
    public var rootRecordID: CKRecord.ID { hierarchicalRootRecordID ?? share.recordID }

    /// The older name of `participantRole`.
    public var participantType: CKShare.ParticipantType {
        CKShare.ParticipantType(rawValue: participantRole.rawValue) ?? .unknown
    }

    /// Reads what `encode(with:)` wrote.
    public init?(coder: NSCoder) {
        guard let container = coder.text("Container"), let guid = coder.text("ShortGUID"),
            let share = coder.object(CKShare.self, "Share"),
            let owner = coder.object(CKUserIdentity.self, "Owner")
        else { return nil }
        containerIdentifier = container
        shortGUID = guid
        self.share = share
        ownerIdentity = owner
        rootRecord = coder.object(CKRecord.self, "Root")
        hierarchicalRootRecordID = coder.object(CKRecord.ID.self, "RootID")
        participantRole = CKShare.ParticipantRole(rawValue: coder.number("Role")) ?? .unknown
        participantStatus = CKShare.ParticipantAcceptanceStatus(rawValue: coder.number("Status")) ?? .unknown
        participantPermission = CKShare.ParticipantPermission(rawValue: coder.number("Permission")) ?? .unknown
    }

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes all of it.
    public func encode(with coder: NSCoder) {
        coder.encode(containerIdentifier as NSString, forKey: "Container")
        coder.encode(shortGUID as NSString, forKey: "ShortGUID")
        coder.encode(share, forKey: "Share")
        coder.encode(ownerIdentity, forKey: "Owner")
        if let rootRecord { coder.encode(rootRecord, forKey: "Root") }
        if let hierarchicalRootRecordID { coder.encode(hierarchicalRootRecordID, forKey: "RootID") }
        coder.encode(participantRole.rawValue, forKey: "Role")
        coder.encode(participantStatus.rawValue, forKey: "Status")
        coder.encode(participantPermission.rawValue, forKey: "Permission")
    }

    /// The same object: it cannot change.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Equal when they are of the same share.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKShareMetadata else { return false }
        return shortGUID == other.shortGUID && containerIdentifier == other.containerIdentifier
    }

    /// Agrees with `isEqual(_:)`.
    public override var hash: Int { shortGUID.hashValue }
}
