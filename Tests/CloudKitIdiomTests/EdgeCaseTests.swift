import CloudKit
import Testing
import ZoneTesting

/// Unusual situations: the same record twice in a call, empty calls, errors made by the program, archives of
/// collections.
@Suite(.timeLimit(.minutes(15))) struct EdgeCaseTests {
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

/// Details that programs rely on: operation dependencies, the user record, links to a shared hierarchy, and Foundation
/// values in every form.
@Suite(.timeLimit(.minutes(15))) struct UnusualUseTests {
    private let relay: TestRelay
    private let container: CKContainer
    private let database: CKDatabase
    private let zoneID = CKRecordZone.ID(zoneName: "Notes")

    init() async throws {
        relay = try TestRelay()
        container = relay.device(of: "alice@example.org").container
        database = container.privateCloudDatabase
        _ = try await database.save(CKRecordZone(zoneID: zoneID))
    }

    private func note(_ name: String) -> CKRecord {
        CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: name, zoneID: zoneID))
    }

    private final class Order: @unchecked Sendable {
        var ends: [String] = []
    }

    @Test func operationsWaitForTheirDependencies() async throws {
        let order = Order()
        let record = note("a")
        record["text"] = "first"
        let save = CKModifyRecordsOperation(recordsToSave: [record], recordIDsToDelete: nil)
        save.modifyRecordsResultBlock = { _ in order.ends.append("saved") }
        let fetch = CKFetchRecordsOperation(recordIDs: [record.recordID])
        fetch.fetchRecordsResultBlock = { _ in order.ends.append("fetched") }
        fetch.addDependency(save)
        let end = BlockOperation { order.ends.append("end") }
        end.addDependency(fetch)
        let other = OperationQueue()
        await withCheckedContinuation { done in
            end.completionBlock = { done.resume() }
            other.addOperation(end)
            database.add(fetch)
            database.add(save)
        }
        #expect(order.ends == ["saved", "fetched", "end"])
        // An operation that is started without a queue.
        let alone = CKFetchRecordsOperation(recordIDs: [record.recordID])
        alone.database = database
        var found: [CKRecord.ID: CKRecord]?
        await withCheckedContinuation { done in
            alone.fetchRecordsCompletionBlock = { records, _ in found = records }
            alone.completionBlock = { done.resume() }
            alone.start()
        }
        #expect(found?[record.recordID]?["text"] as? String == "first")
    }

    @Test func eachUserHasAUserRecord() async throws {
        let operation = CKFetchRecordsOperation.fetchCurrentUserRecordOperation()
        var me: CKRecord?
        try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, Error>) in
            operation.perRecordResultBlock = { _, result in me = try? result.get() }
            operation.fetchRecordsResultBlock = { done.resume(with: $0) }
            container.publicCloudDatabase.add(operation)
        }
        let user = try #require(me)
        let myID = try await container.userRecordID()
        #expect(user.recordID == myID && user.recordType == CKRecord.SystemType.userRecord)
        user["nickname"] = "Al"
        try await container.publicCloudDatabase.save(user)
        let again = try await container.publicCloudDatabase.record(for: myID)
        #expect(again["nickname"] as? String == "Al")
    }

    @Test func recordsWithoutAssetsReportFullProgress() async throws {
        let operation = CKModifyRecordsOperation(recordsToSave: [note("a"), note("b")], recordIDsToDelete: [])
        var heard: [String: Double] = [:]
        operation.perRecordProgressBlock = { heard[$0.recordID.recordName] = $1 }
        var saved: [CKRecord] = []
        operation.perRecordCompletionBlock = { record, error in if error == nil { saved.append(record) } }
        await withCheckedContinuation { done in
            operation.completionBlock = { done.resume() }
            database.add(operation)
        }
        #expect(heard == ["a": 1, "b": 1] && saved.count == 2)
    }

    @Test("the programs of an application group share a folder")
    func groupContainers() throws {
        let files = FileManager.default
        let group = "group.org.example.\(UUID().uuidString)"
        let folder = try #require(files.containerURL(forSecurityApplicationGroupIdentifier: group))
        defer { try? files.removeItem(at: folder) }
        #expect(folder.isFileURL && folder.lastPathComponent == group)
        let file = folder.appendingPathComponent("notes.sqlite")
        try Data("text".utf8).write(to: file)
        let again = try #require(files.containerURL(forSecurityApplicationGroupIdentifier: group))
        #expect(try Data(contentsOf: again.appendingPathComponent("notes.sqlite")) == Data("text".utf8))
        #expect(try files.attributesOfItem(atPath: folder.path)[.posixPermissions] as? Int == 0o700)
        for name in ["", ".", "..", ".hidden", "a/b", "../elsewhere", "a\0b"] {
            #expect(files.containerURL(forSecurityApplicationGroupIdentifier: name) == nil, "\(name)")
        }
        let long = String(repeating: "g", count: 300)
        #expect(files.containerURL(forSecurityApplicationGroupIdentifier: long) == nil, "the folder cannot be made")
    }

    @Test func cascadedDeletionsAppearInTheFeed() async throws {
        let folder = CKRecord(recordType: "Folder", recordID: CKRecord.ID(recordName: "f", zoneID: zoneID))
        let child = note("c")
        child["folder"] = CKRecord.Reference(record: folder, action: .deleteSelf)
        child.setParent(folder)
        _ = try await database.modifyRecords(saving: [child, folder], deleting: [])
        let first = try await database.recordZoneChanges(inZoneWith: zoneID, since: nil)
        #expect(first.modificationResultsByID.count == 2 && first.deletions.isEmpty && !first.moreComing)
        _ = try await database.modifyRecords(saving: [], deleting: [folder.recordID, child.recordID])
        let next = try await database.recordZoneChanges(inZoneWith: zoneID, since: first.changeToken)
        #expect(Set(next.deletions.map(\.recordType)) == ["Folder", "Note"] && next.modificationResultsByID.isEmpty)
        let token = next.changeToken
        let defaults = try #require(UserDefaults(suiteName: "corner"))
        defaults.set(try NSKeyedArchiver.archivedData(withRootObject: token, requiringSecureCoding: true), forKey: "t")
        let kept = try #require(defaults.data(forKey: "t"))
        let read = try NSKeyedUnarchiver.unarchivedObject(ofClass: CKServerChangeToken.self, from: kept)
        #expect(read == token)
        defaults.removePersistentDomain(forName: "corner")
    }

    @Test func anAtomicFailureNamesTheConflictingRecord() async throws {
        let stale = note("a")
        try await database.save(note("a"))
        let operation = CKModifyRecordsOperation(recordsToSave: [note("b"), stale], recordIDsToDelete: nil)
        operation.isAtomic = true
        var codes: [String: CKError.Code] = [:]
        operation.perRecordSaveBlock = { id, result in
            if case .failure(let error as CKError) = result { codes[id.recordName] = error.code }
        }
        let error: Error? = await withCheckedContinuation { done in
            operation.modifyRecordsCompletionBlock = { _, _, error in done.resume(returning: error) }
            database.add(operation)
        }
        #expect(codes == ["a": .serverRecordChanged, "b": .batchRequestFailed])
        let failure = try #require(error as? CKError)
        #expect(failure.code == .partialFailure && failure.partialErrorsByItemID?.count == 2)
    }

    @Test func aHierarchyIsSharedByALink() async throws {
        let root = CKRecord(recordType: "List", recordID: CKRecord.ID(recordName: "root", zoneID: zoneID))
        root["title"] = "Trip"
        let child = note("child")
        child.parent = CKRecord.Reference(recordID: root.recordID, action: .none)
        let share = CKShare(rootRecord: root, shareID: CKRecord.ID(recordName: "share", zoneID: zoneID))
        share[CKShare.SystemFieldKey.title] = "Trip" as CKRecordValue
        share.publicPermission = .readWrite
        let operation = CKModifyRecordsOperation(recordsToSave: [root, share, child], recordIDsToDelete: nil)
        operation.savePolicy = .ifServerRecordUnchanged
        try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, Error>) in
            operation.modifyRecordsResultBlock = { done.resume(with: $0) }
            database.add(operation)
        }
        #expect(root.share?.recordID == share.recordID)
        let guest = relay.device(of: "bob@example.org").container
        let fetch = CKFetchShareMetadataOperation(shareURLs: [try #require(share.url)])
        fetch.shouldFetchRootRecord = true
        fetch.rootRecordDesiredKeys = ["title"]
        var metadata: CKShare.Metadata?
        try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, Error>) in
            fetch.perShareMetadataResultBlock = { _, result in metadata = try? result.get() }
            fetch.fetchShareMetadataResultBlock = { done.resume(with: $0) }
            guest.add(fetch)
        }
        let found = try #require(metadata)
        #expect(found.rootRecord?["title"] as? String == "Trip" && found.participantRole == .publicUser)
        #expect(found.share.publicPermission == .readWrite)
        #expect(found.containerIdentifier == container.containerIdentifier)
        _ = try await guest.accept(found)
        let shared = guest.sharedCloudDatabase
        let zones = try await shared.allRecordZones()
        let theirs = try #require(zones.first).zoneID
        let query = CKQuery(recordType: "Note", predicate: NSPredicate(value: true))
        let (results, _) = try await shared.records(matching: query, inZoneWith: theirs)
        let seen = try #require(try results.first?.1.get())
        #expect(seen.parent?.recordID.recordName == "root" && seen.parent?.recordID.zoneID == theirs)
        seen["text"] = "by Bob"
        try await shared.save(seen)
        let read = try await database.record(for: child.recordID)
        #expect(read["text"] as? String == "by Bob")
        #expect(read.lastModifiedUserRecordID?.recordName != CKCurrentUserDefaultName)
        #expect(read.creatorUserRecordID?.recordName == CKCurrentUserDefaultName)
        // The owner deletes the share.
        let current = try #require(try await database.record(for: share.recordID) as? CKShare)
        #expect(current.participants.count == 2)
        _ = try await database.deleteRecord(withID: current.recordID)
        let left = try await shared.allRecordZones()
        #expect(left.isEmpty)
        let gone = try await shared.databaseChanges(since: nil)
        #expect(gone.modifications.isEmpty)
    }

    @Test func fieldsAcceptCommonValueTypes() async throws {
        let record = note("a")
        enum Kind: String { case big }
        record["kind"] = Kind.big.rawValue
        record["url"] = URL(string: "https://example.org")?.absoluteString
        record["optional"] = (nil as Date?)
        record["mixed"] = [1, 2.5] as NSArray
        record["uuid"] = UUID().uuidString
        record["flags"] = [true, false]
        record["bytes"] = Data([1, 2, 3]) as NSData
        record["words"] = NSArray(array: ["a", "b"])
        record["big"] = UInt64(1) << 40
        record["ref"] = [CKRecord.Reference(recordID: note("b").recordID, action: .none)]
        record["when"] = NSDate(timeIntervalSince1970: 1.5)
        record["places"] = [CLLocation(latitude: 1, longitude: 2)]
        try await database.save(note("b"))
        try await database.save(record)
        let read = try await database.record(for: record.recordID)
        #expect(read["mixed"] as? [Double] == [1, 2.5] && read["flags"] as? [Bool] == [true, false])
        #expect(read["bytes"] as? Data == Data([1, 2, 3]) && read["big"] as? UInt64 == 1 << 40)
        #expect(read["words"] as? [String] == ["a", "b"] && read["optional"] == nil)
        #expect((read["when"] as? Date)?.timeIntervalSince1970 == 1.5)
        #expect((read["ref"] as? [CKRecord.Reference])?.first?.recordID == note("b").recordID)
        #expect((read["places"] as? [CLLocation])?.first?.coordinate.longitude == 2)
        let number = try #require(read["big"] as? NSNumber)
        #expect(number.int64Value == 1 << 40)
        var pairs: [String: CKRecordValue] = [:]
        for (key, value) in read { pairs[key] = value }
        #expect(Set(pairs.keys) == Set(read.allKeys()))
        read["kind"] = nil
        read["words"] = read["words"]
        #expect(read.changedKeys().sorted() == ["kind", "words"])
        try await database.save(read)
        #expect(try await database.record(for: record.recordID)["kind"] == nil)
    }

    /// Programs read system fields by name like other fields.
    @Test func systemFieldsAreReadByName() async throws {
        let saved = try await database.save(note("a"))
        let read = try await database.record(for: saved.recordID)
        #expect(read["modificationDate"] as? Date == read.modificationDate && read.modificationDate != nil)
        #expect(read[CKRecord.SystemFieldKey.creationDate] == read.creationDate)
        #expect(read.object(forKey: "creationDate") as? NSDate != nil)
        #expect(read.object(forKey: "recordID") as? CKRecord.ID == read.recordID)
        read.setParent(note("above"))
        #expect((read[CKRecord.SystemFieldKey.parent] as? CKRecord.Reference)?.recordID == note("above").recordID)
        read.setParent(nil as CKRecord.ID?)
        #expect(read.value(forKey: "creatorUserRecordID") as? CKRecord.ID == read.creatorUserRecordID)
        #expect(read.value(forKey: "recordType") as? String == "Note" && read.value(forKey: "parent") == nil)
        #expect(read.dictionaryWithValues(forKeys: ["creationDate"])["creationDate"] is Date)
        #expect(read.allKeys().isEmpty && read.changedKeys().isEmpty && read.map(\.0).isEmpty)
        #expect(note("new")["creationDate"] == nil && note("new").value(forKey: "recordChangeTag") == nil)
        let wrong = note("wrong")
        wrong["address"] = read.recordID
        await #expect(throws: CKError.self) { try await database.save(wrong) }
        // A field of the program's own with the same name takes precedence.
        let own = Date(timeIntervalSince1970: 5)
        read["creationDate"] = own
        try await database.save(read)
        let again = try await database.record(for: saved.recordID)
        #expect(again["creationDate"] as? Date == own && again.creationDate == saved.creationDate)
    }

    @Test func cancellationIsReported() async throws {
        let operation = CKQueryOperation(query: CKQuery(recordType: "Note", predicate: NSPredicate(value: true)))
        operation.cancel()
        let error: Error? = await withCheckedContinuation { done in
            operation.queryCompletionBlock = { _, error in done.resume(returning: error) }
            database.add(operation)
        }
        #expect((error as? CKError)?.code == .operationCancelled)
        let task = Task { try await database.allRecordZones() }
        task.cancel()
        // The task is cancelled or already finished.
        if case .failure(let error) = await task.result { #expect((error as? CKError)?.code == .operationCancelled) }
    }
}
