import CloudKit
import Testing
import ZoneTesting

// Contacts in a file, synced by an engine in the style of Apple's own sample: the last known server record is stored
// with each contact, and every failure is handled.

private struct Contact: Codable {
    static let recordType: CKRecord.RecordType = "Contact"
    static let zoneName = "Contacts"

    let id: String
    var name: String
    var edited: Date
    var lastKnownRecordData: Data?

    var recordID: CKRecord.ID {
        CKRecord.ID(recordName: id, zoneID: CKRecordZone.ID(zoneName: Self.zoneName))
    }

    var lastKnownRecord: CKRecord? {
        get {
            guard let data = lastKnownRecordData else { return nil }
            do {
                let unarchiver = try NSKeyedUnarchiver(forReadingFrom: data)
                unarchiver.requiresSecureCoding = true
                return CKRecord(coder: unarchiver)
            } catch {
                return nil
            }
        }
        set {
            guard let newValue else { return lastKnownRecordData = nil }
            let archiver = NSKeyedArchiver(requiringSecureCoding: true)
            newValue.encodeSystemFields(with: archiver)
            lastKnownRecordData = archiver.encodedData
        }
    }

    mutating func keepIfNewer(_ record: CKRecord) {
        guard let known = lastKnownRecord?.modificationDate else { return lastKnownRecord = record }
        if let date = record.modificationDate, known < date { lastKnownRecord = record }
    }

    func populate(_ record: CKRecord) {
        record["edited"] = edited
        record.encryptedValues["name"] = name
    }

    mutating func merge(from record: CKRecord) {
        guard let theirs = record["edited"] as? Date, theirs > edited else { return }
        edited = theirs
        if let text = record.encryptedValues["name"] as? String { name = text }
    }
}

private struct Book: Codable {
    var contacts: [String: Contact] = [:]
    var stateSerialization: CKSyncEngine.State.Serialization?
}

