import Foundation
import GRDB
import Synchronization
import TestSupport
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A disk that finds no space for one write, at a named place.
private final class Spoiler: Sendable {
    private let place = Mutex<CrashPoint?>(nil)

    func spoilOnce(_ point: CrashPoint) { place.withLock { $0 = point } }
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

/// Work that is cut short, by a full disk, by a cancelled task or by the end of the container: nothing is lost, nothing
/// waits for ever, and nothing is said to have gone well that has not.
@Suite(.timeLimit(.minutes(15))) struct InterruptionTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    /// A mirror that lives by the relay's clock.
    private func worldly(
        _ name: String,
        scope: CKDatabase.Scope = .private,
        model: MirrorModel = notesModel,
        _ spoiler: Spoiler = Spoiler()
    ) async throws -> Mirrored {
        let device = relay.device(of: "alice", named: name)
        var conditions = MirrorConditions(device.connection.conditions ?? SyncConditions())
        conditions.crashPoint = { try spoiler.pass($0) }
        return try await Mirrored(device, model: model, scope: scope, isAutomatic: true, conditions: conditions)
    }

    /// Whether work ends that must not wait for anything.
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

    /// Whoever asks hears what is the matter, and so does whoever reads the events.
    @Test func whatFoundNoSpaceSaysSo() async throws {
        let spoiler = Spoiler()
        var conditions = MirrorConditions()
        conditions.crashPoint = { try spoiler.pass($0) }
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), conditions: conditions)
        try phone.save(Note(id: "a", title: "1"))
        spoiler.spoilOnce(.insideConfirm)
        let error = await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        #expect(error?.code == .storage)
        #expect(error?.explanation.contains("no space left on the disk") == true)
        let events = try await phone.container.events(of: phone.store)
        #expect(events.last { !$0.succeeded }?.message?.contains("no space left on the disk") == true)
        try await phone.sync()
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }

    /// The next try must not wait for the next notice: there may be none.
    @Test(arguments: [CrashPoint.insideImport, .insideDatabasePage])
    func aPageThatFoundNoSpaceIsAskedForAgain(_ place: CrashPoint) async throws {
        let spoiler = Spoiler()
        let laptop = try await worldly("laptop", spoiler)
        let phone = try await worldly("phone")
        try phone.save(Note(id: "a", title: "1"))
        try await relay.settle()
        spoiler.spoilOnce(place)
        // One change, and so one notice.
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

    /// The end of a zone is kept back until all else is here, and tried again where it could not be written down.
    @Test func aZoneWhoseEndFoundNoSpaceGoesLater() async throws {
        let hand = relay.device(of: "alice", named: "hand").privateDatabase
        let extra = try await hand.save(CKRecordZone(zoneName: "Extra")).zoneID
        let more = try await hand.save(CKRecordZone(zoneName: "More")).zoneID
        func note(_ name: String, in zone: CKRecordZone.ID) -> CKRecord {
            let record = CKRecord(recordType: "CD_Note", recordID: CKRecord.ID(recordName: name, zoneID: zone))
            record["CD_title"] = name
            return record
        }
        try await hand.save(note("goes", in: extra))
        let laptop = try await worldly("laptop")
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

    /// How far a poll has come is not to be remembered without what it found.
    @Test func whatAPollCouldNotStoreIsNotPassedOver() async throws {
        let (clock, spoiler) = (relay.clock, Spoiler())
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
        spoiler.spoilOnce(.insideImport)
        await #expect(throws: MirrorError.self) { try await reader.container.pollNow() }
        try await reader.container.pollNow()
        #expect(try reader.context().fetch(Post.self).count == 3)
    }

    /// Whose file it is must be in the file before anything of theirs is.
    @Test func aFileThatCannotSayWhoseItIsTakesNothing() async throws {
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

    @Test func aCancelledSendSaysSo() async throws {
        let phone = try await worldly("phone")
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

    /// A view that goes away cancels its fetch; a notice that came meanwhile was left to that fetch.
    @Test func whatACancelledFetchLeavesIsFetchedByItself() async throws {
        relay.limits.itemsPerRequest = 2
        let laptop = try await worldly("laptop")
        let phone = try await worldly("phone")
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

    @Test func aCancelledPollIsTheOnlyOneThatEndsEarly() async throws {
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

    /// Who asks for a poll wants what is there now, not what a poll under way asked for before.
    @Test func aPollByHandWaitsForTheOneUnderWay() async throws {
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

    // MARK: The end of a container

    @Test func closingWaitsForNoPageThatIsOnItsWay() async throws {
        relay.limits.itemsPerRequest = 2
        let phone = try await worldly("phone")
        for number in 0..<7 { try phone.save(Note(id: RecordName("n\(number)"), title: "\(number)")) }
        try await relay.settle()
        let device = relay.device(of: "alice", named: "laptop")
        device.network.fail(request: 2, of: "changes/zone", by: .slow(.seconds(60)))
        let conditions = MirrorConditions(device.connection.conditions ?? SyncConditions())
        let laptop = try await Mirrored(device, isAutomatic: true, conditions: conditions)
        await relay.advance(by: .seconds(5))
        // Two, or none where the first page was asked for twice: loading goes on beside the world's own order.
        let titles = try laptop.titles
        #expect(titles.count <= 2, "a page is on its way")
        let container = laptop.container
        #expect(await ends { await container.close() })
    }

    @Test func whoFollowsARequestHearsOfTheEnd() async throws {
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
