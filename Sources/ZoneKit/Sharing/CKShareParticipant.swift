public import Foundation
import Records
import Synchronization
package import Wire

/// Somebody a share is for; known to programs as `CKShare.Participant`.
///
/// `CKContainer.shareParticipants` makes them; a change of role or permission counts when the share is saved next.
public final class CKShareParticipant: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// What a participant may do.
    public typealias Permission = CKShare.ParticipantPermission
    /// What a participant is to the share.
    public typealias Role = CKShare.ParticipantRole
    /// The older name of a role.
    public typealias ParticipantType = CKShare.ParticipantType
    /// How far an invitation has come.
    public typealias AcceptanceStatus = CKShare.ParticipantAcceptanceStatus
    /// A participant's number.
    public typealias ID = String

    private let state: Mutex<ClientShare.Participant>
    private let callerName: String?
    /// What stands for a participant that the relay has not numbered yet.
    private let provisionalID: String

    package init(_ participant: ClientShare.Participant, callerName: String?, provisionalID: String? = nil) {
        state = Mutex(participant)
        self.callerName = callerName
        self.provisionalID = provisionalID ?? UUID().uuidString
    }

    /// Somebody to be invited: to read only, until told otherwise.
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

    /// Somebody who is not known yet: whoever first opens a link made for them.
    ///
    /// Add the participant to a share and save that; then `CKShare.oneTimeURL(for:)` gives the link. Until somebody has used
    /// it, the participant has neither a name nor an address.
    ///
    /// - Returns: A participant who may read, until told otherwise.
    public static func oneTimeURLParticipant() -> Self {
        let participant = Self(inviting: ClientIdentity(), callerName: nil)
        participant.state.withLock { state in
            state.isForAnybody = true
            // The relay keeps the number of a link's participant, who has nothing else to be known by.
            state.id = participant.provisionalID
        }
        return participant
    }

    package var wire: ClientShare.Participant { state.withLock { $0 } }

    /// When they were added; `nil` until the share has been saved.
    public var dateAddedToShare: Date? {
        wire.added.map { Date(timeIntervalSince1970: Double($0.milliseconds) / 1000) }
    }

    /// Whether they came by asking for access.
    public var isApprovedRequester: Bool { wire.hasAsked }

    /// Who it is.
    public var userIdentity: CKUserIdentity { CKUserIdentity(wire.identity, callerName: callerName) }

    /// What they are to the share.
    public var role: Role {
        get { Role(word: wire.type) }
        set { state.withLock { $0.type = newValue.word } }
    }

    /// The older name of `role`.
    public var type: ParticipantType {
        get { ParticipantType(rawValue: role.rawValue) ?? .unknown }
        set { role = Role(rawValue: newValue.rawValue) ?? .unknown }
    }

    /// What they may do.
    public var permission: Permission {
        get { Permission(word: wire.permission) }
        set { state.withLock { $0.permission = newValue.word } }
    }

    /// How far the invitation has come.
    public var acceptanceStatus: AcceptanceStatus { AcceptanceStatus(word: wire.acceptanceStatus) }

    /// Unlike that of every other participant; the relay's own once the share has been saved and fetched.
    public var participantID: ID { wire.id ?? provisionalID }

    /// Reads what `encode(with:)` wrote.
    public convenience init?(coder: NSCoder) {
        guard let json = coder.bytes("Participant"),
            let document = try? JSONDocument(parsing: json, limits: .response),
            let participant = try? ClientShare.Participant(document.root)
        else { return nil }
        self.init(participant, callerName: coder.text("Caller"), provisionalID: coder.text("ProvisionalID"))
    }

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes all that is known.
    public func encode(with coder: NSCoder) {
        var writer = JSONWriter()
        wire.write(to: &writer)
        coder.encode(Data(writer.bytes) as NSData, forKey: "Participant")
        if let callerName { coder.encode(callerName as NSString, forKey: "Caller") }
        coder.encode(provisionalID as NSString, forKey: "ProvisionalID")
    }

    /// An independent copy.
    public func copy(with zone: NSZone? = nil) -> Any {
        CKShareParticipant(wire, callerName: callerName, provisionalID: provisionalID)
    }

    /// Equal when they are the same person of the same share, whatever they may do.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKShareParticipant else { return false }
        return participantID == other.participantID || wire.identity.isSamePerson(as: other.wire.identity)
    }

    /// Agrees with `isEqual(_:)`.
    public override var hash: Int { 0 }

    /// Role, permission and acceptance, for logs; no names.
    public override var description: String {
        "<CKShareParticipant: \(role), \(permission), \(acceptanceStatus)>"
    }
}

extension ClientIdentity {
    /// Whether both name one person, as far as can be told.
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
    /// What a participant may do, or anybody with the link.
    public enum ParticipantPermission: Int, Sendable {
        /// This library does not know the word.
        case unknown = 0
        /// Nothing.
        case none = 1
        /// Read.
        case readOnly = 2
        /// Read, and change records.
        case readWrite = 3
    }

    /// What a participant is to a share.
    public enum ParticipantRole: Int, Sendable {
        /// This library does not know the word.
        case unknown = 0
        /// Made the share.
        case owner = 1
        /// May invite others.
        case administrator = 2
        /// Was invited by name.
        case privateUser = 3
        /// Came by a public link.
        case publicUser = 4
    }

    /// The older name of a role.
    public enum ParticipantType: Int, Sendable {
        /// This library does not know the word.
        case unknown = 0
        /// Made the share.
        case owner = 1
        /// May invite others.
        case administrator = 2
        /// Was invited by name.
        case privateUser = 3
        /// Came by a public link.
        case publicUser = 4
    }

    /// How far an invitation has come.
    public enum ParticipantAcceptanceStatus: Int, Sendable {
        /// This library does not know the word.
        case unknown = 0
        /// Invited.
        case pending = 1
        /// In.
        case accepted = 2
        /// Was in.
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
