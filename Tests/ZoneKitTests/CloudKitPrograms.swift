import Foundation
import Observation
import Testing
import ZoneKit
import ZoneTesting

// Programs in the style of CloudKit's samples, as people write them for Apple's framework. Half of the test is that
// they compile. They must use nothing that CloudKit does not have.

/// A store for notes, with tasks.
private final class NoteStore: Sendable {
    let container: CKContainer
    let zone = CKRecordZone(zoneName: "Notes")
    var database: CKDatabase { container.privateCloudDatabase }

    init(container: CKContainer = CKContainer.default()) { self.container = container }

    func prepare() async throws {
        guard try await container.accountStatus() == .available else { throw CKError(.notAuthenticated) }
        _ = try await database.modifyRecordZones(saving: [zone], deleting: [])
        let subscription = CKDatabaseSubscription(subscriptionID: "private-changes")
        let info = CKSubscription.NotificationInfo()
        info.shouldSendContentAvailable = true
        subscription.notificationInfo = info
        _ = try await database.modifySubscriptions(saving: [subscription], deleting: [])
    }

    func add(_ title: String, tags: [String] = [], due: Date? = nil) async throws -> CKRecord {
        let record = CKRecord(
            recordType: "Note",
            recordID: CKRecord.ID(recordName: UUID().uuidString, zoneID: zone.zoneID)
        )
        record["title"] = title
        record["tags"] = tags
        record["due"] = due
        record["done"] = false
        record["priority"] = 1 as NSNumber
        record.setObject("de" as NSString, forKey: "language")
        return try await database.save(record)
    }

    func markDone(_ recordID: CKRecord.ID) async throws {
        let record = try await database.record(for: recordID)
        record["done"] = true
        do {
            try await database.save(record)
        } catch let error as CKError where error.code == .serverRecordChanged {
            guard let serverRecord = error.serverRecord else { throw error }
            serverRecord["done"] = record["done"]
            try await database.save(serverRecord)
        }
    }

    func deleteAll() async throws -> Int {
        let changes = try await database.recordZoneChanges(inZoneWith: zone.zoneID, since: nil)
        let ids = changes.modificationResultsByID.compactMap { id, result -> CKRecord.ID? in
            switch result {
            case .success: return id
            case .failure: return nil
            }
        }
        let (_, deleteResults) = try await database.modifyRecords(saving: [], deleting: ids)
        return deleteResults.filter { (try? $0.value.get()) != nil }.count
    }
}

/// The incremental download that every CloudKit program has.
private struct DeltaDownload {
    var token: CKServerChangeToken?

    mutating func run(_ database: CKDatabase, _ zoneID: CKRecordZone.ID) async throws -> (
        changed: [CKRecord], deleted: Int
    ) {
        var awaitingChanges = true
        var changed: [CKRecord] = []
        var deleted = 0
        while awaitingChanges {
            do {
                let allChanges = try await database.recordZoneChanges(inZoneWith: zoneID, since: token)
                let changes = allChanges.modificationResultsByID.compactMapValues { try? $0.get().record }
                changed += changes.values
                allChanges.deletions.forEach { _ in deleted += 1 }
                token = allChanges.changeToken
                awaitingChanges = allChanges.moreComing
            } catch let error as CKError where error.code == .changeTokenExpired {
                token = nil
            }
        }
        return (changed, deleted)
    }
}

/// A save with a completion handler, as older programs are written.
private func saveTheOldWay(
    _ database: CKDatabase,
    _ record: CKRecord,
    completion: @escaping @Sendable (Result<CKRecord, any Error>) -> Void
) {
    database.save(record) { savedRecord, error in
        if let ckError = error as? CKError, let retryAfter = ckError.userInfo[CKErrorRetryAfterKey] as? Double {
            completion(
                .failure(NSError(domain: CKErrorDomain, code: ckError.code.rawValue, userInfo: ["after": retryAfter]))
            )
        } else if let error {
            completion(.failure(error))
        } else if let savedRecord {
            completion(.success(savedRecord))
        }
    }
}

extension CKRecord {
    fileprivate var title: String? {
        get { self["title"] as? String }
        set { self["title"] = newValue }
    }

    fileprivate func encodedSystemFields() -> Data {
        let archiver = NSKeyedArchiver(requiringSecureCoding: true)
        encodeSystemFields(with: archiver)
        archiver.finishEncoding()
        return archiver.encodedData
    }
}

@Suite struct CloudKitPrograms {
    let relay: TestRelay
    let container: CKContainer

    init() throws {
        relay = try TestRelay()
        container = relay.device(of: "alice").container
    }

