import Records
import RelayCore

// The planted faults of this module. Each function does what the code should do, or makes one mistake that the
// simulation must find. Release builds contain only the former.

extension ShareUpdate {
    /// Returns the share to store, which is `share` itself.
    static func written(_ share: Share?, over old: Share?) -> Share? {
        guard PlantedFault.removedParticipantServed.isPlanted, var share, let old else { return share }
        let known = Set(share.participants.map(\.id))
        share.participants += old.participants.filter { !known.contains($0.id) && $0.hasAccepted }
        return share
    }
}

extension ChangedZones {
    /// Returns the participants to notify of a commit, which are all of them.
    static func recipients(_ audience: [CommittedChange.Participant]) -> [CommittedChange.Participant] {
        PlantedFault.participantUntold.isPlanted ? [] : audience
    }
}
