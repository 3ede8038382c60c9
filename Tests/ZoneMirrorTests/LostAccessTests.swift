import Foundation
import GRDB
import Records
import Testing
import Wire
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

/// A participant who keeps copies has one copy of each shared object, however the share ends and whenever they fetch.
///
/// SharingRules.md, "The end of a share".
@Suite(.timeLimit(.minutes(15))) struct KeptCopyTests {
    let world: SharingWorld
    let keeper: NotesApp
    let share: CKShare

    init() async throws {
        world = try await SharingWorld()
        keeper = try await NotesApp(
            world.relay.device(of: "keeper@example.org", named: "keeper"),
            keepsCopies: true
        )
        let link = try await world.share(publicly: true)
        for app in [keeper, world.bob] {
            try await app.container.acceptShareInvitations(from: [link], into: app.others)
        }
        share = try #require(try await world.phone.container.fetchShares(in: world.phone.mine).first)
    }

    private var phone: NotesApp { world.phone }

    private func stop() async throws { try await phone.container.stopSharing(share, in: phone.mine) }

    /// Checks that the participant `keeper` has a private copy of the note with these memos, and no shared objects.
    private func checkCopy(_ texts: [String] = ["1 passport", "2 tickets"]) throws {
        let context = keeper.context()
        let notes = try context.fetch(SharedNote.self)
        #expect(notes.map(\.title) == ["Trip"] && notes.allSatisfy { $0.id != "trip" })
        #expect(try keeper.memos == texts)
        let all = try context.fetch(Memo.self)
        #expect(all.count == texts.count && all.allSatisfy { $0.note.target == notes.first?.id })
        #expect(try notes.allSatisfy { try context.store(of: $0) == keeper.mine })
    }

    private func checkOwner(_ texts: [String] = ["1 passport", "2 tickets"]) async throws {
        for _ in 0..<2 { for app in [phone, world.laptop] { try await app.sync() } }
        for app in [phone, world.laptop] {
            #expect(try app.memos == texts)
            #expect(try app.context().fetch(SharedNote.self).map(\.id) == ["trip"])
            #expect(try await app.container.fetchShares(in: app.mine).isEmpty)
        }
    }

    // MARK: Timing

    @Test("a participant who fetches between two requests of the owner keeps the copy", arguments: 1...8)
    func between(_ number: Int) async throws {
        let keeper = keeper
        phone.device.network.fail(request: number, by: .beforeAnswer { try? await keeper.container.fetchChanges() })
        try await stop()
        phone.device.network.failNothing()
        for _ in 0..<2 { try await keeper.container.fetchChanges() }
        try checkCopy()
        try await checkOwner()
    }

    @Test("a share that ends between two requests of the participant leaves the copy", arguments: 1...6, [true, false])
    func during(_ number: Int, _ hasNews: Bool) async throws {
        if hasNews {
            try phone.addMemo("3 map")
            try await phone.sync()
        }
        let (phone, share) = (phone, share)
        keeper.device.network.fail(
            request: number,
            by: .meanwhile { try? await phone.container.stopSharing(share, in: phone.mine) }
        )
        for _ in 0..<3 { try? await keeper.container.fetchChanges() }
        keeper.device.network.failNothing()
        if try await !phone.container.fetchShares(in: phone.mine).isEmpty { try await stop() }
        for _ in 0..<2 { try await keeper.container.fetchChanges() }
        // The participant may or may not have fetched the new memo.
        let known = try keeper.memos
        try checkCopy(known)
        #expect(known.starts(with: ["1 passport", "2 tickets"]))
        try await checkOwner(hasNews ? ["1 passport", "2 tickets", "3 map"] : ["1 passport", "2 tickets"])
    }

    enum Failure: CaseIterable, Sendable { case unreachable, losesAnswer, busy }

    @Test("the participant keeps the copy if any request of the owner fails", arguments: 1...6, Failure.allCases)
    func failing(_ number: Int, _ failure: Failure) async throws {
        let fault: TestNetwork.Fault =
            switch failure {
            case .unreachable: .unreachable
            case .losesAnswer: .losesAnswer
            case .busy: .busy(retryAfter: .seconds(1))
            }
        phone.device.network.fail(request: number, by: fault)
        try? await stop()
        try await keeper.container.fetchChanges()
        phone.device.network.failNothing()
        for _ in 0..<3 {
            try? await phone.sync()
            try await keeper.container.fetchChanges()
        }
        if try await !phone.container.fetchShares(in: phone.mine).isEmpty { try await stop() }
        for _ in 0..<2 { try await keeper.container.fetchChanges() }
        try checkCopy()
        try await checkOwner()
    }

    /// Records with unsent deletions cannot be moved, so ending the share takes more than one commit.
    @Test("a share that ends with an unsent deletion also leaves the copy", arguments: 1...8)
    func withDeletion(_ number: Int) async throws {
        let context = phone.context()
        try context.delete(try #require(try context.fetch(Memo.self, \.text == "1 passport").first))
        try context.save()
        let keeper = keeper
        phone.device.network.fail(request: number, by: .beforeAnswer { try? await keeper.container.fetchChanges() })
        try await stop()
        phone.device.network.failNothing()
        for _ in 0..<2 { try await keeper.container.fetchChanges() }
        let memos = try keeper.memos
        try checkCopy(memos)
        #expect(memos.contains("2 tickets"))
        try await checkOwner(["2 tickets"])
    }

    @Test("ending a share takes one commit at the relay")
    func oneCommit() async throws {
        phone.device.network.forgetOperations()
        let before = try await world.bob.device.sharedDatabase.databaseChanges(since: nil)
        try await stop()
        let writes = phone.device.network.operations.filter { !$0.contains("changes") && !$0.contains("subscriptions") }
        #expect(writes.filter { $0.hasSuffix("records/move") }.count == 1)
        #expect(!writes.contains { $0.hasSuffix("zones/modify") || $0.hasSuffix("records/modify") }, "\(writes)")
        let after = try await world.bob.device.sharedDatabase.databaseChanges(since: before.changeToken)
        #expect(after.deletions.count == 1 && after.modifications.isEmpty)
    }

    @Test("a share that starts and ends again leaves a second copy with the new objects")
    func twice() async throws {
        try await stop()
        for _ in 0..<2 { try await keeper.container.fetchChanges() }
        try checkCopy()
        let link = try await world.share(publicly: true)
        try await keeper.container.acceptShareInvitations(from: [link], into: keeper.others)
        let again = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        try phone.addMemo("3 map")
        try await phone.sync()
        try await keeper.container.fetchChanges()
        try await phone.container.stopSharing(again, in: phone.mine)
        for _ in 0..<2 { try await keeper.container.fetchChanges() }
        #expect(try keeper.context().fetch(SharedNote.self).count == 2)
        #expect(
            try keeper.context().fetch(Memo.self).map(\.text).sorted()
                == ["1 passport", "1 passport", "2 tickets", "2 tickets", "3 map"]
        )
    }

    // MARK: Moves out of the share

    /// Moves one record out of the share's zone, as the owner's device.
    private func moveAway(_ text: String) async throws -> RecordName {
        let memo = try #require(try phone.context().fetch(Memo.self, \.text == text).first)
        let body = ClientRequest.move(
            [memo.id.text],
            from: ZoneID(share.recordID.zoneID.zoneName),
            to: ZoneID("com.apple.coredata.cloudkit.zone"),
            operationID: "move \(text)"
        )
        _ = try await phone.device.connection.send(RelayCall(.private, "records/move", body, isWrite: true))
        return memo.id
    }

    @Test("a record that the owner moves away is kept as a copy, and one that the owner deletes is not")
    func movedAndDeleted() async throws {
        _ = try await moveAway("1 passport")
        let context = phone.context()
        try context.delete(try #require(try context.fetch(Memo.self, \.text == "2 tickets").first))
        try context.save()
        try await phone.sync()
        try await keeper.container.fetchChanges()
        let there = keeper.context()
        let memos = try there.fetch(Memo.self)
        #expect(memos.map(\.text) == ["1 passport"])
        #expect(try memos.allSatisfy { try there.store(of: $0) == keeper.mine })
        #expect(try there.fetch(SharedNote.self).map(\.id) == ["trip"])
        let events = try await keeper.container.events(of: keeper.others)
        #expect(events.contains { $0.details.contains(.keptCopy(1)) })
    }

    @Test("an edit of a record that was moved away does not bring it back, and is in the copy")
    func editedAndMoved() async throws {
        for app in [keeper, world.bob] {
            let context = app.context()
            let memo = try #require(try context.fetch(Memo.self, \.text == "1 passport").first)
            try context.edit(Memo.self, memo.id) { $0.text = "1 edited by \(app.device.name)" }
            try context.save()
        }
        _ = try await moveAway("1 passport")
        for app in [keeper, world.bob] {
            try? await app.container.sendChanges()
            try await app.container.fetchChanges()
            #expect(try await app.container.pendingExportCount(app.others) == 0)
        }
        #expect(try keeper.context().fetch(Memo.self).map(\.text).sorted() == ["1 edited by keeper", "2 tickets"])
        #expect(try world.bob.memos == ["2 tickets"])
        for _ in 0..<2 { try await phone.sync() }
        #expect(try phone.memos == ["1 passport", "2 tickets"])
    }

    @Test("a record that is moved away and back is the same object again")
    func backAgain() async throws {
        let id = try await moveAway("1 passport")
        let zone = ZoneID(share.recordID.zoneID.zoneName)
        let home = ZoneID("com.apple.coredata.cloudkit.zone")
        let body = ClientRequest.move([id.text], from: home, to: zone, operationID: "back")
        _ = try await phone.device.connection.send(RelayCall(.private, "records/move", body, isWrite: true))
        try await keeper.container.fetchChanges()
        #expect(try keeper.memos == ["1 passport", "2 tickets"])
        #expect(try keeper.context().object(Memo.self, id) != nil)
        #expect(try keeper.context().fetch(Memo.self).count == 2)
    }
}
