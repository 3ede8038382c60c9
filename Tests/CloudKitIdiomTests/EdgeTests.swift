import CloudKit
import Testing
import ZoneTesting

/// Unusual situations: the same record twice in a call, empty calls, errors made by the program, archives of
/// collections.
@Suite(.timeLimit(.minutes(15))) struct EdgeTests {
    private let container: CKContainer
    private let database: CKDatabase
    private let zoneID = CKRecordZone.ID(zoneName: "Edge")

    init() async throws {
        container = try TestRelay().device(of: "alice").container
        database = container.privateCloudDatabase
        _ = try await database.save(CKRecordZone(zoneID: zoneID))
    }

    private func thing(_ name: String) -> CKRecord {
        CKRecord(recordType: "Thing", recordID: CKRecord.ID(recordName: name, zoneID: zoneID))
    }

    // MARK: Duplicates and empty calls

    @Test func theSameRecordTwiceInACallIsAnError() async throws {
        let (one, same) = (thing("a"), thing("a"))
        let calls: [([CKRecord], [CKRecord.ID])] = [([one, one], []), ([one, same], []), ([one], [one.recordID])]
        for (saves, deletes) in calls {
            let operation = CKModifyRecordsOperation(recordsToSave: saves, recordIDsToDelete: deletes)
            let error: Error? = await withCheckedContinuation { done in
                operation.modifyRecordsCompletionBlock = { _, _, error in done.resume(returning: error) }
                database.add(operation)
            }
            #expect((error as? CKError)?.code == .invalidArguments, "\(String(describing: error))")
            do {
                _ = try await database.modifyRecords(saving: saves, deleting: deletes)
                Issue.record("the call was accepted")
            } catch let error as CKError { #expect(error.code == .invalidArguments && "\(error)".contains("a")) }
        }
        await #expect(throws: CKError.self) { try await database.record(for: one.recordID) }
        // Deleting a record twice in a call is one deletion.
        let results = try await database.modifyRecords(saving: [], deleting: [one.recordID, one.recordID])
        #expect(results.deleteResults.count == 1)
    }

    /// A delegate that lists a record twice does not block the other records of the batch.
    @Test func theSameRecordTwiceInABatchDoesNotBlockOthers() async throws {
        final class Careless: CKSyncEngineDelegate, @unchecked Sendable {
            var records: [CKRecord] = []
            var saved: [String] = []
            var failed: [String] = []
            func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
                guard case .sentRecordZoneChanges(let sent) = event else { return }
                saved += sent.savedRecords.map(\.recordID.recordName)
                failed += sent.failedRecordSaves.map(\.record.recordID.recordName)
            }
            func nextRecordZoneChangeBatch(
                _ context: CKSyncEngine.SendChangesContext,
                syncEngine: CKSyncEngine
            ) async -> CKSyncEngine.RecordZoneChangeBatch? {
                defer { records = [] }
                return records.isEmpty ? nil : CKSyncEngine.RecordZoneChangeBatch(recordsToSave: records)
            }
        }
        let delegate = Careless()
        delegate.records = [thing("a"), thing("a"), thing("b")]
        var configuration = CKSyncEngine.Configuration(database: database, stateSerialization: nil, delegate: delegate)
        configuration.automaticallySync = false
        let engine = CKSyncEngine(configuration)
        engine.state.add(pendingRecordZoneChanges: delegate.records.map { .saveRecord($0.recordID) })
        try? await engine.sendChanges()
        #expect(delegate.saved.contains("b") && !delegate.failed.contains("b"))
        #expect(try await database.record(for: thing("b").recordID).recordChangeTag != nil)
    }

    @Test func emptyCallsSucceed() async throws {
        let (saved, deleted) = try await database.modifyRecords(saving: [], deleting: [])
        #expect(saved.isEmpty && deleted.isEmpty)
        #expect(try await database.records(for: []).isEmpty)
        #expect(try await database.recordZones(for: []).isEmpty)
        #expect(try await database.subscriptions(for: []).isEmpty)
        let operations: [CKDatabaseOperation] = [
            CKModifyRecordsOperation(), CKFetchRecordsOperation(), CKModifyRecordZonesOperation(),
            CKFetchRecordZonesOperation(), CKModifySubscriptionsOperation(), CKFetchSubscriptionsOperation(),
            CKFetchRecordZoneChangesOperation(),
        ]
        for operation in operations {
            await withCheckedContinuation { done in
                operation.completionBlock = { done.resume() }
                database.add(operation)
            }
        }
        #expect(operations.allSatisfy { $0.isFinished })
        let error: Error? = await withCheckedContinuation { done in
            let operation = CKQueryOperation()
            operation.queryCompletionBlock = { _, error in done.resume(returning: error) }
            database.add(operation)
        }
        #expect((error as? CKError)?.code == .invalidArguments)
        #expect(try await container.accept([]).isEmpty)
        #expect(try await container.shareMetadatas(for: []).isEmpty)
    }

    @Test func aContainerWithoutARelayReportsBadContainer() async throws {
        let nowhere = CKContainer(identifier: "iCloud.nowhere.\(UUID().uuidString)")
        let error: CKError? = await withCheckedContinuation { done in
            nowhere.privateCloudDatabase.fetch(withRecordID: CKRecord.ID(recordName: "a")) { _, error in
                done.resume(returning: error as? CKError)
            }
        }
        #expect(error?.code == .badContainer)
        let status: (CKAccountStatus, Error?) = await withCheckedContinuation { done in
            nowhere.accountStatus { done.resume(returning: ($0, $1)) }
        }
        #expect(status.0 == .couldNotDetermine && (status.1 as? CKError)?.code == .badContainer)
    }

    @Test(arguments: ["", "a b", "1a", "a-b", "ä"]) func invalidNamesAreRefused(_ name: String) async throws {
        let record = CKRecord(recordType: name, recordID: CKRecord.ID(recordName: "r", zoneID: zoneID))
        await #expect(throws: CKError.self) { try await database.save(record) }
        let other = thing("r")
        other[name] = 1
        do {
            try await database.save(other)
            Issue.record("a field \(name)")
        } catch let error as CKError { #expect(error.code == .invalidArguments) }
    }

    // MARK: Errors made by a program

    @Test func programsCanCreateErrors() throws {
        let id = thing("a").recordID
        let inner = CKError(.serverRecordChanged, userInfo: [CKRecordChangedErrorServerRecordKey: thing("a")])
        for wait in [3 as Any, 3.0, NSNumber(value: 3), TimeInterval(3)] {
            let error = CKError(.requestRateLimited, userInfo: [CKErrorRetryAfterKey: wait])
            #expect(error.retryAfterSeconds == 3 && error.userInfo[CKErrorRetryAfterKey] as? Double == 3)
        }
        let whole = NSError(
            domain: CKError.errorDomain,
            code: CKError.partialFailure.rawValue,
            userInfo: [CKPartialErrorsByItemIDKey: [id: inner as NSError]]
        )
        let partial = try #require(whole as Error as? CKError)
        #expect((partial.partialErrorsByItemID?[id] as? CKError)?.serverRecord?.recordID == id)
        let typed = CKError(.partialFailure, userInfo: [CKPartialErrorsByItemIDKey: [id: inner]])
        #expect((typed.partialErrorsByItemID?[id] as? CKError)?.code == .serverRecordChanged)
        #expect(CKError(.unknownItem) == CKError(.unknownItem) && CKError(.unknownItem) != CKError(.internalError))
        #expect((CKError(.unknownItem) as NSError).localizedDescription == CKError(.unknownItem).localizedDescription)
        #expect("\(CKError(.zoneBusy, userInfo: [NSLocalizedDescriptionKey: "Later."]))".contains("Later."))
        func isTemporary(_ error: Error) -> Bool {
            switch error {
            case CKError.networkFailure, CKError.networkUnavailable, CKError.zoneBusy: true
            case let error as CKError: error.retryAfterSeconds != nil
            default: false
            }
        }
        #expect(isTemporary(CKError(.zoneBusy)) && !isTemporary(inner) && !isTemporary(CancellationError()))
        let result: Result<CKRecord, Error> = .failure(inner)
        if case .failure(let error as CKError) = result, case .serverRecordChanged = error.code {
            #expect(error.errorCode == 14)
        } else {
            Issue.record("no match")
        }
    }

    // MARK: Archives

    @Test func dictionariesOfCloudKitObjectsAreArchived() async throws {
        let record = try await database.save(thing("a"))
        let page = try await database.recordZoneChanges(inZoneWith: zoneID, since: nil)
        let kept: NSDictionary = [
            "tokens": [zoneID: page.changeToken] as NSDictionary, "ids": [record.recordID] as NSArray,
            "records": [record.recordID: record] as NSDictionary,
        ]
        let data = try NSKeyedArchiver.archivedData(withRootObject: kept, requiringSecureCoding: true)
        let classes: [AnyClass] = [
            NSDictionary.self, NSArray.self, NSString.self, CKRecordZone.ID.self, CKServerChangeToken.self,
            CKRecord.ID.self, CKRecord.self,
        ]
        let found = try NSKeyedUnarchiver.unarchivedObject(ofClasses: classes, from: data)
        let read = try #require(found as? [String: Any])
        #expect((read["tokens"] as? [CKRecordZone.ID: CKServerChangeToken])?[zoneID] == page.changeToken)
        #expect((read["ids"] as? [CKRecord.ID]) == [record.recordID])
        let again = (read["records"] as? [CKRecord.ID: CKRecord])?[record.recordID]
        #expect(again?.recordChangeTag == record.recordChangeTag && again?.creationDate == record.creationDate)
        again?["a"] = 1
        try await database.save(try #require(again))
    }

    @Test func arraysAndDictionariesAreUnarchived() async throws {
        let records = [thing("a"), thing("b")]
        _ = try await database.modifyRecords(saving: records, deleting: [])
        let list = try NSKeyedArchiver.archivedData(withRootObject: records, requiringSecureCoding: true)
        let read = try NSKeyedUnarchiver.unarchivedArrayOfObjects(ofClass: CKRecord.self, from: list)
        #expect(read?.map(\.recordChangeTag) == records.map(\.recordChangeTag))
        let table = [zoneID: try await database.recordZoneChanges(inZoneWith: zoneID, since: nil).changeToken]
        let kept = try NSKeyedArchiver.archivedData(withRootObject: table, requiringSecureCoding: true)
        let tokens = try NSKeyedUnarchiver.unarchivedDictionary(
            ofKeyClass: CKRecordZone.ID.self,
            objectClass: CKServerChangeToken.self,
            from: kept
        )
        #expect(tokens == table)
        let mixed = try NSKeyedUnarchiver.unarchivedArrayOfObjects(
            ofClasses: [CKRecord.self, CKShare.self],
            from: list
        )
        #expect(mixed?.count == 2)
        let second: UInt64 = NSEC_PER_SEC
        #expect(second == 1_000 * NSEC_PER_MSEC)
    }

    @Test func copiesOfARecordAreIndependent() async throws {
        let record = thing("a")
        record["list"] = ["x"]
        record["n"] = 1
        let copy = try #require(record.copy() as? CKRecord)
        copy["n"] = 2
        copy["list"] = nil
        #expect(record["n"] as? Int == 1 && record["list"] as? [String] == ["x"] && copy.recordID == record.recordID)
        try await database.save(record)
        #expect(record.recordChangeTag != nil && copy.recordChangeTag == nil && !copy.changedKeys().isEmpty)
        #expect(record != copy && record.isEqual(record) && record.description.contains("Thing"))
        do {
            try await database.save(copy)
            Issue.record("an outdated copy was accepted")
        } catch CKError.serverRecordChanged {}
        let (results, _) = try await database.modifyRecords(saving: [copy], deleting: [], savePolicy: .changedKeys)
        #expect(try results[copy.recordID]?.get()["n"] as? Int == 2)
        let read = try await database.record(for: record.recordID)
        #expect(read["list"] == nil && read["n"] as? Int == 2)
        // Saving all keys overwrites the relay's values and keeps fields that only the relay has.
        read["only"] = "there"
        try await database.save(read)
        _ = try await database.modifyRecords(saving: [record], deleting: [], savePolicy: .allKeys)
        let last = try await database.record(for: record.recordID)
        #expect(last["n"] as? Int == 1 && last["list"] as? [String] == ["x"])
    }
}
