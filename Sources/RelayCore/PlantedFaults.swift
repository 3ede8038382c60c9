import Records

// The places where planted faults change this module's behaviour. Each declaration is the correct behaviour plus one
// deliberate mistake that the simulation has to detect. Release builds contain only the correct behaviour.

extension Zone {
    /// Whether a deleted record stays in the zone's feed as a tombstone.
    package var keepsTombstones: Bool { tracksChanges && !PlantedFault.tombstoneDropped.isPlanted }
}

extension ModifyRecords {
    /// Whether a rejected atomic batch writes nothing.
    static var rejectsWholeBatch: Bool { !PlantedFault.atomicBatchTorn.isPlanted }

    /// Whether a write is applied only if the record still has the change tag that the write names.
    static var comparesChangeTags: Bool { !PlantedFault.changeTagUnchecked.isPlanted }
}

extension IdempotencyKey {
    /// Whether a repeated write looks up its idempotency key, so that it is not applied twice.
    static var isHonored: Bool { !PlantedFault.repeatAppliedTwice.isPlanted }
}

extension MoveRecords {
    /// Returns the records to remove from the source zone: all that arrived in the destination.
    static func leaving(_ arrived: [StoredRecord]) -> ArraySlice<StoredRecord> {
        PlantedFault.moveTorn.isPlanted ? arrived.dropLast() : arrived[...]
    }
}

extension ZoneChanges {
    /// Returns the position at which a page ends if more pages follow: that of its last record.
    static func end(ofPageAt last: UInt64) -> UInt64 { PlantedFault.tokenOneTooFar.isPlanted ? last + 1 : last }

    /// Returns the last change that a page may show whose token is of change `last`: the same one.
    static func lastShown(_ last: UInt64) -> UInt64 { PlantedFault.tokenBeforeChange.isPlanted ? last - 1 : last }

    /// Returns whether tombstones were removed that a client at position `known` has not received.
    static func misses(_ horizon: UInt64, from known: UInt64) -> Bool {
        known < horizon && !PlantedFault.horizonUnheeded.isPlanted
    }
}

extension DatabaseChanges {
    /// Returns the index of the last zone in a page of `count` zones.
    static func end(ofPageOf count: Int) -> Int { PlantedFault.databaseTokenTooFar.isPlanted ? count : count - 1 }
}

extension StoreReader {
    /// Returns the result for a zone that is not shared with the caller: `nil`, whether or not the zone exists.
    func unseenZone(_ id: ZoneID) throws(RelayError) -> Zone? {
        if PlantedFault.strangerToldApart.isPlanted, try zone(id) != nil { throw .accessDenied }
        return nil
    }
}

extension AcceptShare {
    /// Removes an invitation that was accepted.
    func leaveOpen(_ invitation: Share.Participant, in share: inout Share) {
        guard PlantedFault.linkLetsInTwo.isPlanted, invitation.user == nil,
            let taken = share.participants.firstIndex(where: { $0.id == invitation.id })
        else { return }
        share.participants[taken].id = newID()
        share.participants.append(invitation)
    }
}

extension Share.Permission {
    /// The access that this permission grants.
    var granted: Share.Permission { PlantedFault.readerWrites.isPlanted && self == .readOnly ? .readWrite : self }
}
