// As the descriptions of the engine itself: kinds, counts and addresses, no field values.

extension CKSyncEngine.Event.StateUpdate: CustomStringConvertible {
    /// The event's name.
    public var description: String { "stateUpdate" }
}

extension CKSyncEngine.Event.AccountChange: CustomStringConvertible {
    /// What happened to the account.
    public var description: String { "accountChange(\(changeType))" }
}

extension CKSyncEngine.Event.FetchedDatabaseChanges: CustomStringConvertible {
    /// How many zones changed and went.
    public var description: String {
        "fetchedDatabaseChanges(\(modifications.count) changed, \(deletions.count) deleted)"
    }
}

extension CKSyncEngine.Event.FetchedRecordZoneChanges: CustomStringConvertible {
    /// How many records changed and went.
    public var description: String {
        "fetchedRecordZoneChanges(\(modifications.count) changed, \(deletions.count) deleted)"
    }
}

extension CKSyncEngine.Event.SentDatabaseChanges: CustomStringConvertible {
    /// How many zones were sent, with what success.
    public var description: String {
        "sentDatabaseChanges(\(savedZones.count) saved, \(failedZoneSaves.count) failed, "
            + "\(deletedZoneIDs.count) deleted, \(failedZoneDeletes.count) failed)"
    }
}

extension CKSyncEngine.Event.SentDatabaseChanges.FailedZoneSave: CustomStringConvertible {
    /// The zone and why.
    public var description: String { "<FailedZoneSave: \(zone.zoneID), \(error.code)>" }
}

extension CKSyncEngine.Event.SentRecordZoneChanges: CustomStringConvertible {
    /// How many records were sent, with what success.
    public var description: String {
        "sentRecordZoneChanges(\(savedRecords.count) saved, \(failedRecordSaves.count) failed, "
            + "\(deletedRecordIDs.count) deleted, \(failedRecordDeletes.count) failed)"
    }
}

extension CKSyncEngine.Event.SentRecordZoneChanges.FailedRecordSave: CustomStringConvertible {
    /// The record and why.
    public var description: String { "<FailedRecordSave: \(record.recordID), \(error.code)>" }
}

extension CKSyncEngine.Event.WillFetchChanges: CustomStringConvertible {
    /// Why, and what.
    public var description: String { "willFetchChanges(\(context))" }
}

extension CKSyncEngine.Event.WillFetchRecordZoneChanges: CustomStringConvertible {
    /// The zone.
    public var description: String { "willFetchRecordZoneChanges(\(zoneID))" }
}

extension CKSyncEngine.Event.DidFetchRecordZoneChanges: CustomStringConvertible {
    /// The zone, and what ended its fetch early.
    public var description: String {
        "didFetchRecordZoneChanges(\(zoneID)" + (error.map { ", \($0.code)" } ?? "") + ")"
    }
}

extension CKSyncEngine.Event.DidFetchChanges: CustomStringConvertible {
    /// Why, and what.
    public var description: String { "didFetchChanges(\(context))" }
}

extension CKSyncEngine.Event.WillSendChanges: CustomStringConvertible {
    /// Why, and what.
    public var description: String { "willSendChanges(\(context))" }
}

extension CKSyncEngine.Event.DidSendChanges: CustomStringConvertible {
    /// Why, and what.
    public var description: String { "didSendChanges(\(context))" }
}
