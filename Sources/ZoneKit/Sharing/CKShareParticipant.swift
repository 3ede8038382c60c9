public import Foundation
import Records
import Synchronization
package import Wire

/// A participant of a share; also available as `CKShare.Participant`.
///
/// Create participants with `CKContainer.shareParticipants`. Changes of the role or permission take effect when the
/// share is saved.
public final class CKShareParticipant: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// The permission of a participant.
    public typealias Permission = CKShare.ParticipantPermission
    /// The role of a participant.
    public typealias Role = CKShare.ParticipantRole
    /// The older name of a role.
    public typealias ParticipantType = CKShare.ParticipantType
    /// The acceptance status of an invitation.
    public typealias AcceptanceStatus = CKShare.ParticipantAcceptanceStatus
    /// The type of a participant's ID.
    public typealias ID = String

    private let state: Mutex<ClientShare.Participant>
    private let callerName: String?
    /// The ID of a participant to whom the relay has not assigned one yet.
    private let provisionalID: String

    package init(_ participant: ClientShare.Participant, callerName: String?, provisionalID: String? = nil) {
        state = Mutex(participant)
        self.callerName = callerName
        self.provisionalID = provisionalID ?? UUID().uuidString
    }

    /// Creates a participant to invite.
    ///
    /// The permission is `readOnly`.
    package convenience init(inviting identity: ClientIdentity, callerName: String?) {
        self.init(
            ClientShare.Participant(
                type: CKShare.ParticipantRole.privateUser.word,
                permission: CKShare.ParticipantPermission.readOnly.word,
                acceptanceStatus: CKShare.ParticipantAcceptanceStatus.pending.word,
                identity: identity
            ),
            callerName: callerName
        )
    }

    /// Creates a participant for an unknown person: the first one who opens a one-time URL.
    ///
    /// Add the participant to a share and save the share; `CKShare.oneTimeURL(for:)` then returns the URL. Until the
    /// URL is used, the participant has no name and no address.
    ///
    /// - Returns: A participant with the permission `readOnly`.
    public static func oneTimeURLParticipant() -> Self {
        let participant = Self(inviting: ClientIdentity(), callerName: nil)
        participant.state.withLock { state in
            state.isOneTimeLink = true
            // The relay keeps this ID, because the participant of a one-time URL has no other identification.
            state.id = participant.provisionalID
        }
        return participant
    }

    /// The same with the number that another had before the relay gave it one.
    func withID(of other: CKShareParticipant) -> CKShareParticipant {
        CKShareParticipant(wire, callerName: callerName, provisionalID: other.provisionalID)
    }

    /// Whether this is or was the participant's number.
    func hasID(_ id: ID) -> Bool { participantID == id || provisionalID == id }

    package var wire: ClientShare.Participant { state.withLock { $0 } }

    /// The date at which the participant was added; `nil` until the share has been saved.
    public var dateAddedToShare: Date? {
        wire.added.map { Date(timeIntervalSince1970: Double($0.milliseconds) / 1000) }
    }

    /// Whether the participant joined by requesting access.
    public var isApprovedRequester: Bool { wire.hasRequestedAccess }

    /// The identity of the participant.
    public var userIdentity: CKUserIdentity { CKUserIdentity(wire.identity, callerName: callerName) }

    /// The participant's role.
    public var role: Role {
        get { Role(word: wire.type) }
        set { state.withLock { $0.type = newValue.word } }
    }

    /// The older name of `role`.
    public var type: ParticipantType {
        get { ParticipantType(rawValue: role.rawValue) ?? .unknown }
        set { role = Role(rawValue: newValue.rawValue) ?? .unknown }
    }

    /// The participant's permission.
    public var permission: Permission {
        get { Permission(word: wire.permission) }
        set { state.withLock { $0.permission = newValue.word } }
    }

    /// The acceptance status of the participant's invitation.
    public var acceptanceStatus: AcceptanceStatus { AcceptanceStatus(word: wire.acceptanceStatus) }

    /// The unique ID of the participant.
    ///
    /// It is the relay's ID once the share has been saved and fetched.
    public var participantID: ID { wire.id ?? provisionalID }

    /// Creates a participant from the output of `encode(with:)`.
    public convenience init?(coder: NSCoder) {
        guard let json = coder.bytes("Participant"),
            let document = try? JSONDocument(parsing: json, limits: .response),
            let participant = try? ClientShare.Participant(document.root)
        else { return nil }
        self.init(participant, callerName: coder.text("Caller"), provisionalID: coder.text("ProvisionalID"))
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes all properties.
    public func encode(with coder: NSCoder) {
        var writer = JSONWriter()
        wire.write(to: &writer)
        coder.encode(Data(writer.bytes) as NSData, forKey: "Participant")
        if let callerName { coder.encode(callerName as NSString, forKey: "Caller") }
        coder.encode(provisionalID as NSString, forKey: "ProvisionalID")
    }

    /// Returns an independent copy.
    public func copy(with zone: NSZone? = nil) -> Any {
        CKShareParticipant(wire, callerName: callerName, provisionalID: provisionalID)
    }

    /// Returns whether two participants are the same person in the same share, regardless of their permissions.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKShareParticipant else { return false }
        return participantID == other.participantID || wire.identity.isSamePerson(as: other.wire.identity)
    }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int { 0 }

    /// The role, the permission and the acceptance status; contains no names.
    public override var description: String {
        "<CKShareParticipant: \(role), \(permission), \(acceptanceStatus)>"
    }
}

