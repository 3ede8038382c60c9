import Foundation
import Records
import SyncCore
import Synchronization
import ZoneKit

/// A client from its start to its end: engine, poller, and what connects them with the store.
final class DemoLife: CKSyncEngineDelegate {
    private struct State {
        var engine: CKSyncEngine?
        /// What was handed over to be sent: the edit's version, by note.
        var sent: [String: Int64] = [:]
        var isEnded = false
    }

    let name: String
    let connection: RelayConnection
    let store: DemoStore
    let poller: PublicDatabasePoller
    private let container: CKContainer
    private let zone: CKRecordZone.ID
    private let place: DemoPlace
    private let state = Mutex(State())
    private let liveness = DemoLiveness()

    init(
        _ name: String,
        _ container: CKContainer,
        _ connection: RelayConnection,
        store: DemoStore,
        zone: CKRecordZone.ID,
        _ place: DemoPlace
    ) throws {
        self.name = name
        self.container = container
        self.connection = connection
        self.store = store
        self.zone = zone
        self.place = place
        var settings = PublicPoll.Settings()
        settings.interval = place.boardInterval
        let kept = try store.state("board", as: PublicDatabasePoller.State.self)
        let journal = place.journal
        poller = PublicDatabasePoller(
            container.publicCloudDatabase,
            [place.boardType],
            settings,
            kept,
            time: .system,
            chance: .system
        ) { event in
            switch event {
            case .fetchedRecords(let records):
                try? store.applyBoard(records)
                for record in records {
                    let text = (record["text"] as String?) ?? ""
                    let delay = journal.shown("board/\(record.recordID.recordName)/\(text)", counts: false)
                    journal.note(name, "polled", "Board/\(record.recordID.recordName) \"\(text)\"\(Self.after(delay))")
                }
            case .stateUpdate(let state): try? store.keep(state: state, as: "board")
            case .failed, .ended: break
            }
        }
    }

