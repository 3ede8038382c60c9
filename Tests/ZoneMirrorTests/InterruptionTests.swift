import Foundation
import GRDB
import Synchronization
import TestSupport
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Fails one write with "disk full" at a chosen crash point.
private final class FailureInjector: Sendable {
    private let place = Mutex<CrashPoint?>(nil)

    func failOnce(_ point: CrashPoint) { place.withLock { $0 = point } }
    var isWaiting: Bool { place.withLock { $0 != nil } }

    func pass(_ point: CrashPoint) throws {
        let isHere = place.withLock { place in
            guard place == point else { return false }
            place = nil
            return true
        }
        if isHere { throw DatabaseError(resultCode: .SQLITE_FULL, message: "database or disk is full") }
    }
}

/// Work interrupted by a full disk, a cancelled task or the closing of the container: no change is lost, no call waits
/// for ever, and no failure is reported as success.
@Suite(.timeLimit(.minutes(15))) struct InterruptionTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    /// A mirror that uses the relay's clock.
    private func automaticMirror(
        _ name: String,
        scope: CKDatabase.Scope = .private,
        model: MirrorModel = notesModel,
        _ spoiler: FailureInjector = FailureInjector()
    ) async throws -> Mirrored {
        let device = relay.device(of: "alice", named: name)
        var conditions = MirrorConditions(device.connection.conditions ?? SyncConditions())
        conditions.crashPoint = { try spoiler.pass($0) }
        return try await Mirrored(device, model: model, scope: scope, isAutomatic: true, conditions: conditions)
    }

    /// Returns whether work ends within a minute.
    private func ends(_ work: @escaping @Sendable () async -> Void) async -> Bool {
        let isDone = Mutex(false)
        let task = Task {
            await work()
            isDone.withLock { $0 = true }
        }
        let end = ContinuousClock.now + .seconds(60)
        while !isDone.withLock({ $0 }), ContinuousClock.now < end { await Task.yield() }
        task.cancel()
        return isDone.withLock { $0 }
    }

    // MARK: No space on the disk

    /// The thrown error and the event both say that the disk is full.
    @Test func aFullDiskIsReportedInTheErrorAndTheEvent() async throws {
        let spoiler = FailureInjector()
        var conditions = MirrorConditions()
        conditions.crashPoint = { try spoiler.pass($0) }
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), conditions: conditions)
        try phone.save(Note(id: "a", title: "1"))
        spoiler.failOnce(.insideConfirm)
        let error = await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        #expect(error?.code == .storage)
        #expect(error?.explanation.contains("no space left on the disk") == true)
        let events = try await phone.container.events(of: phone.store)
        #expect(events.last { !$0.succeeded }?.message?.contains("no space left on the disk") == true)
        try await phone.sync()
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }

    /// The retry must not wait for the next notice, because there may be none.
    @Test(arguments: [CrashPoint.insideImport, .insideDatabasePage])
    func aPageThatDidNotFitOnTheDiskIsFetchedAgain(_ place: CrashPoint) async throws {
        let spoiler = FailureInjector()
        let laptop = try await automaticMirror("laptop", spoiler)
        let phone = try await automaticMirror("phone")
        try phone.save(Note(id: "a", title: "1"))
        try await relay.settle()
        spoiler.failOnce(place)
        // One change causes one notice.
        if place == .insideImport {
            try phone.save(Note(id: "b", title: "2"))
        } else {
            let hand = relay.device(of: "alice", named: "hand").privateDatabase
            try await hand.save(CKRecordZone(zoneName: "More"))
        }
        try await relay.settle()
        #expect(!spoiler.isWaiting)
        let database = try #require(laptop.container.database(of: laptop.store))
        let zones = try await database.read { try String.fetchSet($0, sql: "SELECT name FROM mirror_zone") }
        #expect(try place == .insideImport ? laptop.titles["b"] == "2" : zones.contains("More"))
    }

    /// A zone's deletion is applied after all other changes, and retried if it cannot be stored.
    @Test func aZoneDeletionThatDidNotFitOnTheDiskIsRetried() async throws {
        let hand = relay.device(of: "alice", named: "hand").privateDatabase
        let extra = try await hand.save(CKRecordZone(zoneName: "Extra")).zoneID
        let more = try await hand.save(CKRecordZone(zoneName: "More")).zoneID
        func note(_ name: String, in zone: CKRecordZone.ID) -> CKRecord {
            let record = CKRecord(recordType: "CD_Note", recordID: CKRecord.ID(recordName: name, zoneID: zone))
            record["CD_title"] = name
            return record
        }
        try await hand.save(note("goes", in: extra))
        let laptop = try await automaticMirror("laptop")
        try await relay.settle()
        #expect(try laptop.titles == ["goes": "goes"])
        let database = try #require(laptop.container.database(of: laptop.store))
        try await database.write { db in
            try db.execute(
                sql: """
                    CREATE TRIGGER noSpace BEFORE DELETE ON mirror_record
                    BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END
                    """
            )
        }
        laptop.device.network.cut()
        try await hand.deleteRecordZone(withID: extra)
        try await hand.save(note("new", in: more))
        laptop.device.network.heal()
        await relay.advance(by: .seconds(200))
        #expect(try laptop.titles == ["goes": "goes", "new": "new"])
        try await database.write { try $0.execute(sql: "DROP TRIGGER noSpace") }
        try await relay.settle()
        #expect(try laptop.titles == ["new": "new"])
    }

    /// The progress of a poll must not be stored without the poll's results.
    @Test func pollResultsThatCouldNotBeStoredAreFetchedAgain() async throws {
        let (clock, spoiler) = (relay.clock, FailureInjector())
        var conditions = MirrorConditions()
        conditions.wallClock = { clock.date }
        let model = MirrorModel(Post.self)
        let alice = relay.device(of: "alice")
        let writer = try await Mirrored(alice, model: model, scope: .public, conditions: conditions)
        conditions.crashPoint = { try spoiler.pass($0) }
        let reader = try await Mirrored(relay.device(of: "bob"), model: model, scope: .public, conditions: conditions)
        try? await writer.container.fetchChanges()
        for number in 0..<3 {
            let context = writer.context()
            try context.insert(Post(id: RecordName("p\(number)"), text: "\(number)"))
            try context.save()
            try await writer.container.sendChanges()
            clock.advance(by: .seconds(60))
        }
        spoiler.failOnce(.insideImport)
        await #expect(throws: MirrorError.self) { try await reader.container.pollNow() }
        try await reader.container.pollNow()
        #expect(try reader.context().fetch(Post.self).count == 3)
    }

    /// The file must name its user before it stores any of the user's data.
    @Test func aFileThatCannotStoreItsUserTakesNoData() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let mirror = try await Mirrored(device)
        let database = try #require(mirror.container.database(of: mirror.store))
        try await database.write { db in
            try db.execute(
                sql: """
                    CREATE TRIGGER noSpace BEFORE INSERT ON mirror_state WHEN new.k = 'account'
                    BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END
                    """
            )
        }
        try mirror.save(Note(id: "a", title: "Alice's"))
        await #expect(throws: MirrorError.self) { try await mirror.sync() }
        try await database.write { try $0.execute(sql: "DROP TRIGGER noSpace") }
        try await mirror.sync()
        device.connection.credentials.replace(webAuthToken: "dev-bob")
        try? await mirror.container.fetchChanges()
        try? await mirror.container.fetchChanges()
        try? await mirror.container.sendChanges()
        let bob = try await Mirrored(relay.device(of: "bob", named: "other"))
        try await bob.sync()
        #expect(try bob.titles == [:])
    }

    // MARK: Cancelled tasks

    @Test func aCancelledSendThrows() async throws {
        let phone = try await automaticMirror("phone")
        try await relay.settle()
        let before = try await phone.container.lastSuccessfulExport(phone.store)
        phone.device.network.cut()
        try phone.save(Note(id: "a", title: "1"))
        await relay.advance(by: .seconds(1))
        phone.device.network.heal()
        let container = phone.container
        let send = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await container.sendChanges()
        }
        await #expect(throws: MirrorError.self) { try await send.value }
        #expect(try await container.lastSuccessfulExport(phone.store) == before)
        #expect(try await container.pendingExportCount(phone.store) == 1)
        try await relay.settle()
        #expect(try await container.pendingExportCount(phone.store) == 0)
    }

    /// A disappearing view cancels its fetch, which should also have covered a notice that arrived meanwhile.
    @Test func changesMissedByACancelledFetchAreFetchedAutomatically() async throws {
        relay.limits.itemsPerRequest = 2
        let laptop = try await automaticMirror("laptop")
        let phone = try await automaticMirror("phone")
        for number in 0..<6 { try phone.save(Note(id: RecordName("n\(number)"), title: "\(number)")) }
        try await relay.settle()
        #expect(try laptop.titles.count == 6)
        let container = laptop.container
        let fetching = Mutex<Task<Void, Never>?>(nil)
        laptop.device.network.fail(
            request: 1,
            of: "changes/database",
            by: .beforeAnswer {
                for number in 6..<9 { try? phone.save(Note(id: RecordName("n\(number)"), title: "\(number)")) }
                try? await phone.container.sendChanges()
                fetching.withLock { $0 }?.cancel()
            }
        )
        let fetch = Task { _ = try? await container.fetchChanges() }
        fetching.withLock { $0 = fetch }
        await fetch.value
        try await relay.settle()
        #expect(try laptop.titles.count == 9)
    }

    @Test func aCancelledPollDoesNotShortenTheNext() async throws {
        relay.limits.itemsPerRequest = 2
        let board = relay.device(of: "alice").publicDatabase
        for number in 0..<5 {
            let post = CKRecord(recordType: "CD_Post", recordID: .init(recordName: "p\(number)"))
            post["CD_text"] = "\(number)"
            try await board.save(post)
            relay.clock.advance(by: .seconds(60))
        }
        let reader = relay.device(of: "bob")
        let mirror = try await Mirrored(reader, model: MirrorModel(Post.self), scope: .public)
        let container = mirror.container
        let polling = Mutex<Task<Void, any Error>?>(nil)
        let isSet = Gate()
        reader.network.fail(
            request: 1,
            of: "records/query",
            by: .beforeAnswer {
                await isSet.wait()
                polling.withLock { $0 }?.cancel()
            }
        )
        let poll = Task { try await container.pollNow() }
        polling.withLock { $0 = poll }
        isSet.open()
        await #expect(throws: MirrorError.self) { try await poll.value }
        try await container.pollNow()
        #expect(try mirror.context().fetch(Post.self).count == 5)
    }

    /// `pollNow()` must return the current content, not that of a poll that started before.
    @Test func pollNowStartsAfterAPollInProgress() async throws {
        let writer = relay.device(of: "bob").publicDatabase
        let device = relay.device(of: "alice", named: "reader")
        let (asked, answer) = (Gate(), Gate())
        device.network.fail(
            request: 1,
            of: "records/query",
            by: .beforeAnswer {
                asked.open()
                await answer.wait()
            }
        )
        let conditions = MirrorConditions(device.connection.conditions ?? SyncConditions())
        let model = MirrorModel(Post.self)
        let mirror = try await Mirrored(device, model: model, scope: .public, isAutomatic: true, conditions: conditions)
        await asked.wait()
        let post = CKRecord(recordType: "CD_Post", recordID: .init(recordName: "p"))
        post["CD_text"] = "news"
        try await writer.save(post)
        let container = mirror.container
        let poll = Task { try await container.pollNow() }
        for _ in 0..<1_000 { await Task.yield() }
        answer.open()
        try await poll.value
        #expect(try mirror.context().fetch(Post.self).map { $0.text } == ["news"])
        await container.close()
    }

    // MARK: Closing

    @Test func closingDoesNotWaitForAPageInProgress() async throws {
        relay.limits.itemsPerRequest = 2
        let phone = try await automaticMirror("phone")
        for number in 0..<7 { try phone.save(Note(id: RecordName("n\(number)"), title: "\(number)")) }
        try await relay.settle()
        let device = relay.device(of: "alice", named: "laptop")
        device.network.fail(request: 2, of: "changes/zone", by: .slow(.seconds(60)))
        let conditions = MirrorConditions(device.connection.conditions ?? SyncConditions())
        let laptop = try await Mirrored(device, isAutomatic: true, conditions: conditions)
        await relay.advance(by: .seconds(5))
        // Two, or none if the first page was requested twice: loading runs outside the simulated order.
        let titles = try laptop.titles
        #expect(titles.count <= 2, "a page is in progress")
        let container = laptop.container
        #expect(await ends { await container.close() })
    }

    @Test func liveRequestsEndWhenTheContainerCloses() async throws {
        let folder = try TemporaryFolder()
        let store = StoreDescription(url: folder.url.appendingPathComponent("local.sqlite"))
        let container = MirroredContainer(model: notesModel, stores: [store])
        try await container.loadStores()
        let context = container.newBackgroundContext()
        let found = context.objects(Note.self)
        let first = Gate()
        let follower = Task { for await _ in found { first.open() } }
        await first.wait()
        await container.close()
        #expect(await ends { await follower.value })
    }
}
