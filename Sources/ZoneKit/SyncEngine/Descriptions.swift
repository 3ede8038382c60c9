import SyncCore

// What stands in a program's log when it prints what the engine gave it: kinds, counts and addresses, no field values.

extension CKSyncEngine: CustomStringConvertible {
    /// The database and how much is pending.
    public var description: String {
        let (records, zones) = state.read { ($0.outbox.pending.count, $0.zones.pending.count) }
        return "<CKSyncEngine: \(database), \(records) records and \(zones) zones pending>"
    }
}

extension CKSyncEngine.Configuration: CustomStringConvertible {
    /// The database, and whether the engine works by itself.
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
    /// The scope, and the zones that come first.
    public var description: String { "<FetchChangesOptions: \(scope), first \(prioritizedZoneIDs)>" }
}

extension CKSyncEngine.FetchChangesOptions.Scope: CustomStringConvertible {
    /// Which zones.
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
    /// Which changes.
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
    /// What is to be done to which record.
    public var description: String {
        switch self {
        case .saveRecord(let id): "saveRecord(\(id))"
        case .deleteRecord(let id): "deleteRecord(\(id))"
        }
    }
}

extension CKSyncEngine.PendingDatabaseChange: CustomStringConvertible {
    /// What is to be done to which zone.
    public var description: String {
        switch self {
        case .saveZone(let zone): "saveZone(\(zone.zoneID))"
        case .deleteZone(let id): "deleteZone(\(id))"
        }
    }
}

extension CKSyncEngine.RecordZoneChangeBatch: CustomStringConvertible {
    /// Which records are saved and deleted.
    public var description: String {
        "<RecordZoneChangeBatch: save \(recordsToSave.map(\.recordID)), delete \(recordIDsToDelete)>"
    }
}