private final actor ContactBook: CKSyncEngineDelegate {
    private(set) var book = Book()
    private(set) var log: [String] = []
    private var file = Data()
    private let database: CKDatabase
    private let automaticallySync: Bool
    private var _syncEngine: CKSyncEngine?
    var syncEngine: CKSyncEngine {
        _syncEngine ?? initializeSyncEngine()
    }

    init(_ database: CKDatabase, automaticallySync: Bool, file: Data? = nil) async throws {
        self.database = database
        self.automaticallySync = automaticallySync
        if let file { book = try JSONDecoder().decode(Book.self, from: file) }
        initializeSyncEngine()
    }

    @discardableResult func initializeSyncEngine() -> CKSyncEngine {
        var configuration = CKSyncEngine.Configuration(
            database: database,
            stateSerialization: book.stateSerialization,
            delegate: self
        )
        configuration.automaticallySync = automaticallySync
        let syncEngine = CKSyncEngine(configuration)
        _syncEngine = syncEngine
        return syncEngine
    }

    func persist() throws -> Data { try JSONEncoder().encode(book) }

    var names: [String: String] { book.contacts.mapValues(\.name) }

    // MARK: User actions

    func save(_ id: String, _ name: String, at second: TimeInterval) {
        var contact = book.contacts[id] ?? Contact(id: id, name: name, edited: .distantPast)
        (contact.name, contact.edited) = (name, Date(timeIntervalSince1970: second))
        book.contacts[id] = contact
        syncEngine.state.add(pendingRecordZoneChanges: [.saveRecord(contact.recordID)])
    }

    func delete(_ id: String) {
        guard let contact = book.contacts.removeValue(forKey: id) else { return }
        syncEngine.state.add(pendingRecordZoneChanges: [.deleteRecord(contact.recordID)])
    }

    func deleteServerData() async throws {
        syncEngine.state.add(pendingDatabaseChanges: [.deleteZone(CKRecordZone.ID(zoneName: Contact.zoneName))])
        try await syncEngine.sendChanges()
    }

    // MARK: Engine events

    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        switch event {
        case .stateUpdate(let event): book.stateSerialization = event.stateSerialization
        case .accountChange(let event): handle(event)
        case .fetchedDatabaseChanges(let event):
            for deletion in event.deletions {
                log.append("zone \(deletion.reason)")
                switch deletion.zoneID.zoneName {
                case Contact.zoneName: book.contacts = [:]
                default: break
                }
            }
        case .fetchedRecordZoneChanges(let event): handle(event)
        case .sentRecordZoneChanges(let event): handle(event)
        case .sentDatabaseChanges(let event):
            log += event.savedZones.map { "made \($0.zoneID.zoneName)" }
            log += event.deletedZoneIDs.map { "unmade \($0.zoneName)" }
            for id in event.deletedZoneIDs where id.zoneName == Contact.zoneName { book.contacts = [:] }
        case .willFetchChanges, .willFetchRecordZoneChanges, .didFetchRecordZoneChanges, .didFetchChanges,
            .willSendChanges, .didSendChanges:
            break
        @unknown default: log.append("unknown \(event)")
        }
    }

    private func handle(_ event: CKSyncEngine.Event.AccountChange) {
        let (shouldDelete, shouldUpload): (Bool, Bool)
        switch event.changeType {
        case .signIn: (shouldDelete, shouldUpload) = (false, true)
        case .switchAccounts: (shouldDelete, shouldUpload) = (true, false)
        case .signOut: (shouldDelete, shouldUpload) = (true, false)
        @unknown default: (shouldDelete, shouldUpload) = (false, false)
        }
        if shouldDelete { book = Book() }
        if shouldUpload {
            let changes: [CKSyncEngine.PendingRecordZoneChange] = book.contacts.values.map { .saveRecord($0.recordID) }
            syncEngine.state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneName: Contact.zoneName))])
            syncEngine.state.add(pendingRecordZoneChanges: changes)
        }
    }

    private func handle(_ event: CKSyncEngine.Event.FetchedRecordZoneChanges) {
        for modification in event.modifications {
            let record = modification.record
            let id = record.recordID.recordName
            var contact = book.contacts[id] ?? Contact(id: id, name: "", edited: .distantPast)
            contact.merge(from: record)
            contact.keepIfNewer(record)
            book.contacts[id] = contact
        }
        for deletion in event.deletions { book.contacts[deletion.recordID.recordName] = nil }
    }

    private func handle(_ event: CKSyncEngine.Event.SentRecordZoneChanges) {
        var records: [CKSyncEngine.PendingRecordZoneChange] = []
        var zones: [CKSyncEngine.PendingDatabaseChange] = []
        for record in event.savedRecords { book.contacts[record.recordID.recordName]?.keepIfNewer(record) }
        for failure in event.failedRecordSaves {
            let id = failure.record.recordID
            log.append("\(id.recordName) \(failure.error.code)")
            switch failure.error.code {
            case .serverRecordChanged:
                guard let server = failure.error.serverRecord else { continue }
                book.contacts[id.recordName]?.merge(from: server)
                book.contacts[id.recordName]?.keepIfNewer(server)
                records.append(.saveRecord(id))
            case .zoneNotFound:
                zones.append(.saveZone(CKRecordZone(zoneID: id.zoneID)))
                records.append(.saveRecord(id))
                book.contacts[id.recordName]?.lastKnownRecord = nil
            case .unknownItem:
                records.append(.saveRecord(id))
                book.contacts[id.recordName]?.lastKnownRecord = nil
            case .networkFailure, .networkUnavailable, .zoneBusy, .serviceUnavailable, .notAuthenticated,
                .operationCancelled:
                break
            default: log.append("unhandled")
            }
        }
        syncEngine.state.add(pendingDatabaseChanges: zones)
        syncEngine.state.add(pendingRecordZoneChanges: records)
    }

    func nextRecordZoneChangeBatch(
        _ context: CKSyncEngine.SendChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.RecordZoneChangeBatch? {
        let scope = context.options.scope
        let changes = syncEngine.state.pendingRecordZoneChanges.filter { scope.contains($0) }
        let contacts = book.contacts
        return await CKSyncEngine.RecordZoneChangeBatch(pendingChanges: changes) { recordID in
            guard let contact = contacts[recordID.recordName] else {
                syncEngine.state.remove(pendingRecordZoneChanges: [.saveRecord(recordID)])
                return nil
            }
            let record = contact.lastKnownRecord ?? CKRecord(recordType: Contact.recordType, recordID: recordID)
            contact.populate(record)
            return record
        }
    }
}

