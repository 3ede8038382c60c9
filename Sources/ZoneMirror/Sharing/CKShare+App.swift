import Wire
public import ZoneKit

/// Convenience properties and methods of shares.
extension CKShare {
    /// The name that participants see.
    public var title: String? {
        get { self[SystemFieldKey.title] }
        set { self[SystemFieldKey.title] = newValue }
    }

    /// Whether the current user owns the share.
    public var isOwner: Bool { currentUserParticipant?.role == .owner }

    /// The current user's permission.
    public var currentUserPermission: ParticipantPermission { currentUserParticipant?.permission ?? .none }

    /// Invites a person by e-mail address; the invitation is bound to the user who signs in with this address.
    ///
    /// The relay refuses this while the share has a public link.
    public func addParticipant(emailAddress: String, permission: ParticipantPermission) {
        addParticipant(Self.participant(inviting: .init(emailAddress: emailAddress), permission))
    }

    /// Invites a user by their record name.
    public func addParticipant(user: String, permission: ParticipantPermission) {
        addParticipant(Self.participant(inviting: .init(userRecordName: user), permission))
    }

    /// Changes a participant's permission; does nothing if they are not in the share.
    public func setPermission(_ permission: ParticipantPermission, for participant: Participant) {
        participants.first { $0.isEqual(participant) }?.permission = permission
    }
}

/// Convenience properties of share metadata.
extension CKShareMetadata {
    /// The share's title.
    public var title: String? { share.title }

    /// The owner's name, if the relay returns it.
    public var ownerName: String? {
        guard let name = ownerIdentity.nameComponents else { return nil }
        let parts = [name.givenName, name.familyName].compactMap { $0 }
        return parts.isEmpty ? nil : parts.joined(separator: " ")
    }

    /// Whether the current user has accepted the share.
    public var hasAccepted: Bool { participantStatus == .accepted }
}
