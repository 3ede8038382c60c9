import Foundation
import Records
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Writes that the relay rejects: they are reverted, kept for a decision, and do not block others.
///
/// See Sync.md, "Refused writes", and Permissions.md, "Writes without permission".
@Suite(.timeLimit(.minutes(15))) struct RefusalTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func board(
        _ user: String,
        _ folder: TemporaryFolder? = nil,
        _ change: @escaping (inout StoreDescription) -> Void = { _ in }
    ) async throws -> Mirrored {
        let clock = relay.clock
        var conditions = MirrorConditions()
        conditions.wallClock = { clock.date }
        let device = relay.device(of: user)
        let model = MirrorModel(Post.self)
        return try await Mirrored(device, model: model, scope: .public, folder: folder, conditions: conditions, change)
    }

    private func texts(_ mirror: Mirrored) throws -> [String: String] {
        let posts = try mirror.context().fetch(Post.self)
        return Dictionary(uniqueKeysWithValues: posts.map { ($0.id.text, $0.text) })
    }

    /// Returns Alice's mirror with two posts, and Bob's, which has fetched them and allows saves without permission.
    private func world(
        _ folder: TemporaryFolder? = nil,
        keeps: Bool = false
    ) async throws -> (alice: Mirrored, bob: Mirrored) {
        let alice = try await board("alice")
        _ = try? await alice.container.fetchChanges()
        let context = alice.context()
        for name in ["a", "b"] { try context.insert(Post(id: RecordName(name), text: name)) }
        try context.save()
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        let bob = try await board("bob", folder) {
            $0.unpermittedWrites = .allow
            $0.cloud?.keepsRefusedChanges = keeps
        }
        try await bob.container.pollNow()
        return (alice, bob)
    }

    private func write(_ bob: Mirrored) throws {
        let context = bob.context()
        try context.edit(Post.self, "a") { $0.text = "bob was here" }
        try context.delete(Post.self, id: "b")
        try context.insert(Post(id: "c", text: "bob's own"))
        try context.save()
    }

    @Test func rejectedWritesAreRevertedAndOthersAreSent() async throws {
        let folder = try TemporaryFolder()
        let (alice, bob) = try await world(folder)
        try write(bob)
        #expect(try texts(bob) == ["a": "bob was here", "c": "bob's own"])
        let events = bob.container.events
        await #expect(throws: MirrorError.self) { try await bob.container.sendChanges() }
        // The edit is reverted, the deleted post is restored, and Bob's own post is sent.
        #expect(try texts(bob) == ["a": "a", "b": "b", "c": "bob's own"])
        relay.clock.advance(by: .seconds(60))
        try await alice.container.pollNow()
        #expect(try texts(alice) == ["a": "a", "b": "b", "c": "bob's own"])
        for await event in events where event.kind == .export {
            #expect(event.details.contains(.refused(["a", "b"])), "\(event.details)")
            break
        }
        // Rejected writes survive a restart, with all details for a decision.
        await bob.container.close()
        let again = try await board("bob", folder) { $0.unpermittedWrites = .allow }
        let refused = try await again.container.rejectedWrites(again.store)
        #expect(refused.map(\.recordName) == ["a", "b"])
        #expect(refused.map(\.isDeletion) == [false, true])
        #expect(refused.allSatisfy { $0.code == .permissionFailure && $0.tries == 1 && !$0.explanation.isEmpty })
        #expect(refused[0].fields["CD_text"]?.contains("bob was here") == true)
        let data = try await again.container.export(refused[0])
        #expect(String(decoding: data, as: UTF8.self).contains("bob was here"))
        // After a grant the same write succeeds.
        try await relay.changeSchema { $0["CD_Post"]?.grants[.authenticated] = [.create, .write] }
        for write in refused { try await again.container.retry(write) }
        await #expect(throws: MirrorError.self) { try await again.container.retry(refused[0]) }
        try await again.container.sendChanges()
        #expect(try await again.container.rejectedWrites(again.store).isEmpty)
        #expect(try texts(again) == ["a": "bob was here", "c": "bob's own"])
        relay.clock.advance(by: .seconds(60))
        try await alice.container.pollNow()
        #expect(try texts(alice)["a"] == "bob was here")
    }

    /// With `keepsRefusedChanges`, objects keep their rejected changes and are marked as refused.
    @Test func rejectedChangesCanBeKept() async throws {
        let (alice, bob) = try await world(keeps: true)
        try write(bob)
        await #expect(throws: MirrorError.self) { try await bob.container.sendChanges() }
        #expect(try texts(bob) == ["a": "bob was here", "c": "bob's own"])
        let id = ObjectID(store: bob.store, entity: "Post", name: "a")
        #expect(try await bob.container.syncState(of: id) == .refused)
        #expect(try await bob.container.pendingExportCount(bob.store) == 0)
        // Other devices do not get the rejected changes.
        relay.clock.advance(by: .seconds(60))
        try await alice.container.pollNow()
        #expect(try texts(alice)["a"] == "a")
        for write in try await bob.container.rejectedWrites(bob.store) { try await bob.container.discard(write) }
        #expect(try await bob.container.syncState(of: id) == .synced)
    }

    /// The object of a kept deletion has no row, and the deletion can be retried all the same.
    @Test func aKeptDeletionCanBeRetried() async throws {
        let (_, bob) = try await world(keeps: true)
        try write(bob)
        await #expect(throws: MirrorError.self) { try await bob.container.sendChanges() }
        try await relay.changeSchema { $0["CD_Post"]?.grants[.authenticated] = [.create, .write] }
        for write in try await bob.container.rejectedWrites(bob.store) { try await bob.container.retry(write) }
        #expect(try await bob.container.pendingExports(bob.store).map(\.name) == ["a", "b"])
        try await bob.container.sendChanges()
        let other = try await board("carol")
        try await other.container.pollNow()
        #expect(try texts(other) == ["a": "bob was here", "c": "bob's own"])
    }

    /// Discarding a kept change restores the relay's version of the object.
    @Test func discardingAKeptChangeRevertsIt() async throws {
        let (alice, bob) = try await world(keeps: true)
        try write(bob)
        await #expect(throws: MirrorError.self) { try await bob.container.sendChanges() }
        try edit(bob, "a", "bob again")
        let id = ObjectID(store: bob.store, entity: "Post", name: "a")
        // Later changes of the object are not discarded.
        let first = try await bob.container.rejectedWrites(bob.store)
        for write in first { try await bob.container.discard(write) }
        #expect(try texts(bob) == ["a": "bob again", "b": "b", "c": "bob's own"])
        #expect(try await bob.container.syncState(of: id) == .pending)
        await #expect(throws: MirrorError.self) { try await bob.container.sendChanges() }
        let second = try #require(try await bob.container.rejectedWrites(bob.store).first)
        try await bob.container.discard(second)
        #expect(try texts(bob) == ["a": "a", "b": "b", "c": "bob's own"])
        #expect(try await bob.container.syncState(of: id) == .synced)
        #expect(try await bob.container.pendingExportCount(bob.store) == 0)
        // Discarding the same write again reverts nothing.
        relay.clock.advance(by: .seconds(60))
        try edit(alice, "a", "alice's")
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await bob.container.pollNow()
        try await bob.container.discard(second)
        #expect(try texts(bob)["a"] == "alice's")
    }

    private func edit(_ mirror: Mirrored, _ name: RecordName, _ text: String) throws {
        let context = mirror.context()
        try context.edit(Post.self, name) { $0.text = text }
        try context.save()
    }

    /// Ten of a thousand writes, including the first, edit objects that the user may only read.
    @Test func tenRejectedWritesOfAThousandDoNotBlockTheOthers() async throws {
        let (alice, bob) = try await world()
        let more = alice.context()
        for number in 0..<10 { try more.insert(Post(id: RecordName("theirs\(number)"), text: "t")) }
        try more.save()
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await bob.container.pollNow()
        let context = bob.context()
        for number in 0..<1_000 {
            if number % 100 == 0 {
                try context.edit(Post.self, RecordName("theirs\(number / 100)")) { $0.text = "mine" }
            } else {
                try context.insert(Post(id: RecordName("own\(number)"), text: "\(number)"))
            }
        }
        try context.save()
        bob.device.network.forgetOperations()
        await #expect(throws: MirrorError.self) { try await bob.container.sendChanges() }
        #expect(try await bob.container.pendingExportCount(bob.store) == 0)
        let refused = try await bob.container.rejectedWrites(bob.store)
        #expect(Set(refused.map(\.recordName)) == Set((0..<10).map { "theirs\($0)" }))
        // The number of requests is that of a thousand accepted writes.
        #expect(bob.device.network.operations.filter { $0.hasSuffix("records/modify") }.count <= 6)
        relay.clock.advance(by: .seconds(60))
        try await alice.container.pollNow()
        #expect(try texts(alice).count == 2 + 10 + 990)
        #expect(try texts(alice).filter { $0.key.hasPrefix("theirs") }.allSatisfy { $0.value == "t" })
    }

    /// Pending changes and deletions can be dropped before they are sent.
    @Test func pendingExportsCanBeDropped() async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        try phone.save(Note(id: "n", title: "a"), Note(id: "gone", title: "b"))
        try await phone.sync()
        try phone.delete("gone")
        try phone.save(Note(id: "new", title: "c"))
        #expect(try await phone.container.pendingExports(phone.store).map(\.name) == ["gone", "new"])
        for name in ["gone", "new"] as [RecordName] {
            try await phone.container.dropPendingExport(of: .init(store: phone.store, entity: "Note", name: name))
        }
        #expect(try phone.titles == ["n": "a", "gone": "b"])
        phone.device.network.forgetOperations()
        try await phone.sync()
        #expect(!phone.device.network.operations.contains { $0.hasSuffix("records/modify") })
    }
}
