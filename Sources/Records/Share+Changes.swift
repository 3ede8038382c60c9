extension Share {
    /// Who loses what when the public link changes: what a program shows before it saves.
    package struct PublicLinkEffects: Hashable, Sendable {
        /// Invitations that end before they were accepted.
        package var endedInvitations: [Participant] = []
        /// People who lose access.
        package var removed: [Participant] = []
        /// People who keep access, as public users with the link's permission.
        package var turnedPublic: [Participant] = []

        package init() {}
    }

    /// The share with another public permission, and what that does to people.
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
