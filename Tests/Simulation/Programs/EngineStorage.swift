import ZoneKit

/// How an `EngineProgram` handles engine events: the merging that every application needs.
extension EngineSide.Storage {
    /// The part that is kept when the device switches to another account.
    var unsentPart: EngineSide.Storage {
        var part = EngineSide.Storage()
        part.changed = changed
        part.deleted = deleted
        for (id, mine) in changed { part.fields[id] = fields[id]?.filter { mine.contains($0.key) } }
        part.wanted = Set(changed.keys.map(\.zoneID).filter { $0.ownerName == CKCurrentUserDefaultName })
        return part
    }

    mutating func found(_ zone: CKRecordZone.ID) {
        wanted.remove(zone)
        if !zones.contains(zone) { zones.append(zone) }
    }

    mutating func take(_ changes: CKSyncEngine.Event.FetchedDatabaseChanges) {
        for change in changes.modifications { found(change.zoneID) }
        for zone in changes.deletions.map(\.zoneID) { forget(zone) }
    }

    mutating func take(_ sent: CKSyncEngine.Event.SentDatabaseChanges) {
        for zone in sent.savedZones { found(zone.zoneID) }
        for zone in sent.deletedZoneIDs {
            ending.remove(zone)
            // Records of the zone may have been fetched meanwhile.
            forget(zone)
        }
        for (zone, error) in sent.failedZoneDeletes where error.code == .zoneNotFound {
            ending.remove(zone)
            forget(zone)
        }
    }

    mutating func forget(_ zone: CKRecordZone.ID) {
        zones.removeAll { $0 == zone }
        wanted.remove(zone)
        fields = fields.filter { $0.key.zoneID != zone }
        known = known.filter { $0.key.zoneID != zone }
        changed = changed.filter { $0.key.zoneID != zone }
        deleted = deleted.filter { $0.zoneID != zone }
    }

    mutating func take(_ changes: CKSyncEngine.Event.FetchedRecordZoneChanges) {
        for record in changes.modifications.map(\.record) where record.recordType == "Item" { merge(record) }
        for deletion in changes.deletions {
            known[deletion.recordID] = nil
            deleted.remove(deletion.recordID)
            // A record with local changes stays, and is created again.
            if changed[deletion.recordID] == nil { fields[deletion.recordID] = nil }
        }
    }

    /// Removes records that are missing from a complete listing of a zone, except those with unsent changes.
    mutating func sweep(_ zone: CKRecordZone.ID, _ listed: Set<CKRecord.ID>) {
        for id in known.keys.inOrder where id.zoneID == zone && !listed.contains(id) { known[id] = nil }
        for id in fields.keys.inOrder where id.zoneID == zone && !listed.contains(id) && changed[id] == nil {
            fields[id] = nil
        }
    }

    /// Merges a server record with the local changes, which win.
    private mutating func merge(_ record: CKRecord) {
        let id = record.recordID
        known[id] = record
        guard !deleted.contains(id) else { return }
        let mine = changed[id] ?? []
        var merged: [String: String] = [:]
        for key in record.allKeys() where !mine.contains(key) { merged[key] = record[key] }
        for key in mine { merged[key] = fields[id]?[key] }
        fields[id] = merged
    }

    /// The record to send.
    mutating func record(_ id: CKRecord.ID) -> CKRecord? {
        guard let values = fields[id], let mine = changed[id] else { return nil }
        sent[id] = values
        guard let record = known[id]?.copy() as? CKRecord else {
            let record = CKRecord(recordType: "Item", recordID: id)
            for (key, value) in values.sorted(by: { $0.key < $1.key }) { record[key] = value }
            return record
        }
        for key in mine.sorted() { record[key] = values[key] }
        return record
    }

    mutating func saved(_ record: CKRecord) {
        let id = record.recordID
        known[id] = record
        guard let mine = changed[id] else { return }
        // A field that was edited again meanwhile must be sent again.
        let left = mine.filter { sent[id]?[$0] != fields[id]?[$0] }
        changed[id] = left.isEmpty ? nil : left
        if left.isEmpty { merge(record) }
    }

    mutating func gone(_ id: CKRecord.ID) {
        known[id] = nil
        deleted.remove(id)
    }

    /// Handles a deletion that the relay rejected, or whose zone is gone.
    mutating func refused(_ id: CKRecord.ID, _ error: CKError) {
        deleted.remove(id)
        if error.code == .permissionFailure, let server = known[id], fields[id] == nil { merge(server) }
    }

    /// Handles a rejected save; returns `true` if it should be retried at once.
    mutating func failed(_ record: CKRecord, _ error: CKError) -> Bool {
        let id = record.recordID
        switch error.code {
        case .serverRecordChanged:
            if let server = error.serverRecord { merge(server) }
            return changed[id] != nil
        case .unknownItem:
            known[id] = nil
            return changed[id] != nil
        case .batchRequestFailed: return changed[id] != nil
        case .permissionFailure, .zoneNotFound, .userDeletedZone:
            // The user may not change the record, or no longer.
            changed[id] = nil
            fields[id] = nil
            if let server = known[id], error.code == .permissionFailure { merge(server) }
            return false
        // An exceeded quota, and errors after which the engine retries automatically.
        default: return false
        }
    }
}
