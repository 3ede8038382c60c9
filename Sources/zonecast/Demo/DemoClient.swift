import Foundation
import ZoneKit

/// One device of one user: its store, its sync engine with a socket of its own, and its copy of the public board.
///
/// Written as an application for CloudKit would be: the engine says what happened, the app keeps its own rows.
actor DemoClient: CKSyncEngineDelegate {
    nonisolated let name: String
    nonisolated let store: DemoStore
    nonisolated let endpoint: RelayEndpoint
    private let setting: DemoSetting
    private let narrator: Narrator
    private let zoneID: CKRecordZone.ID
    private var container: CKContainer
    private var engine: CKSyncEngine?
    private var board: Task<Void, Never>?
    private var poller: PublicDatabasePoller?
    /// The version of each row that is on its way.
    private var sending: [String: Int] = [:]
    private(set) var isFetching = false

    init(name: String, endpoint: RelayEndpoint, setting: DemoSetting, narrator: Narrator) throws {
        self.name = name
        self.endpoint = endpoint
        self.setting = setting
        self.narrator = narrator
        store = try DemoStore(path: "\(setting.folder)/\(name.replacingOccurrences(of: "/", with: "-")).sqlite")
        zoneID = CKRecordZone.ID(zoneName: setting.zoneName, ownerName: CKCurrentUserDefaultName)
        container = CKContainer(identifier: setting.container, endpoint: endpoint)
    }

    var isOnline: Bool { engine != nil }

    // MARK: Going on and off line

    /// Starts to sync: from where the file says it left off.
    func goOnline() throws {
        guard engine == nil else { return }
        container = CKContainer(identifier: setting.container, endpoint: endpoint)
        let kept = try store.engineState()
        let engine = CKSyncEngine(
            CKSyncEngine.Configuration(
                database: container.privateCloudDatabase,
                stateSerialization: kept,
                delegate: self
            )
        )
        self.engine = engine
        if kept == nil { engine.state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneID: zoneID))]) }
        let waiting = try store.rows().filter(\.isDirty).map(pendingChange)
        if !waiting.isEmpty { engine.state.add(pendingRecordZoneChanges: waiting) }
        startBoard()
    }

    /// Stops to sync: no request, no socket.
    ///
    /// Edits wait in the file.
    func goOffline() async {
        guard let engine else { return }
        self.engine = nil
        board?.cancel()
        board = nil
        poller = nil
        sending = [:]
        await engine.cancelOperations()
    }

    private func pendingChange(_ row: DemoStore.Row) -> CKSyncEngine.PendingRecordZoneChange {
        let id = CKRecord.ID(recordName: row.name, zoneID: zoneID)
        return row.isDeleted ? .deleteRecord(id) : .saveRecord(id)
    }

    // MARK: What a person does

    @discardableResult
    func add(_ title: String) throws -> String {
        let name = UUID().uuidString
        try edited(DemoStore.Row(name: name, note: DemoNote(title: title)), "save")
        return name
    }

    func edit(_ name: String, _ change: @Sendable (inout DemoNote) -> Void) throws {
        guard var row = try store.row(name), !row.isDeleted else { return }
        change(&row.note)
        try edited(row, "edit")
    }

    func delete(_ name: String) throws {
        guard var row = try store.row(name) else { return }
        row.isDeleted = true
        try edited(row, "delete")
    }

    private func edited(_ row: DemoStore.Row, _ verb: String) throws {
        var row = row
        row.version += 1
        row.isDirty = true
        try store.put(row)
        narrator.saved(Self.mark(row.name, row.note))
        let pending = try pendingCount()
        narrator.step(name, verb, "\(Self.quoted(row.note))  pending \(pending)\(engine == nil ? "  (offline)" : "")")
        engine?.state.add(pendingRecordZoneChanges: [pendingChange(row)])
    }

    /// Writes on the public board, at once and without an engine.
    func post(_ title: String) async throws {
        let record = CKRecord(recordType: setting.postType)
        record["title"] = title
        let saved = try await container.publicCloudDatabase.save(record)
        try store.post(saved.recordID.recordName, title)
        narrator.step(name, "post", "Board \"\(title)\"")
    }

    // MARK: What it shows

    nonisolated func pendingCount() throws -> Int { try store.rows().count { $0.isDirty } }

    nonisolated func notes() throws -> [String: DemoNote] {
        try store.rows().filter { !$0.isDeleted }.reduce(into: [:]) { $0[$1.name] = $1.note }
    }

    /// The newest change tag it holds: how far it has come, in a few letters.
    nonisolated func position() throws -> String {
        try store.rows().map(\.changeTag).max { ($0.count, $0) < ($1.count, $1) } ?? ""
    }

    static func quoted(_ note: DemoNote) -> String { "Note \(note.isDone ? "☑" : "☐") \"\(note.title)\"" }
    static func mark(_ name: String, _ note: DemoNote) -> String { "\(name) \(note.isDone) \(note.title)" }

    // MARK: The public board

    private func startBoard() {
        let (name, narrator, store) = (name, narrator, store)
        let poller = PublicDatabasePoller(
            database: container.publicCloudDatabase,
            recordTypes: [setting.postType],
            interval: setting.boardInterval
        ) { records in
            for record in records {
                guard let title = record["title"] as? String else { continue }
                let known = (try? store.posts()) ?? [:]
                try? store.post(record.recordID.recordName, title)
                if known[record.recordID.recordName] == nil { narrator.step(name, "poll", "Board \"\(title)\"") }
            }
        }
        self.poller = poller
        board = Task { await poller.run() }
    }

    // MARK: The engine's side

    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        guard syncEngine === engine else { return }  // A late word from an engine that went offline.
        do {
            switch event {
            case .stateUpdate(let update): try store.keep(update.stateSerialization)
            case .fetchedRecordZoneChanges(let changes): try fetched(changes)
            case .fetchedDatabaseChanges(let changes):
                if changes.deletions.contains(where: { $0.zoneID == zoneID }) { try store.removeAll() }
            case .sentRecordZoneChanges(let sent): try self.sent(sent, syncEngine)
            case .willFetchChanges: isFetching = true
            case .didFetchChanges: isFetching = false
            case .accountChange, .sentDatabaseChanges, .willFetchRecordZoneChanges, .didFetchRecordZoneChanges,
                .willSendChanges, .didSendChanges:
                break
            }
        } catch {
            narrator.step(name, "trouble", "\(error)")
        }
    }

    func nextRecordZoneChangeBatch(
        _ context: CKSyncEngine.SendChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.RecordZoneChangeBatch? {
        let changes = syncEngine.state.pendingRecordZoneChanges.filter { context.options.scope.contains($0) }
        return await CKSyncEngine.RecordZoneChangeBatch(pendingChanges: changes) { await self.record($0) }
    }

    /// The record as it is to be saved: the relay's system fields with our values.
    private func record(_ id: CKRecord.ID) -> CKRecord? {
        guard let row = try? store.row(id.recordName), !row.isDeleted else { return nil }
        sending[row.name] = row.version
        let record = row.system.flatMap(Self.unarchive) ?? CKRecord(recordType: "Note", recordID: id)
        if row.note.title != row.base?.title { record["title"] = row.note.title }
        if row.note.isDone != row.base?.isDone { record["done"] = row.note.isDone ? 1 : 0 }
        return record
    }

    private func fetched(_ changes: CKSyncEngine.Event.FetchedRecordZoneChanges) throws {
        if changes.modifications.count + changes.deletions.count > 0 {
            narrator.step(name, "fetch", "\(changes.modifications.count) changed, \(changes.deletions.count) deleted")
        }
        for modification in changes.modifications { try take(modification.record) }
        for deletion in changes.deletions {
            guard let row = try store.row(deletion.recordID.recordName) else { continue }
            try store.remove(row.name)
            engine?.state.remove(pendingRecordZoneChanges: [pendingChange(row)])
            narrator.step(name, "removes", Self.quoted(row.note))
        }
    }

    /// Takes over the relay's version; an edit of our own that is not sent yet stays on top of it.
    private func take(_ record: CKRecord) throws {
        let theirs = DemoNote(record)
        let old = try store.row(record.recordID.recordName)
        guard old?.changeTag != record.recordChangeTag else { return }
        var row = old ?? DemoStore.Row(name: record.recordID.recordName, note: theirs)
        row.note = row.isDirty ? DemoNote.merge(base: row.base, mine: row.note, theirs: theirs) : theirs
        row.base = theirs
        row.system = Self.archive(record)
        row.changeTag = record.recordChangeTag ?? ""
        try store.put(row)
        let delay = narrator.shown(Self.mark(row.name, row.note)).map { "  \($0) ms after save" } ?? ""
        narrator.step(name, "shows", Self.quoted(row.note) + delay)
    }

    private func sent(_ sent: CKSyncEngine.Event.SentRecordZoneChanges, _ engine: CKSyncEngine) throws {
        for record in sent.savedRecords {
            guard var row = try store.row(record.recordID.recordName) else { continue }
            row.base = DemoNote(record)
            row.system = Self.archive(record)
            row.changeTag = record.recordChangeTag ?? ""
            // A second edit while the first was on its way keeps waiting.
            row.isDirty = sending[row.name] != row.version
            try store.put(row)
            narrator.step(name, "commit", "\(Self.quoted(row.note))  tag \(row.changeTag)")
            if row.isDirty { engine.state.add(pendingRecordZoneChanges: [pendingChange(row)]) }
        }
        for id in sent.deletedRecordIDs { try store.remove(id.recordName) }
        for failure in sent.failedRecordSaves { try resolve(failure, engine) }
        for (id, error) in sent.failedRecordDeletes where error.code == .unknownItem { try store.remove(id.recordName) }
    }

    /// What an app does about a save that the relay refused.
    private func resolve(_ failure: CKSyncEngine.Event.SentRecordZoneChanges.FailedRecordSave, _ engine: CKSyncEngine)
        throws
    {
        let id = failure.record.recordID
        switch failure.error.code {
        case .serverRecordChanged:
            guard let server = failure.error.serverRecord, var row = try store.row(id.recordName) else { return }
            let theirs = DemoNote(server)
            row.note = DemoNote.merge(base: row.base, mine: row.note, theirs: theirs)
            row.base = theirs
            row.system = Self.archive(server)
            row.changeTag = server.recordChangeTag ?? ""
            row.isDirty = row.note != theirs
            try store.put(row)
            narrator.step(name, "merge", "\(Self.quoted(row.note))  over the relay's \"\(theirs.title)\"")
            if row.isDirty { engine.state.add(pendingRecordZoneChanges: [.saveRecord(id)]) }
        case .zoneNotFound:
            engine.state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneID: zoneID))])
            engine.state.add(pendingRecordZoneChanges: [.saveRecord(id)])
        case .unknownItem:
            try store.remove(id.recordName)
            narrator.step(name, "gone", "\(id.recordName) was deleted elsewhere")
        default:
            narrator.step(name, "refused", failure.error.localizedDescription)
        }
    }

    // MARK: Archives

    private static func archive(_ record: CKRecord) -> Data {
        let coder = NSKeyedArchiver(requiringSecureCoding: true)
        record.encodeSystemFields(with: coder)
        coder.finishEncoding()
        return coder.encodedData
    }

    private static func unarchive(_ data: Data) -> CKRecord? {
        guard let coder = try? NSKeyedUnarchiver(forReadingFrom: data) else { return nil }
        coder.requiresSecureCoding = true
        defer { coder.finishDecoding() }
        return CKRecord(coder: coder)
    }
}

extension DemoNote {
    init(_ record: CKRecord) {
        self.init(title: record["title"] as? String ?? "", isDone: (record["done"] as Int?) == 1)
    }
}
