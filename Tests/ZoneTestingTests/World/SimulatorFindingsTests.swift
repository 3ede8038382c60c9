import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Bugs that the simulator found, each as a minimal test.
@Suite(.timeLimit(.minutes(15))) struct SimulatorFindingsTests {
    private let relay: TestRelay
    private let phone: TestDevice
    private let otherDevice: TestDevice
    private let zone = CKRecordZone.ID(zoneName: "Notes")

    init() throws {
        relay = try TestRelay()
        relay.limits.itemsPerRequest = 2
        phone = relay.device(of: "alice", named: "phone")
        otherDevice = relay.device(of: "alice", named: "tablet")
    }

    private func write(_ names: String..., in zone: CKRecordZone.ID, by database: CKDatabase) async throws {
        for name in names {
            try await database.save(CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: name, zoneID: zone)))
        }
    }

    // MARK: Deleted zones

    /// The database feed, read earlier in the same round, still listed the zone.
    @Test func aShareThatEndsBetweenTwoPagesIsReported() async throws {
        try await otherDevice.privateDatabase.save(CKRecordZone(zoneID: zone))
        try await write("a", "b", "c", "d", "e", in: zone, by: otherDevice.privateDatabase)
        let share = CKShare(recordZoneID: zone)
        share.publicPermission = .readWrite
        try await otherDevice.privateDatabase.save(share)
        let bob = relay.device(of: "bob", named: "phone")
        let reader = Reader(bob.sharedDatabase)
        try await relay.settle()
        let owner = otherDevice.privateDatabase
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

    /// A full listing contains no deletions, and nothing of the zone was ever fetched.
    @Test func theDeletionOfAZoneThatWasOnlyWrittenToIsReported() async throws {
        let reader = Reader(phone.privateDatabase)
        try await relay.settle()
        reader.send("a", in: zone)
        try await relay.settle()
        #expect(reader.zones == [zone])
        phone.network.cut()
        try relay.expireChangeTokens()
        _ = try await otherDevice.privateDatabase.deleteRecordZone(withID: zone)
        phone.network.heal()
        try await relay.settle()
        #expect(reader.zones.isEmpty)
        #expect(reader.records.isEmpty)
    }

    @Test func aMirrorLearnsOfTheDeletionOfAZoneThatItOnlyWroteTo() async throws {
        let mirror = try await phone.mirror(of: MirrorModel(Jot.self))
        let context = mirror.newBackgroundContext()
        try context.insert(Jot())
        try context.save()
        try await relay.settle()
        let zones = try await otherDevice.privateDatabase.allRecordZones().map(\.zoneID).filter {
            $0.zoneName != "_defaultZone"
        }
        let mirrored = try #require(zones.first)
        phone.network.cut()
        try relay.expireChangeTokens()
        _ = try await otherDevice.privateDatabase.deleteRecordZone(withID: mirrored)
        phone.network.heal()
        try await relay.settle()
        #expect(try context.fetch(Jot.self).isEmpty)
    }

    // MARK: Accounts

    /// The relay sends no notice to the device that accepted the share.
    @Test func anAcceptedShareAppearsOnTheAcceptingDeviceAtOnce() async throws {
        try await otherDevice.privateDatabase.save(CKRecordZone(zoneID: zone))
        let share = CKShare(recordZoneID: zone)
        share.publicPermission = .readOnly
        try await otherDevice.privateDatabase.save(share)
        let bob = relay.device(of: "bob", named: "phone")
        let reader = Reader(bob.sharedDatabase)
        try await relay.settle()
        let start = relay.clock.now
        try await bob.container.accept(try await bob.container.shareMetadata(for: #require(share.url)))
        try await relay.settle()
        #expect(reader.zones.map(\.zoneName) == ["Notes"])
        #expect(start.duration(to: relay.clock.now) < .seconds(5))
    }

    /// A request that was prepared for one user must not be sent for the next.
    @Test func anEngineDoesNotSendAnotherUsersChanges() async throws {
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
        #expect(try await otherDevice.privateDatabase.allRecordZones().count == 2)
    }

    /// The next user has a zone of the same name, and the engine has switched users before the first answer arrives.
    @Test func allRequestsOfASendAreMadeForTheSameUser() async throws {
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

    @Test func aMirrorDoesNotSendAnotherUsersChanges() async throws {
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

    /// A page that was requested before a user change must not count as fetched, even if the same user returns.
    @Test func aReturningUserFetchesAllChanges() async throws {
        try await otherDevice.privateDatabase.save(CKRecordZone(zoneID: zone))
        try await write("a", "b", "c", in: zone, by: otherDevice.privateDatabase)
        let reader = Reader(phone.privateDatabase)
        try await relay.settle()
        #expect(reader.records.count == 3)
        phone.network.fail(request: 1, of: "changes/zone", by: .slow(.seconds(60)))
        try await write("d", in: zone, by: otherDevice.privateDatabase)
        await relay.advance(by: .seconds(10))
        try await phone.container.signIn(.dev(user: "bob"))
        await relay.advance(by: .seconds(5))
        #expect(reader.records.isEmpty)
        try await phone.container.signIn(.dev(user: "alice"))
        try await relay.settle()
        #expect(reader.records.count == 4)
    }

    /// After an expired sign-in an engine waits for the next sign-in, while a mirror keeps retrying and `settle`
    /// reports it.
    @Test func settleReportsAMirrorWithAnExpiredSignInButNotAnEngine() async throws {
        let reader = Reader(phone.privateDatabase)
        try await relay.settle()
        // The sign-in has expired when the engine asks for the current user. An engine that learnt of it earlier would
        // keep retrying, as a mirror does.
        let phone = phone
        phone.network.fail(request: 1, of: "users/caller", by: .meanwhile { try? await phone.expireSignIn() })
        try await phone.signIn()
        reader.send("a", in: zone)
        try await relay.settle()
        #expect(try await otherDevice.privateDatabase.allRecordZones().count == 1)
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
            Issue.record("settle returned although the user was signed out.")
        } catch let error as NotSettled {
            #expect(error.pending.count == 1)
            #expect(error.pending.first?.hasPrefix("bob-tablet: The mirror of the private database") == true)
        }
        try await tablet.signIn()
        try await relay.settle()
        #expect(try await tablet.privateDatabase.allRecordZones().count == 2)
    }

    // MARK: Clocks

    /// Clients follow the public database by modification times alone.
    @Test func noRecordIsMissedAfterTheRelaysClockWasAhead() async throws {
        var options = TestRelay.Options()
        options.storage = .temporaryFolder
        let relay = try TestRelay(options)
        let writer = relay.device(of: "alice").publicDatabase
        let fetchedNames = Mutex<Set<String>>([])
        let poller = PublicDatabasePoller(
            database: relay.visitor().publicDatabase,
            recordTypes: ["Post"],
            handle: { event in
                guard case .fetchedRecords(let records) = event else { return }
                fetchedNames.withLock { $0.formUnion(records.map(\.recordID.recordName)) }
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
        #expect(fetchedNames.withLock { $0 } == ["a", "b"])
        // The same must hold after the latest record is deleted and the relay restarts.
        try await writer.deleteRecord(withID: CKRecord.ID(recordName: "b"))
        try relay.restart()
        relay.clockError = .seconds(-400 * 86_400)
        try await post("c")
        try await relay.settle()
        #expect(fetchedNames.withLock { $0 } == ["a", "b", "c"])
        await poller.stop()
    }
}

private struct Jot: SyncedRecord, Equatable {
    var id = RecordName()
    var text: String?

    init() {}
    init(id: RecordName) { self.id = id }
}

/// An engine that keeps what it fetches, drops it when the user changes, and sends empty records.
private final class Reader: CKSyncEngineDelegate {
    private let fetched = Mutex<(zones: Set<CKRecordZone.ID>, records: Set<CKRecord.ID>)>(([], []))
    private let engine = Mutex<CKSyncEngine?>(nil)

    init(_ database: CKDatabase) {
        let made = CKSyncEngine(.init(database: database, stateSerialization: nil, delegate: self))
        engine.withLock { $0 = made }
    }

    var zones: Set<CKRecordZone.ID> { fetched.withLock { $0.zones } }
    var records: Set<CKRecord.ID> { fetched.withLock { $0.records } }

    func send(_ name: String, in zone: CKRecordZone.ID) {
        guard let state = engine.withLock({ $0 })?.state else { return }
        if !zones.contains(zone) { state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneID: zone))]) }
        state.add(pendingRecordZoneChanges: [.saveRecord(CKRecord.ID(recordName: name, zoneID: zone))])
    }

    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        fetched.withLock { fetched in
            switch event {
            case .accountChange: fetched = ([], [])
            case .fetchedDatabaseChanges(let changes):
                fetched.zones.formUnion(changes.modifications.map(\.zoneID))
                for zone in changes.deletions.map(\.zoneID) {
                    fetched.zones.remove(zone)
                    fetched.records = fetched.records.filter { $0.zoneID != zone }
                }
            case .fetchedRecordZoneChanges(let changes):
                fetched.records.formUnion(changes.modifications.map(\.record.recordID))
                fetched.records.subtract(changes.deletions.map(\.recordID))
            case .sentDatabaseChanges(let sent): fetched.zones.formUnion(sent.savedZones.map(\.zoneID))
            case .sentRecordZoneChanges(let sent): fetched.records.formUnion(sent.savedRecords.map(\.recordID))
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
