/// The contents of a share record besides its fields: the shared data, the participants and their permissions.
///
/// A share covers either a whole custom zone or a hierarchy: a root record and its descendants through `parent`. See
/// Wire.md, "Shares".
package struct Share: Hashable, Sendable {
    /// The record type; some clients use the spelling of Apple's documentation.
    package static let recordType = "cloudkit.share"
    package static let misspeltRecordType = "cloudKit.share"
    /// The name of a zone-wide share's record.
    package static let zoneWideName = "cloudkit.zoneshare"
    /// The maximum number of pending access requests.
    package static let requesterLimit = 100

    /// A participant's permission; the raw values are CloudKit's.
    package enum Permission: Int, Hashable, Sendable, CaseIterable {
        case none = 1
        case readOnly = 2
        case readWrite = 3

        package var word: String {
            switch self {
            case .none: "NONE"
            case .readOnly: "READ_ONLY"
            case .readWrite: "READ_WRITE"
            }
        }

        package init?(word: String) {
            guard let permission = Self.allCases.first(where: { $0.word == word }) else { return nil }
            self = permission
        }
    }

    /// A participant's role; the raw values are CloudKit's.
    package enum Role: Int, Hashable, Sendable, CaseIterable {
        case owner = 1
        case administrator = 2
        /// Invited by the owner.
        case user = 3
        /// Joined through the public link.
        case publicUser = 4

        package var word: String {
            switch self {
            case .owner: "OWNER"
            case .administrator: "ADMINISTRATOR"
            case .user: "USER"
            case .publicUser: "PUBLIC_USER"
            }
        }

        package init?(word: String) {
            guard let role = Self.allCases.first(where: { $0.word == word }) else { return nil }
            self = role
        }
    }

    /// The root record's name; `nil` for the whole zone.
    package var root: String?
    /// The secret in the share's link: 128 random bits.
    package var shortGUID: String
    /// The permission of everyone with the link; `none` admits only invited participants.
    package var publicPermission: Permission
    /// The participants without the owner, in the order in which they were added.
    package var participants: [Participant]
    /// Whether users with the link who are not invited may request access.
    package var allowsAccessRequests = false
    /// Users with a pending access request, oldest first.
    package var requesters: [UserID] = []
    /// Users who may not request access.
    package var blocked: [UserID] = []

    package init(
        root: String?,
        shortGUID: String,
        publicPermission: Permission = .none,
        participants: [Participant] = []
    ) {
        self.root = root
        self.shortGUID = shortGUID
        self.publicPermission = publicPermission
        self.participants = participants
    }

    /// Returns the participant for this user; one who has accepted takes precedence.
    ///
    /// A person invited in several ways has several entries until they accept: only they may disclose that these are
    /// the same person.
    package func participant(_ user: UserID) -> Participant? {
        participants.first { $0.user == user && $0.hasAccepted } ?? participants.first { $0.user == user }
    }

    /// A participant other than the owner.
    package struct Participant: Hashable, Sendable {
        /// Unique, never reused.
        package var id: String
        package var role: Role
        package var permission: Permission
        /// Whether the invitation has been accepted.
        package var hasAccepted: Bool
        /// The participant's user; `nil` while an invited person has no account.
        package var user: UserID?
        /// The address to which the owner sent the invitation; `nil` also for a link that anyone may use once.
        package var contact: Contact?
        /// Whether the participant was added after requesting access.
        package var hasRequestedAccess = false
        /// The time when the relay added them; `nil` until then.
        package var added: Timestamp?

        package init(
            id: String,
            role: Role = .user,
            permission: Permission,
            hasAccepted: Bool = false,
            user: UserID? = nil,
            contact: Contact? = nil
        ) {
            self.id = id
            self.role = role
            self.permission = permission
            self.hasAccepted = hasAccepted
            self.user = user
            self.contact = contact
        }
    }

    /// The address of an invitation, in its canonical form.
    package enum Contact: Hashable, Sendable {
        case email(String)
        case phone(String)
    }
}

/// A reference to a share, stored with the root record and with the share record itself.
package struct ShareReference: Hashable, Sendable {
    package var shortGUID: String
    /// The share record's name; `nil` if only a link has been reserved.
    package var record: String?

    package init(shortGUID: String, record: String? = nil) {
        self.shortGUID = shortGUID
        self.record = record
    }

    /// Parses the format of `text`.
    package init?(_ text: String?) {
        guard let text, let slash = text.firstIndex(of: "/") else { return nil }
        shortGUID = String(text[..<slash])
        let name = text[text.index(after: slash)...]
        record = name.isEmpty ? nil : String(name)
    }

    package var text: String { "\(shortGUID)/\(record ?? "")" }
}

extension Share {
    /// The effects on participants when the public permission changes, for display before saving.
    package struct PublicLinkEffects: Hashable, Sendable {
        /// Pending invitations that end.
        package var endedInvitations: [Participant] = []
        /// Participants who lose access.
        package var removed: [Participant] = []
        /// Participants who keep access as public users, with the link's permission.
        package var turnedPublic: [Participant] = []

        package init() {}
    }

    /// Returns the share with a new public permission, and the effects on participants.
    ///
    /// A public link and named participants exclude each other. See Wire.md, "Shares".
    package func changingPublicPermission(to permission: Permission) -> (share: Share, effects: PublicLinkEffects) {
        var share = self
        var effects = PublicLinkEffects()
        share.publicPermission = permission
        guard permission != publicPermission else { return (share, effects) }
        share.participants = participants.compactMap { participant in
            var participant = participant
            switch (permission, participant.role, participant.hasAccepted) {
            case (.none, .publicUser, _):
                effects.removed.append(participant)
                return nil
            case (.none, _, _): return participant
            case (_, _, false):
                effects.endedInvitations.append(participant)
                return nil
            case (_, let role, true):
                if role != .publicUser { effects.turnedPublic.append(participant) }
                participant.role = .publicUser
                participant.contact = nil
                participant.permission = permission
                return participant
            }
        }
        return (share, effects)
    }
}
