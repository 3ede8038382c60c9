import Records

// Where planted faults take hold in this module. Each is what the code would do anyway, and one mistake that the simulation
// has to find; in a release only the first is left.

extension Zone {
    /// Whether a deleted record stays in the zone's feed as a tombstone.
    package var keepsTombstones: Bool { tracksChanges && !PlantedFault.tombstoneDropped.isPlanted }
}

extension ModifyRecords {
    /// Whether nothing of a refused atomic batch is written.
    static var refusesWhole: Bool { !PlantedFault.atomicBatchTorn.isPlanted }
}

extension ModifyRecords.Decision {
    /// Whether a write holds only on the version that it names.
    static var comparesChangeTags: Bool { !PlantedFault.changeTagUnchecked.isPlanted }
}

extension WriteMark {
    /// Whether what was done under this mark is looked for, so that it is not done again.
    static var isHeeded: Bool { !PlantedFault.repeatAppliedTwice.isPlanted }
}

extension MoveRecords {
    /// Those that leave the source: all that arrive at the destination.
    static func leaving(_ arrived: [StoredRecord]) -> ArraySlice<StoredRecord> {
        PlantedFault.moveTorn.isPlanted ? arrived.dropLast() : arrived[...]
    }
}

extension ZoneChanges {
    /// Where a page ends that more pages follow: at its last row.
    static func end(ofPageAt last: UInt64) -> UInt64 { PlantedFault.tokenOneTooFar.isPlanted ? last + 1 : last }

    /// Whether deletions were forgotten that whoever knows the zone up to there has not heard of.
    static func misses(_ horizon: UInt64, from known: UInt64) -> Bool {
        known < horizon && !PlantedFault.horizonUnheeded.isPlanted
    }
}

extension DatabaseChanges {
    /// The zone at which a page of so many ends, by its place among all that changed: the last one.
    static func end(ofPageOf count: Int) -> Int { PlantedFault.databaseTokenTooFar.isPlanted ? count : count - 1 }
}

extension StoreReader {
    /// What somebody hears of a zone that is not shared with them: nothing, whether or not it is there.
    func unseenZone(_ id: ZoneID) throws(RelayError) -> Zone? {
        if PlantedFault.strangerToldApart.isPlanted, try zone(id) != nil { throw .accessDenied }
        return nil
    }
}

extension AcceptShare {
    /// What is left of an invitation that was taken: nothing.
    func leaveOpen(_ invitation: Share.Participant, in share: inout Share) {
        guard PlantedFault.linkLetsInTwo.isPlanted, invitation.user == nil,
            let taken = share.participants.firstIndex(where: { $0.id == invitation.id })
        else { return }
        share.participants[taken].id = newID()
        share.participants.append(invitation)
    }
}

extension Share.Permission {
    /// What whoever has this may do: that.
    var granted: Share.Permission { PlantedFault.readerWrites.isPlanted && self == .readOnly ? .readWrite : self }
}