@Suite(.timeLimit(.minutes(15))) struct ContactBookTests {
    private let relay: TestRelay
    private let phone: TestDevice
    private let laptop: TestDevice

    init() throws {
        relay = try TestRelay()
        phone = relay.device(of: "alice", named: "phone")
        laptop = relay.device(of: "alice", named: "laptop")
    }

    private func send(_ book: ContactBook) async throws {
        let engine = await book.syncEngine
        do { try await engine.sendChanges() } catch { try await engine.sendChanges() }
    }

    @Test func automaticSyncKeepsTwoBooksEqual() async throws {
        let mine = try await ContactBook(phone.privateDatabase, automaticallySync: true)
        await mine.save("ada", "Ada", at: 1)
        await mine.save("bob", "Bob", at: 1)
        try await relay.settle()
        let other = try await ContactBook(laptop.privateDatabase, automaticallySync: true)
        try await relay.settle()
        #expect(await other.names == ["ada": "Ada", "bob": "Bob"])
        // Both devices are offline and change the same contact: the later edit wins, no matter which device made it.
        phone.network.cut()
        laptop.network.cut()
        await mine.save("ada", "Ada L.", at: 3)
        await mine.delete("bob")
        await other.save("ada", "Countess", at: 2)
        await other.save("eve", "Eve", at: 2)
        await relay.advance(by: .seconds(60))
        laptop.network.heal()
        await relay.advance(by: .seconds(600))
        phone.network.heal()
        try await relay.settle()
        #expect(await mine.names == ["ada": "Ada L.", "eve": "Eve"])
        #expect(await other.names == mine.names)
        // The next launch continues from the file.
        let file = try await mine.persist()
        let again = try await ContactBook(phone.privateDatabase, automaticallySync: true, file: file)
        await other.save("eve", "Evelyn", at: 9)
        try await relay.settle()
        #expect(await again.names["eve"] == "Evelyn")
        #expect(await again.log.isEmpty)
    }

    @Test func everySaveFailureIsHandled() async throws {
        let mine = try await ContactBook(phone.privateDatabase, automaticallySync: false)
        let other = try await ContactBook(laptop.privateDatabase, automaticallySync: false)
        await mine.save("ada", "Ada", at: 1)
        await mine.save("bob", "Bob", at: 1)
        try await send(mine)
        #expect(await mine.log == ["made Contacts"])
        try await other.syncEngine.fetchChanges()
        #expect(await other.names == ["ada": "Ada", "bob": "Bob"])

        // Changed on both devices.
        await mine.save("ada", "Ada 2", at: 2)
        try await send(mine)
        await other.save("ada", "Ada 3", at: 3)
        try await send(other)
        #expect(await other.log.suffix(1) == ["ada serverRecordChanged"])
        try await mine.syncEngine.fetchChanges()
        #expect(await mine.names["ada"] == "Ada 3")

        // Deleted on one device and changed on the other: the contact is created again.
        await mine.delete("bob")
        try await send(mine)
        await other.save("bob", "Robert", at: 4)
        try await send(other)
        #expect(await other.log.suffix(1) == ["bob unknownItem"])
        try await mine.syncEngine.fetchChanges()
        #expect(await mine.names["bob"] == "Robert")

        // The whole zone is deleted.
        try await mine.deleteServerData()
        #expect(await mine.names.isEmpty)
        await other.save("ada", "Ada 5", at: 5)
        try await send(other)
        #expect(await other.log.suffix(2) == ["ada zoneNotFound", "made Contacts"])
        try await mine.syncEngine.fetchChanges()
        #expect(await mine.names == ["ada": "Ada 5"])
        // A send with a scope sends only the changes in it.
        await other.save("x", "X", at: 6)
        await other.save("y", "Y", at: 6)
        let x = CKRecord.ID(recordName: "x", zoneID: CKRecordZone.ID(zoneName: Contact.zoneName))
        try await other.syncEngine.sendChanges(CKSyncEngine.SendChangesOptions(scope: .recordIDs([x])))
        #expect(await other.syncEngine.state.pendingRecordZoneChanges.map(\.recordID.recordName) == ["y"])
    }

    @Test func anotherAccountStartsWithAnEmptyBook() async throws {
        let mine = try await ContactBook(phone.privateDatabase, automaticallySync: true)
        await mine.save("ada", "Ada", at: 1)
        try await relay.settle()
        try await phone.signIn(as: "bob")
        try await relay.settle()
        #expect(await mine.names.isEmpty)
        await mine.save("kim", "Kim", at: 1)
        try await relay.settle()
        #expect(try await phone.privateDatabase.allRecordZones().map(\.zoneID.zoneName).contains(Contact.zoneName))
        #expect(await mine.names == ["kim": "Kim"])
        let hers = try await ContactBook(laptop.privateDatabase, automaticallySync: true)
        try await relay.settle()
        #expect(await hers.names == ["ada": "Ada"])
    }
}