    @Test func aNoteStoreWorks() async throws {
        let store = NoteStore(container: container)
        try await store.prepare()
        let first = try await store.add("Milk", tags: ["shop"], due: Date(timeIntervalSinceNow: 180))
        let second = try await store.add("Bread")
        #expect(second["due"] == nil)
        #expect(first["priority"] as? Int == 1)
        #expect(first.title == "Milk")
        try await store.markDone(first.recordID)
        #expect(try await store.database.record(for: first.recordID)["done"] as? Bool == true)

        var download = DeltaDownload()
        let start = try await download.run(store.database, store.zone.zoneID)
        #expect(Set(start.changed.compactMap(\.title)) == ["Milk", "Bread"])
        #expect(try await store.deleteAll() == 2)
        let end = try await download.run(store.database, store.zone.zoneID)
        #expect(end.changed.isEmpty)
        #expect(end.deleted == 2)
        #expect(!first.encodedSystemFields().isEmpty)
    }

    @Test func completionHandlersAreCalledOnce() async throws {
        let database = container.privateCloudDatabase
        let record = CKRecord(recordType: "Note")
        record.title = "old way"
        let saved = try await withCheckedThrowingContinuation { done in
            saveTheOldWay(database, record) { done.resume(with: $0) }
        }
        #expect(saved === record)

        let fetched: CKRecord? = await withCheckedContinuation { done in
            database.fetch(withRecordID: record.recordID) { found, _ in done.resume(returning: found) }
        }
        #expect(fetched?.title == "old way")

        let query = CKQuery(recordType: "Note", predicate: NSPredicate(value: true))
        let found: [CKRecord]? = await withCheckedContinuation { done in
            database.perform(query, inZoneWith: nil) { records, _ in done.resume(returning: records) }
        }
        #expect(found?.map(\.recordID) == [record.recordID])

        let zones: [CKRecordZone]? = await withCheckedContinuation { done in
            database.fetchAllRecordZones { zones, _ in done.resume(returning: zones) }
        }
        #expect(zones?.count == 1)

        let error: (any Error)? = await withCheckedContinuation { done in
            database.fetch(withRecordID: CKRecord.ID(recordName: "none")) { _, error in done.resume(returning: error) }
        }
        switch error {
        case let ckError as CKError where ckError.code == .unknownItem: break
        default: Issue.record("\(String(describing: error))")
        }

        let outcome: Result<CKRecord.ID?, any Error> = await withCheckedContinuation { done in
            database.modifyRecords(saving: [], deleting: [record.recordID]) { result in
                done.resume(returning: result.map { $0.deleteResults.keys.first })
            }
        }
        #expect(try outcome.get() == record.recordID)
        let status: CKAccountStatus = await withCheckedContinuation { done in
            container.accountStatus { status, _ in done.resume(returning: status) }
        }
        #expect(status == .available)
        let user: CKRecord.ID? = await withCheckedContinuation { done in
            container.fetchUserRecordID { id, _ in done.resume(returning: id) }
        }
        #expect(user != nil)
    }

    @Test func errorsAreSwitchedOver() async throws {
        func advice(_ error: any Error) -> String {
            guard let ckError = error as? CKError else { return "other" }
            switch ckError.code {
            case .networkUnavailable, .networkFailure, .serviceUnavailable, .requestRateLimited, .zoneBusy:
                return "retry"
            case .notAuthenticated: return "sign in"
            case .partialFailure: return "\(ckError.partialErrorsByItemID?.count ?? 0) items"
            case .serverRecordChanged: return "merge"
            default: return "give up"
            }
        }
        #expect(advice(CKError(.zoneBusy)) == "retry")
        #expect(advice(CKError(.unknownItem)) == "give up")
        #expect(advice(CancellationError()) == "other")
        let code = CKError.Code(rawValue: 9)
        #expect(code == CKError.notAuthenticated)
    }
}

/// A program in current Swift style: its models and the delegate of its engine live on the main actor.
@MainActor @Observable private final class NoteList {
    struct Item: Identifiable, Sendable, Equatable {
        let id: CKRecord.ID
        var text: String
    }

    private(set) var items: [Item] = []
    private(set) var message: String?
    private(set) var progress = 0.0
    private let database: CKDatabase
    private let zoneID: CKRecordZone.ID

    init(database: CKDatabase, zoneID: CKRecordZone.ID) {
        self.database = database
        self.zoneID = zoneID
    }

    func refresh() async {
        let query = CKQuery(recordType: "Note", predicate: NSPredicate(format: "text != %@", ""))
        query.sortDescriptors = [NSSortDescriptor(key: "text", ascending: true)]
        do {
            let (results, _) = try await database.records(matching: query, inZoneWith: zoneID, desiredKeys: ["text"])
            items = results.compactMap { id, result in
                (try? result.get()["text"] as? String).map { Item(id: id, text: $0) }
            }
        } catch let error as CKError where error.code == .unknownItem {
            items = []
        } catch {
            message = error.localizedDescription
        }
    }

