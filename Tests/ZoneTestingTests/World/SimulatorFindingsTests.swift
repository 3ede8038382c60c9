import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// What the simulator has found, each as the smallest test that shows it.
@Suite(.timeLimit(.minutes(15))) struct SimulatorFindingsTests {
    private let relay: TestRelay
    private let phone: TestDevice
    private let hand: TestDevice
    private let zone = CKRecordZone.ID(zoneName: "Notes")

    init() throws {
        relay = try TestRelay()
        relay.limits.itemsPerRequest = 2
        phone = relay.device(of: "alice", named: "phone")
        hand = relay.device(of: "alice", named: "hand")
    }

    private func write(_ names: String..., in zone: CKRecordZone.ID, by database: CKDatabase) async throws {
        for name in names {
            try await database.save(CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: name, zoneID: zone)))
        }
    }

    // MARK: Zones that go

    /// The database's feed had been asked before, in the same round, and named the zone.
    @Test func aShareThatEndsBetweenTwoPagesIsToldOf() async throws {
        try await hand.privateDatabase.save(CKRecordZone(zoneID: zone))
        try await write("a", "b", "c", "d", "e", in: zone, by: hand.privateDatabase)
        let share = CKShare(recordZoneID: zone)
        share.publicPermission = .readWrite
        try await hand.privateDatabase.save(share)
        let bob = relay.device(of: "bob", named: "phone")
        let reader = Reader(bob.sharedDatabase)
        try await relay.settle()
        let owner = hand.privateDatabase
        bob.network.fail(
            request: 2,
            of: "changes/zone",
            by: .meanwhile { _ = try? await owner.deleteRecord(withID: share.recordID) }
        )
        try await bob.container.accept(try await bob.container.shareMetadata(for: #require(share.url)))
        try await relay.settle()
        #expect(bob.network.operations.filter { $0 == "shared/changes/zone" }.count > 1)
        #expect(reader.zones.isEmpty)
        #expect(reader.records.isEmpty)
    }

    /// A listing names no deletions, and nothing of the zone had ever been fetched.
    @Test func aZoneThatWasOnlyWrittenToIsToldOfWhenItIsGone() async throws {
        let reader = Reader(phone.privateDatabase)
        try await relay.settle()
        reader.send("a", in: zone)
        try await relay.settle()
        #expect(reader.zones == [zone])
        phone.network.cut()
        try relay.expireChangeTokens()
        _ = try await hand.privateDatabase.deleteRecordZone(withID: zone)
        phone.network.heal()
        try await relay.settle()
        #expect(reader.zones.isEmpty)
        #expect(reader.records.isEmpty)
    }

    @Test func theSameForAMirror() async throws {
        let mirror = try await phone.mirror(of: MirrorModel(Jot.self))
        let context = mirror.newBackgroundContext()
        try context.insert(Jot())
        try context.save()
        try await relay.settle()
        let zones = try await hand.privateDatabase.allRecordZones().map(\.zoneID).filter {
            $0.zoneName != "_defaultZone"
        }
        let mirrored = try #require(zones.first)
        phone.network.cut()
        try relay.expireChangeTokens()
        _ = try await hand.privateDatabase.deleteRecordZone(withID: mirrored)
        phone.network.heal()
        try await relay.settle()
        #expect(try context.fetch(Jot.self).isEmpty)
    }

    // MARK: Accounts

    /// The relay sends no notice to the device that has accepted.
    @Test func whoAcceptsAShareHearsOfItOnTheSameDevice() async throws {
        try await hand.privateDatabase.save(CKRecordZone(zoneID: zone))
        let share = CKShare(recordZoneID: zone)
        share.publicPermission = .readOnly
        try await hand.privateDatabase.save(share)
        let bob = relay.device(of: "bob", named: "phone")
        let reader = Reader(bob.sharedDatabase)
        try await relay.settle()
        let start = relay.clock.now
        try await bob.container.accept(try await bob.container.shareMetadata(for: #require(share.url)))
        try await relay.settle()
        #expect(reader.zones.map(\.zoneName) == ["Notes"])
        #expect(start.duration(to: relay.clock.now) < .seconds(5))
    }

    /// What is under way for one user is not sent in the name of the next.
    @Test func nobodySendsWhatAnotherHasWritten() async throws {
        let reader = Reader(phone.privateDatabase)
        try await relay.settle()
        let container = phone.container
        phone.network.fail(
            request: 1,
            of: "records/modify",
            by: .beforeAnswer { try? await container.signIn(.dev(user: "bob")) }
        )
        for name in ["a", "b", "c", "d", "e"] { reader.send(name, in: zone) }
        try await relay.settle()
        let bob = relay.device(of: "bob", named: "tablet").privateDatabase
        #expect(try await bob.allRecordZones().map(\.zoneID.zoneName) == ["_defaultZone"])
        #expect(try await hand.privateDatabase.allRecordZones().count == 2)
    }

    /// The next one has a zone of that name, and the engine has turned to them before the first answer comes.
    @Test func whatGoesInSeveralRequestsGoesInTheNameOfOne() async throws {
        let bob = relay.device(of: "bob", named: "tablet").privateDatabase
        try await bob.save(CKRecordZone(zoneID: zone))
        let reader = Reader(phone.privateDatabase)
        try await relay.settle()
        phone.network.fail(request: 1, of: "records/modify", by: .slow(.seconds(60)))
        for name in ["a", "b", "c", "d", "e"] { reader.send(name, in: zone) }
        await relay.advance(by: .seconds(30))
        try await phone.container.signIn(.dev(user: "bob"))
        try await relay.settle()
        #expect(reader.zones == [zone])
        #expect(phone.network.operations.contains { $0 == "private/records/modify" })
        let found = try await bob.recordZoneChanges(inZoneWith: zone, since: nil)
        #expect(found.modificationResultsByID.isEmpty)
    }

    @Test func norDoesAMirror() async throws {
        let mirror = try await phone.mirror(of: MirrorModel(Jot.self))
        try await relay.settle()
        let container = phone.container
        phone.network.fail(
            request: 1,
            of: "records/modify",
            by: .beforeAnswer { try? await container.signIn(.dev(user: "bob")) }
        )
        let context = mirror.newBackgroundContext()
        for _ in 0..<5 { try context.insert(Jot()) }
        try context.save()
        try await relay.settle()
        let bob = relay.device(of: "bob", named: "tablet").privateDatabase
        #expect(try await bob.allRecordZones().map(\.zoneID.zoneName) == ["_defaultZone"])
        #expect(phone.network.operations.contains { $0 == "private/records/modify" })
    }

    /// A page for a user who has gone meanwhile says nothing of how far the next one has come, be it the same.
    @Test func aUserWhoComesBackHearsOfEverything() async throws {
        try await hand.privateDatabase.save(CKRecordZone(zoneID: zone))
        try await write("a", "b", "c", in: zone, by: hand.privateDatabase)
        let reader = Reader(phone.privateDatabase)
        try await relay.settle()
        #expect(reader.records.count == 3)
        phone.network.fail(request: 1, of: "changes/zone", by: .slow(.seconds(60)))
        try await write("d", in: zone, by: hand.privateDatabase)
        await relay.advance(by: .seconds(10))
        try await phone.container.signIn(.dev(user: "bob"))
        await relay.advance(by: .seconds(5))
        #expect(reader.records.isEmpty)
        try await phone.container.signIn(.dev(user: "alice"))
        try await relay.settle()
        #expect(reader.records.count == 4)
    }

    /// An engine waits in peace for somebody to sign in; a mirror goes on trying, and `settle` says so.
    @Test func whatAnEndedSignInMeansForSettle() async throws {
        let reader = Reader(phone.privateDatabase)
        try await relay.settle()
        // It has ended by the time the engine asks who speaks now: one that has been told so goes on trying, as a mirror does.
        let phone = phone
        phone.network.fail(request: 1, of: "users/caller", by: .meanwhile { try? await phone.expireSignIn() })
        try await phone.signIn()
        reader.send("a", in: zone)
        try await relay.settle()
        #expect(try await hand.privateDatabase.allRecordZones().count == 1)
        try await phone.signIn()
        try await relay.settle()
        let tablet = relay.device(of: "bob", named: "tablet")
        let mirror = try await tablet.mirror(of: MirrorModel(Jot.self))
        try await relay.settle()
        try await tablet.expireSignIn()
        let context = mirror.newBackgroundContext()
        try context.insert(Jot())
        try context.save()
        do {
            try await relay.settle(within: .seconds(3600))
            Issue.record("It settled, and nobody was signed in.")
        } catch let error as NotSettled {
            #expect(error.pending.count == 1)
            #expect(error.pending.first?.hasPrefix("bob-tablet: The mirror of the private database") == true)
        }
        try await tablet.signIn()
        try await relay.settle()
        #expect(try await tablet.privateDatabase.allRecordZones().count == 2)
    }

    // MARK: Clocks

    /// Everybody's database is followed by times of modification alone.
    @Test func nothingIsMissedAfterAClockThatWasAhead() async throws {
        var options = TestRelay.Options()
        options.storage = .temporaryFolder
        let relay = try TestRelay(options)
        let writer = relay.device(of: "alice").publicDatabase
        let heard = Mutex<Set<String>>([])
        let poller = PublicDatabasePoller(
            database: relay.visitor().publicDatabase,
            recordTypes: ["Post"],
            handle: { event in
                guard case .fetchedRecords(let records) = event else { return }
                heard.withLock { $0.formUnion(records.map(\.recordID.recordName)) }
            }
        )
        await poller.start()
        func post(_ name: String) async throws {
            try await writer.save(CKRecord(recordType: "Post", recordID: CKRecord.ID(recordName: name)))
        }
        relay.clockError = .seconds(400 * 86_400)
        try await post("a")
        try await relay.settle()
        relay.clockError = .zero
        try await post("b")
        try await relay.settle()
        #expect(heard.withLock { $0 } == ["a", "b"])
        // Not even where the latest is gone, and the relay has begun anew.
        try await writer.deleteRecord(withID: CKRecord.ID(recordName: "b"))
        try relay.restart()
        relay.clockError = .seconds(-400 * 86_400)
        try await post("c")
        try await relay.settle()
        #expect(heard.withLock { $0 } == ["a", "b", "c"])
        await poller.stop()
    }
}

private struct Jot: SyncedRecord, Equatable {
    var id = RecordName()
    var text: String?

    init() {}
    init(id: RecordName) { self.id = id }
}

/// An engine that holds what it hears, forgets it with its user, and sends records without content.
private final class Reader: CKSyncEngineDelegate {
    private let held = Mutex<(zones: Set<CKRecordZone.ID>, records: Set<CKRecord.ID>)>(([], []))
    private let engine = Mutex<CKSyncEngine?>(nil)

    init(_ database: CKDatabase) {
        let made = CKSyncEngine(.init(database: database, stateSerialization: nil, delegate: self))
        engine.withLock { $0 = made }
    }

    var zones: Set<CKRecordZone.ID> { held.withLock { $0.zones } }
    var records: Set<CKRecord.ID> { held.withLock { $0.records } }

    func send(_ name: String, in zone: CKRecordZone.ID) {
        guard let state = engine.withLock({ $0 })?.state else { return }
        if !zones.contains(zone) { state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneID: zone))]) }
        state.add(pendingRecordZoneChanges: [.saveRecord(CKRecord.ID(recordName: name, zoneID: zone))])
    }

    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        held.withLock { held in
            switch event {
            case .accountChange: held = ([], [])
            case .fetchedDatabaseChanges(let changes):
                held.zones.formUnion(changes.modifications.map(\.zoneID))
                for zone in changes.deletions.map(\.zoneID) {
                    held.zones.remove(zone)
                    held.records = held.records.filter { $0.zoneID != zone }
                }
            case .fetchedRecordZoneChanges(let changes):
                held.records.formUnion(changes.modifications.map(\.record.recordID))
                held.records.subtract(changes.deletions.map(\.recordID))
            case .sentDatabaseChanges(let sent): held.zones.formUnion(sent.savedZones.map(\.zoneID))
            case .sentRecordZoneChanges(let sent): held.records.formUnion(sent.savedRecords.map(\.recordID))
            default: break
            }
        }
    }

    func nextRecordZoneChangeBatch(
        _ context: CKSyncEngine.SendChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.RecordZoneChangeBatch? {
        let pending = syncEngine.state.pendingRecordZoneChanges.filter { context.options.scope.contains($0) }
        return await CKSyncEngine.RecordZoneChangeBatch(pendingChanges: pending) {
            CKRecord(recordType: "Note", recordID: $0)
        }
    }
}
