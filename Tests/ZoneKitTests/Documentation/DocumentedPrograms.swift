import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

// The code of the documentation catalogue, unchanged: `SnippetTests` compares the two.

// MARK: First sync

func configureForDevelopment() {
    guard let relay = URL(string: "http://127.0.0.1:8080") else { return }
    CKContainer.configure(.dev(relay, user: "alice"), for: "iCloud.org.example.notes")
}

func configureForProduction(password: String) {
    guard let relay = URL(string: "https://sync.example.org") else { return }
    let endpoint = RelayEndpoint(
        url: relay,
        environment: .production,
        apiToken: "64 hexadecimal digits of zonecast token create",
        credential: .account(emailAddress: "alice@example.org", password: password)
    )
    CKContainer.configure(endpoint, for: "iCloud.org.example.notes")
}

func firstSync(_ container: CKContainer) async throws -> [String] {
    let database = container.privateCloudDatabase
    let zone = CKRecordZone(zoneName: "Notes")
    try await database.save(zone)

    let note = CKRecord(recordType: "Note", recordID: CKRecord.ID(zoneID: zone.zoneID))
    note["text"] = "Buy milk"
    note["done"] = false
    try await database.save(note)

    var token: CKServerChangeToken?
    var texts: [String] = []
    var moreComing = true
    while moreComing {
        let changes = try await database.recordZoneChanges(inZoneWith: zone.zoneID, since: token)
        for case .success(let change) in changes.modificationResultsByID.values {
            texts.append(change.record["text"] ?? "")
        }
        token = changes.changeToken  // store it with the data: the next fetch starts there
        moreComing = changes.moreComing
    }
    return texts
}

// MARK: Moving code

func saveWithRetry(_ record: CKRecord, in database: CKDatabase) async throws -> CKRecord {
    do {
        return try await database.save(record)
    } catch let error as CKError where error.code == .serverRecordChanged {
        guard let server = error.serverRecord else { throw error }
        for key in record.changedKeys() { server[key] = record[key] }
        return try await database.save(server)
    }
}

func fetchTheOldWay(_ ids: [CKRecord.ID], in database: CKDatabase, _ done: @escaping @Sendable ([CKRecord]) -> Void) {
    let operation = CKFetchRecordsOperation(recordIDs: ids)
    operation.qualityOfService = .userInitiated
    operation.fetchRecordsCompletionBlock = { records, _ in
        done(records.map { Array($0.values) } ?? [])
    }
    database.add(operation)
}

// MARK: A sync engine's delegate

final class NotesSync: CKSyncEngineDelegate {
    private struct Storage {
        var texts: [CKRecord.ID: String] = [:]
        var serverRecords: [CKRecord.ID: CKRecord] = [:]
        var state: CKSyncEngine.State.Serialization?
    }

    private let storage = Mutex(Storage())
    private let engine = Mutex<CKSyncEngine?>(nil)
    let zoneID = CKRecordZone.ID(zoneName: "Notes")

    func start(_ container: CKContainer) {
        let configuration = CKSyncEngine.Configuration(
            database: container.privateCloudDatabase,
            stateSerialization: storage.withLock { $0.state },
            delegate: self
        )
        let made = CKSyncEngine(configuration)
        if storage.withLock({ $0.state == nil }) {
            made.state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneID: zoneID))])
        }
        engine.withLock { $0 = made }
    }

    func write(_ name: String, _ text: String) {
        let id = CKRecord.ID(recordName: name, zoneID: zoneID)
        storage.withLock { storage in
            storage.texts[id] = text
            engine.withLock { $0 }?.state.add(pendingRecordZoneChanges: [.saveRecord(id)])
        }
    }

    func text(_ name: String) -> String? {
        storage.withLock { $0.texts[CKRecord.ID(recordName: name, zoneID: zoneID)] }
    }
}

extension NotesSync {
    func nextRecordZoneChangeBatch(
        _ context: CKSyncEngine.SendChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.RecordZoneChangeBatch? {
        let scope = context.options.scope
        let changes = syncEngine.state.pendingRecordZoneChanges.filter { scope.contains($0) }
        return await CKSyncEngine.RecordZoneChangeBatch(pendingChanges: changes) { id in
            self.storage.withLock { storage in
                guard let text = storage.texts[id] else { return nil }
                // Based on the relay's version: saving a new record would be a conflict.
                let record = storage.serverRecords[id] ?? CKRecord(recordType: "Note", recordID: id)
                record["text"] = text
                return record
            }
        }
    }
}

extension NotesSync {
    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        switch event {
        case .stateUpdate(let update):
            storage.withLock { $0.state = update.stateSerialization }
        case .fetchedRecordZoneChanges(let changes):
            storage.withLock { storage in
                let pending = Set(syncEngine.state.pendingRecordZoneChanges.map(\.recordID))
                for record in changes.modifications.map(\.record) {
                    storage.serverRecords[record.recordID] = record
                    if !pending.contains(record.recordID) { storage.texts[record.recordID] = record["text"] }
                }
                for id in changes.deletions.map(\.recordID) {
                    storage.serverRecords[id] = nil
                    if !pending.contains(id) { storage.texts[id] = nil }
                }
            }
        case .sentRecordZoneChanges(let sent):
            for record in sent.savedRecords { storage.withLock { $0.serverRecords[record.recordID] = record } }
            for failure in sent.failedRecordSaves { settle(failure, syncEngine) }
        case .accountChange(let change):
            if case .signIn = change.changeType { break }
            storage.withLock { $0 = Storage() }
        case .fetchedDatabaseChanges, .sentDatabaseChanges, .willFetchChanges, .willFetchRecordZoneChanges,
            .didFetchRecordZoneChanges, .didFetchChanges, .willSendChanges, .didSendChanges:
            break
        }
    }

    private func settle(
        _ failure: CKSyncEngine.Event.SentRecordZoneChanges.FailedRecordSave,
        _ engine: CKSyncEngine
    ) {
        let id = failure.record.recordID
        switch failure.error.code {
        case .serverRecordChanged:
            // The local version wins here; an app may merge instead.
            storage.withLock { $0.serverRecords[id] = failure.error.serverRecord }
            engine.state.add(pendingRecordZoneChanges: [.saveRecord(id)])
        case .zoneNotFound:
            storage.withLock { $0.serverRecords[id] = nil }
            engine.state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneID: id.zoneID))])
            engine.state.add(pendingRecordZoneChanges: [.saveRecord(id)])
        case .unknownItem:
            storage.withLock { $0.serverRecords[id] = nil }
            engine.state.add(pendingRecordZoneChanges: [.saveRecord(id)])
        default:
            break  // changes that the engine retries are still pending
        }
    }
}

func followNotes(_ container: CKContainer) async throws {
    let delegate = NotesSync()
    var configuration = CKSyncEngine.Configuration(
        database: container.privateCloudDatabase,
        stateSerialization: nil,
        delegate: delegate
    )
    configuration.automaticallySync = false
    let engine = CKSyncEngine(configuration)
    try await engine.fetchChanges()
    try await engine.sendChanges()
}
