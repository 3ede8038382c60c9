import CloudKit

// A program's CloudKit code as people write it for Apple's framework: in Swift's older language mode and without
// Zonecast's additions. The test is that this compiles. Other tests cover what it does.

final class OlderProgram: @unchecked Sendable {
    var records: [CKRecord] = []
    let db: CKDatabase
    init(_ db: CKDatabase = CKContainer.default().publicCloudDatabase) { self.db = db }
    func load() {
        let pred = NSPredicate(format: "name BEGINSWITH %@ AND age > %d", "A", 3)
        let pred2 = NSPredicate(
            format: "%K == %@",
            "owner",
            CKRecord.Reference(recordID: CKRecord.ID(recordName: "x"), action: .none)
        )
        let pred3 = NSPredicate(format: "date > %@", Date() as CVarArg)
        let pred4 = NSPredicate(format: "date > %@", NSDate())
        let pred5 = NSPredicate(
            format: "distanceToLocation:fromLocation:(location, %@) < %f",
            CLLocation(latitude: 1, longitude: 2),
            10.0
        )
        let comp = NSCompoundPredicate(andPredicateWithSubpredicates: [pred, pred2, pred3, pred4, pred5])
        let q = CKQuery(recordType: "T", predicate: comp)
        q.sortDescriptors = [NSSortDescriptor(key: "creationDate", ascending: false)]
        let op = CKQueryOperation(query: q)
        op.desiredKeys = ["a"]
        op.resultsLimit = 50
        var new = [CKRecord]()
        op.recordFetchedBlock = { r in new.append(r) }
        op.queryCompletionBlock = { [weak self] (cursor, error) in
            DispatchQueue.main.async {
                if error == nil {
                    self?.records = new;
                    if let cursor = cursor {
                        let n = CKQueryOperation(cursor: cursor); n.recordFetchedBlock = op.recordFetchedBlock;
                        n.queryCompletionBlock = op.queryCompletionBlock; self?.db.add(n)
                    }
                } else if let e = error as NSError?, e.domain == CKErrorDomain,
                    e.code == CKError.Code.unknownItem.rawValue
                {
                    print(e.userInfo[CKErrorRetryAfterKey] as? TimeInterval ?? 3)
                }
            }
        }
        db.add(op)
        db.perform(q, inZoneWith: nil) { recs, err in
            if let err = err as? CKError { print(err.localizedDescription, err.retryAfterSeconds ?? 0) };
            _ = recs?.first?.creationDate
        }
        CKContainer.default().accountStatus { status, error in
            switch status {
            case .available: break;
            case .noAccount, .restricted, .couldNotDetermine, .temporarilyUnavailable: break;
            @unknown default: break
            }
        }
        CKContainer.default().fetchUserRecordID { id, error in
            guard let id = id else { return }; print(id.recordName)
        }
        CKContainer(identifier: "iCloud.x").requestApplicationPermission(.userDiscoverability) { status, error in
            if status == .granted {}
        }
        CKContainer.default().discoverUserIdentity(withUserRecordID: CKRecord.ID(recordName: "a")) { identity, error in
            print(identity?.nameComponents?.givenName ?? "")
        }
        _ = NotificationCenter.default.addObserver(forName: .CKAccountChanged, object: nil, queue: .main) { _ in }
        _ = NotificationCenter.default.addObserver(forName: Notification.Name.CKAccountChanged, object: nil, queue: nil)
        { _ in }
    }
    func push(_ userInfo: [AnyHashable: Any]) {
        let n = CKNotification(fromRemoteNotificationDictionary: userInfo)
        if n?.notificationType == .query, let q = n as? CKQueryNotification {
            print(q.recordID ?? "", q.queryNotificationReason == .recordCreated, q.recordFields?["a"] as? String ?? "")
        }
        if let d = CKDatabaseNotification(fromRemoteNotificationDictionary: userInfo) { print(d.databaseScope) }
        guard let z = CKRecordZoneNotification(fromRemoteNotificationDictionary: userInfo) else { return }
        print(z.recordZoneID?.zoneName ?? "", z.subscriptionID == "x")
    }
    func subs() {
        let s = CKQuerySubscription(
            recordType: "T",
            predicate: NSPredicate(value: true),
            options: [.firesOnRecordCreation, .firesOnRecordDeletion]
        )
        let i = CKSubscription.NotificationInfo()
        i.alertBody = "x"; i.shouldSendContentAvailable = true; i.soundName = "default"
        s.notificationInfo = i
        db.save(s) { sub, err in print(sub?.subscriptionID ?? "") }
        let d = CKDatabaseSubscription(subscriptionID: "s")
        let o = CKModifySubscriptionsOperation(subscriptionsToSave: [d], subscriptionIDsToDelete: nil)
        o.modifySubscriptionsCompletionBlock = { _, _, e in print(e as Any) }
        o.qualityOfService = .utility
        db.add(o)
    }
    func mod(_ rs: [CKRecord], _ ids: [CKRecord.ID], _ h: @escaping (Error?) -> Void) {
        let o = CKModifyRecordsOperation(recordsToSave: rs, recordIDsToDelete: ids)
        let cfg = CKOperation.Configuration(); cfg.isLongLived = true; cfg.qualityOfService = .userInitiated;
        cfg.timeoutIntervalForRequest = 20
        o.configuration = cfg
        o.savePolicy = .changedKeys
        o.isAtomic = false
        o.database = db
        o.perRecordProgressBlock = { r, p in print(p) }
        o.perRecordCompletionBlock = { r, e in
            if let e = e as? CKError, e.code == .serverRecordChanged, let s = e.serverRecord { print(s) }
        }
        o.modifyRecordsCompletionBlock = { s, d, e in
            switch (e as? CKError)?.code {
            case .limitExceeded?: break;
            case .zoneNotFound?, .userDeletedZone?: break;
            case .partialFailure?:
                let m = (e as? CKError)?.userInfo[CKPartialErrorsByItemIDKey] as? [CKRecord.ID: Error];
                print(m?.count ?? 0);
            default: break
            }
            h(e)
        }
        let q = OperationQueue(); q.maxConcurrentOperationCount = 1; q.addOperation(o)
    }
    func arch(_ t: CKServerChangeToken, r: CKRecord) throws {
        let d = try NSKeyedArchiver.archivedData(withRootObject: t, requiringSecureCoding: true)
        let back = try NSKeyedUnarchiver.unarchivedObject(ofClass: CKServerChangeToken.self, from: d)
        let c = NSKeyedArchiver(requiringSecureCoding: true); r.encodeSystemFields(with: c); c.finishEncoding()
        let u = try NSKeyedUnarchiver(forReadingFrom: c.encodedData); u.requiresSecureCoding = true
        let rr = CKRecord(coder: u); u.finishDecoding(); print(back as Any, rr as Any)
    }
    func rec() {
        let r = CKRecord(
            recordType: "T",
            recordID: CKRecord.ID(
                recordName: "a",
                zoneID: CKRecordZone.ID(zoneName: "Z", ownerName: CKCurrentUserDefaultName)
            )
        )
        r["a"] = "x" as CKRecordValue; r["b"] = 3 as CKRecordValue; r["c"] = Date() as NSDate;
        r.setValue("x", forKey: "y"); r["loc"] = CLLocation(latitude: 1, longitude: 2)
        r["list"] = ["a"] as CKRecordValue; r["asset"] = CKAsset(fileURL: URL(fileURLWithPath: "/tmp/x")); r["n"] = nil;
        r["d"] = NSNumber(value: 2)
        let a = r["a"] as? String ?? ""; let b: Int? = r["b"]; let v = r.value(forKey: "y") as? String;
        let o = r.object(forKey: "a") as? NSString
        print(a, b as Any, v as Any, o as Any, r.allKeys(), r.changedKeys(), r.recordChangeTag as Any)
        if let list = r["refs"] as? [CKRecord.Reference] { print(list.map { $0.recordID }) }
        r.parent = CKRecord.Reference(recordID: r.recordID, action: .none); r.setParent(r)
        r["ref"] = CKRecord.Reference(record: r, action: .deleteSelf)
    }
    func zones() {
        let op = CKFetchRecordZoneChangesOperation(
            recordZoneIDs: [.default],
            configurationsByRecordZoneID: [
                .default: CKFetchRecordZoneChangesOperation.ZoneConfiguration(
                    previousServerChangeToken: nil,
                    resultsLimit: nil,
                    desiredKeys: nil
                )
            ]
        )
        op.recordChangedBlock = { r in self.records.append(r) }
        op.recordWithIDWasDeletedBlock = { id, type in self.records.removeAll { $0.recordID == id } }
        op.recordZoneFetchCompletionBlock = { id, token, data, more, err in print(token as Any) }
        op.recordZoneFetchResultBlock = { id, res in
            switch res {
            case .success(let (token, _, more)): print(token, more);
            case .failure(let e): print(e)
            }
        }
        op.fetchRecordZoneChangesCompletionBlock = { e in }
        db.add(op)
        let dop = CKFetchDatabaseChangesOperation(previousServerChangeToken: nil)
        dop.fetchDatabaseChangesResultBlock = { r in
            switch r {
            case let .success((token, more)): print(token, more);
            case .failure: break
            }
        }
        dop.fetchDatabaseChangesCompletionBlock = { t, m, e in }
        db.add(dop)
    }
    func share(_ r: CKRecord) {
        let s = CKShare(rootRecord: r); s[CKShare.SystemFieldKey.title] = "T" as CKRecordValue;
        s.publicPermission = .readWrite
        for p in s.participants
        where p.acceptanceStatus == .accepted && p.role == .privateUser && p.permission == .readWrite {
            s.removeParticipant(p)
        }
        let op = CKFetchShareParticipantsOperation(userIdentityLookupInfos: [
            CKUserIdentity.LookupInfo(emailAddress: "a@b")
        ])
        op.shareParticipantFetchedBlock = { p in
            p.permission = .readWrite; s.addParticipant(p)
        }
        op.fetchShareParticipantsCompletionBlock = { e in }
        CKContainer.default().add(op)
        CKContainer.default().fetchShareMetadata(with: URL(fileURLWithPath: "/share/x")) { md, e in
            guard let md = md else { return }
            let acc = CKAcceptSharesOperation(shareMetadatas: [md]); acc.perShareCompletionBlock = { m, s, e in };
            acc.acceptSharesCompletionBlock = { e in }; acc.qualityOfService = .userInteractive
            CKContainer(identifier: md.containerIdentifier).add(acc)
            CKContainer.default().accept(md) { s, e in }
        }
    }
}
/// A sync engine's delegate that is an actor.
actor SyncActor: CKSyncEngineDelegate {
    var engine: CKSyncEngine?
    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        switch event {
        case .stateUpdate(let e): let d = try? JSONEncoder().encode(e.stateSerialization); print(d as Any)
        case .accountChange(let e):
            switch e.changeType {
            case .signIn: break;
            case .switchAccounts: break;
            case .signOut: break;
            @unknown default: break
            }
        case .fetchedDatabaseChanges(let e):
            for d in e.deletions {
                switch d.reason {
                case .deleted, .purged, .encryptedDataReset: break;
                @unknown default: break
                }
            }
        case .fetchedRecordZoneChanges(let e):
            for m in e.modifications { print(m.record["a"] as? String ?? "") };
            for d in e.deletions { print(d.recordID, d.recordType) }
        case .sentRecordZoneChanges(let e):
            for f in e.failedRecordSaves {
                switch f.error.code {
                case .serverRecordChanged: break;
                default: break
                }
            }
        case .sentDatabaseChanges, .willFetchChanges, .willFetchRecordZoneChanges, .didFetchRecordZoneChanges,
            .didFetchChanges, .willSendChanges, .didSendChanges:
            break
        @unknown default: break
        }
    }
    func nextRecordZoneChangeBatch(_ context: CKSyncEngine.SendChangesContext, syncEngine: CKSyncEngine) async
        -> CKSyncEngine.RecordZoneChangeBatch?
    {
        let changes = syncEngine.state.pendingRecordZoneChanges.filter { context.options.scope.contains($0) }
        return await CKSyncEngine.RecordZoneChangeBatch(pendingChanges: changes) { id in await self.make(id) }
    }
    func make(_ id: CKRecord.ID) -> CKRecord? { nil }
}
