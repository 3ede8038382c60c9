import Foundation
import Records
import Synchronization
import Testing
import Wire
import ZoneKit
import ZoneTesting

/// Engines in difficult situations: terminated programs, old states, changing users.
@Suite(.timeLimit(.minutes(15))) struct EngineRecoveryTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func notes(_ device: String = "phone", of user: String = "alice") -> SyncedNotes {
        SyncedNotes(relay.device(of: user, named: device))
    }

    /// The relay has stored the changes, but the program terminated before the answer and has only its earlier state.
    @Test func aProgramTerminatedDuringASendSendsAgainWithoutDuplicates() async throws {
        let phone = notes()
        phone.addZone()
        try await phone.engine.sendChanges()
        phone.write("milk", "one")
        phone.write("bread", "two")
        // The program receives a state update at the next sync and keeps the last one.
        phone.device.network.fail(.losesAnswer)
        await #expect(throws: CKError.self) { try await phone.engine.sendChanges() }
        let state = try #require(phone.saved)
        let relaunched = SyncedNotes(phone.device, from: state, texts: phone.contents.withLock { $0.texts })
        relaunched.write("milk", "one")
        relaunched.write("bread", "two")
        // It knows no change tags of its records: each save conflicts once and returns the relay's record.
        do {
            try await relaunched.engine.sendChanges()
        } catch {
            #expect((error as? CKError)?.code == .partialFailure)
            try await relaunched.engine.sendChanges()
        }
        #expect(relaunched.engine.state.pendingRecordZoneChanges.isEmpty)
        let laptop = notes("laptop")
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts == ["milk": "one", "bread": "two"])
    }

    /// A program with an old state fetches all changes since then again, including deletions.
    @Test func anOldStateCatchesUp() async throws {
        let (phone, laptop) = (notes(), notes("laptop"))
        phone.addZone()
        for number in 0..<10 { phone.write("n\(number)", "old") }
        try await phone.engine.sendChanges()
        try await phone.engine.fetchChanges()
        let state = try #require(phone.saved)
        let (texts, known) = phone.contents.withLock { ($0.texts, $0.known) }
        try await laptop.engine.fetchChanges()
        relay.clock.advance(by: .seconds(3_600))
        for number in 0..<5 { laptop.write("n\(number)", "new") }
        laptop.delete("n9")
        try await laptop.engine.sendChanges()
        try await phone.engine.fetchChanges()
        phone.write("n5", "late")
        try await phone.engine.sendChanges()
        let relaunched = SyncedNotes(phone.device, from: state, texts: texts)
        relaunched.contents.withLock { $0.known = known }
        // Its write on top of an old version does not undo changes of others.
        relaunched.write("n8", "mine")
        try await relaunched.engine.fetchChanges()
        try await relaunched.engine.sendChanges()
        var expected = Dictionary(uniqueKeysWithValues: (0..<9).map { ("n\($0)", $0 < 5 ? "new" : "old") })
        (expected["n5"], expected["n8"]) = ("late", "mine")
        #expect(relaunched.texts == expected)
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts == expected)
    }

    /// Another user signs in while the program runs: the account change is the first event, and no data crosses over.
    @Test func aUserSignedInDuringARunReceivesNothingOfTheFirst() async throws {
        let phone = notes()
        phone.addZone()
        phone.write("milk", "alice's")
        try await phone.engine.sendChanges()
        phone.device.network.cut()
        phone.write("secret", "alice's, not sent")
        await #expect(throws: CKError.self) { try await phone.engine.sendChanges() }
        phone.device.network.heal()
        phone.contents.withLock { $0.events = [] }
        phone.device.connection.credentials.replace(webAuthToken: "dev-bob")
        try? await phone.engine.sendChanges()
        try? await phone.engine.fetchChanges()
        #expect(phone.log.first?.hasPrefix("accountChange(switchAccounts") == true, "\(phone.log)")
        #expect(phone.engine.state.pendingRecordZoneChanges.isEmpty)
        let bob = notes("other", of: "bob")
        try await bob.engine.fetchChanges()
        #expect(bob.texts.isEmpty)
        let alice = notes("laptop")
        try await alice.engine.fetchChanges()
        #expect(alice.texts == ["milk": "alice's"])
    }

    private func end(_ notes: SyncedNotes, _ word: String?) async throws {
        let why = word.map { #","reason":"\#($0)""# } ?? ""
        let body = #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"Notes"}}\#(why)}]}"#
        let call = RelayCall(.private, "zones/modify", Array(body.utf8), isWrite: true)
        _ = try await notes.device.connection.send(call)
    }

    private func reasons(reportedTo notes: SyncedNotes) -> [CKDatabase.DatabaseChange.Deletion.Reason] {
        notes.contents.withLock { contents in
            contents.events.flatMap { event -> [CKDatabase.DatabaseChange.Deletion.Reason] in
                guard case .fetchedDatabaseChanges(let changes) = event else { return [] }
                return changes.deletions.map(\.reason)
            }
        }
    }

    /// The zones of a program that tracks them by its events.
    private func zones(listedBy notes: SyncedNotes) -> Set<CKRecordZone.ID> {
        notes.contents.withLock { contents in
            contents.events.reduce(into: []) { zones, event in
                guard case .fetchedDatabaseChanges(let changes) = event else { return }
                zones.formUnion(changes.modifications.map(\.zoneID))
                zones.subtract(changes.deletions.map(\.zoneID))
            }
        }
    }

    /// The reasons for zone deletions, which programs switch over.
    @Test(arguments: [
        (nil, CKDatabase.DatabaseChange.Deletion.Reason.deleted), ("purged", .purged),
        ("encryptedDataReset", .encryptedDataReset),
    ]) func zoneDeletionsAreReportedWithTheirReason(
        _ word: String?,
        _ reason: CKDatabase.DatabaseChange.Deletion.Reason
    ) async throws {
        let (phone, laptop) = (notes(), notes("laptop"))
        phone.addZone()
        phone.write("milk", "one")
        try await phone.engine.sendChanges()
        try await laptop.engine.fetchChanges()
        try await end(phone, word)
        try await laptop.engine.fetchChanges()
        #expect(reasons(reportedTo: laptop) == [reason])
        #expect(laptop.texts.isEmpty)
    }

    /// Between two fetches the zone was deleted and recreated.
    ///
    /// The deletion is reported first, with its reason.
    @Test(arguments: [
        (nil, CKDatabase.DatabaseChange.Deletion.Reason.deleted), ("purged", .purged),
        ("encryptedDataReset", .encryptedDataReset),
    ]) func aRecreatedZoneIsReportedAsDeletedBeforeItsNewContent(
        _ word: String?,
        _ reason: CKDatabase.DatabaseChange.Deletion.Reason
    ) async throws {
        let (phone, laptop) = (notes(), notes("laptop"))
        phone.addZone()
        phone.write("old", "one")
        phone.write("both", "one")
        try await phone.engine.sendChanges()
        try await laptop.engine.fetchChanges()
        try await end(phone, word)
        let again = notes("tablet")
        again.addZone()
        again.write("both", "two")
        again.write("new", "two")
        try await again.engine.sendChanges()
        try await laptop.engine.fetchChanges()
        #expect(reasons(reportedTo: laptop) == [reason])
        #expect(laptop.texts == ["both": "two", "new": "two"])
        #expect(zones(listedBy: laptop) == [laptop.zone])
        try await laptop.engine.fetchChanges()
        #expect(reasons(reportedTo: laptop) == [reason])
    }

    /// A device that deletes and recreates a zone itself needs no report, and its new records must stay.
    @Test func aZoneRecreatedByTheDeviceItselfIsNotReportedAsDeleted() async throws {
        let phone = notes()
        phone.addZone()
        phone.write("old", "one")
        try await phone.engine.sendChanges()
        try await phone.engine.fetchChanges()
        phone.engine.state.add(pendingDatabaseChanges: [.deleteZone(phone.zone)])
        try await phone.engine.sendChanges()
        phone.contents.withLock { $0.texts = [:] }
        phone.addZone()
        phone.write("sent", "two")
        try await phone.engine.sendChanges()
        phone.write("unsent", "two")
        try await phone.engine.fetchChanges()
        #expect(reasons(reportedTo: phone).isEmpty)
        #expect(phone.texts == ["sent": "two", "unsent": "two"])
        try await phone.engine.sendChanges()
        let laptop = notes("laptop")
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts == ["sent": "two", "unsent": "two"])
    }

    /// A pending deletion ends with its zone: a record of that name in the recreated zone is another record.
    @Test func aPendingDeletionEndsWithItsZone() async throws {
        let (phone, laptop) = (notes(), notes("laptop"))
        phone.addZone()
        phone.write("milk", "one")
        try await phone.engine.sendChanges()
        try await laptop.engine.fetchChanges()
        laptop.delete("milk")
        phone.engine.state.add(pendingDatabaseChanges: [.deleteZone(phone.zone)])
        try await phone.engine.sendChanges()
        phone.contents.withLock { ($0.texts, $0.known) = ([:], [:]) }
        phone.addZone()
        phone.write("milk", "two")
        try await phone.engine.sendChanges()
        try await laptop.engine.fetchChanges()
        #expect(laptop.engine.state.pendingRecordZoneChanges.isEmpty)
        try await laptop.engine.sendChanges()
        #expect(laptop.texts == ["milk": "two"])
        try await phone.engine.fetchChanges()
        #expect(phone.texts == ["milk": "two"])
    }

    /// Programs compare versions by modification date, as Apple's sample does, so each save must have a later date.
    @Test func modificationDatesIncreaseEvenIfTheClockStopsOrGoesBack() async throws {
        let database = relay.device(of: "alice", named: "phone").privateDatabase
        var record = try await database.save(CKRecord(recordType: "Note"))
        var last = try #require(record.modificationDate)
        for step in [0, 0, -3_600, 0] {
            relay.clockError += .seconds(step)
            record["text"] = "\(last)"
            record = try await database.save(record)
            let next = try #require(record.modificationDate)
            #expect(next > last && next.timeIntervalSince(last) < 0.002)
            last = next
        }
    }

    /// The delegate would wait for itself.
    ///
    /// A task that it starts may call the engine.
    @Test func engineCallsInsideADelegateCallbackAreRefused() async throws {
        let delegate = ReentrantDelegate()
        let device = relay.device(of: "alice", named: "phone")
        var configuration = CKSyncEngine.Configuration(
            database: device.privateDatabase,
            stateSerialization: nil,
            delegate: delegate
        )
        configuration.automaticallySync = false
        let engine = CKSyncEngine(configuration)
        try await engine.fetchChanges()
        #expect(delegate.codes.withLock { $0 } == Array(repeating: .invalidArguments, count: 3))
        try await delegate.started.withLock { $0 }?.value
    }

    private final class ReentrantDelegate: CKSyncEngineDelegate {
        let codes = Mutex<[CKError.Code?]>([])
        let started = Mutex<Task<Void, any Error>?>(nil)

        func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
            guard case .willFetchChanges = event, codes.withLock(\.isEmpty) else { return }
            await note { try await syncEngine.sendChanges() }
            await note { try await syncEngine.fetchChanges() }
            await note { try await syncEngine.resetEncryptedData(inZoneWith: CKRecordZone.ID(zoneName: "Notes")) }
            started.withLock { $0 = Task { try await syncEngine.sendChanges() } }
        }

        private func note(_ call: () async throws -> Void) async {
            do {
                try await call()
                codes.withLock { $0.append(nil) }
            } catch {
                let code = (error as? CKError)?.code
                codes.withLock { $0.append(code) }
            }
        }

        func nextRecordZoneChangeBatch(
            _ context: CKSyncEngine.SendChangesContext,
            syncEngine: CKSyncEngine
        ) async -> CKSyncEngine.RecordZoneChangeBatch? { nil }
    }
}
