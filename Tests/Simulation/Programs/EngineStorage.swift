import ZoneKit

/// What an `EngineProgram` does with what it hears: the merge that an application has to have.
extension EngineSide.Storage {
    /// What is left of it when another account takes its place.
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
            // What was fetched of it meanwhile.
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
            // What was changed here meanwhile stays, and makes the record anew.
            if changed[deletion.recordID] == nil { fields[deletion.recordID] = nil }
        }
    }

    /// A zone was listed from its beginning: what it holds no more goes, but for what is still to be sent.
    mutating func sweep(_ zone: CKRecordZone.ID, _ listed: Set<CKRecord.ID>) {
        for id in known.keys.inOrder where id.zoneID == zone && !listed.contains(id) { known[id] = nil }
        for id in fields.keys.inOrder where id.zoneID == zone && !listed.contains(id) && changed[id] == nil {
            fields[id] = nil
        }
    }

    /// What the relay has now, with what was changed here on top of it.
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

    /// The record as it is to be saved.
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
        // A field that was changed again meanwhile is still to be sent.
        let left = mine.filter { sent[id]?[$0] != fields[id]?[$0] }
        changed[id] = left.isEmpty ? nil : left
        if left.isEmpty { merge(record) }
    }

    mutating func gone(_ id: CKRecord.ID) {
        known[id] = nil
        deleted.remove(id)
    }

    /// A deletion was refused, or is of what is gone with its zone.
    mutating func refused(_ id: CKRecord.ID, _ error: CKError) {
        deleted.remove(id)
        if error.code == .permissionFailure, let server = known[id], fields[id] == nil { merge(server) }
    }

    /// A save was refused; true where it is to be tried again at once.
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
            // Not, or no longer, the user's to change.
            changed[id] = nil
            fields[id] = nil
            if let server = known[id], error.code == .permissionFailure { merge(server) }
            return false
        // A full quota, and what the engine tries again by itself.
        default: return false
        }
    }
}
