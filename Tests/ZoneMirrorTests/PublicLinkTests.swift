import Foundation
import GRDB
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Many-to-many links in a public database, where their removal is not synced either.
///
/// See PublicData.md, "Deletion does not travel".
@Suite(.timeLimit(.minutes(15))) struct PublicLinkTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func board(_ user: String) async throws -> Mirrored {
        let clock = relay.clock
        var conditions = MirrorConditions()
        conditions.wallClock = { clock.date }
        let mirror = try await Mirrored(relay.device(of: user), scope: .public, conditions: conditions)
        // An empty database does not know the record types yet.
        try? await mirror.container.fetchChanges()
        return mirror
    }

    private func tags(_ mirror: Mirrored, _ name: RecordName) throws -> [String] {
        try mirror.context().related(to: Note(id: name, title: ""), \.tags).map(\.id.text).sorted()
    }

    @Test func reconcilingRemovesDeletedLinks() async throws {
        let alice = try await board("alice")
        let bob = try await board("bob")
        let context = alice.context()
        let notes = ["a", "b"].map { Note(id: RecordName($0), title: $0) }
        let tags = ["s", "t"].map { Tag(id: RecordName($0)) }
        for note in notes { try context.insert(note) }
        for tag in tags { try context.insert(tag) }
        for note in notes { for tag in tags { try context.link(note, \.tags, tag) } }
        try context.save()
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await bob.container.pollNow()
        try context.unlink(notes[0], \.tags, tags[0])
        try context.delete(Note.self, id: "b")
        try context.save()
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await bob.container.pollNow()
        // Bob's unsent objects and links are kept.
        let own = bob.context()
        try own.insert(Note(id: "c", title: "c"))
        try own.link(Note(id: "c", title: ""), \.tags, tags[1])
        try own.save()
        #expect(try self.tags(bob, "a") == ["s", "t"])
        #expect(try await bob.container.reconcile(Note.self) == 1)
        #expect(try self.tags(bob, "a") == ["t"])
        #expect(try bob.titles == ["a": "a", "c": "c"])
        #expect(try await bob.container.reconcile(Tag.self) == 0)
        // The removed links have no rows left, and their removal is not sent.
        let database = try #require(bob.container.database(of: bob.store))
        let pairs = try await database.read { try String.fetchAll($0, sql: "SELECT id FROM Note_tags ORDER BY id") }
        #expect(pairs == ["Note_tags.a.t", "Note_tags.c.t"])
        try await bob.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await alice.container.pollNow()
        #expect(try self.tags(alice, "c") == ["t"])
    }

    /// Without any links, the relay does not know their record type.
    @Test func reconcilingSucceedsWithoutAnyLinks() async throws {
        let alice = try await board("alice")
        try alice.save(Note(id: "a", title: "a"))
        try await alice.container.sendChanges()
        #expect(try await alice.container.reconcile(Note.self) == 0)
        #expect(try alice.titles == ["a": "a"])
    }

    /// Deleting an object does not fail if other users own links to it that the caller may not delete.
    @Test func linksOfOtherUsersDoNotPreventADeletion() async throws {
        let alice = try await board("alice")
        let bob = try await board("bob")
        let context = alice.context()
        try context.insert(Tag(id: "t"))
        try context.insert(Tag(id: "s"))
        try context.save()
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await bob.container.pollNow()
        let own = bob.context()
        try own.insert(Note(id: "n", title: "bob's"))
        for tag in ["s", "t"] as [RecordName] { try own.link(Note(id: "n", title: ""), \.tags, Tag(id: tag)) }
        try own.save()
        try await bob.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await alice.container.pollNow()
        try context.delete(Tag.self, id: "t")
        try context.save()
        try await alice.container.sendChanges()
        #expect(try await alice.container.rejectedWrites(alice.store).isEmpty)
        #expect(try await alice.container.pendingExportCount(alice.store) == 0)
        #expect(try tags(alice, "n") == ["s"])
        #expect(try await bob.container.reconcile(Tag.self) == 1)
        #expect(try tags(bob, "n") == ["s"])
        // Removing another user's link explicitly is rejected.
        try context.unlink(Note(id: "n", title: ""), \.tags, Tag(id: "s"))
        let error = #expect(throws: MirrorError.self) { try context.save() }
        let link = ObjectID(store: alice.store, entity: "Note_tags", name: "Note_tags.n.s")
        #expect(error?.code == .permissionFailure([link]))
    }
}
