import Records
import SyncCore

/// Records that the app has and that a listing might leave out: their types by name.
///
/// A listing contains a zone's records but no deletions, so the engine compares the two at the end of a listing and
/// reports the missing records as deleted. For the user's own zones it remembers the records that this device saved
/// before the first fetch; otherwise an app that writes first would not learn of deletions by another device. For zones
/// of other users it remembers all delivered records, because such a zone is listed again whenever the user gains or
/// loses access to a part of it, and no other event reports the records that were lost.
struct UnheardSaves: Sendable {
    /// Limits the state of an app that only sends; deletions of records saved after this limit are not reported.
    private static let mostNames = 50_000
    /// Limits the state of a shared database, since the state is delivered with every change.
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

    /// Adds a zone that was created on this device and not fetched yet.
    mutating func made(_ zone: ZoneID) {
        if types[zone] == nil { types[zone] = [:] }
    }

    mutating func deleted(_ record: RecordID) {
        if types[record.zone]?.removeValue(forKey: record.recordName) != nil { count -= 1 }
    }

    /// Removes a zone that has been listed or no longer exists.
    mutating func forget(_ zone: ZoneID) { count -= types.removeValue(forKey: zone)?.count ?? 0 }

    /// Removes the records that the listing of another user's zone did not contain.
    mutating func keep(in zone: ZoneID, where isThere: (String) -> Bool) {
        guard let known = types[zone] else { return }
        let kept = known.filter { isThere($0.key) }
        count -= known.count - kept.count
        types[zone] = kept
    }
}

extension CKSyncEngine.State.Contents {
    /// Adds the results of a send, for running and future listings.
    ///
    /// Skips the default zone: no feed contains it, so it would appear to be deleted.
    mutating func noteSent(_ sent: CKSyncEngine.Event.SentRecordZoneChanges) {
        for record in sent.savedRecords {
            let id = record.recordID.record
            if id.zone.isDefault { continue }
            // A save during a listing may be too late to be part of it.
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

    /// Adds the contents of a page.
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

    /// Called when a zone has been fetched completely or does not exist.
    ///
    /// `listed` contains its records if it was listed.
    mutating func noteListed(_ zone: ZoneID, _ listed: Set<String>?) {
        listings[zone] = nil
        guard isShared, let listed else { return unheard.forget(zone) }
        // The relay will refuse pending changes of missing records, and the app decides about them.
        let pending = outbox
        unheard.keep(in: zone) { listed.contains($0) || pending[RecordID($0, in: zone)] != nil }
    }

    /// Adds zones that the relay has created or that already existed.
    mutating func noteMade(_ zones: [CKRecordZone]) {
        for zone in zones.map(\.zoneID.zone) where !zone.isDefault {
            feed.wrote(zone)
            feed.madeAnew(zone)
            if feed.zoneTokens[zone] == nil { unheard.made(zone) }
        }
    }

    /// Removes zones that this device has deleted; a later zone of the same name is unknown.
    mutating func noteEnded(_ zones: [CKRecordZone.ID]) {
        for zone in zones.map(\.zone) {
            feed.lost(zone)
            unheard.forget(zone)
            listings[zone] = nil
        }
    }

    /// Returns the app's records that a complete listing of their zone does not contain.
    ///
    /// Pending records count as existing.
    func missing(in zone: ZoneID, from listed: Set<String>) -> [CKDatabase.RecordZoneChange.Deletion] {
        (unheard.types[zone] ?? [:])
            .filter { !listed.contains($0.key) && outbox[RecordID($0.key, in: zone)] == nil }
            .sorted { $0.key < $1.key }
            .map { .init(recordID: CKRecord.ID(RecordID($0.key, in: zone)), recordType: $0.value) }
    }
}
