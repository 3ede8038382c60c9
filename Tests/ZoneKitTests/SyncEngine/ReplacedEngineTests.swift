import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// A delegate that creates another engine while the first one works, as CloudKit's own sample may do at launch.
@Suite(.timeLimit(.minutes(15))) struct ReplacedEngineTests {
    /// Saves its zone when the account is known, through its current engine.
    private final class Notes: CKSyncEngineDelegate {
        let database: CKDatabase
        let zone = CKRecordZone(zoneName: "Notes")
        private let current = Mutex<CKSyncEngine?>(nil)

        init(_ database: CKDatabase) { self.database = database }

        var engine: CKSyncEngine? { current.withLock { $0 } }

        func makeEngine() -> CKSyncEngine {
            var configuration = CKSyncEngine.Configuration(
                database: database,
                stateSerialization: nil,
                delegate: self
            )
            configuration.automaticallySync = false
            let engine = CKSyncEngine(configuration)
            current.withLock { $0 = engine }
            return engine
        }

        func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
            if case .accountChange = event { engine?.state.add(pendingDatabaseChanges: [.saveZone(zone)]) }
        }

        func nextRecordZoneChangeBatch(
            _ context: CKSyncEngine.SendChangesContext,
            syncEngine: CKSyncEngine
        ) async -> CKSyncEngine.RecordZoneChangeBatch? {
            await .init(pendingChanges: syncEngine.state.pendingRecordZoneChanges) {
                CKRecord(recordType: "Note", recordID: $0)
            }
        }
    }

    @Test func changesAddedToTheNewEngineAlsoApplyToTheOldOne() async throws {
        let notes = Notes(try TestRelay().device(of: "alice").privateDatabase)
        let id = CKRecord.ID(recordName: "milk", zoneID: notes.zone.zoneID)
        let old = notes.makeEngine()
        old.state.add(pendingRecordZoneChanges: [.saveRecord(id)])
        let new = notes.makeEngine()
        try await old.sendChanges()
        #expect(try await notes.database.record(for: id).recordType == "Note")
        #expect(!old.state.hasPendingUntrackedChanges && old.state.pendingDatabaseChanges.isEmpty)
        #expect(new.state.pendingDatabaseChanges == [.saveZone(notes.zone)])
    }

    @Test func enginesOfOtherDelegatesAreNotAffected() async throws {
        let relay = try TestRelay()
        let device = relay.device(of: "alice")
        let (mine, others) = (Notes(device.privateDatabase), Notes(device.privateDatabase))
        let (first, second) = (mine.makeEngine(), others.makeEngine())
        try await first.sendChanges()
        #expect(first.state.pendingDatabaseChanges.isEmpty)
        #expect(second.state.pendingDatabaseChanges.isEmpty)
        second.state.add(pendingDatabaseChanges: [.deleteZone(mine.zone.zoneID)])
        #expect(first.state.pendingDatabaseChanges.isEmpty)
    }
}

/// A program that configures its container again while engines run, possibly for another user.
@Suite(.timeLimit(.minutes(15))) struct ReconfigurationTests {
    private let relay: TestRelay
    private let phone: TestDevice

    init() throws {
        relay = try TestRelay()
        phone = relay.configurableDevice(of: "alice")
    }

    private func notes(isAutomatic: Bool = false) throws -> SyncedNotes {
        SyncedNotes(
            phone,
            isAutomatic: isAutomatic,
            database: try phone.configure(as: "alice").privateCloudDatabase
        )
    }

    private func texts(of user: String) async throws -> [String: String] {
        let reader = SyncedNotes(relay.device(of: user, named: "reader", container: phone.connection.container))
        try await reader.engine.fetchChanges()
        return reader.texts
    }

    @Test func pendingChangesAreNotSentForTheNextUser() async throws {
        let notes = try notes()
        notes.addZone()
        notes.write("a", "alice's")
        try await notes.engine.sendChanges()
        phone.network.cut()
        notes.write("secret", "alice's, not sent")
        await #expect(throws: CKError.self) { try await notes.engine.sendChanges() }
        _ = try phone.configure(as: "bob")
        phone.network.heal()
        notes.contents.withLock { $0.events = [] }
        try? await notes.engine.sendChanges()
        #expect(notes.log.first?.hasPrefix("accountChange(switchAccounts") == true, "\(notes.log)")
        #expect(notes.engine.state.pendingRecordZoneChanges.isEmpty)
        #expect(try await texts(of: "bob").isEmpty)
        #expect(try await texts(of: "alice") == ["a": "alice's"])
    }

    /// Requests that a call has not sent yet when the user changes must not be sent for the new user.
    @Test func aRunningCallEndsWhenTheUserChanges() async throws {
        let database = try notes().engine.database
        try await database.save(CKRecordZone(zoneName: "One"))
        try await database.save(CKRecordZone(zoneName: "Two"))
        let records = ["One", "Two"].map { CKRecord(recordType: "Note", zoneID: CKRecordZone.ID(zoneName: $0)) }
        phone.network.fail(
            request: 1,
            of: "records/modify",
            by: .beforeAnswer { [phone] in _ = try? phone.configure(as: "bob") }
        )
        let results = try await database.modifyRecords(saving: records, deleting: []).saveResults
        expect(.accountTemporarilyUnavailable) { _ = try results[records[1].recordID]?.get() }
    }

    /// The engine reports the account change and receives the new user's notices.
    @Test func anAutomaticEngineFollowsTheNewUser() async throws {
        let notes = try notes(isAutomatic: true)
        try await within(.seconds(300), "alice to be signed in") {
            try await notes.signal.until { notes.log.contains { $0.hasPrefix("accountChange(signIn") } }
        }
        _ = try phone.configure(as: "bob")
        try await within(.seconds(300), "bob to be signed in") {
            try await notes.signal.until { notes.log.contains { $0.hasPrefix("accountChange(switchAccounts") } }
        }
        let writer = SyncedNotes(relay.device(of: "bob", named: "laptop", container: phone.connection.container))
        writer.addZone()
        writer.write("b", "bob's")
        try await writer.engine.sendChanges()
        try await within(.seconds(60), "bob's note") { try await notes.signal.until { notes.texts == ["b": "bob's"] } }
        writer.write("c", "bob's")
        try await writer.engine.sendChanges()
        try await within(.seconds(50), "a notice") { try await notes.signal.until { notes.texts.count == 2 } }
    }

    /// A program may create its engine before it configures the relay.
    ///
    /// The engine must not wait for its next poll then.
    @Test func anEngineCreatedBeforeTheConfigurationReceivesNotices() async throws {
        let container = phone.connection.container
        let early = SyncedNotes(
            phone,
            isAutomatic: true,
            database: CKContainer(identifier: container).privateCloudDatabase
        )
        await #expect(throws: CKError.self) { try await early.engine.fetchChanges() }
        _ = try phone.configure(as: "alice")
        let writer = SyncedNotes(relay.device(of: "alice", named: "laptop", container: container))
        writer.addZone()
        writer.write("a", "alice's")
        try await writer.engine.sendChanges()
        try await within(.seconds(50), "a notice") { try await early.signal.until { early.texts == ["a": "alice's"] } }
    }
}
