import Records
import SyncCore

/// Records that this device saved to zones which it has never fetched, by name, with their types.
///
/// A first fetch lists what a zone holds and names no deletions. A program that wrote before it ever fetched would not hear
/// of what another device has deleted since; so the engine compares at the end of the listing, and tells.
struct UnheardSaves: Sendable {
    /// A program that only ever sends is not to grow its state without end: what was saved after so many is not told of.
    private static let mostNames = 50_000

    private(set) var types: [ZoneID: [String: String]] = [:]
    private var count = 0

    init(_ types: [ZoneID: [String: String]] = [:]) {
        self.types = types
        count = types.values.reduce(0) { $0 + $1.count }
    }

    mutating func saved(_ record: RecordID, type: String) {
        guard count < Self.mostNames else { return }
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
            if feed.zoneTokens[id.zone] == nil { unheard.saved(id, type: record.recordType) }
        }
        for id in sent.deletedRecordIDs.map(\.record) {
            listings[id.zone]?.remove(id.recordName)
            unheard.deleted(id)
        }
    }

    /// Zones that the relay has made, or that were there already.
    mutating func noteMade(_ zones: [CKRecordZone]) {
        for zone in zones.map(\.zoneID.zone) where !zone.isDefault {
            feed.wrote(zone)
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

    /// What this device once saved to a zone and a complete listing of it does not name; what is pending counts as there.
    func missing(in zone: ZoneID, from listed: Set<String>) -> [CKDatabase.RecordZoneChange.Deletion] {
        (unheard.types[zone] ?? [:])
            .filter { !listed.contains($0.key) && outbox[RecordID($0.key, in: zone)] == nil }
            .sorted { $0.key < $1.key }
            .map { .init(recordID: CKRecord.ID(RecordID($0.key, in: zone)), recordType: $0.value) }
    }
}
