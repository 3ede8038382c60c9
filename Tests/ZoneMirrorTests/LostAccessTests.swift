import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// What may be done with objects of a shared store that are not accessible any more, and with new ones that hang on them.
///
/// Permissions.md, "Questions"; SharingRules.md, "The end of a share".
@Suite(.timeLimit(.minutes(15))) struct LostAccessTests {
    /// How a guest loses an object.
    enum End: CaseIterable, Sendable { case stopped, removed, left, deleted }

    let world: SharingWorld
    let share: CKShare

    init() async throws {
        world = try await SharingWorld()
        try await world.shareWithBoth()
        share = try #require(try await world.phone.container.fetchShares(in: world.phone.mine).first)
    }

    private var bob: NotesApp { world.bob }

    /// The guest loses the note, and its memos where those do not stay.
    private func lose(_ end: End) async throws {
        let phone = world.phone
        switch end {
        case .stopped: try await phone.container.stopSharing(share, in: phone.mine)
        case .removed:
            world.remove("bob@example.org", from: share)
            try await phone.container.persistUpdatedShare(share, in: phone.mine)
        case .left:
            let theirs = try #require(try await bob.container.fetchShares(in: bob.others).first)
            try await bob.container.leaveShare(theirs, in: bob.others)
        case .deleted:
            let context = phone.context()
            try context.delete(try #require(try phone.note))
            try context.save()
            try await phone.sync()
        }
        for _ in 0..<2 { try await bob.container.fetchChanges() }
    }

    // MARK: Permissions

    @Test("objects that a guest has lost can be neither changed nor deleted", arguments: End.allCases)
    func permissions(_ end: End) async throws {
        let note = ObjectID(store: bob.others, entity: "SharedNote", name: "trip")
        let memo = try bob.context().objectID(of: try #require(try bob.context().fetch(Memo.self).first))
        for object in [note, memo] {
            #expect(bob.container.canUpdateRecord(for: object) && bob.container.canDeleteRecord(for: object))
        }
        try await lose(end)
        for object in [note, memo] {
            #expect(!bob.container.canUpdateRecord(for: object), "\(object)")
            #expect(!bob.container.canDeleteRecord(for: object), "\(object)")
        }
        // Of the owner's own nothing is said.
        let own = ObjectID(store: world.phone.mine, entity: "SharedNote", name: "trip")
        #expect(end == .deleted || world.phone.container.canUpdateRecord(for: own))
    }

    @Test("what a guest has made and not sent can be changed, until the share is gone")
    func permissionsOfNewObjects() async throws {
        let context = bob.context()
        let memo = Memo(text: "3 map", note: try #require(try bob.note))
        try context.insert(memo)
        try context.save()
        let object = try context.objectID(of: memo)
        #expect(bob.container.canUpdateRecord(for: object) && bob.container.canDeleteRecord(for: object))
        try await lose(.stopped)
        #expect(!bob.container.canUpdateRecord(for: object) && !bob.container.canDeleteRecord(for: object))
    }

    @Test("what a guest has deleted and not sent is still theirs to delete")
    func permissionsOfDeletedObjects() async throws {
        let context = bob.context()
        let memo = try #require(try context.fetch(Memo.self).first)
        let object = try context.objectID(of: memo)
        try context.delete(memo)
        try context.save()
        #expect(bob.container.canDeleteRecord(for: object))
        try await bob.sync()
        #expect(!bob.container.canDeleteRecord(for: object))
    }

    // MARK: New objects

    private func code(_ work: () throws -> Void) -> MirrorError.Code? {
        do {
            try work()
            return nil
        } catch {
            return (error as? MirrorError)?.code
        }
    }

    @Test(
        "a new object linked to one that a guest has lost is refused as an edit of that one is",
        arguments: End.allCases
    )
    func newObjects(_ end: End) async throws {
        let context = bob.context()
        let note = try #require(try context.fetch(SharedNote.self).first)
        try await lose(end)
        let editing = bob.context()
        var edited = note
        edited.title = "mine"
        #expect(code { try editing.update(edited) } == nil)
        #expect(code { try editing.save() } == .objectUnavailable)
        // By the object, in the context that read it and in another, and by its name alone.
        var named = Memo(text: "by name", note: SharedNote(id: "trip", title: ""))
        named.note = ToOne<SharedNote>("trip")
        for (context, memo) in [
            (context, Memo(text: "by object", note: note)), (bob.context(), Memo(text: "there", note: note)),
            (bob.context(), named),
        ] {
            try context.insert(memo)
            #expect(code { try context.save() } == .objectUnavailable, "\(memo.text)")
            context.rollback()
        }
        #expect(try bob.context().fetch(Memo.self).isEmpty)
        for store in [bob.mine, bob.others] { #expect(try await bob.container.pendingExportCount(store) == 0) }
    }

    @Test("with a chain of new objects nothing of it is saved")
    func chain() async throws {
        let context = bob.context()
        let note = try #require(try context.fetch(SharedNote.self).first)
        try await lose(.stopped)
        let fresh = SharedNote(title: "fresh")
        try context.insert(fresh)
        try context.insert(Memo(text: "first", note: note))
        try context.insert(Memo(text: "second", note: fresh))
        #expect(code { try context.save() } == .objectUnavailable)
        #expect(try bob.context().fetch(SharedNote.self).isEmpty)
        #expect(try bob.context().fetch(Memo.self).isEmpty)
    }

    @Test("a new object assigned to a share that has ended is refused, and in the owner's store goes home")
    func assigned() async throws {
        let theirs = try #require(try await bob.container.fetchShares(in: bob.others).first)
        let (context, own) = (bob.context(), world.phone.context())
        let (memo, mine) = (SharedNote(title: "bob's"), SharedNote(title: "alice's"))
        try context.insert(memo)
        try context.assign(memo, to: theirs)
        try own.insert(mine)
        try own.assign(mine, to: share)
        try await lose(.stopped)
        #expect(code { try context.save() } == .objectUnavailable)
        try own.save()
        try await world.phone.sync()
        #expect(try await world.phone.container.pendingExportCount(world.phone.mine) == 0)
        try await world.laptop.sync()
        #expect(try world.laptop.context().fetch(SharedNote.self).map(\.title).sorted() == ["Trip", "alice's"])
    }
}
