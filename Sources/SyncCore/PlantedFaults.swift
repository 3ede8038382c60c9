import Records

// Where planted faults take hold in this module. See `PlantedFault`.

extension Outbox {
    /// Whether an answer settles an entry: not where the record was changed again since it was sent.
    static func settles(_ entry: Entry, version: UInt64) -> Bool {
        entry.version <= version || PlantedFault.newerVersionCleared.isPlanted
    }
}