    func add(_ texts: [String]) async throws {
        let records = texts.map { text in
            let record = CKRecord(recordType: "Note", recordID: CKRecord.ID(zoneID: zoneID))
            record["text"] = text
            return record
        }
        let operation = CKModifyRecordsOperation(recordsToSave: records)
        operation.perRecordProgressBlock = { _, share in
            Task { @MainActor [weak self] in self?.progress = max(self?.progress ?? 0, share) }
        }
        try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
            operation.modifyRecordsResultBlock = { done.resume(with: $0) }
            database.add(operation)
        }
    }

    func refreshTheOldWay(_ completion: @escaping @MainActor (Int) -> Void) {
        database.fetch(
            withQuery: CKQuery(recordType: "Note", predicate: NSPredicate(value: true)),
            inZoneWith: zoneID
        ) { result in
            let count = (try? result.get().matchResults.count) ?? 0
            Task { @MainActor in completion(count) }
        }
    }
}

@MainActor private final class NoteSync: CKSyncEngineDelegate {
    private(set) var texts: [CKRecord.ID: String] = [:]
    private var pending: [CKRecord.ID: String] = [:]
    private lazy var engine: CKSyncEngine = {
        var configuration = CKSyncEngine.Configuration(database: database, stateSerialization: nil, delegate: self)
        configuration.automaticallySync = false
        return CKSyncEngine(configuration)
    }()
    private let database: CKDatabase

    init(_ database: CKDatabase) { self.database = database }

    func write(_ text: String, _ id: CKRecord.ID) {
        pending[id] = text
        engine.state.add(pendingRecordZoneChanges: [.saveRecord(id)])
    }

    func synchronize() async throws {
        try await engine.sendChanges()
        try await engine.fetchChanges()
    }

    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        switch event {
        case .fetchedRecordZoneChanges(let changes):
            for modification in changes.modifications {
                texts[modification.record.recordID] = modification.record["text"]
            }
        case .sentRecordZoneChanges(let sent):
            for record in sent.savedRecords { pending[record.recordID] = nil }
        default: break
        }
    }

    func nextRecordZoneChangeBatch(
        _ context: CKSyncEngine.SendChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.RecordZoneChangeBatch? {
        let pending = pending
        let changes = syncEngine.state.pendingRecordZoneChanges.filter { context.options.scope.contains($0) }
        return await CKSyncEngine.RecordZoneChangeBatch(pendingChanges: changes) { id in
            let record = CKRecord(recordType: "Note", recordID: id)
            record["text"] = pending[id]
            return record
        }
    }
}

@MainActor @Suite(.timeLimit(.minutes(15))) struct ModernProgramTests {
    private let database: CKDatabase
    private let zoneID = CKRecordZone.ID(zoneName: "Notes")

    init() async throws {
        database = try TestRelay().device(of: "alice").privateDatabase
        _ = try await database.save(CKRecordZone(zoneID: zoneID))
    }

    @Test func mainActorModelsAreFilled() async throws {
        let list = NoteList(database: database, zoneID: zoneID)
        await list.refresh()
        #expect(list.items.isEmpty && list.message == nil)
        try await list.add(["b", "a"])
        await list.refresh()
        #expect(list.items.map(\.text) == ["a", "b"])
        let count = await withCheckedContinuation { done in list.refreshTheOldWay { done.resume(returning: $0) } }
        #expect(count == 2)
    }

    @Test func aDelegateLivesOnTheMainActor() async throws {
        let sync = NoteSync(database)
        let id = CKRecord.ID(recordName: "n", zoneID: zoneID)
        sync.write("hello", id)
        try await sync.synchronize()
        let other = NoteSync(database)
        try await other.synchronize()
        #expect(other.texts == [id: "hello"])
    }

    @Test func recordsCanBeSharedBetweenTasks() async throws {
        let ids = (0..<6).map { CKRecord.ID(recordName: "n\($0)", zoneID: zoneID) }
        let database = database
        let saved = try await withThrowingTaskGroup(of: CKRecord.self) { group in
            for id in ids {
                group.addTask {
                    let record = CKRecord(recordType: "Note", recordID: id)
                    record["text"] = id.recordName
                    return try await database.save(record)
                }
            }
            var saved: [CKRecord.ID: CKRecord] = [:]
            for try await record in group { saved[record.recordID] = record }
            return saved
        }
        #expect(saved.count == 6)
        async let first = database.record(for: ids[0])
        async let all = database.records(for: ids)
        #expect(try await first["text"] as? String == "n0")
        #expect(try await all.count == 6)
        let stream = AsyncStream<CKRecord> { next in
            for record in saved.values { next.yield(record) }
            next.finish()
        }
        var names: Set<String> = []
        for await record in stream { names.insert(record.recordID.recordName) }
        #expect(names.count == 6)
    }
}