extension ClientIdentity {
    /// Returns whether two identities are the same person, as far as is known.
    func isSamePerson(as other: ClientIdentity) -> Bool {
        if let a = userRecordName, let b = other.userRecordName { return a == b }
        guard let a = lookup, let b = other.lookup else { return false }
        if let mine = a.emailAddress, let theirs = b.emailAddress {
            return mine == theirs || EmailAddress.canonical(mine).map { $0 == EmailAddress.canonical(theirs) } ?? false
        }
        if let mine = a.phoneNumber, let theirs = b.phoneNumber {
            return mine == theirs || PhoneNumber.canonical(mine).map { $0 == PhoneNumber.canonical(theirs) } ?? false
        }
        return a.userRecordName != nil && a.userRecordName == b.userRecordName
    }
}

extension CKShare {
    /// The permission of a participant, or of everyone with the URL.
    public enum ParticipantPermission: Int, Sendable {
        /// A value that this version of the library does not know.
        case unknown = 0
        /// No access.
        case none = 1
        /// Reading.
        case readOnly = 2
        /// Reading and changing records.
        case readWrite = 3
    }

    /// The role of a participant.
    public enum ParticipantRole: Int, Sendable {
        /// A value that this version of the library does not know.
        case unknown = 0
        /// The owner, who has created the share.
        case owner = 1
        /// An administrator, who may invite others.
        case administrator = 2
        /// A participant who was invited personally.
        case privateUser = 3
        /// A participant who joined through the public link.
        case publicUser = 4
    }

    /// The older name of a role.
    public enum ParticipantType: Int, Sendable {
        /// A value that this version of the library does not know.
        case unknown = 0
        /// The owner, who has created the share.
        case owner = 1
        /// An administrator, who may invite others.
        case administrator = 2
        /// A participant who was invited personally.
        case privateUser = 3
        /// A participant who joined through the public link.
        case publicUser = 4
    }

    /// The acceptance status of an invitation.
    public enum ParticipantAcceptanceStatus: Int, Sendable {
        /// A value that this version of the library does not know.
        case unknown = 0
        /// The participant has not accepted yet.
        case pending = 1
        /// The participant has accepted.
        case accepted = 2
        /// The participant was removed.
        case removed = 3
    }
}

extension CKShare.ParticipantPermission {
    package init(word: String) {
        self =
            switch word {
            case "NONE": .none
            case "READ_ONLY": .readOnly
            case "READ_WRITE": .readWrite
            default: .unknown
            }
    }

    package var word: String {
        switch self {
        case .unknown: "UNKNOWN"
        case .none: "NONE"
        case .readOnly: "READ_ONLY"
        case .readWrite: "READ_WRITE"
        }
    }
}

extension CKShare.ParticipantRole {
    package init(word: String) {
        self =
            switch word {
            case "OWNER": .owner
            case "ADMINISTRATOR": .administrator
            case "USER": .privateUser
            case "PUBLIC_USER": .publicUser
            default: .unknown
            }
    }

    package var word: String {
        switch self {
        case .unknown: "UNKNOWN"
        case .owner: "OWNER"
        case .administrator: "ADMINISTRATOR"
        case .privateUser: "USER"
        case .publicUser: "PUBLIC_USER"
        }
    }
}

extension CKShare.ParticipantAcceptanceStatus {
    package init(word: String) {
        self =
            switch word {
            case "INVITED", "PENDING": .pending
            case "ACCEPTED": .accepted
            case "REMOVED": .removed
            default: .unknown
            }
    }

    package var word: String {
        switch self {
        case .unknown: "UNKNOWN"
        case .pending: "INVITED"
        case .accepted: "ACCEPTED"
        case .removed: "REMOVED"
        }
    }
}

/// An older name of `CKShare.ParticipantPermission`.
public typealias CKShare_Participant_Permission = CKShare.ParticipantPermission
/// An older name of `CKShare.ParticipantRole`.
public typealias CKShare_Participant_Role = CKShare.ParticipantRole
/// An older name of `CKShare.ParticipantType`.
public typealias CKShare_Participant_ParticipantType = CKShare.ParticipantType
/// An older name of `CKShare.ParticipantAcceptanceStatus`.
public typealias CKShare_Participant_AcceptanceStatus = CKShare.ParticipantAcceptanceStatus
