import Foundation
import Observation
import Testing
import ZoneKit
import ZoneTesting

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
