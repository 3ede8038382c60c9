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
