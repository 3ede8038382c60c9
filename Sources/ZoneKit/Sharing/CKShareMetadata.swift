public import Foundation
package import Wire

/// The metadata of a share, before and after the current user accepts it; also available as `CKShare.Metadata`.
///
/// Metadata are immutable.
public final class CKShareMetadata: NSObject, NSSecureCoding, NSCopying, @unchecked Sendable {
    // Unchecked because of the records inside, which are fetched for this object and only read.

    /// The identifier of the share's container.
    public let containerIdentifier: String
    /// The share.
    public let share: CKShare
    /// The ID of the root record; `nil` if a whole zone is shared.
    public let hierarchicalRootRecordID: CKRecord.ID?
    /// The root record, if it was requested.
    public let rootRecord: CKRecord?
    /// The current user's role in the share.
    public let participantRole: CKShare.ParticipantRole
    /// The acceptance status of the current user's invitation.
    public let participantStatus: CKShare.ParticipantAcceptanceStatus
    /// The current user's permission.
    public let participantPermission: CKShare.ParticipantPermission
    /// The owner of the shared records.
    public let ownerIdentity: CKUserIdentity
    /// The last path component of the share's URL.
    package let shortGUID: String

    package init(
        _ thing: ClientResponse.ShareMetadata,
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

    /// The ID of the root record, or of the share itself if a whole zone is shared.
    public var rootRecordID: CKRecord.ID { hierarchicalRootRecordID ?? share.recordID }

    /// The older name of `participantRole`.
    public var participantType: CKShare.ParticipantType {
        CKShare.ParticipantType(rawValue: participantRole.rawValue) ?? .unknown
    }

    /// Creates metadata from the output of `encode(with:)`.
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

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes all properties.
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

    /// Returns the same object, because it is immutable.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Returns whether two metadata objects belong to the same share.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKShareMetadata else { return false }
        return shortGUID == other.shortGUID && containerIdentifier == other.containerIdentifier
    }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int { shortGUID.hashValue }
}
