import CloudKit

// Operations with all their blocks, and sync engines, as people write them for Apple's framework: in Swift's older
// language mode and without Zonecast's additions. The test is that this compiles. Other tests cover what it does.

private func ops(_ db: CKDatabase, _ z: CKRecordZone.ID, _ id: CKRecord.ID, _ tok: CKServerChangeToken?) {
    let o = CKModifyRecordsOperation(recordsToSave: nil, recordIDsToDelete: nil); _ = CKModifyRecordsOperation();
    o.recordsToSave = []; o.recordIDsToDelete = []; o.savePolicy = .ifServerRecordUnchanged;
    o.clientChangeTokenData = Data(); o.isAtomic = true
    o.perRecordProgressBlock = { (r: CKRecord, p: Double) in };
    o.perRecordSaveBlock = { (id: CKRecord.ID, r: Result<CKRecord, Error>) in };
    o.perRecordDeleteBlock = { (id: CKRecord.ID, r: Result<Void, Error>) in };
    o.modifyRecordsResultBlock = { (r: Result<Void, Error>) in };
    o.perRecordCompletionBlock = { (r: CKRecord, e: Error?) in };
    o.modifyRecordsCompletionBlock = { (s: [CKRecord]?, d: [CKRecord.ID]?, e: Error?) in }
    o.configuration = CKOperation.Configuration(); let cf = CKOperation.Configuration(); cf.container = nil;
    cf.qualityOfService = .userInitiated; cf.allowsCellularAccess = true; cf.isLongLived = false;
    cf.timeoutIntervalForRequest = 1; cf.timeoutIntervalForResource = 1; o.group = CKOperationGroup();
    o.longLivedOperationWasPersistedBlock = {}; let oid: CKOperation.ID = o.operationID; _ = oid;
    o.qualityOfService = .background; o.queuePriority = .high; o.addDependency(CKFetchRecordsOperation());
    o.completionBlock = {}; o.cancel(); _ = o.isFinished; o.database = db; o.name = "x"
    o.timeoutIntervalForRequest = 3; o.timeoutIntervalForResource = 3; o.allowsCellularAccess = true;
    o.isLongLived = true; o.container = nil
    let g = CKOperationGroup(); g.name = "x"; g.quantity = 3; g.expectedSendSize = .megabytes;
    g.expectedReceiveSize = .kilobytes; g.defaultConfiguration = CKOperation.Configuration(); _ = g.operationGroupID;
    _ = CKOperationGroup.TransferSize.unknown;
    _ = [
        CKOperationGroup.TransferSize.kilobytes, .megabytes, .tensOfMegabytes, .hundredsOfMegabytes, .gigabytes,
        .tensOfGigabytes, .hundredsOfGigabytes,
    ]
    let f = CKFetchRecordsOperation(recordIDs: [id]); f.recordIDs = []; f.desiredKeys = [];
    f.perRecordProgressBlock = { (id: CKRecord.ID, d: Double) in };
    f.perRecordResultBlock = { (id: CKRecord.ID, r: Result<CKRecord, Error>) in };
    f.fetchRecordsResultBlock = { (r: Result<Void, Error>) in };
    f.perRecordCompletionBlock = { (r: CKRecord?, i: CKRecord.ID?, e: Error?) in };
    f.fetchRecordsCompletionBlock = { (d: [CKRecord.ID: CKRecord]?, e: Error?) in };
    _ = CKFetchRecordsOperation.fetchCurrentUserRecordOperation()
    let q = CKQueryOperation(query: CKQuery(recordType: "a", predicate: NSPredicate(value: true))); q.query = nil;
    q.cursor = nil; q.zoneID = z; q.resultsLimit = CKQueryOperation.maximumResults; q.desiredKeys = [];
    q.recordMatchedBlock = { (i: CKRecord.ID, r: Result<CKRecord, Error>) in };
    q.queryResultBlock = { (r: Result<CKQueryOperation.Cursor?, Error>) in };
    q.recordFetchedBlock = { (r: CKRecord) in };
    q.queryCompletionBlock = { (c: CKQueryOperation.Cursor?, e: Error?) in }; _ = CKQueryOperation()
    let mz = CKModifyRecordZonesOperation(recordZonesToSave: nil, recordZoneIDsToDelete: nil);
    mz.recordZonesToSave = []; mz.recordZoneIDsToDelete = [];
    mz.perRecordZoneSaveBlock = { (i: CKRecordZone.ID, r: Result<CKRecordZone, Error>) in };
    mz.perRecordZoneDeleteBlock = { (i: CKRecordZone.ID, r: Result<Void, Error>) in };
    mz.modifyRecordZonesResultBlock = { (r: Result<Void, Error>) in };
    mz.modifyRecordZonesCompletionBlock = { (a: [CKRecordZone]?, b: [CKRecordZone.ID]?, e: Error?) in }
    let fz = CKFetchRecordZonesOperation(recordZoneIDs: [z]);
    _ = CKFetchRecordZonesOperation.fetchAllRecordZonesOperation(); fz.recordZoneIDs = [];
    fz.perRecordZoneResultBlock = { (i: CKRecordZone.ID, r: Result<CKRecordZone, Error>) in };
    fz.fetchRecordZonesResultBlock = { (r: Result<Void, Error>) in };
    fz.fetchRecordZonesCompletionBlock = { (a: [CKRecordZone.ID: CKRecordZone]?, e: Error?) in }
    let dc = CKFetchDatabaseChangesOperation(previousServerChangeToken: tok); dc.previousServerChangeToken = nil;
    dc.resultsLimit = 1; dc.fetchAllChanges = true; dc.recordZoneWithIDChangedBlock = { (i: CKRecordZone.ID) in };
    dc.recordZoneWithIDWasDeletedBlock = { (i: CKRecordZone.ID) in };
    dc.recordZoneWithIDWasPurgedBlock = { (i: CKRecordZone.ID) in };
    dc.recordZoneWithIDWasDeletedDueToUserEncryptedDataResetBlock = { (i: CKRecordZone.ID) in };
    dc.changeTokenUpdatedBlock = { (t: CKServerChangeToken) in };
    dc.fetchDatabaseChangesResultBlock = {
        (r: Result<(serverChangeToken: CKServerChangeToken, moreComing: Bool), Error>) in
    }; dc.fetchDatabaseChangesCompletionBlock = { (t: CKServerChangeToken?, m: Bool, e: Error?) in }
    let zc = CKFetchRecordZoneChangesOperation(
        recordZoneIDs: [z],
        configurationsByRecordZoneID: [
            z: CKFetchRecordZoneChangesOperation.ZoneConfiguration(
                previousServerChangeToken: nil,
                resultsLimit: 3,
                desiredKeys: ["a"]
            )
        ]
    ); _ = CKFetchRecordZoneChangesOperation(); zc.recordZoneIDs = []; zc.configurationsByRecordZoneID = [:];
    zc.fetchAllChanges = false; zc.recordWasChangedBlock = { (i: CKRecord.ID, r: Result<CKRecord, Error>) in };
    zc.recordChangedBlock = { (r: CKRecord) in };
    zc.recordWithIDWasDeletedBlock = { (i: CKRecord.ID, t: CKRecord.RecordType) in };
    zc.recordZoneChangeTokensUpdatedBlock = { (i: CKRecordZone.ID, t: CKServerChangeToken?, d: Data?) in };
    zc.recordZoneFetchResultBlock = {
        (
            i: CKRecordZone.ID,
            r: Result<(serverChangeToken: CKServerChangeToken, clientChangeTokenData: Data?, moreComing: Bool), Error>
        ) in
    };
    zc.recordZoneFetchCompletionBlock = { (i: CKRecordZone.ID, t: CKServerChangeToken?, d: Data?, m: Bool, e: Error?) in
    }; zc.fetchRecordZoneChangesResultBlock = { (r: Result<Void, Error>) in };
    zc.fetchRecordZoneChangesCompletionBlock = { (e: Error?) in };
    let zo = CKFetchRecordZoneChangesOperation.ZoneOptions(); zo.previousServerChangeToken = nil; zo.desiredKeys = [];
    zo.resultsLimit = 1; _ = CKFetchRecordZoneChangesOperation(recordZoneIDs: [z], optionsByRecordZoneID: [z: zo]);
    zc.optionsByRecordZoneID = [:]
    let rc = CKFetchRecordChangesOperation(recordZoneID: z, previousServerChangeToken: tok);
    rc.recordChangedBlock = { r in }; rc.recordWithIDWasDeletedBlock = { i in };
    rc.fetchRecordChangesCompletionBlock = { (t: CKServerChangeToken?, d: Data?, e: Error?) in }; _ = rc.moreComing
    let ms = CKModifySubscriptionsOperation(subscriptionsToSave: nil, subscriptionIDsToDelete: ["a"]);
    ms.perSubscriptionSaveBlock = { (i: CKSubscription.ID, r: Result<CKSubscription, Error>) in };
    ms.perSubscriptionDeleteBlock = { (i: CKSubscription.ID, r: Result<Void, Error>) in };
    ms.modifySubscriptionsResultBlock = { (r: Result<Void, Error>) in };
    ms.modifySubscriptionsCompletionBlock = { (s: [CKSubscription]?, d: [String]?, e: Error?) in };
    ms.subscriptionsToSave = nil; ms.subscriptionIDsToDelete = nil
    let fs = CKFetchSubscriptionsOperation(subscriptionIDs: ["a"]);
    _ = CKFetchSubscriptionsOperation.fetchAllSubscriptionsOperation();
    fs.perSubscriptionResultBlock = { (i: CKSubscription.ID, r: Result<CKSubscription, Error>) in };
    fs.fetchSubscriptionsResultBlock = { (r: Result<Void, Error>) in };
    fs.fetchSubscriptionCompletionBlock = { (d: [String: CKSubscription]?, e: Error?) in }
    let sm = CKFetchShareMetadataOperation(shareURLs: []); sm.shareURLs = nil; sm.shouldFetchRootRecord = true;
    sm.rootRecordDesiredKeys = ["a"];
    sm.perShareMetadataResultBlock = { (u: URL, r: Result<CKShare.Metadata, Error>) in };
    sm.fetchShareMetadataResultBlock = { (r: Result<Void, Error>) in };
    sm.perShareMetadataBlock = { (u: URL, m: CKShare.Metadata?, e: Error?) in };
    sm.fetchShareMetadataCompletionBlock = { (e: Error?) in }
    let ac = CKAcceptSharesOperation(shareMetadatas: []);
    ac.perShareResultBlock = { (m: CKShare.Metadata, r: Result<CKShare, Error>) in };
    ac.acceptSharesResultBlock = { (r: Result<Void, Error>) in };
    ac.perShareCompletionBlock = { (m: CKShare.Metadata, s: CKShare?, e: Error?) in };
    ac.acceptSharesCompletionBlock = { (e: Error?) in }; ac.shareMetadatas = nil
    let pp = CKFetchShareParticipantsOperation(userIdentityLookupInfos: []);
    pp.perShareParticipantResultBlock = { (i: CKUserIdentity.LookupInfo, r: Result<CKShare.Participant, Error>) in };
    pp.fetchShareParticipantsResultBlock = { (r: Result<Void, Error>) in };
    pp.shareParticipantFetchedBlock = { (p: CKShare.Participant) in };
    pp.fetchShareParticipantsCompletionBlock = { (e: Error?) in }
    let di = CKDiscoverUserIdentitiesOperation(userIdentityLookupInfos: []);
    di.userIdentityDiscoveredBlock = { (i: CKUserIdentity, l: CKUserIdentity.LookupInfo) in };
    di.discoverUserIdentitiesResultBlock = { (r: Result<Void, Error>) in };
    di.discoverUserIdentitiesCompletionBlock = { (e: Error?) in }
    let da = CKDiscoverAllUserIdentitiesOperation(); da.userIdentityDiscoveredBlock = { (i: CKUserIdentity) in };
    da.discoverAllUserIdentitiesResultBlock = { (r: Result<Void, Error>) in };
    da.discoverAllUserIdentitiesCompletionBlock = { (e: Error?) in }
    let wt = CKFetchWebAuthTokenOperation(apiToken: "a");
    wt.fetchWebAuthTokenResultBlock = { (r: Result<String, Error>) in };
    wt.fetchWebAuthTokenCompletionBlock = { (t: String?, e: Error?) in }; wt.apiToken = "x"
    db.add(o); OperationQueue().addOperations([f], waitUntilFinished: false);
    _ = o as CKDatabaseOperation as CKOperation as Operation
}
private func sendables() {
    func s<T: Sendable>(_: T.Type) {}; func h<T: Hashable>(_: T.Type) {}
    s(CKRecord.self); s(CKRecord.ID.self); s(CKDatabase.self); s(CKContainer.self); s(CKRecordZone.self);
    s(CKShare.self); s(CKError.self); s(CKServerChangeToken.self); s(CKSyncEngine.self); s(CKSyncEngine.Event.self);
    s(CKSyncEngine.State.Serialization.self); s(CKAsset.self); s(CKQuery.self); s(CKSubscription.self);
    s(CKUserIdentity.self); s(CKShare.Metadata.self); s(CKShare.Participant.self); s(CKOperationGroup.self);
    s(CKNotification.self); s(CKRecord.Reference.self); s(CKQueryOperation.Cursor.self);
    s(CKSyncEngine.PendingRecordZoneChange.self); s(CKSyncEngine.RecordZoneChangeBatch.self);
    s(CKSyncEngine.State.self); s(CKOperation.Configuration.self);
    s(CKUserIdentity.LookupInfo.self)
    h(CKSyncEngine.PendingRecordZoneChange.self); h(CKSyncEngine.PendingDatabaseChange.self);
    h(CKSyncEngine.FetchChangesOptions.Scope.self); h(CKSyncEngine.SendChangesOptions.Scope.self);
    h(CKDatabase.DatabaseChange.Deletion.self); h(CKDatabase.RecordZoneChange.Deletion.self); h(CKError.self);
    h(CKDatabase.Scope.self)
}
private func cases() {
    _ = CKDatabase.Scope.public;
    switch CKDatabase.Scope.private {
    case .public, .private, .shared: break;
    @unknown default: break
    }; let sp: CKModifyRecordsOperation.RecordSavePolicy = .allKeys; _ = sp; _ = NSNotification.Name.CKAccountChanged;
    _ = CKQueryOperation.maximumResults; _ = CKContainer.ApplicationPermissionStatus.couldNotComplete;
    _ = CKContainer.ApplicationPermissions.userDiscoverability
}
private func engine(_ db: CKDatabase, _ d: CKSyncEngineDelegate, _ data: Data, _ id: CKRecord.ID, _ z: CKRecordZone)
    async throws
{
    let s = try? JSONDecoder().decode(CKSyncEngine.State.Serialization.self, from: data)
    var c = CKSyncEngine.Configuration(database: db, stateSerialization: s, delegate: d); c.automaticallySync = false;
    c.subscriptionID = "x"; _ = c.database; _ = c.stateSerialization; let e = CKSyncEngine(c); _ = e.database;
    let st: CKSyncEngine.State = e.state
    st.add(pendingRecordZoneChanges: [.saveRecord(id), .deleteRecord(id)]); st.remove(pendingRecordZoneChanges: []);
    st.add(pendingDatabaseChanges: [.saveZone(z), .deleteZone(z.zoneID)]); st.remove(pendingDatabaseChanges: []);
    _ = st.pendingRecordZoneChanges; _ = st.pendingDatabaseChanges; st.hasPendingUntrackedChanges = true;
    _ = st.zoneIDsWithUnfetchedServerChanges
    try await e.fetchChanges(); try await e.fetchChanges(.init(scope: .all));
    try await e.fetchChanges(
        CKSyncEngine.FetchChangesOptions(scope: .allExcluding([z.zoneID]), operationGroup: CKOperationGroup())
    ); try await e.fetchChanges(.init(scope: .zoneIDs([z.zoneID]))); var fo = CKSyncEngine.FetchChangesOptions();
    fo.prioritizedZoneIDs = [z.zoneID]; fo.scope = .all; fo.operationGroup = CKOperationGroup();
    try await e.fetchChanges(fo)
    try await e.sendChanges(); try await e.sendChanges(.init(scope: .zoneIDs([z.zoneID])));
    try await e.sendChanges(.init(scope: .recordIDs([id])));
    try await e.sendChanges(.init(scope: .all, operationGroup: CKOperationGroup()));
    _ = CKSyncEngine.SendChangesOptions.Scope.allExcluding([]).contains(.saveRecord(id));
    _ = CKSyncEngine.FetchChangesOptions.Scope.all.contains(z.zoneID)
    await e.cancelOperations()
}
private actor EveryEvent: CKSyncEngineDelegate {
    nonisolated func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        switch event {
        case .stateUpdate(let x):
            let y: CKSyncEngine.Event.StateUpdate = x; _ = y.stateSerialization;
            _ = try? JSONEncoder().encode(y.stateSerialization)
        case .accountChange(let x):
            let y: CKSyncEngine.Event.AccountChange = x;
            switch y.changeType {
            case .signIn(let currentUser): _ = currentUser.recordName;
            case .signOut(let previousUser): _ = previousUser;
            case .switchAccounts(let previousUser, let currentUser): _ = (previousUser, currentUser);
            @unknown default: break
            }
        case .fetchedDatabaseChanges(let x):
            let y: CKSyncEngine.Event.FetchedDatabaseChanges = x; _ = y.modifications.map(\.zoneID);
            _ = y.deletions.map { ($0.zoneID, $0.reason) }
        case .fetchedRecordZoneChanges(let x):
            let y: CKSyncEngine.Event.FetchedRecordZoneChanges = x; _ = y.modifications.map(\.record);
            _ = y.deletions.map { ($0.recordID, $0.recordType) }
        case .sentDatabaseChanges(let x):
            let y: CKSyncEngine.Event.SentDatabaseChanges = x; _ = y.savedZones;
            _ = y.failedZoneSaves.map { ($0.zone, $0.error) }; _ = y.deletedZoneIDs;
            _ = y.failedZoneDeletes as [CKRecordZone.ID: CKError]
        case .sentRecordZoneChanges(let x):
            let y: CKSyncEngine.Event.SentRecordZoneChanges = x; _ = y.savedRecords;
            _ = y.failedRecordSaves.map { ($0.record, $0.error) }; _ = y.deletedRecordIDs;
            _ = y.failedRecordDeletes as [CKRecord.ID: CKError];
            let f: CKSyncEngine.Event.SentRecordZoneChanges.FailedRecordSave? = y.failedRecordSaves.first; _ = f
        case .willFetchChanges(let x): _ = x.context.reason;
        case .willFetchRecordZoneChanges(let x): _ = x.zoneID;
        case .didFetchRecordZoneChanges(let x): _ = (x.zoneID, x.error);
        case .didFetchChanges(let x): _ = x.context.options
        case .willSendChanges(let x): _ = x.context.reason == .scheduled;
        case .didSendChanges(let x): _ = x.context.options.scope
        @unknown default: break
        }
        _ = event.description
    }
    nonisolated func nextRecordZoneChangeBatch(_ context: CKSyncEngine.SendChangesContext, syncEngine: CKSyncEngine)
        async -> CKSyncEngine.RecordZoneChangeBatch?
    {
        var b = CKSyncEngine.RecordZoneChangeBatch(recordsToSave: [], recordIDsToDelete: [], atomicByZone: true);
        b.atomicByZone = false; b.recordsToSave = []; b.recordIDsToDelete = []; _ = b
        return await CKSyncEngine.RecordZoneChangeBatch(pendingChanges: syncEngine.state.pendingRecordZoneChanges) {
            id in nil
        }
    }
    nonisolated func nextFetchChangesOptions(_ context: CKSyncEngine.FetchChangesContext, syncEngine: CKSyncEngine)
        async -> CKSyncEngine.FetchChangesOptions
    { var o = context.options; o.prioritizedZoneIDs = []; return o }
}
