import Records
import SyncCore

/// Records that the program has and a listing might leave out, by name, with their types.
///
/// A listing says what a zone holds and names no deletions. So the engine compares at its end, and tells. Of the user's own
/// zones it remembers what this device saved before it ever fetched: a program that wrote first would not hear of what another
/// device has deleted since. Of the zones of others it remembers all that it has told: such a zone is listed anew whenever
/// the user is given or loses a part of it, and of what is lost nothing else would tell.
struct UnheardSaves: Sendable {
    /// A program that only ever sends is not to grow its state without end: what was saved after so many is not told of.
    private static let mostNames = 50_000
    /// The state is told with every change, and is not to grow with all that others share.
    private static let mostShared = 10_000

    private(set) var types: [ZoneID: [String: String]] = [:]
    private(set) var count = 0

    init(_ types: [ZoneID: [String: String]] = [:]) {
        self.types = types
        count = types.values.reduce(0) { $0 + $1.count }
    }

    mutating func saved(_ record: RecordID, type: String, isShared: Bool = false) {
        guard count < (isShared ? Self.mostShared : Self.mostNames) else { return }
        let known = types[record.zone, default: [:]].updateValue(type, forKey: record.recordName)
        if known == nil { count += 1 }
    }

    /// The zone was made here, and has not been fetched.
    mutating func made(_ zone: ZoneID) {
        if types[zone] == nil { types[zone] = [:] }
    }

    mutating func deleted(_ record: RecordID) {
        if types[record.zone]?.removeValue(forKey: record.recordName) != nil { count -= 1 }
    }

    /// The zone has been listed, or is gone.
    mutating func forget(_ zone: ZoneID) { count -= types.removeValue(forKey: zone)?.count ?? 0 }

    /// A zone of somebody else has been listed.
    mutating func keep(in zone: ZoneID, where isThere: (String) -> Bool) {
        guard let known = types[zone] else { return }
        let kept = known.filter { isThere($0.key) }
        count -= known.count - kept.count
        types[zone] = kept
    }
}

extension CKSyncEngine.State.Contents {
    /// What the relay has taken: for the listings that are under way, and for those that are still to come.
    ///
    /// Not of the default zone: no feed ever names that one, so it would seem to be gone.
    mutating func noteSent(_ sent: CKSyncEngine.Event.SentRecordZoneChanges) {
        for record in sent.savedRecords {
            let id = record.recordID.record
            if id.zone.isDefault { continue }
            // What is saved while its zone is being listed may come too late for the listing.
            listings[id.zone]?.insert(id.recordName)
            feed.wrote(id.zone)
            if isShared || feed.zoneTokens[id.zone] == nil {
                unheard.saved(id, type: record.recordType, isShared: isShared)
            }
        }
        for id in sent.deletedRecordIDs.map(\.record) {
            listings[id.zone]?.remove(id.recordName)
            unheard.deleted(id)
        }
    }

    /// What a page has told.
    mutating func noteTold(_ page: ZonePage<CKRecord>, of zone: ZoneID) {
        if listings[zone] != nil {
            listings[zone]?.formUnion(page.changed.map(\.recordID.recordName))
            listings[zone]?.subtract(page.deleted.map(\.id.recordName))
        }
        guard isShared else { return }
        for record in page.changed {
            unheard.saved(RecordID(record.recordID.recordName, in: zone), type: record.recordType, isShared: true)
        }
        for (id, _) in page.deleted { unheard.deleted(RecordID(id.recordName, in: zone)) }
    }

    /// A zone has been fetched to its end, or is not there; `listed` are its records, where it was listed.
    mutating func noteListed(_ zone: ZoneID, _ listed: Set<String>?) {
        listings[zone] = nil
        guard isShared, let listed else { return unheard.forget(zone) }
        // What is pending and not there will be refused, and is the program's to settle.
        let pending = outbox
        unheard.keep(in: zone) { listed.contains($0) || pending[RecordID($0, in: zone)] != nil }
    }

    /// Zones that the relay has made, or that were there already.
    mutating func noteMade(_ zones: [CKRecordZone]) {
        for zone in zones.map(\.zoneID.zone) where !zone.isDefault {
            feed.wrote(zone)
            feed.madeAnew(zone)
            if feed.zoneTokens[zone] == nil { unheard.made(zone) }
        }
    }

    /// Zones that this device has ended: nothing is known of another that takes the name.
    mutating func noteEnded(_ zones: [CKRecordZone.ID]) {
        for zone in zones.map(\.zone) {
            feed.lost(zone)
            unheard.forget(zone)
            listings[zone] = nil
        }
    }

    /// What the program has of a zone and a complete listing of it does not name; what is pending counts as there.
    func missing(in zone: ZoneID, from listed: Set<String>) -> [CKDatabase.RecordZoneChange.Deletion] {
        (unheard.types[zone] ?? [:])
            .filter { !listed.contains($0.key) && outbox[RecordID($0.key, in: zone)] == nil }
            .sorted { $0.key < $1.key }
            .map { .init(recordID: CKRecord.ID(RecordID($0.key, in: zone)), recordType: $0.value) }
    }
}
