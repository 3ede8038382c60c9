import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// Operations as CloudKit programs use them: per-item blocks in order, then the result block, then the completion
/// block.
@Suite(.timeLimit(.minutes(15))) struct OperationTests {
    let relay: TestRelay
    let device: TestDevice
    let zone = CKRecordZone(zoneName: "Notes")
    var database: CKDatabase { device.privateDatabase }

    init() async throws {
        relay = try TestRelay()
        device = relay.device(of: "alice")
        try await device.privateDatabase.save(zone)
    }

    private func note(_ name: String, _ text: String = "text") -> CKRecord {
        let record = CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: name, zoneID: zone.zoneID))
        record["text"] = text
        return record
    }

    /// Runs the operation to its end.
    private func run(_ operation: CKDatabaseOperation, on database: CKDatabase? = nil) async {
        await withCheckedContinuation { done in
            operation.completionBlock = { done.resume() }
            (database ?? self.database).add(operation)
        }
    }

    @Test func recordsAreSavedAndDeletedWithAllBlocksInOrder() async throws {
        try await database.save(note("old"))
        let operation = CKModifyRecordsOperation(
            recordsToSave: [note("a"), note("b")],
            recordIDsToDelete: [note("old").recordID]
        )
        let calls = Mutex<[String]>([])
        func log(_ text: String) { calls.withLock { $0.append(text) } }
        operation.savePolicy = .changedKeys
        operation.qualityOfService = .userInitiated
        operation.perRecordProgressBlock = { record, share in log("\(record.recordID.recordName) \(share)") }
        operation.perRecordSaveBlock = { id, result in log("saved \(id.recordName) \((try? result.get()) != nil)") }
        operation.perRecordDeleteBlock = { id, _ in log("deleted \(id.recordName)") }
        operation.modifyRecordsCompletionBlock = { saved, deleted, error in
            log("\(saved?.count ?? -1) \(deleted?.count ?? -1) \(error == nil)")
        }
        operation.modifyRecordsResultBlock = { if case .success = $0 { log("success") } }
        await run(operation)
        #expect(operation.isFinished && !operation.isExecuting)
        #expect(
            calls.withLock { $0 } == [
                "a 1.0", "b 1.0", "saved a true", "saved b true", "deleted old", "2 1 true", "success",
            ]
        )
    }

    @Test func failuresAreReportedPerRecordAndAsPartialFailure() async throws {
        try await database.save(note("a"))
        let operation = CKModifyRecordsOperation(recordsToSave: [note("a", "stale"), note("b")])
        let codes = Mutex<[String: CKError.Code]>([:])
        let final = Mutex<CKError?>(nil)
        operation.perRecordSaveBlock = { id, result in
            if case .failure(let error as CKError) = result { codes.withLock { $0[id.recordName] = error.code } }
        }
        operation.modifyRecordsCompletionBlock = { _, _, error in final.withLock { $0 = error as? CKError } }
        // As in CloudKit: errors of single records do not fail the newer result block.
        let succeeded = Mutex(false)
        operation.modifyRecordsResultBlock = { result in
            if case .success = result { succeeded.withLock { $0 = true } }
        }
        await run(operation)
        #expect(succeeded.withLock { $0 })
        #expect(codes.withLock { $0 } == ["a": .serverRecordChanged, "b": .batchRequestFailed])
        let error = try #require(final.withLock { $0 })
        #expect(error.code == .partialFailure)
        let item = error.partialErrorsByItemID?[note("a").recordID] as? CKError
        #expect(item?.serverRecord?["text"] == "text")

        operation.perRecordSaveBlock = nil
        let single = CKModifyRecordsOperation(recordsToSave: [note("a", "stale"), note("b")], recordIDsToDelete: nil)
        single.isAtomic = false
        let saved = Mutex<[String]>([])
        single.modifyRecordsCompletionBlock = { records, _, _ in
            saved.withLock { $0 = records?.map(\.recordID.recordName) ?? [] }
        }
        await run(single)
        #expect(saved.withLock { $0 } == ["b"])
    }

    @Test func recordsAreFetched() async throws {
        try await database.save(note("a", "one"))
        let ids = [note("a").recordID, note("gone").recordID]
        let operation = CKFetchRecordsOperation(recordIDs: ids)
        operation.desiredKeys = ["text"]
        var found: [CKRecord.ID: CKRecord]?
        var code: CKError.Code?
        operation.fetchRecordsCompletionBlock = { records, error in
            found = records
            code = (error as? CKError)?.code
        }
        await run(operation)
        #expect(found?[ids[0]]?["text"] == "one")
        #expect(found?.count == 1)
        #expect(code == .partialFailure)

        let me = CKFetchRecordsOperation.fetchCurrentUserRecordOperation()
        var type: String?
        me.perRecordCompletionBlock = { record, _, _ in type = record?.recordType }
        await run(me, on: device.publicDatabase)
        #expect(type == "Users")
    }

    @Test func queriesContinueFromTheirCursor() async throws {
        for number in 0..<5 { try await device.publicDatabase.save(post(number)) }
        let query = CKQuery(recordType: "Post", predicate: NSPredicate(value: true))
        query.sortDescriptors = [NSSortDescriptor(key: "number", ascending: true)]
        var numbers: [Int] = []
        var next: CKQueryOperation? = CKQueryOperation(query: query)
        while let operation = next {
            next = nil
            operation.resultsLimit = 2
            var cursor: CKQueryOperation.Cursor?
            operation.recordMatchedBlock = { _, result in
                if let number = (try? result.get())?["number"] as? Int { numbers.append(number) }
            }
            operation.queryResultBlock = { cursor = try? $0.get() }
            await run(operation, on: device.publicDatabase)
            next = cursor.map { CKQueryOperation(cursor: $0) }
        }
        #expect(numbers == [0, 1, 2, 3, 4])
    }

    private func post(_ number: Int) -> CKRecord {
        let record = CKRecord(recordType: "Post")
        record["number"] = number
        return record
    }

    @Test func zonesAndSubscriptionsAreSavedAndFetched() async throws {
        let extra = CKRecordZone(zoneName: "Extra")
        let modify = CKModifyRecordZonesOperation(recordZonesToSave: [extra], recordZoneIDsToDelete: [])
        var saved: [CKRecordZone]?
        modify.modifyRecordZonesCompletionBlock = { zones, _, _ in saved = zones }
        await run(modify)
        #expect(saved?.map(\.zoneID) == [extra.zoneID])

        let all = CKFetchRecordZonesOperation.fetchAllRecordZonesOperation()
        var names: Set<String> = []
        all.perRecordZoneResultBlock = { id, _ in names.insert(id.zoneName) }
        await run(all)
        #expect(names == ["_defaultZone", "Notes", "Extra"])

        let subscription = CKRecordZoneSubscription(zoneID: zone.zoneID, subscriptionID: "notes")
        let watch = CKModifySubscriptionsOperation(
            subscriptionsToSave: [subscription],
            subscriptionIDsToDelete: ["never was"]
        )
        var error: (any Error)?
        watch.modifySubscriptionsCompletionBlock = { error = $2 }
        await run(watch)
        #expect(error == nil || (error as? CKError)?.code == .partialFailure)
        let list = CKFetchSubscriptionsOperation.fetchAllSubscriptionsOperation()
        var ids: [CKSubscription.ID] = []
        list.fetchSubscriptionCompletionBlock = { found, _ in ids = found.map { Array($0.keys) } ?? [] }
        await run(list)
        #expect(ids == ["notes"])
    }

    @Test func changesAreFetchedZoneByZone() async throws {
        for number in 0..<7 { try await database.save(note("n\(number)")) }
        let changes = CKFetchDatabaseChangesOperation(previousServerChangeToken: nil)
        var changed: [CKRecordZone.ID] = []
        changes.recordZoneWithIDChangedBlock = { changed.append($0) }
        var databaseToken: CKServerChangeToken?
        changes.fetchDatabaseChangesResultBlock = { databaseToken = (try? $0.get())?.serverChangeToken }
        await run(changes)
        #expect(changed.contains(zone.zoneID))
        #expect(databaseToken != nil)

        let missing = CKRecordZone.ID(zoneName: "Missing")
        let configuration = CKFetchRecordZoneChangesOperation.ZoneConfiguration()
        configuration.resultsLimit = 3
        let fetch = CKFetchRecordZoneChangesOperation(
            recordZoneIDs: [missing, zone.zoneID],
            configurationsByRecordZoneID: [zone.zoneID: configuration]
        )
        var names: Set<String> = []
        var updates: [CKServerChangeToken?] = []
        var token: CKServerChangeToken?
        var failed: [CKRecordZone.ID] = []
        var final: CKError?
        fetch.recordWasChangedBlock = { id, _ in names.insert(id.recordName) }
        fetch.recordZoneChangeTokensUpdatedBlock = { _, token, _ in updates.append(token) }
        fetch.recordZoneFetchResultBlock = { id, result in
            switch result {
            case .success(let end):
                token = end.serverChangeToken
                #expect(updates.last == token, "the last token is reported before the zone's result")
            case .failure: failed.append(id)
            }
        }
        fetch.fetchRecordZoneChangesCompletionBlock = { final = $0 as? CKError }
        await run(fetch)
        #expect(names.count == 7)
        #expect(updates.count == 3)
        #expect(failed == [missing])
        #expect((final?.partialErrorsByItemID?[missing] as? CKError)?.code == .zoneNotFound)

        try await database.deleteRecord(withID: note("n3").recordID)
        let rest = CKFetchRecordZoneChangesOperation(
            recordZoneIDs: [zone.zoneID],
            configurationsByRecordZoneID: [zone.zoneID: .init(previousServerChangeToken: token)]
        )
        var deleted: [String] = []
        rest.recordWithIDWasDeletedBlock = { id, type in deleted.append("\(id.recordName) \(type)") }
        await run(rest)
        #expect(deleted == ["n3 Note"])
    }

    /// Runs an operation of each kind and returns the errors of their result blocks by operation name.
    private func results(
        saving records: [CKRecord],
        and ids: [CKRecord.ID],
        in zones: [CKRecordZone.ID],
        atomically isAtomic: Bool
    ) async -> [String: CKError?] {
        let seen = Mutex<[String: CKError?]>([:])
        func block(_ name: String) -> @Sendable (Result<Void, any Error>) -> Void {
            { result in
                var error: CKError?
                if case .failure(let found) = result { error = found as? CKError }
                seen.withLock { $0[name] = .some(error) }
            }
        }
        let save = CKModifyRecordsOperation(recordsToSave: records, recordIDsToDelete: ids)
        save.isAtomic = isAtomic
        save.modifyRecordsResultBlock = block("modify")
        let fetch = CKFetchRecordsOperation(recordIDs: records.map(\.recordID) + ids)
        fetch.fetchRecordsResultBlock = block("fetch")
        let changes = CKFetchRecordZoneChangesOperation(recordZoneIDs: zones)
        changes.fetchRecordZoneChangesResultBlock = block("changes")
        let lookup = CKFetchRecordZonesOperation(recordZoneIDs: zones)
        lookup.fetchRecordZonesResultBlock = block("zones")
        for operation in [save, fetch, changes, lookup] { await run(operation) }
        return seen.withLock { $0 }
    }

    @Test(
        "an operation fails as a whole where every item failed because its zone is missing or was deleted",
        arguments: [(false, false), (true, false), (false, true), (true, true)]
    )
    func everyItemFailedForItsZone(isDeleted: Bool, isAtomic: Bool) async throws {
        let missing = ["Missing", "Gone"].map { CKRecordZone.ID(zoneName: $0) }
        if isDeleted {
            for id in missing {
                try await database.save(CKRecordZone(zoneID: id))
                try await database.deleteRecordZone(withID: id)
            }
        }
        let records = missing.map { CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: "a", zoneID: $0)) }
        let gone = CKRecord.ID(recordName: "b", zoneID: missing[0])
        let results = await results(saving: records, and: [gone], in: missing, atomically: isAtomic)
        #expect(results.count == 4)
        for (name, error) in results {
            #expect(error?.code == .partialFailure, "\(name)")
            let items = error?.partialErrorsByItemID ?? [:]
            #expect(items.count == (["modify", "fetch"].contains(name) ? 3 : 2), "\(name)")
            #expect(items.values.allSatisfy { ($0 as? CKError)?.code == .zoneNotFound }, "\(name)")
        }
        let end = CKModifyRecordZonesOperation(recordZoneIDsToDelete: missing)
        nonisolated(unsafe) var code: CKError.Code?
        end.modifyRecordZonesResultBlock = { if case .failure(let error) = $0 { code = (error as? CKError)?.code } }
        await run(end)
        #expect(code == .partialFailure)
    }

    @Test("an operation succeeds as a whole where an item was served, or failed for another reason")
    func someItemsFailed() async throws {
        let missing = CKRecordZone.ID(zoneName: "Missing")
        let stray = CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: "a", zoneID: missing))
        try await database.save(note("here"))
        for record in [note("new"), note("here", "stale")] {
            let results = await results(
                saving: [stray, record],
                and: [],
                in: [missing, zone.zoneID],
                atomically: false
            )
            #expect(results.count == 4)
            for (name, error) in results { #expect(error == .some(nil), "\(name)") }
        }
        let unknown = CKFetchRecordsOperation(recordIDs: [note("nowhere").recordID, stray.recordID])
        nonisolated(unsafe) var succeeded = false
        unknown.fetchRecordsResultBlock = { if case .success = $0 { succeeded = true } }
        await run(unknown)
        #expect(succeeded)
    }

    /// The client must stop if a relay keeps sending the same token with `moreComing`.
    @Test func aFeedThatDoesNotAdvanceIsAborted() async throws {
        let page = #""syncToken":"same","moreComing":true"#
        let name = #""zoneID":{"zoneName":"Notes"}"#
        let database = ScriptedRelay(
            Array(repeating: .answer(200, "{\"zones\":[],\(page)}"), count: 20)
        )
        let changes = CKFetchDatabaseChangesOperation(previousServerChangeToken: nil)
        var ends: [CKError?] = []
        changes.fetchDatabaseChangesCompletionBlock = { ends.append($2 as? CKError) }
        await run(changes, on: database.container().privateCloudDatabase)
        let zones = ScriptedRelay(
            Array(repeating: .answer(200, "{\"zones\":[{\(name),\(page),\"records\":[]}]}"), count: 20)
        )
        let fetch = CKFetchRecordZoneChangesOperation(recordZoneIDs: [zone.zoneID])
        fetch.recordZoneFetchResultBlock = { _, result in
            if case .failure(let error) = result { ends.append(error as? CKError) }
        }
        await run(fetch, on: zones.container().privateCloudDatabase)
        #expect(ends.map { $0?.code } == [.internalError, .internalError])
        #expect(database.requests.count == 4 && zones.requests.count == 4)
    }

    @Test func queuesRespectDependencies() async throws {
        let queue = OperationQueue()
        let order = Mutex<[String]>([])
        let save = CKModifyRecordsOperation(recordsToSave: [note("a", "written first")])
        save.database = database
        save.modifyRecordsResultBlock = { _ in order.withLock { $0.append("save") } }
        let fetch = CKFetchRecordsOperation(recordIDs: [note("a").recordID])
        fetch.database = database
        fetch.addDependency(save)
        fetch.perRecordResultBlock = { _, result in
            let text: String? = (try? result.get())?["text"]
            order.withLock { $0.append(text ?? "nothing") }
        }
        queue.addOperation(fetch)
        queue.addOperation(save)
        await withCheckedContinuation { done in
            let last = BlockOperation { done.resume() }
            last.addDependency(fetch)
            queue.addOperation(last)
        }
        #expect(order.withLock { $0 } == ["save", "written first"])
    }

    @Test func aCancelledOperationReportsOperationCancelled() async throws {
        let relay = ScriptedRelay(.silence)
        let operation = CKFetchRecordsOperation(recordIDs: [note("a").recordID])
        var code: CKError.Code?
        operation.fetchRecordsResultBlock = { result in
            if case .failure(let error) = result { code = (error as? CKError)?.code }
        }
        relay.beforeAnswer { operation.cancel() }
        await run(operation, on: relay.container().privateCloudDatabase)
        #expect(code == .operationCancelled)

        let early = CKModifyRecordsOperation(recordsToSave: [note("b")])
        var earlyCode: CKError.Code?
        early.modifyRecordsCompletionBlock = { earlyCode = ($2 as? CKError)?.code }
        early.cancel()
        await run(early)
        #expect(earlyCode == .operationCancelled)
        await expect(.unknownItem) { _ = try await database.record(for: note("b").recordID) }
    }

    /// The operation, its configuration and its group agree.
    @Test func qualityOfServiceIsSharedByOperationConfigurationAndGroup() {
        let operation = CKFetchRecordsOperation()
        #expect(operation.qualityOfService == .default && operation.configuration.qualityOfService == .default)
        let group = CKOperationGroup()
        let common = CKOperation.Configuration()
        common.qualityOfService = .background
        group.defaultConfiguration = common
        operation.group = group
        #expect(operation.qualityOfService == .background)
        operation.qualityOfService = .userInitiated
        #expect(operation.qualityOfService == .userInitiated)
        #expect(operation.configuration.qualityOfService == .userInitiated)
        operation.configuration.qualityOfService = .utility
        #expect(operation.qualityOfService == .utility)
        operation.configuration = common
        #expect(operation.qualityOfService == .background)
        operation.configuration = nil
        operation.group = nil
        #expect(operation.qualityOfService == .default)
    }

    @Test func settingsApplyToTheRequest() async throws {
        let relay = ScriptedRelay(.failure(.offline), .failure(.offline), .failure(.offline))
        let database = relay.container().privateCloudDatabase
        let group = CKOperationGroup()
        group.name = "First sync"
        group.quantity = 3
        group.expectedReceiveSize = .megabytes
        let operation = CKFetchRecordsOperation(recordIDs: [note("a").recordID])
        operation.group = group
        operation.configuration.timeoutIntervalForRequest = 7
        operation.configuration.qualityOfService = .utility
        operation.configuration.isLongLived = true
        var code: CKError.Code?
        operation.fetchRecordsResultBlock = { result in
            if case .failure(let error) = result { code = (error as? CKError)?.code }
        }
        await run(operation, on: database)
        #expect(code == .networkUnavailable)
        let configuration = CKOperation.Configuration()
        configuration.timeoutIntervalForResource = 2
        await database.configuredWith(configuration: configuration, group: group) { database in
            _ = try? await database.record(for: note("a").recordID)
        }
        _ = try? await database.record(for: note("a").recordID)
        let requests = relay.requests
        #expect(requests.map(\.timeout) == [.seconds(7), .seconds(2), nil])
        let groups = requests.map { request in
            request.headers.first { $0.name == "X-Zonecast-Operation-Group" }?.value
        }
        #expect(groups == ["\(group.operationGroupID) First sync", "\(group.operationGroupID) First sync", nil])
    }

    /// Fetches six slow zones.
    ///
    /// The operation's time limit is reached during the third.
    @Test func anOperationsTimeLimitCoversAllItsRequests() async throws {
        let ids = (0..<6).map { CKRecordZone.ID(zoneName: "Z\($0)") }
        _ = try await database.modifyRecordZones(saving: ids.map { CKRecordZone(zoneID: $0) }, deleting: [])
        device.network.forgetOperations()
        for number in 1...6 {
            let clock = relay.clock
            device.network.fail(
                request: number,
                of: "changes/zone",
                by: .beforeAnswer { clock.advance(by: .milliseconds(450)) }
            )
        }
        let fetch = CKFetchRecordZoneChangesOperation(recordZoneIDs: ids, configurationsByRecordZoneID: nil)
        fetch.configuration.timeoutIntervalForResource = 1
        var code: CKError.Code?
        fetch.fetchRecordZoneChangesCompletionBlock = { code = ($0 as? CKError)?.code }
        await run(fetch)
        #expect(code == .networkFailure)
        let requests = device.network.operations.filter { $0.hasSuffix("changes/zone") }
        #expect(requests.count == 3, "\(requests)")
    }

    /// The operation does not wait for an answer after its time limit.
    @Test func anOperationsTimeLimitCancelsItsRequest() async throws {
        let clock = relay.clock
        device.network.fail(
            request: 1,
            of: "records/lookup",
            by: .meanwhile {
                clock.advance(by: .seconds(2))
                while !Task.isCancelled { await Task.yield() }
            }
        )
        let fetch = CKFetchRecordsOperation(recordIDs: [note("a").recordID])
        fetch.configuration.timeoutIntervalForResource = 1
        var code: CKError.Code?
        fetch.fetchRecordsResultBlock = { if case .failure(let error) = $0 { code = (error as? CKError)?.code } }
        await run(fetch)
        #expect(code == .networkFailure)
    }

    @Test func settingsApplyToAssetRequests() async throws {
        let relay = ScriptedRelay(.answer(200, #"{"tokens":[{"url":"/asset/1/upload"}]}"#), .failure(.offline))
        let group = CKOperationGroup()
        let record = note("a")
        let folder = TestFolder()
        try folder.make()
        let file = folder.url.appendingPathComponent("photo")
        try Data("photo".utf8).write(to: file)
        record["photo"] = CKAsset(fileURL: file)
        let operation = CKModifyRecordsOperation(recordsToSave: [record])
        operation.group = group
        operation.configuration.timeoutIntervalForRequest = 7
        await run(operation, on: relay.container().privateCloudDatabase)
        let requests = relay.requests
        #expect(requests.map(\.timeout) == [.seconds(7), .seconds(7)], "for the upload URL, then with the file")
        let groups = requests.map { request in
            request.headers.first { $0.name == "X-Zonecast-Operation-Group" }?.value
        }
        #expect(groups == [group.operationGroupID, group.operationGroupID])
    }

    @Test func aContainerRunsOperationsOnItsPrivateDatabase() async throws {
        let operation = CKModifyRecordsOperation(recordsToSave: [note("a")])
        await withCheckedContinuation { done in
            operation.completionBlock = { done.resume() }
            device.container.add(operation)
        }
        #expect(try await database.record(for: note("a").recordID)["text"] == "text")
    }
}

/// Blocks that exist in an older and a newer form: as in CloudKit, the older one is called only if the newer is not
/// set.
@Suite(.timeLimit(.minutes(15))) struct OlderCompletionBlockTests {
    let relay: TestRelay
    let container: CKContainer
    var database: CKDatabase { container.privateCloudDatabase }
    let zoneID = CKRecordZone.ID(zoneName: "Notes")
    private let calls = CallLog()

    private final class CallLog: Sendable {
        private let entries = Mutex<[String]>([])
        func append(_ entry: String) { entries.withLock { $0.append(entry) } }
        func takeAll() -> [String] {
            entries.withLock { entries in
                defer { entries = [] }
                return entries
            }
        }
    }

    init() async throws {
        relay = try TestRelay()
        container = relay.device(of: "alice").container
        try await database.save(CKRecordZone(zoneID: zoneID))
    }

    private func note() -> CKRecord {
        CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: "a", zoneID: zoneID))
    }

    private func run(_ operation: CKDatabaseOperation) async -> [String] {
        await withCheckedContinuation { done in
            operation.completionBlock = { done.resume() }
            database.add(operation)
        }
        return calls.takeAll()
    }

    @Test(arguments: [false, true]) func saveBlocks(both: Bool) async {
        let operation = CKModifyRecordsOperation(recordsToSave: [note()])
        operation.perRecordCompletionBlock = { [calls] _, _ in calls.append("older") }
        if both { operation.perRecordSaveBlock = { [calls] _, _ in calls.append("newer") } }
        #expect(await run(operation) == [both ? "newer" : "older"])
    }

    @Test(arguments: [false, true]) func queryBlocks(both: Bool) async throws {
        try await database.save(note())
        let query = CKQuery(recordType: "Note", predicate: NSPredicate(value: true))
        let operation = CKQueryOperation(query: query)
        operation.recordFetchedBlock = { [calls] _ in calls.append("older") }
        if both { operation.recordMatchedBlock = { [calls] _, _ in calls.append("newer") } }
        #expect(await run(operation) == [both ? "newer" : "older"])
    }

    @Test(arguments: [false, true]) func participantBlocks(both: Bool) async throws {
        let bob = try await relay.device(of: "bob").container.userRecordID()
        let operation = CKFetchShareParticipantsOperation(userIdentityLookupInfos: [.init(userRecordID: bob)])
        operation.shareParticipantFetchedBlock = { [calls] _ in calls.append("older") }
        if both { operation.perShareParticipantResultBlock = { [calls] _, _ in calls.append("newer") } }
        await withCheckedContinuation { done in
            operation.completionBlock = { done.resume() }
            container.add(operation)
        }
        #expect(calls.takeAll() == [both ? "newer" : "older"])
    }

    @Test(arguments: [false, true]) func changeBlocks(both: Bool) async throws {
        try await database.save(note())
        let operation = CKFetchRecordZoneChangesOperation(recordZoneIDs: [zoneID], configurationsByRecordZoneID: nil)
        operation.recordChangedBlock = { [calls] _ in calls.append("older") }
        if both { operation.recordWasChangedBlock = { [calls] _, _ in calls.append("newer") } }
        #expect(await run(operation) == [both ? "newer" : "older"])
    }
}