    /// Starts engine and poller; what the store says is pending goes out first.
    func begin() {
        let kept = try? store.state("engine", as: CKSyncEngine.State.Serialization.self)
        let configuration = CKSyncEngine.Configuration(
            database: container.privateCloudDatabase,
            stateSerialization: kept,
            delegate: self
        )
        let engine = CKSyncEngine(configuration)
        state.withLock { $0.engine = engine }
        if kept == nil { engine.state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneID: zone))]) }
        let changes = (try? store.changes()) ?? []
        engine.state.add(
            pendingRecordZoneChanges: changes.map { change in
                let id = CKRecord.ID(recordName: change.name, zoneID: zone)
                return change.isDelete ? .deleteRecord(id) : .saveRecord(id)
            }
        )
        let (poller, liveness, connection) = (poller, liveness, connection)
        Task {
            await poller.start()
            await liveness.watch(connection)
        }
    }

    func end() async {
        let engine = state.withLock { state in
            state.isEnded = true
            defer { state.engine = nil }
            return state.engine
        }
        await poller.stop()
        await liveness.stop(connection)
        await engine?.stop()
        store.close()
    }

    var isLive: Bool { liveness.isLive }

    var hasZone: Bool { engine?.state.pendingDatabaseChanges.isEmpty ?? false }

    /// The zone's change token, shortened for people to compare.
    var tokenText: String {
        guard let token = engine?.zoneToken(zone), let place = ChangeToken(encoded: token) else { return "–" }
        return "\(place.position)"
    }

    private var engine: CKSyncEngine? { state.withLock { $0.engine } }

    // MARK: Edits

    func save(_ note: DemoNote) throws {
        try store.save(note)
        engine?.state.add(pendingRecordZoneChanges: [.saveRecord(CKRecord.ID(recordName: note.name, zoneID: zone))])
    }

    func delete(_ note: String) throws {
        try store.delete(note)
        engine?.state.add(pendingRecordZoneChanges: [.deleteRecord(CKRecord.ID(recordName: note, zoneID: zone))])
    }

    func post(_ post: String, _ text: String, isGone: Bool) async throws {
        let database = container.publicCloudDatabase
        let id = CKRecord.ID(recordName: post)
        let record =
            isGone ? try await database.record(for: id) : CKRecord(recordType: place.boardType, recordID: id)
        record["text"] = text
        if isGone { record["deletedAt"] = Date() }
        try store.applyBoard([try await database.save(record)])
    }

    // MARK: CKSyncEngineDelegate

    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        guard !state.withLock({ $0.isEnded }) else { return }
        do {
            try take(event, syncEngine)
        } catch {
            place.journal.note(name, "trouble", "the store refused: \(error)")
        }
    }

    private func take(_ event: CKSyncEngine.Event, _ engine: CKSyncEngine) throws {
        switch event {
        case .stateUpdate(let update): try store.keep(state: update.stateSerialization, as: "engine")
        case .fetchedRecordZoneChanges(let changes): try apply(changes)
        case .sentRecordZoneChanges(let sent): try settle(sent, engine)
        case .sentDatabaseChanges(let sent):
            for zone in sent.savedZones {
                place.journal.note("relay", "commit", "zone \(zone.zoneID.zoneName) of \(name)")
            }
        default: break
        }
    }

    func nextRecordZoneChangeBatch(
        _ context: CKSyncEngine.SendChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.RecordZoneChangeBatch? {
        let pending = syncEngine.state.pendingRecordZoneChanges.filter { context.options.scope.contains($0) }
        for case .deleteRecord(let id) in pending {
            guard let version = try? store.versionOfDelete(id.recordName) else { continue }
            state.withLock { $0.sent[id.recordName] = version }
        }
        return await CKSyncEngine.RecordZoneChangeBatch(pendingChanges: pending) { id in
            guard let (record, version) = try? store.recordToSend(id) else {
                syncEngine.state.remove(pendingRecordZoneChanges: [.saveRecord(id)])
                return nil
            }
            state.withLock { $0.sent[id.recordName] = version }
            return record
        }
    }

    private func apply(_ changes: CKSyncEngine.Event.FetchedRecordZoneChanges) throws {
        let journal = place.journal
        journal.note(
            name,
            "fetch",
            "→ \(changes.modifications.count) changed, \(changes.deletions.count) deleted"
        )
        for change in changes.modifications {
            let lost = try store.apply(change.record)
            let note = DemoNote(change.record)
            if !lost.isEmpty {
                journal.note(
                    name,
                    "merge",
                    "Note/\(note.name): both changed \(lost.joined(separator: ", ")), ours stays"
                )
            }
            let user = name.split(separator: "/").first ?? ""
            journal.note(
                name,
                "shows",
                "Note/\(note.name) \"\(note.title)\"\(Self.after(journal.shown("\(user)/\(note)")))"
            )
        }
        for deletion in changes.deletions {
            try store.applyDeletion(deletion.recordID.recordName)
            journal.note(name, "shows", "Note/\(deletion.recordID.recordName) is gone")
        }
    }

    private func settle(_ sent: CKSyncEngine.Event.SentRecordZoneChanges, _ engine: CKSyncEngine) throws {
        for record in sent.savedRecords {
            let note = record.recordID.recordName
            try store.confirm(record, version: state.withLock { $0.sent[note] ?? 0 })
            place.journal.note("relay", "commit", "Note/\(note)  tag \(record.recordChangeTag ?? "–")")
        }
        for id in sent.deletedRecordIDs {
            try store.confirmDelete(id.recordName, version: state.withLock { $0.sent[id.recordName] ?? 0 })
            place.journal.note("relay", "commit", "Note/\(id.recordName) deleted")
        }
        for failure in sent.failedRecordSaves { try handle(failure, engine) }
    }

    private func handle(
        _ failure: CKSyncEngine.Event.SentRecordZoneChanges.FailedRecordSave,
        _ engine: CKSyncEngine
    ) throws {
        let id = failure.record.recordID
        switch failure.error.code {
        case .serverRecordChanged:
            guard let server = failure.error.serverRecord else { return }
            let lost = try store.apply(server)
            let what =
                lost.isEmpty ? "other fields changed there: both kept" : "\(lost.joined(separator: ", ")): ours stays"
            place.journal.note(name, "conflict", "Note/\(id.recordName)  \(what)")
        case .unknownItem:
            try store.forgetServerCopy(id.recordName)
        case .zoneNotFound:
            try store.forgetServerCopy(id.recordName)
            engine.state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneID: zone))])
        // The engine tries these again by itself.
        case .networkFailure, .networkUnavailable, .zoneBusy, .serviceUnavailable, .requestRateLimited,
            .notAuthenticated, .accountTemporarilyUnavailable, .serverResponseLost, .operationCancelled:
            return
        default:
            place.journal.note(name, "refused", "Note/\(id.recordName): \(failure.error.localizedDescription)")
            return
        }
        engine.state.add(pendingRecordZoneChanges: [.saveRecord(id)])
    }

    private static func after(_ milliseconds: Double?) -> String {
        milliseconds.map { String(format: "   %.0f ms after save", $0) } ?? ""
    }
}

/// Whether a client's notice connection is up.
final class DemoLiveness: Sendable {
    private let state = Mutex((isLive: false, number: UUID?.none))

    var isLive: Bool { state.withLock { $0.isLive } }

    func watch(_ connection: RelayConnection) async {
        let number = await connection.notices.listen(
            to: .public,
            over: connection,
            time: .system,
            chance: .system,
            databaseToken: { nil },
            deliver: { [weak self] event in
                switch event {
                case .opened: self?.state.withLock { $0.isLive = true }
                case .lost: self?.state.withLock { $0.isLive = false }
                case .changed, .accountReplaced: break
                }
            }
        )
        state.withLock { $0.number = number }
    }

    func stop(_ connection: RelayConnection) async {
        if let number = state.withLock({ $0.number }) { await connection.notices.stopListening(number) }
    }
}
