import Foundation
import GRDB
import Records
import Synchronization
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// The events that a container posts and stores.
///
/// See WhenThingsGoWrong.md, "Everything as it happens".
@Suite(.timeLimit(.minutes(15))) struct EventTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func phone(
        _ conditions: MirrorConditions = MirrorConditions(),
        _ change: (inout StoreDescription) -> Void = { _ in }
    ) async throws -> Mirrored {
        try await Mirrored(relay.device(of: "alice", named: "phone"), conditions: conditions, change)
    }

    @Test func eventsAreStoredAndPosted() async throws {
        let phone = try await phone()
        let posted = Mutex<[MirrorEvent]>([])
        let observer = NotificationCenter.default.addObserver(
            forName: MirroredContainer.eventChangedNotification,
            object: nil,
            queue: nil
        ) { note in
            let key = MirroredContainer.eventNotificationUserInfoKey
            guard let event = note.userInfo?[key] as? MirrorEvent, event.store == phone.store else { return }
            posted.withLock { $0.append(event) }
        }
        defer { NotificationCenter.default.removeObserver(observer) }
        try phone.save(Note(id: "a", title: "1"), Note(id: "b", title: "2"))
        try await phone.container.sendChanges()
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        try laptop.save(Note(id: "c", title: "3"))
        try await laptop.sync()
        try await phone.container.fetchChanges()
        let kept = try await phone.container.events(of: phone.store)
        #expect(kept.map(\.kind) == [.export, .import])
        #expect(kept.map(\.done) == [2, 1])
        #expect(kept.allSatisfy { $0.succeeded && $0.ended != nil && $0.bytes > 0 && $0.store == phone.store })
        #expect(kept[0].id < kept[1].id)
        #expect(try await phone.container.events(of: phone.store, after: kept[0]).map(\.kind) == [.import])
        #expect(try await phone.container.events(of: phone.store, since: Date(timeIntervalSinceNow: 60)).isEmpty)
        let kinds = posted.withLock { $0.filter { $0.ended != nil && $0.kind != .account }.map(\.kind) }
        #expect(kinds == [.export, .import])
        // A failure has an error code and a message.
        phone.device.network.cut()
        await #expect(throws: MirrorError.self) { try await phone.container.fetchChanges() }
        let failed = try #require(try await phone.container.events(of: phone.store).last)
        #expect(!failed.succeeded && failed.errorCode == .networkUnavailable)
        #expect(failed.message?.hasSuffix(".") == true)
        // A new observer first gets the latest event of each kind.
        var late: [MirrorEvent.Kind] = []
        for await event in phone.container.events {
            late.append(event.kind)
            if late.count == 3 { break }
        }
        #expect(Set(late) == [.account, .export, .import])
    }

    /// A store that cannot sync by itself says so at once, in an event and in the log.
    @Test(arguments: [CKError.Code.badContainer, .networkUnavailable, .notAuthenticated])
    func aStoreThatCannotSyncSaysSo(_ code: CKError.Code) async throws {
        let device = relay.device(of: "alice", named: "phone")
        let unknown = CKContainer(identifier: "iCloud.nowhere.\(UUID().uuidString)")
        switch code {
        case .networkUnavailable: device.network.cut()
        case .notAuthenticated: for _ in 0..<8 { device.network.fail(.signedOut) }
        default: break
        }
        let lines = Mutex<[String]>([])
        var conditions = MirrorConditions()
        conditions.log = { line in lines.withLock { $0.append(line) } }
        let phone = try await Mirrored(device, isAutomatic: true, conditions: conditions) {
            if code == .badContainer { $0.cloud?.container = unknown }
        }
        var failure: MirrorEvent?
        for await event in phone.container.events where !event.succeeded {
            failure = event
            break
        }
        let event = try #require(failure)
        #expect(event.errorCode == code && event.store == phone.store)
        #expect(event.message?.contains(code.recoverySuggestion) == true, "\(event.message ?? "")")
        #expect(lines.withLock(\.count) == 1 && lines.withLock { $0.first?.contains(event.message ?? "?") } == true)
        await phone.container.close()
    }

    /// A large number of pending changes is reported once, until the number drops.
    @Test func aLargeOutboxIsReportedOnce() async throws {
        let phone = try await phone { $0.cloud?.outboxWarning = 2 }
        func count() async throws -> Int {
            let details = try await phone.container.events(of: phone.store).flatMap(\.details)
            return details.count { $0 == .outboxIsLarge(3) }
        }
        try phone.save(Note(id: "a", title: "1"), Note(id: "b", title: "2"))
        phone.device.network.cut()
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        #expect(try await count() == 0)
        let events = phone.container.events
        try phone.save(Note(id: "c", title: "3"))
        // The outbox is checked after the commit, and no API call waits for the check.
        for await event in events where event.details == [.outboxIsLarge(3)] { break }
        for _ in 0..<3 { await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() } }
        #expect(try await count() == 1)
        phone.device.network.heal()
        try await phone.container.sendChanges()
    }

    /// A query generation that is pinned too long is advanced, with an event.
    @Test func anOldPinIsAdvanced() async throws {
        let now = Mutex(Date())
        var conditions = MirrorConditions()
        conditions.wallClock = { now.withLock { $0 } }
        let phone = try await phone(conditions)
        try phone.save(Note(id: "a", title: "1"))
        let context = phone.context()
        context.setQueryGeneration(.current)
        #expect(try context.count(FetchRequest(Note.self)) == 1)
        try phone.save(Note(id: "b", title: "2"))
        now.withLock { $0 += 299 }
        #expect(try context.count(FetchRequest(Note.self)) == 1)
        let events = phone.container.events
        now.withLock { $0 += 2 }
        #expect(try context.count(FetchRequest(Note.self)) == 2)
        for await event in events where event.details == [.pinAdvanced] {
            #expect(event.message?.isEmpty == false)
            break
        }
    }

    /// An unused query generation is advanced as well if the WAL grows too much; the next one can stay pinned again.
    @Test func aPinThatKeepsTheWALGrowingIsAdvanced() async throws {
        var conditions = MirrorConditions()
        conditions.pinnedLogLimit = 1 << 20
        let phone = try await phone(conditions)
        func save(_ name: RecordName, bytes: Int) throws {
            var note = Note(id: name, title: "")
            note.photo = Data(repeating: 1, count: bytes)
            try phone.save(note)
        }
        let context = phone.context()
        context.setQueryGeneration(.current)
        #expect(try context.count(FetchRequest(Note.self)) == 0)
        let events = phone.container.events
        try save("a", bytes: 2 << 20)
        for await event in events where event.details == [.pinAdvanced] { break }
        #expect(try context.count(FetchRequest(Note.self)) == 1)
        // The WAL file still has its former length.
        try save("b", bytes: 10)
        #expect(try context.count(FetchRequest(Note.self)) == 1)
        context.refreshAll()
        #expect(try context.count(FetchRequest(Note.self)) == 2)
    }

    /// The space of a WAL that grew during a pin is released afterwards.
    @Test func theWALIsTruncatedAfterAPin() async throws {
        let phone = try await phone()
        let database = try #require(phone.container.database(of: phone.store))
        let context = phone.context()
        context.setQueryGeneration(.current)
        #expect(try context.count(FetchRequest(Note.self)) == 0)
        func log() throws -> Int {
            try FileManager.default.attributesOfItem(atPath: phone.store.text + "-wal")[.size] as? Int ?? 0
        }
        for name in ["a", "b", "c", "d", "e"] {
            var note = Note(id: RecordName(name), title: "")
            note.photo = Data(repeating: 1, count: 8 << 20)
            try phone.save(note)
        }
        #expect(try log() > 40 << 20)
        context.setQueryGeneration(nil)
        try await database.writeWithoutTransaction { _ = try $0.checkpoint(.passive) }
        try phone.save(Note(id: "f", title: ""))
        #expect(try log() < 33 << 20)
    }

    /// A context that merges automatically shows fetched changes; other contexts stay at their query generation.
    @Test func contextsMergeFetchedChangesOnlyIfConfigured() async throws {
        let (phone, laptop) = (try await phone(), try await Mirrored(relay.device(of: "alice", named: "laptop")))
        let view = await phone.container.viewContext
        let still = phone.container.newBackgroundContext()
        #expect(view.automaticallyMergesChangesFromParent && !still.automaticallyMergesChangesFromParent)
        #expect(view.mergePolicy == .mergeByPropertyObjectTrump && still.mergePolicy == .error)
        for context in [view, still] {
            context.setQueryGeneration(.current)
            #expect(try context.fetch(Note.self).isEmpty)
        }
        try laptop.save(Note(id: "a", title: "1"))
        try await laptop.sync()
        try await phone.sync()
        #expect(try view.fetch(Note.self).map(\.title) == ["1"])
        #expect(try still.fetch(Note.self).isEmpty)
        view.automaticallyMergesChangesFromParent = false
        try laptop.save(Note(id: "b", title: "2"))
        try await laptop.sync()
        try await phone.sync()
        #expect(try view.fetch(Note.self).map(\.title) == ["1"])
        view.refreshAll()
        #expect(try view.fetch(Note.self).count == 2)
        // With the policy `error`, automatic merging makes saves fail; setting both posts a notice.
        let events = phone.container.events
        view.automaticallyMergesChangesFromParent = true
        view.mergePolicy = .error
        for await event in events where event.kind == .notice {
            #expect(event.message?.contains("policy error") == true)
            break
        }
        let count = try await phone.container.performBackgroundTask { try $0.count(FetchRequest(Note.self)) }
        #expect(count == 2)
    }

    /// A record type that cannot be polled is reported once, and the other types are polled.
    @Test func aTypeThatCannotBePolledDoesNotStopTheOthers() async throws {
        let alice = try await Mirrored(relay.device(of: "alice"), model: MirrorModel(Post.self), scope: .public)
        try await alice.container.fetchChanges()
        #expect(try await alice.container.hasCompletedInitialImport(alice.store))
        let context = alice.context()
        try context.insert(Post(id: "a", text: "Hello"))
        try context.save()
        try await alice.container.waitUntilUpToDate(timeout: .seconds(120))
        let model = MirrorModel(Post.self, Draft.self)
        let bob = try await Mirrored(relay.device(of: "bob"), model: model, scope: .public)
        for _ in 0..<2 { try await bob.container.pollNow() }
        #expect(try bob.context().fetch(Post.self).map(\.text) == ["Hello"])
        func details(_ mirror: Mirrored) async throws -> [MirrorEvent.Detail] {
            try await mirror.container.events(of: mirror.store).flatMap(\.details)
        }
        #expect(try await details(bob) == [.indexMissing(recordType: "CD_Draft", field: "recordName")])
        // Without the index, the initial import cannot be completed.
        try await relay.changeSchema { $0["CD_Post"]?.systemIndexes[.modified] = [] }
        let carol = try await Mirrored(relay.device(of: "carol"), model: MirrorModel(Post.self), scope: .public)
        try await carol.container.pollNow()
        #expect(try await details(carol) == [.indexMissing(recordType: "CD_Post", field: "modificationDate")])
        #expect(try await !carol.container.hasCompletedInitialImport(carol.store))
        try await relay.changeSchema { $0["CD_Post"]?.systemIndexes[.modified] = [.queryable, .sortable] }
        try await carol.container.pollNow()
        #expect(try carol.context().fetch(Post.self).map(\.text) == ["Hello"])
        #expect(try await carol.container.hasCompletedInitialImport(carol.store))
    }

    /// The event names the missing index, including that of a field in the store's extent.
    @Test func theMissingIndexIsNamed() async throws {
        let alice = try await Mirrored(relay.device(of: "alice"), model: MirrorModel(Post.self), scope: .public)
        try await alice.container.fetchChanges()
        let context = alice.context()
        try context.insert(Post(id: "a", text: "Hello"))
        try context.save()
        try await alice.container.sendChanges()
        try await relay.changeSchema { $0["CD_Post"]?.fields["CD_text"]?.indexes = [] }
        func named(by user: String, _ extent: PublicExtent?) async throws -> [MirrorEvent.Detail] {
            let model = MirrorModel(Post.self)
            let mirror = try await Mirrored(relay.device(of: user), model: model, scope: .public) {
                $0.cloud?.extents["Post"] = extent
            }
            try await mirror.container.pollNow()
            return try await mirror.container.events(of: mirror.store).flatMap(\.details)
        }
        let some = PublicExtent(NSPredicate(format: "text == %@", "Hello"))
        #expect(try await named(by: "bob", some) == [.indexMissing(recordType: "CD_Post", field: "CD_text")])
        #expect(try await named(by: "carol", nil) == [])
        try await relay.changeSchema { $0["CD_Post"]?.systemIndexes = [:] }
        #expect(try await named(by: "dave", nil) == [.indexMissing(recordType: "CD_Post", field: "recordName")])
    }

    /// A public mirror polls when it opens and then every half hour, or at the configured interval of at least a
    /// minute.
    @Test(arguments: [(Duration.seconds(1_800), 1_800), (.seconds(60), 60), (.seconds(1), 60)])
    func publicMirrorsPollAtTheirInterval(_ interval: Duration, _ seconds: Int) async throws {
        let device = relay.device(of: "alice")
        let board = try await device.mirror(of: MirrorModel(Post.self), scope: .public) {
            $0.cloud?.pollInterval = interval
        }
        try await relay.settle()
        let context = board.newBackgroundContext()
        try context.insert(Post(id: "a", text: "Hello"))
        try context.save()
        try await relay.settle()
        // The first polls are for a type that does not exist yet.
        await relay.advance(by: .seconds(seconds))
        func polls() -> Int { device.network.operations.count { $0.hasSuffix("records/query") } }
        let before = polls()
        await relay.advance(by: .seconds(seconds * 4))
        #expect((3...5).contains(polls() - before), "\(polls() - before) polls in four intervals")
        let now = polls()
        try await board.pollNow()
        #expect(polls() == now + 1)
        await board.close()
    }
}
