import SyncCore

// Descriptions for logs. They contain kinds, counts and IDs, but no field values.

extension CKSyncEngine: CustomStringConvertible {
    /// The database and the number of pending changes.
    public var description: String {
        let (records, zones) = state.read { ($0.outbox.pending.count, $0.zones.pending.count) }
        return "<CKSyncEngine: \(database), \(records) records and \(zones) zones pending>"
    }
}

extension CKSyncEngine.Configuration: CustomStringConvertible {
    /// The database, and whether the engine synchronizes automatically.
    public var description: String {
        "<Configuration: \(database), \(automaticallySync ? "automatic" : "manual"), "
            + "\(stateSerialization == nil ? "no state" : "state of an earlier run")>"
    }
}

extension CKSyncEngine.SyncReason: CustomStringConvertible {
    /// The reason's name.
    public var description: String {
        switch self {
        case .scheduled: "scheduled"
        case .manual: "manual"
        }
    }
}

extension CKSyncEngine.FetchChangesOptions: CustomStringConvertible {
    /// The scope and the prioritized zones.
    public var description: String { "<FetchChangesOptions: \(scope), first \(prioritizedZoneIDs)>" }
}

extension CKSyncEngine.FetchChangesOptions.Scope: CustomStringConvertible {
    /// The zones in the scope.
    public var description: String {
        switch self {
        case .all: "all"
        case .allExcluding(let zones): "all but \(zones)"
        case .zoneIDs(let zones): "zones \(zones)"
        }
    }
}

extension CKSyncEngine.FetchChangesContext: CustomStringConvertible {
    /// The reason and the options.
    public var description: String { "<FetchChangesContext: \(reason), \(options)>" }
}

extension CKSyncEngine.SendChangesOptions: CustomStringConvertible {
    /// The scope.
    public var description: String { "<SendChangesOptions: \(scope)>" }
}

extension CKSyncEngine.SendChangesOptions.Scope: CustomStringConvertible {
    /// The changes in the scope.
    public var description: String {
        switch self {
        case .all: "all"
        case .allExcluding(let zones): "all but \(zones)"
        case .zoneIDs(let zones): "zones \(zones)"
        case .recordIDs(let records): "records \(records)"
        }
    }
}

extension CKSyncEngine.SendChangesContext: CustomStringConvertible {
    /// The reason and the options.
    public var description: String { "<SendChangesContext: \(reason), \(options)>" }
}

extension CKSyncEngine.PendingRecordZoneChange: CustomStringConvertible {
    /// The kind of change and the record.
    public var description: String {
        switch self {
        case .saveRecord(let id): "saveRecord(\(id))"
        case .deleteRecord(let id): "deleteRecord(\(id))"
        }
    }
}

extension CKSyncEngine.PendingDatabaseChange: CustomStringConvertible {
    /// The kind of change and the zone.
    public var description: String {
        switch self {
        case .saveZone(let zone): "saveZone(\(zone.zoneID))"
        case .deleteZone(let id): "deleteZone(\(id))"
        }
    }
}

extension CKSyncEngine.RecordZoneChangeBatch: CustomStringConvertible {
    /// The records to save and to delete.
    public var description: String {
        "<RecordZoneChangeBatch: save \(recordsToSave.map(\.recordID)), delete \(recordIDsToDelete)>"
    }
}
