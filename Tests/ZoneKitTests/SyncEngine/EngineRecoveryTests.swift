import Foundation
import Synchronization
import Testing
import Wire
import ZoneKit
import ZoneTesting

/// What happens to engines outside of textbooks: programs that end in the middle, states that are old, users that change.
@Suite(.timeLimit(.minutes(15))) struct RealLifeTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func notes(_ device: String = "phone", of user: String = "alice") -> SyncedNotes {
        SyncedNotes(relay.device(of: user, named: device))
    }

    /// The relay has the change; the program ended before it heard so, with the state of before.
    @Test func aProgramThatEndedWhileSendingSendsAgainAndDoublesNothing() async throws {
        let phone = notes()
        phone.addZone()
        try await phone.engine.sendChanges()
        phone.write("milk", "one")
        phone.write("bread", "two")
        // The state is told of with the next sync; a program that ends keeps the last it was told.
        phone.device.network.fail(.losesAnswer)
        await #expect(throws: CKError.self) { try await phone.engine.sendChanges() }
        let state = try #require(phone.saved)
        let reborn = SyncedNotes(phone.device, from: state, texts: phone.contents.withLock { $0.texts })
        reborn.write("milk", "one")
        reborn.write("bread", "two")
        // It knows no change tags of what it made: each is a conflict once, with the relay's record in it.
        do {
            try await reborn.engine.sendChanges()
        } catch {
            #expect((error as? CKError)?.code == .partialFailure)
            try await reborn.engine.sendChanges()
        }
        #expect(reborn.engine.state.pendingRecordZoneChanges.isEmpty)
        let laptop = notes("laptop")
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts == ["milk": "one", "bread": "two"])
    }

    /// A program that wrote its state down an hour ago hears everything since once more, deletions too.
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
        let reborn = SyncedNotes(phone.device, from: state, texts: texts)
        reborn.contents.withLock { $0.known = known }
        // What it writes on top of old versions does not undo the news of others.
        reborn.write("n8", "mine")
        try await reborn.engine.fetchChanges()
        try await reborn.engine.sendChanges()
        var expected = Dictionary(uniqueKeysWithValues: (0..<9).map { ("n\($0)", $0 < 5 ? "new" : "old") })
        (expected["n5"], expected["n8"]) = ("late", "mine")
        #expect(reborn.texts == expected)
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts == expected)
    }

    /// Another user signs in while the program runs: it is told before anything else, and nothing crosses.
    @Test func anotherUserUnderWayGetsNothingOfTheFirst() async throws {
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
        _ = try await notes.device.privateDatabase.call(
            "zones/modify",
            Array(#"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"Notes"}}\#(why)}]}"#.utf8),
            isWrite: true
        )
    }

    private func reasons(toldTo notes: SyncedNotes) -> [CKDatabase.DatabaseChange.Deletion.Reason] {
        notes.contents.withLock { contents in
            contents.events.flatMap { event -> [CKDatabase.DatabaseChange.Deletion.Reason] in
                guard case .fetchedDatabaseChanges(let changes) = event else { return [] }
                return changes.deletions.map(\.reason)
            }
        }
    }

    /// What a program has that keeps a list of its zones by what it is told.
    private func zones(listedBy notes: SyncedNotes) -> Set<CKRecordZone.ID> {
        notes.contents.withLock { contents in
            contents.events.reduce(into: []) { zones, event in
                guard case .fetchedDatabaseChanges(let changes) = event else { return }
                zones.formUnion(changes.modifications.map(\.zoneID))
                zones.subtract(changes.deletions.map(\.zoneID))
            }
        }
    }

    /// The reasons with which zones go, as programs switch over them.
    @Test(arguments: [
        (nil, CKDatabase.DatabaseChange.Deletion.Reason.deleted), ("purged", .purged),
        ("encryptedDataReset", .encryptedDataReset),
    ]) func zonesGoWithTheirReason(
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
        #expect(reasons(toldTo: laptop) == [reason])
        #expect(laptop.texts.isEmpty)
    }

    /// Between two looks of a device its zone has ended and another of its name is there: what it holds is gone, for that
    /// reason, and comes first.
    @Test(arguments: [
        (nil, CKDatabase.DatabaseChange.Deletion.Reason.deleted), ("purged", .purged),
        ("encryptedDataReset", .encryptedDataReset),
    ]) func aZoneThatWasMadeAnewIsToldAsGoneBeforeWhatIsInTheNewOne(
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
        #expect(reasons(toldTo: laptop) == [reason])
        #expect(laptop.texts == ["both": "two", "new": "two"])
        #expect(zones(listedBy: laptop) == [laptop.zone])
        try await laptop.engine.fetchChanges()
        #expect(reasons(toldTo: laptop) == [reason])
    }

    /// Who ends a zone and makes it anew knows that, and what was written since is no part of what ended.
    @Test func aDeviceIsNotToldOfWhatItMadeAnewItself() async throws {
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
        #expect(reasons(toldTo: phone).isEmpty)
        #expect(phone.texts == ["sent": "two", "unsent": "two"])
        try await phone.engine.sendChanges()
        let laptop = notes("laptop")
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts == ["sent": "two", "unsent": "two"])
    }

    /// What was to be deleted went with its zone: a record of that name in the zone that is there now is another one.
    @Test func aDeletionDoesNotOutliveItsZone() async throws {
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

    /// Programs keep the newer of two versions by their times, as Apple's sample does: each save of a record is later.
    @Test func eachSaveIsLaterAlsoWhereTheClockStandsStillOrGoesBack() async throws {
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

    /// It would wait for itself; what it starts a task for goes on.
    @Test func whatTheDelegateCannotWaitForIsRefused() async throws {
        let delegate = Impatient()
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

    private final class Impatient: CKSyncEngineDelegate {
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
