import Records

// The places where planted faults change this module's behaviour. See `PlantedFault`.

extension Outbox {
    /// Returns whether an answer removes an entry: not if the record has changed since it was sent.
    static func confirms(_ entry: Entry, version: UInt64) -> Bool {
        entry.version <= version || PlantedFault.newerVersionCleared.isPlanted
    }
}
