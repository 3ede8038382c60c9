import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Permissions for objects of a shared store that are no longer accessible, and for new objects linked to them.
///
/// Permissions.md, "Questions"; SharingRules.md, "The end of a share".
@Suite(.timeLimit(.minutes(15))) struct LostAccessTests {
    /// How a participant loses access to an object.
    enum End: CaseIterable, Sendable { case stopped, removed, left, deleted }

    let world: SharingWorld
    let share: CKShare

    init() async throws {
        world = try await SharingWorld()
        try await world.shareWithBoth()
        share = try #require(try await world.phone.container.fetchShares(in: world.phone.mine).first)
    }

    private var bob: NotesApp { world.bob }

    /// Makes the participant lose access to the note and its memos.
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

    @Test("objects that a participant has lost can be neither changed nor deleted", arguments: End.allCases)
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
        // The owner's object is not affected.
        let own = ObjectID(store: world.phone.mine, entity: "SharedNote", name: "trip")
        #expect(end == .deleted || world.phone.container.canUpdateRecord(for: own))
    }

    @Test("a participant's unsent new object can be changed until the share ends")
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

    @Test("a participant may still delete an object whose deletion is unsent")
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
        "a new object linked to a lost object is rejected like an edit of the lost object",
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
        // Linked by the object in the context that read it, by the object in another context, and by its name.
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

    @Test("of a chain of new objects linked to a lost object, none is saved")
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

    @Test("a new object assigned to an ended share is rejected, but saved in the owner's store")
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
