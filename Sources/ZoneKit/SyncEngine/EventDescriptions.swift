// Descriptions for logs. They contain kinds, counts and IDs, but no field values.

extension CKSyncEngine.Event.StateUpdate: CustomStringConvertible {
    /// The event's name.
    public var description: String { "stateUpdate" }
}

extension CKSyncEngine.Event.AccountChange: CustomStringConvertible {
    /// The kind of change.
    public var description: String { "accountChange(\(changeType))" }
}

extension CKSyncEngine.Event.FetchedDatabaseChanges: CustomStringConvertible {
    /// The numbers of changed and deleted zones.
    public var description: String {
        "fetchedDatabaseChanges(\(modifications.count) changed, \(deletions.count) deleted)"
    }
}

extension CKSyncEngine.Event.FetchedRecordZoneChanges: CustomStringConvertible {
    /// The numbers of changed and deleted records.
    public var description: String {
        "fetchedRecordZoneChanges(\(modifications.count) changed, \(deletions.count) deleted)"
    }
}

extension CKSyncEngine.Event.SentDatabaseChanges: CustomStringConvertible {
    /// The numbers of saved, deleted and failed zones.
    public var description: String {
        "sentDatabaseChanges(\(savedZones.count) saved, \(failedZoneSaves.count) failed, "
            + "\(deletedZoneIDs.count) deleted, \(failedZoneDeletes.count) failed)"
    }
}

extension CKSyncEngine.Event.SentDatabaseChanges.FailedZoneSave: CustomStringConvertible {
    /// The zone and the error code.
    public var description: String { "<FailedZoneSave: \(zone.zoneID), \(error.code)>" }
}

extension CKSyncEngine.Event.SentRecordZoneChanges: CustomStringConvertible {
    /// The numbers of saved, deleted and failed records.
    public var description: String {
        "sentRecordZoneChanges(\(savedRecords.count) saved, \(failedRecordSaves.count) failed, "
            + "\(deletedRecordIDs.count) deleted, \(failedRecordDeletes.count) failed)"
    }
}

extension CKSyncEngine.Event.SentRecordZoneChanges.FailedRecordSave: CustomStringConvertible {
    /// The record and the error code.
    public var description: String { "<FailedRecordSave: \(record.recordID), \(error.code)>" }
}

extension CKSyncEngine.Event.WillFetchChanges: CustomStringConvertible {
    /// The reason and the options.
    public var description: String { "willFetchChanges(\(context))" }
}

extension CKSyncEngine.Event.WillFetchRecordZoneChanges: CustomStringConvertible {
    /// The zone.
    public var description: String { "willFetchRecordZoneChanges(\(zoneID))" }
}

extension CKSyncEngine.Event.DidFetchRecordZoneChanges: CustomStringConvertible {
    /// The zone, and the code of the error that ended its fetch early.
    public var description: String {
        "didFetchRecordZoneChanges(\(zoneID)" + (error.map { ", \($0.code)" } ?? "") + ")"
    }
}

extension CKSyncEngine.Event.DidFetchChanges: CustomStringConvertible {
    /// The reason and the options.
    public var description: String { "didFetchChanges(\(context))" }
}

extension CKSyncEngine.Event.WillSendChanges: CustomStringConvertible {
    /// The reason and the options.
    public var description: String { "willSendChanges(\(context))" }
}

extension CKSyncEngine.Event.DidSendChanges: CustomStringConvertible {
    /// The reason and the options.
    public var description: String { "didSendChanges(\(context))" }
}
