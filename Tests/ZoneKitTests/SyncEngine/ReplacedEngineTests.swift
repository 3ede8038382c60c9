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
