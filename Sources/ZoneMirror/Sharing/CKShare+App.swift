import Wire
public import ZoneKit

/// Shares in an app's words.
extension CKShare {
    /// What people see as its name.
    public var title: String? {
        get { self[SystemFieldKey.title] }
        set { self[SystemFieldKey.title] = newValue }
    }

    /// Whether the share is the current user's own.
    public var isOwner: Bool { currentUserParticipant?.role == .owner }

    /// What the current user may do.
    public var currentUserPermission: ParticipantPermission { currentUserParticipant?.permission ?? .none }

    /// Invites somebody by e-mail address; the invitation binds whoever signs in by it.
    ///
    /// Not while there is a public link: the relay refuses that.
    public func addParticipant(emailAddress: String, permission: ParticipantPermission) {
        addParticipant(Self.participant(inviting: .init(emailAddress: emailAddress), permission))
    }

    /// Invites a user by their record name.
    public func addParticipant(user: String, permission: ParticipantPermission) {
        addParticipant(Self.participant(inviting: .init(userRecordName: user), permission))
    }

    /// Changes what somebody may do; does nothing for who is not in the share.
    public func setPermission(_ permission: ParticipantPermission, for participant: Participant) {
        participants.first { $0.isEqual(participant) }?.permission = permission
    }
}

/// What a link leads to, in an app's words.
extension CKShareMetadata {
    /// The share's title.
    public var title: String? { share.title }

    /// The owner's name, where the relay tells it.
    public var ownerName: String? {
        guard let name = ownerIdentity.nameComponents else { return nil }
        let parts = [name.givenName, name.familyName].compactMap { $0 }
        return parts.isEmpty ? nil : parts.joined(separator: " ")
    }

    /// Whether the current user has joined already.
    public var hasAccepted: Bool { participantStatus == .accepted }
}
