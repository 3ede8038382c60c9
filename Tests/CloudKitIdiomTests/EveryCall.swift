import CloudKit

// Errors, and every call of containers and databases, as people write them for Apple's framework: in Swift's older
// language mode and without Zonecast's additions. The test is that this compiles. Other tests cover what it does.

private func errors(_ e: Error) throws {
    do { throw e } catch let error as CKError where error.code == .serverRecordChanged {
        _ = error.serverRecord; _ = error.clientRecord; _ = error.ancestorRecord
    } catch CKError.zoneNotFound {} catch CKError.userDeletedZone {
        _ = 1
    } catch let error as CKError {
        let all: [AnyHashable: Error]? = error.partialErrorsByItemID
        let s: Double? = error.retryAfterSeconds
        let t: TimeInterval? = error.retryAfterSeconds
        _ = (all, s, t); let d: String = CKError.errorDomain; _ = d; _ = error.errorCode; _ = error.errorUserInfo;
        _ = error.userInfo; _ = error.localizedDescription; _ = CKError.Code(rawValue: 2); _ = error.hashValue;
        _ = error == error; _ = CKError(.networkFailure, userInfo: [:]); _ = CKError(.networkFailure)
        _ = CKError(_nsError: NSError(domain: CKErrorDomain, code: 2)); _ = error._nsError
        _ = CKError.networkUnavailable; _ = CKError.Code.accountTemporarilyUnavailable
        if let p = error.userInfo[CKPartialErrorsByItemIDKey] as? [CKRecord.ID: NSError] { _ = p }
        if let p = error.userInfo[CKPartialErrorsByItemIDKey] as? [CKRecord.ID: CKError] { _ = p }
        if let p = error.userInfo[CKPartialErrorsByItemIDKey] as? NSDictionary { _ = p }
        if let p = error.userInfo[CKPartialErrorsByItemIDKey] as? [AnyHashable: NSError] { _ = p }
        _ = error.userInfo[CKErrorUserDidResetEncryptedDataKey] as? NSNumber
        _ = error.userInfo[CKRecordChangedErrorServerRecordKey] as? CKRecord;
        _ = error.userInfo[CKRecordChangedErrorClientRecordKey];
        _ = error.userInfo[CKRecordChangedErrorAncestorRecordKey]; _ = error.userInfo[CKErrorRetryAfterKey] as? NSNumber
    }
    switch e {
    case CKError.limitExceeded: break;
    default: break
    }
    if e as? CKError ~= nil {}
    let ns = e as NSError;
    if ns.domain == CKErrorDomain, let code = CKError.Code(rawValue: ns.code) {
        switch code {
        case .internalError, .partialFailure, .networkUnavailable, .networkFailure, .badContainer, .serviceUnavailable,
            .requestRateLimited, .missingEntitlement, .notAuthenticated, .permissionFailure, .unknownItem,
            .invalidArguments, .resultsTruncated, .serverRecordChanged, .serverRejectedRequest, .assetFileNotFound,
            .assetFileModified, .incompatibleVersion, .constraintViolation, .operationCancelled, .changeTokenExpired,
            .batchRequestFailed, .zoneBusy, .badDatabase, .quotaExceeded, .zoneNotFound, .limitExceeded,
            .userDeletedZone, .tooManyParticipants, .alreadyShared, .referenceViolation, .managedAccountRestricted,
            .participantMayNeedVerification, .serverResponseLost, .assetNotAvailable, .accountTemporarilyUnavailable,
            .participantAlreadyInvited:
            break
        @unknown default: break
        }
    }
}
private func container() async throws {
    let c = CKContainer(identifier: "iCloud.x"); _ = CKContainer.default(); _ = c.containerIdentifier
    _ = c.privateCloudDatabase; _ = c.publicCloudDatabase; _ = c.sharedCloudDatabase; _ = c.database(with: .shared)
    let st: CKAccountStatus = try await c.accountStatus(); _ = st; let u: CKRecord.ID = try await c.userRecordID();
    _ = u
    c.fetchUserRecordID { (id: CKRecord.ID?, e: Error?) in }
}
private func sharing(_ c: CKContainer, _ url: URL, _ m: CKShare.Metadata) async throws {
    let md: CKShare.Metadata = try await c.shareMetadata(for: url); _ = md
    let sh: CKShare = try await c.accept(m); _ = sh
    let r: [CKShare.Metadata: Result<CKShare, Error>] = try await c.accept([m]); _ = r
    let r2: [URL: Result<CKShare.Metadata, Error>] = try await c.shareMetadatas(for: [url]); _ = r2
    let p: CKShare.Participant = try await c.shareParticipant(forEmailAddress: "x"); _ = p
    _ = try await c.shareParticipant(forPhoneNumber: "1");
    _ = try await c.shareParticipant(forUserRecordID: CKRecord.ID(recordName: "u"))
    let r3: [CKUserIdentity.LookupInfo: Result<CKShare.Participant, Error>] = try await c.shareParticipants(for: [
        CKUserIdentity.LookupInfo(phoneNumber: "1")
    ])
        ;
    _ = r3
    let r4: [String: Result<CKShare.Participant, Error>] = try await c.shareParticipants(forEmailAddresses: ["a"]);
    _ = r4
    _ = try await c.shareParticipants(forPhoneNumbers: ["a"]);
    let r5: [CKRecord.ID: Result<CKShare.Participant, Error>] = try await c.shareParticipants(forUserRecordIDs: []);
    _ = r5
    c.fetchShareParticipant(withEmailAddress: "a") { (p: CKShare.Participant?, e: Error?) in };
    c.fetchShareParticipant(withPhoneNumber: "a") { p, e in };
    c.fetchShareParticipant(withUserRecordID: CKRecord.ID(recordName: "a")) { p, e in }
    c.fetchShareMetadata(with: url) { m, e in }; c.accept(m) { s, e in }
    c.discoverUserIdentity(withEmailAddress: "a") { (i: CKUserIdentity?, e: Error?) in };
    c.discoverUserIdentity(withPhoneNumber: "a") { i, e in };
    c.discoverUserIdentity(withUserRecordID: CKRecord.ID(recordName: "a")) { i, e in }
    c.discoverAllIdentities { (i: [CKUserIdentity]?, e: Error?) in }
    let ui: CKUserIdentity? = try await c.userIdentity(forEmailAddress: "a"); _ = ui;
    _ = try await c.userIdentity(forPhoneNumber: "a");
    _ = try await c.userIdentity(forUserRecordID: CKRecord.ID(recordName: "a"));
    _ = try await c.allUserIdentitiesFromContacts()
    let ps: CKContainer.ApplicationPermissionStatus = try await c.applicationPermissionStatus(for: .userDiscoverability)
    ; _ = ps; _ = try await c.requestApplicationPermission(.userDiscoverability)
    c.status(forApplicationPermission: .userDiscoverability) { s, e in };
    c.requestApplicationPermission(.userDiscoverability) { s, e in }
    c.fetchAllLongLivedOperationIDs { (ids: [CKOperation.ID]?, e: Error?) in };
    c.fetchLongLivedOperation(withID: "x") { (o: CKOperation?, e: Error?) in }
    let ids: [CKOperation.ID] = try await c.allLongLivedOperationIDs(); _ = ids;
    _ = try await c.longLivedOperation(for: "x")
    c.accountStatus { (s: CKAccountStatus, e: Error?) in }
    let x: Int = try await c.configuredWith(configuration: CKOperation.Configuration(), group: CKOperationGroup()) {
        c in
        _ = try await c.accountStatus(); return 1
    }
        ;
    _ = x
    c.add(CKFetchShareMetadataOperation(shareURLs: [url])); _ = c.isEqual(c); _ = c.description
}
private func database(
    _ db: CKDatabase,
    _ q: CKQuery,
    _ z: CKRecordZone,
    _ id: CKRecord.ID,
    _ r: CKRecord,
    _ s: CKSubscription,
    _ tok: CKServerChangeToken?,
    _ cursor: CKQueryOperation.Cursor
) async throws {
    _ = db.databaseScope
    let a: CKRecord = try await db.record(for: id); _ = a;
    let b: [CKRecord.ID: Result<CKRecord, Error>] = try await db.records(for: [id], desiredKeys: ["a"]); _ = b;
    _ = try await db.records(for: [id])
    let c: CKRecord = try await db.save(r); _ = c; let d: CKRecord.ID = try await db.deleteRecord(withID: id); _ = d
    let e: (saveResults: [CKRecord.ID: Result<CKRecord, Error>], deleteResults: [CKRecord.ID: Result<Void, Error>]) =
        try await db.modifyRecords(saving: [r], deleting: [id], savePolicy: .ifServerRecordUnchanged, atomically: true)
        ;
    _ = e
    _ = try await db.modifyRecords(saving: [], deleting: [])
    let f: (matchResults: [(CKRecord.ID, Result<CKRecord, Error>)], queryCursor: CKQueryOperation.Cursor?) =
        try await db.records(
            matching: q,
            inZoneWith: nil,
            desiredKeys: nil,
            resultsLimit: CKQueryOperation.maximumResults
        )
        ;
    _ = f
    _ = try await db.records(matching: q);
    _ = try await db.records(continuingMatchFrom: cursor, desiredKeys: nil, resultsLimit: 10);
    _ = try await db.records(continuingMatchFrom: cursor)
    let g: CKRecordZone = try await db.recordZone(for: z.zoneID); _ = g;
    let h: [CKRecordZone.ID: Result<CKRecordZone, Error>] = try await db.recordZones(for: [z.zoneID]); _ = h
    let i: [CKRecordZone] = try await db.allRecordZones(); _ = i;
    let j:
        (
            saveResults: [CKRecordZone.ID: Result<CKRecordZone, Error>],
            deleteResults: [CKRecordZone.ID: Result<Void, Error>]
        ) = try await db.modifyRecordZones(saving: [z], deleting: [])
        ;
    _ = j
    let k: CKRecordZone = try await db.save(z); _ = k;
    let l: CKRecordZone.ID = try await db.deleteRecordZone(withID: z.zoneID); _ = l
    let m:
        (
            modifications: [CKDatabase.DatabaseChange.Modification], deletions: [CKDatabase.DatabaseChange.Deletion],
            changeToken: CKServerChangeToken, moreComing: Bool
        ) = try await db.databaseChanges(since: tok, resultsLimit: nil)
        ;
    _ = m
    _ = m.modifications.first?.zoneID; _ = m.deletions.first?.zoneID; _ = m.deletions.first?.purged;
    _ = m.deletions.first?.reason
    let n:
        (
            modificationResultsByID: [CKRecord.ID: Result<CKDatabase.RecordZoneChange.Modification, Error>],
            deletions: [CKDatabase.RecordZoneChange.Deletion], changeToken: CKServerChangeToken, moreComing: Bool
        ) = try await db.recordZoneChanges(inZoneWith: z.zoneID, since: tok, desiredKeys: nil, resultsLimit: nil)
        ;
    _ = n
    _ = n.deletions.first?.recordID; _ = n.deletions.first?.recordType
    let o: CKSubscription = try await db.subscription(for: "x"); _ = o;
    let p: [CKSubscription.ID: Result<CKSubscription, Error>] = try await db.subscriptions(for: ["x"]); _ = p;
    let qq: [CKSubscription] = try await db.allSubscriptions(); _ = qq
    let t: CKSubscription = try await db.save(s); _ = t;
    let v: CKSubscription.ID = try await db.deleteSubscription(withID: "x"); _ = v
    let w:
        (
            saveResults: [CKSubscription.ID: Result<CKSubscription, Error>],
            deleteResults: [CKSubscription.ID: Result<Void, Error>]
        ) = try await db.modifySubscriptions(saving: [s], deleting: [])
        ;
    _ = w
    // Completion handlers.
    db.fetch(withRecordID: id) { (r: CKRecord?, e: Error?) in }; db.save(r) { (r: CKRecord?, e: Error?) in };
    db.delete(withRecordID: id) { (i: CKRecord.ID?, e: Error?) in }
    db.fetch(withRecordZoneID: z.zoneID) { (z: CKRecordZone?, e: Error?) in };
    db.fetchAllRecordZones { (z: [CKRecordZone]?, e: Error?) in }; db.save(z) { (z: CKRecordZone?, e: Error?) in };
    db.delete(withRecordZoneID: z.zoneID) { (i: CKRecordZone.ID?, e: Error?) in }
    db.fetch(withSubscriptionID: "x") { (s: CKSubscription?, e: Error?) in };
    db.fetchAllSubscriptions { (s: [CKSubscription]?, e: Error?) in };
    db.save(s) { (s: CKSubscription?, e: Error?) in }; db.delete(withSubscriptionID: "x") { (i: String?, e: Error?) in }
    db.perform(q, inZoneWith: nil) { (r: [CKRecord]?, e: Error?) in }
    db.fetch(withRecordIDs: [id], desiredKeys: nil) { (r: Result<[CKRecord.ID: Result<CKRecord, Error>], Error>) in };
    db.fetch(withRecordIDs: [id]) { r in }
    db.modifyRecords(saving: [r], deleting: [], savePolicy: .allKeys, atomically: false) {
        (
            r: Result<
                (
                    saveResults: [CKRecord.ID: Result<CKRecord, Error>],
                    deleteResults: [CKRecord.ID: Result<Void, Error>]
                ), Error
            >
        ) in
    }; db.modifyRecords(saving: [], deleting: []) { r in }
    db.fetch(withQuery: q, inZoneWith: nil, desiredKeys: nil, resultsLimit: 5) {
        (
            r: Result<
                (matchResults: [(CKRecord.ID, Result<CKRecord, Error>)], queryCursor: CKQueryOperation.Cursor?), Error
            >
        ) in
    }; db.fetch(withQuery: q) { r in }; db.fetch(withCursor: cursor, desiredKeys: nil, resultsLimit: 5) { r in };
    db.fetch(withCursor: cursor) { r in }
    db.fetch(withRecordZoneIDs: [z.zoneID]) { (r: Result<[CKRecordZone.ID: Result<CKRecordZone, Error>], Error>) in };
    db.modifyRecordZones(saving: [], deleting: []) { r in }
    db.fetchDatabaseChanges(since: tok, resultsLimit: nil) { r in }; db.fetchDatabaseChanges(since: tok) { r in };
    db.fetchRecordZoneChanges(inZoneWith: z.zoneID, since: tok, desiredKeys: nil, resultsLimit: nil) { r in }
    db.fetch(withSubscriptionIDs: ["x"]) { r in }; db.modifySubscriptions(saving: [], deleting: []) { r in }
    _ = try await db.configuredWith(configuration: nil, group: nil) { db in try await db.allRecordZones() };
    _ = db.configuredWith(configuration: nil) { db in 1 }
}