/// The container of an operation.
@Suite struct OperationContainerTests {
    private let database: CKDatabase

    init() throws { database = try TestRelay().device(of: "alice").privateDatabase }

    @Test func aDatabaseNamesItsContainer() {
        let group = CKOperationGroup()
        group.defaultConfiguration.timeoutIntervalForRequest = 7
        let operation = CKFetchRecordsOperation(recordIDs: [])
        #expect(operation.container == nil && operation.configuration.container == nil)
        operation.group = group
        operation.database = database
        #expect(operation.container?.privateCloudDatabase == database)
        #expect(operation.configuration.container?.privateCloudDatabase == database)
        // Reading the container must not override the group's settings.
        #expect(operation.requestSettings(on: database.session).timeout == .seconds(7))
    }

    @Test func aConfigurationWithoutAContainerKeepsTheDatabasesContainer() {
        let operation = CKFetchRecordsOperation(recordIDs: [])
        operation.database = database
        operation.configuration = CKOperation.Configuration()
        #expect(operation.configuration.container?.privateCloudDatabase == database)
        #expect(operation.resolvedDatabase == database)
    }

    @Test func anOperationInheritsUnsetSettingsFromItsGroup() {
        let group = CKOperationGroup()
        group.defaultConfiguration.timeoutIntervalForRequest = 7
        let operation = CKFetchRecordsOperation(recordIDs: [])
        operation.group = group
        operation.configuration.qualityOfService = .utility
        #expect(operation.requestSettings(on: database.session).timeout == .seconds(7))
        operation.configuration.timeoutIntervalForRequest = 5
        #expect(operation.requestSettings(on: database.session).timeout == .seconds(5))
        operation.timeoutIntervalForRequest = 60
        #expect(operation.requestSettings(on: database.session).timeout == nil, "the default timeout")
    }
}
