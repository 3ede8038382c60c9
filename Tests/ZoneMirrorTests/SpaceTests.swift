import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// The limits of a relay, and the behavior when the quota is exceeded.
///
/// See Sync.md, "Quota".
@Suite(.timeLimit(.minutes(15))) struct SpaceTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func phone(_ conditions: MirrorConditions = MirrorConditions()) async throws -> Mirrored {
        try await Mirrored(relay.device(of: "alice", named: "phone"), conditions: conditions)
    }

    private static func isFull(_ detail: MirrorEvent.Detail) -> Bool {
        if case .quotaExceeded = detail { true } else { false }
    }

    @Test func limitsAreReadable() async throws {
        var limits = TestRelay.Limits()
        limits.itemsPerRequest = 50
        limits.recordBytes = 12_345
        limits.zonesPerUser = 7
        limits.privateBytes = 1_000_000
        relay.limits = limits
        let phone = try await phone()
        let announced = try await phone.container.limits(of: phone.store)
        #expect(announced.requestItems == 50 && announced.recordBytes == 12_345 && announced.zones == 7)
        #expect(announced.participants == 100 && announced.fields == 256 && announced.assetBytes == 50 * 1024 * 1024)
        #expect(announced.requestBytes == 2_000_000)
        let before = try #require(announced.storage)
        #expect(before.limit == 1_000_000)
        try phone.save(Note(id: "n", title: String(repeating: "x", count: 1_000)))
        try await phone.sync()
        let after = try #require(try await phone.device.container.limits().storage)
        #expect(after.used >= before.used + 1_000 && after.limit == 1_000_000)
        // The storage of a shared database is not reported.
        #expect(try await phone.device.sharedDatabase.client.limits().storage == nil)
        phone.device.network.cut()
        await #expect(throws: MirrorError.self) { try await phone.container.limits(of: phone.store) }
    }

    @Test func anExceededQuotaBlocksOnlyGrowingChanges() async throws {
        let (phone, laptop) = (try await phone(), try await Mirrored(relay.device(of: "alice", named: "laptop")))
        try phone.save(
            Note(id: "long", title: String(repeating: "x", count: 5_000)),
            Note(id: "short", title: "s"),
            Note(id: "gone", title: "g")
        )
        try await phone.sync()
        try await laptop.sync()
        let used = try #require(try await phone.device.container.limits().storage).used
        relay.limits.privateBytes = used
        try phone.save(Note(id: "new", title: "finds no space"))
        let context = phone.context()
        try context.edit(Note.self, "long") { $0.title = "short now" }
        try context.edit(Note.self, "short") { $0.title = String(repeating: "y", count: 9_000) }
        try context.save()
        let error = await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        #expect((error?.underlying as? CKError)?.code == .quotaExceeded)
        // Reported once, with the numbers.
        let events = try await phone.container.events(of: phone.store).flatMap(\.details).filter(Self.isFull)
        guard case .quotaExceeded(let announced?, let limit?, let needed?)? = events.first else {
            Issue.record("\(events)")
            return
        }
        #expect(announced == used && limit == used && needed > 0)
        let new = ObjectID(store: phone.store, entity: "Note", name: "new")
        let words = try await phone.container.explain(new)
        #expect(words.state == .pending && words.reason.contains("quota"), "\(words)")
        // Shorter values are sent, and fetches continue.
        try await laptop.container.fetchChanges()
        #expect(try laptop.titles["long"] == "short now")
        #expect(try laptop.titles["new"] == nil && laptop.titles["short"] == "s")
        try laptop.delete("gone")
        try await laptop.container.sendChanges()
        #expect(try await phone.container.pendingExportCount(phone.store) == 2)
        try? await phone.container.sendChanges()
        let again = try await phone.container.events(of: phone.store).flatMap(\.details).filter(Self.isFull)
        #expect(again.count == 1)
        // After a deletion on another device the changes are retried, and the small note fits.
        relay.limits.privateBytes = used + 5_000
        try await phone.container.fetchChanges()
        #expect(try phone.titles["gone"] == nil)
        try? await phone.container.sendChanges()
        try await laptop.container.fetchChanges()
        #expect(try laptop.titles["new"] == "finds no space")
        // With enough space, the rest is sent after a quarter of an hour or a restart.
        relay.emptyQuota()
        try phone.save(Note(id: "other", title: "o"))
        try phone.delete("other")
        let second = try await restarted(phone)
        try await second.sync()
        #expect(try await second.container.pendingExportCount(second.store) == 0)
        try await laptop.container.fetchChanges()
        #expect(try laptop.titles["short"]?.count == 9_000)
    }

    private func restarted(_ mirror: Mirrored) async throws -> Mirrored {
        await mirror.container.close()
        return try await Mirrored(mirror.device, folder: mirror.folder)
    }

    /// A deletion on this device frees space, which is used at once and reported.
    @Test func aDeletionFreesSpaceForPendingChanges() async throws {
        let phone = try await phone()
        try phone.save(Note(id: "large", title: String(repeating: "x", count: 20_000)))
        try await phone.sync()
        relay.limits.privateBytes = try #require(try await phone.device.container.limits().storage).used
        try phone.save(Note(id: "new", title: "n"))
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        try phone.delete("large")
        try await phone.container.sendChanges()
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
        let details = try await phone.container.events(of: phone.store).flatMap(\.details)
        #expect(details.contains(.quotaRecovered))
    }

    /// Changes are retried automatically after a quarter of an hour.
    @Test func changesAreRetriedAfterAQuarterOfAnHour() async throws {
        let now = Mutex(Date())
        var conditions = MirrorConditions()
        conditions.wallClock = { now.withLock { $0 } }
        let phone = try await phone(conditions)
        try await phone.sync()
        relay.fillQuota()
        try phone.save(Note(id: "new", title: "n"))
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        relay.emptyQuota()
        try await phone.container.sendChanges()
        #expect(try await phone.container.pendingExportCount(phone.store) == 1)
        now.withLock { $0 += 901 }
        try await phone.container.sendChanges()
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }

    /// The limit of zones blocks only changes for a new zone.
    @Test func theZoneLimitIsNotReportedAsAnExceededQuota() async throws {
        let phone = try await phone()
        relay.limits.zonesPerUser = 0
        try phone.save(Note(id: "a", title: "1"))
        let error = await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        #expect((error?.underlying as? CKError)?.code == .quotaExceeded)
        #expect(try phone.titles == ["a": "1"])
        let full = try await phone.container.events(of: phone.store).flatMap(\.details).filter(Self.isFull)
        #expect(full.isEmpty, "the storage quota is not exceeded")
        relay.limits.zonesPerUser = 10
        try await phone.container.sendChanges()
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }

    /// Shared records count toward the owner's quota, and the participant's error says so.
    @Test func aShareUsesItsOwnersQuota() async throws {
        let world = try await SharingWorld()
        let link = try await world.share(publicly: true)
        let bob = world.bob
        try await bob.container.acceptShareInvitations(from: [link], into: bob.others)
        world.relay.fillQuota()
        try bob.addMemo("3 no room")
        await #expect(throws: MirrorError.self) { try await bob.container.sendChanges() }
        let event = try #require(
            try await bob.container.events(of: bob.others).first { $0.details.contains(where: Self.isFull) }
        )
        #expect(event.message?.contains("owner") == true, "\(event.message ?? "")")
        #expect(event.details.contains(.quotaExceeded()))
        world.relay.emptyQuota()
        let mine = try await bob.container.events(of: bob.mine).flatMap(\.details).filter(Self.isFull)
        #expect(mine.isEmpty)
    }
}

extension Mirrored {
    func delete(_ name: RecordName) throws {
        let context = context()
        try context.delete(Note.self, id: name)
        try context.save()
    }
}
