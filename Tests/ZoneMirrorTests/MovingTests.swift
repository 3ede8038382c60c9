import Foundation
import GRDB
import TestSupport
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Objects that move into a share and out of it while others look, write and join: each is there once, wherever one looks.
///
/// See SharingRules.md, "What is shared" and "The end of a share".
@Suite(.timeLimit(.minutes(15))) struct MovingTests {
    private let home = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")

    /// Who does the next thing, by turns.
    enum Order: CaseIterable, Sendable { case sendsFirst, fetchesFirst, fetchesOnly }

    private func sync(_ app: NotesApp, _ order: Order) async throws {
        switch order {
        case .sendsFirst: try await app.sync()
        case .fetchesFirst:
            try await app.container.fetchChanges()
            try await app.container.sendChanges()
        case .fetchesOnly: try await app.container.fetchChanges()
        }
    }

    /// Everybody has every object once, with these texts, and nothing is left where it was.
    private func check(_ world: SharingWorld, _ texts: [String], isShared: Bool = true) async throws {
        try await world.settle()
        let owner = [world.phone, world.laptop]
        for app in isShared ? owner + [world.bob] : owner {
            #expect(try app.context().fetch(SharedNote.self).map(\.id) == ["trip"], "\(app.device.name)")
            #expect(try app.memos == texts, "\(app.device.name)")
            #expect(try app.context().fetch(Memo.self).count == texts.count, "\(app.device.name)")
        }
        guard isShared else { return }
        let page = try await world.phone.device.privateDatabase.recordZoneChanges(inZoneWith: home, since: nil)
        #expect(page.modificationResultsByID.isEmpty, "something is left in the home zone")
    }

    private func rename(_ text: String, to other: String, on app: NotesApp) throws {
        let context = app.context()
        let memo = try #require(try context.fetch(Memo.self, \.text == text).first)
        try context.edit(Memo.self, memo.id) { $0.text = other }
        try context.save()
    }

    // MARK: Edits that meet a move

    /// An edit that was not sent goes along into the share, and doubles nothing.
    @Test(arguments: Order.allCases, [true, false])
    func anUnsentEditFollowsItsObject(_ order: Order, _ relayMoves: Bool) async throws {
        let world = try await SharingWorld(relayMoves: relayMoves)
        try rename("1 passport", to: "1 new passport", on: world.laptop)
        let link = try await world.share(publicly: true)
        try await sync(world.laptop, order)
        try await world.bob.container.acceptShareInvitations(from: [link], into: world.bob.others)
        try await check(world, ["1 new passport", "2 tickets"])
    }

    /// The same where the two changed different objects and properties, and back out of the share.
    @Test(arguments: Order.allCases) func anUnsentEditFollowsItsObjectHome(_ order: Order) async throws {
        let world = try await SharingWorld()
        try await world.shareWithBoth()
        try rename("1 passport", to: "1 new passport", on: world.laptop)
        try rename("2 tickets", to: "2 new tickets", on: world.phone)
        let share = try #require(try await world.phone.container.fetchShares(in: world.phone.mine).first)
        try await world.phone.container.stopSharing(share, in: world.phone.mine)
        try await sync(world.laptop, order)
        try await check(world, ["1 new passport", "2 new tickets"], isShared: false)
        #expect(try world.bob.note == nil)
    }

    /// What was deleted and not yet sent does not come back by the move.
    @Test(arguments: Order.allCases) func anUnsentDeletionFollowsItsObject(_ order: Order) async throws {
        let world = try await SharingWorld()
        let context = world.laptop.context()
        try context.delete(try #require(try context.fetch(Memo.self, \.text == "1 passport").first))
        try context.save()
        let link = try await world.share(publicly: true)
        try await sync(world.laptop, order)
        try await world.bob.container.acceptShareInvitations(from: [link], into: world.bob.others)
        try await check(world, ["2 tickets"])
    }

    /// A property that the one changed stays, and the one that the other changed, though the object moved in between.
    @Test(arguments: Order.allCases) func bothEditsOutliveTheMove(_ order: Order) async throws {
        let relay = try TestRelay()
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        try phone.save(Note(id: "n", title: "a"))
        for mirror in [phone, laptop] { try await mirror.sync() }
        let (here, there) = (phone.context(), laptop.context())
        try here.edit(Note.self, "n") { $0.done = true }
        try here.save()
        try there.edit(Note.self, "n") { $0.title = "b" }
        try there.save()
        let id = ObjectID(store: phone.store, entity: "Note", name: "n")
        _ = try await phone.container.share([id])
        switch order {
        case .sendsFirst: try await laptop.sync()
        case .fetchesFirst:
            try await laptop.container.fetchChanges()
            try await laptop.container.sendChanges()
        case .fetchesOnly: try await laptop.container.fetchChanges()
        }
        for mirror in [laptop, phone, laptop, phone] { try await mirror.sync() }
        for mirror in [phone, laptop] {
            let notes = try mirror.context().fetch(Note.self)
            #expect(notes.map(\.title) == ["b"])
            #expect(notes.map(\.done) == [true])
        }
    }

    // MARK: Moves that are interrupted

    /// A sharing or its end begins without a network; what others write until it goes on is not lost.
    @Test(arguments: Order.allCases, [true, false])
    func whatIsWrittenToOriginalsGoesAlong(_ order: Order, _ relayMoves: Bool) async throws {
        let world = try await SharingWorld(relayMoves: relayMoves)
        let (phone, laptop) = (world.phone, world.laptop)
        try await self.begin(phone)
        try rename("1 passport", to: "1 new passport", on: laptop)
        try await laptop.sync()
        try await sync(phone, order)
        let link = try await world.share(publicly: true)
        try await world.bob.container.acceptShareInvitations(from: [link], into: world.bob.others)
        try await check(world, ["1 new passport", "2 tickets"])
    }

    /// Begins to share the note while the device is off the network.
    private func begin(_ app: NotesApp) async throws {
        let id = try app.id(try #require(try app.note))
        app.device.network.cut()
        await #expect(throws: MirrorError.self) { try await app.container.share([id]) }
        // The account is asked for first: so a request gets lost instead.
        app.device.network.heal()
        app.device.network.fail(request: 1, of: "records/move", by: .unreachable)
        app.device.network.fail(request: 1, of: "records/modify", by: .unreachable)
        app.device.network.fail(request: 1, of: "zones/modify", by: .unreachable)
        await #expect(throws: MirrorError.self) { try await app.container.share([id]) }
        app.device.network.failNothing()
    }

    @Test(arguments: Order.allCases, [true, false])
    func whatIsDeletedElsewhereIsNotMoved(_ order: Order, _ relayMoves: Bool) async throws {
        let world = try await SharingWorld(relayMoves: relayMoves)
        let (phone, laptop) = (world.phone, world.laptop)
        try await begin(phone)
        let context = laptop.context()
        try context.delete(try #require(try context.fetch(Memo.self, \.text == "1 passport").first))
        try context.save()
        try await laptop.sync()
        if relayMoves || order != .sendsFirst { try await sync(phone, order) }
        let link = try await world.share(publicly: true)
        try await world.bob.container.acceptShareInvitations(from: [link], into: world.bob.others)
        // A relay that cannot move is sent a copy by who has not heard of the deletion.
        if relayMoves || order != .sendsFirst { try await check(world, ["2 tickets"]) }
    }

    /// What is deleted here after the move has begun is deleted wherever it is.
    @Test(arguments: Order.allCases, [true, false])
    func whatIsDeletedOnTheWayIsGone(_ order: Order, _ relayMoves: Bool) async throws {
        let world = try await SharingWorld(relayMoves: relayMoves)
        let phone = world.phone
        try await begin(phone)
        let context = phone.context()
        try context.delete(try #require(try context.fetch(Memo.self, \.text == "1 passport").first))
        try context.save()
        try await sync(phone, order)
        let link = try await world.share(publicly: true)
        try await world.bob.container.acceptShareInvitations(from: [link], into: world.bob.others)
        try await check(world, ["2 tickets"])
    }

    /// Both of the owner's devices share the same at the same time: each object is in one share.
    @Test(arguments: Order.allCases) func twoSharesOfTheSameAreOne(_ order: Order) async throws {
        let world = try await SharingWorld()
        try await begin(world.phone)
        let link = try await world.share(publicly: true, by: world.laptop)
        _ = try? await sync(world.phone, order)
        try await world.bob.container.acceptShareInvitations(from: [link], into: world.bob.others)
        try await check(world, ["1 passport", "2 tickets"])
        let id = try world.phone.id(try #require(try world.phone.note))
        let error = await #expect(throws: MirrorError.self) { try await world.phone.container.share([id]) }
        guard case .alreadyShared? = error?.code else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    // MARK: Pages that are older than what is here

    /// A page of the old zone comes late: what it holds has moved meanwhile, and has been seen there.
    @Test func aLatePageBringsNothingBack() async throws {
        let relay = try TestRelay()
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        try phone.save(Note(id: "first", title: "f"), Note(id: "late", title: "l"))
        try await phone.sync()
        let first = ObjectID(store: phone.store, entity: "Note", name: "first")
        let share = try await phone.container.share([first]).share
        try await laptop.sync()
        // Both zones have news; the page of the home zone is read before the move and comes after the other zone's.
        let context = phone.context()
        for name in ["first", "late"] { try context.edit(Note.self, RecordName(name)) { $0.stars = 1 } }
        try context.save()
        try await phone.sync()
        let (moved, seen) = (Gate(), Gate())
        laptop.device.network.fail(
            request: 1,
            of: "changes/zone",
            by: .beforeAnswer {
                _ = try? await phone.container.share(
                    [ObjectID(store: phone.store, entity: "Note", name: "late")],
                    to: share
                )
                moved.open()
                await seen.wait()
            }
        )
        laptop.device.network.fail(request: 2, of: "changes/zone", by: .meanwhile { await moved.wait() })
        let look = Task {
            let end = ContinuousClock.now + .seconds(120)
            let zone = share.recordID.zoneID.zoneName
            while ContinuousClock.now < end {
                let zones = try? await laptop.container.zones(in: laptop.store)
                if zones?.first(where: { $0.name == zone })?.objects.contains("late") == true { break }
                await Task.yield()
            }
            seen.open()
        }
        try await laptop.container.fetchChanges()
        await look.value
        for _ in 0..<2 { try await laptop.sync() }
        #expect(try laptop.titles == ["first": "f", "late": "l"])
        let zones = try await laptop.container.zones(in: laptop.store)
        #expect(zones.first { $0.name == share.recordID.zoneID.zoneName }?.objects == ["first", "late"])
        try await phone.sync()
        #expect(try phone.titles == ["first": "f", "late": "l"])
    }

    /// The one who moves is fetching at that time.
    @Test func aFetchUnderWayDoesNotUndoAMove() async throws {
        let relay = try TestRelay()
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        try phone.save(Note(id: "a", title: "a"), Note(id: "b", title: "b"))
        for mirror in [phone, laptop] { try await mirror.sync() }
        let there = laptop.context()
        try there.edit(Note.self, "a") { $0.stars = 1 }
        try there.save()
        try await laptop.sync()
        let (asked, begun) = (Gate(), Gate())
        phone.device.network.fail(
            request: 1,
            of: "changes/zone",
            by: .beforeAnswer {
                asked.open()
                await begun.wait()
            }
        )
        let fetch = Task { try await phone.container.fetchChanges() }
        await asked.wait()
        let id = ObjectID(store: phone.store, entity: "Note", name: "a")
        let sharing = Task { try await phone.container.share([id]).objects.count }
        // Until the store has it in the new zone, and the page of the old one is still on its way.
        let database = try #require(phone.container.database(of: phone.store))
        while try await database.read({ try Int.fetchOne($0, sql: "SELECT count(*) FROM mirror_move") }) == 0 {
            await Task.yield()
        }
        begun.open()
        try await fetch.value
        #expect(try await sharing.value == 1)
        #expect(try phone.titles == ["a": "a", "b": "b"])
        for mirror in [phone, laptop, phone, laptop] { try await mirror.sync() }
        for mirror in [phone, laptop] {
            #expect(try mirror.titles == ["a": "a", "b": "b"])
            #expect(try mirror.context().object(Note.self, "a")?.stars == 1)
        }
    }

    /// A share ends while another device of its owner is asking for its zone: after that one round everything is home.
    @Test func aShareThatEndsUnderAFetchEndsWithIt() async throws {
        let world = try await SharingWorld()
        try await world.shareWithBoth()
        let (phone, laptop) = (world.phone, world.laptop)
        try rename("1 passport", to: "1 new passport", on: phone)
        try await phone.sync()
        let share = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        laptop.device.network.fail(
            request: 1,
            of: "changes/zone",
            by: .meanwhile { _ = try? await phone.container.stopSharing(share, in: phone.mine) }
        )
        try await laptop.container.fetchChanges()
        #expect(try await laptop.container.fetchShares(in: laptop.mine).isEmpty)
        #expect(try laptop.memos == ["1 new passport", "2 tickets"])
        let zones = try await laptop.container.zones(in: laptop.mine)
        #expect(zones.first { $0.name == home.zoneName }?.objects.count == 3)
        #expect(zones.allSatisfy { $0.name != share.recordID.zoneID.zoneName })
        try await check(world, ["1 new passport", "2 tickets"], isShared: false)
    }

    /// Devices that sync by themselves: share, join, stop, and everything is where it belongs.
    @Test(arguments: 0..<4) func devicesByThemselvesFollow(_ round: Int) async throws {
        let relay = try TestRelay()
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), isAutomatic: true)
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"), isAutomatic: true)
        try phone.save(Note(id: "a", title: "a"), Note(id: "b", title: "b"))
        let shown = Shown(laptop.context().objects(Note.self))
        try await shown.wait("both notes") { $0.count == 2 }
        let id = ObjectID(store: phone.store, entity: "Note", name: "a")
        let share = try await phone.container.share([id]).share
        try await wait("the share to be known") { try await !laptop.container.fetchShares(in: laptop.store).isEmpty }
        try await phone.container.stopSharing(share, in: phone.store)
        try await wait("the share to be gone") { try await laptop.container.fetchShares(in: laptop.store).isEmpty }
        try await wait("the note to be home") {
            try await laptop.container.zones(in: laptop.store).map(\.objects) == [["a", "b"]]
        }
        #expect(try laptop.titles == ["a": "a", "b": "b"])
        for mirror in [phone, laptop] { await mirror.container.close() }
    }

    private func wait(_ what: String, _ isThere: () async throws -> Bool) async throws {
        let end = ContinuousClock.now + .seconds(120)
        while try await !isThere() {
            try #require(ContinuousClock.now < end, "waited in vain for \(what)")
            await Task.yield()
        }
    }

    // MARK: What others put into a share that ends

    /// Who puts a memo into a share while its owner, who has not seen it, ends the share.
    enum Writer: CaseIterable, Sendable { case guest, laptop }

    @Test(arguments: Writer.allCases, [true, false])
    func aShareEndsWithWhatItsOwnerHasNotSeen(_ writer: Writer, _ relayMoves: Bool) async throws {
        let world = try await SharingWorld(relayMoves: relayMoves)
        try await world.shareWithBoth()
        let app = writer == .guest ? world.bob : world.laptop
        try app.addMemo("3 map")
        try await app.sync()
        let share = try #require(try await world.phone.container.fetchShares(in: world.phone.mine).first)
        try await world.phone.container.stopSharing(share, in: world.phone.mine)
        try await check(world, ["1 passport", "2 tickets", "3 map"], isShared: false)
        #expect(try world.bob.note == nil)
    }

    /// The same where that comes between any two requests that end the share.
    @Test(
        arguments: [("records/move", 1), ("records/modify", 1), ("changes/zone", 1), ("changes/zone", 2)],
        Writer.allCases
    )
    func aShareEndsWithWhatComesMeanwhile(_ request: (String, Int), _ writer: Writer) async throws {
        let world = try await SharingWorld()
        try await world.shareWithBoth()
        let app = writer == .guest ? world.bob : world.laptop
        // Seen by the fetch that goes before, or not.
        for text in ["3 map", "4 ink"] {
            try app.addMemo(text)
            if text == "3 map" { try await app.sync() }
        }
        let share = try #require(try await world.phone.container.fetchShares(in: world.phone.mine).first)
        world.phone.device.network.fail(
            request: request.1,
            of: request.0,
            by: .beforeAnswer { try? await app.container.sendChanges() }
        )
        try await world.phone.container.stopSharing(share, in: world.phone.mine)
        // Who finds the zone gone in sending hears that, and why with the next fetch.
        if writer == .guest { try? await app.container.sendChanges() }
        try await app.container.fetchChanges()
        try await world.settle()
        let texts = try world.phone.memos
        // Who has lost the share meanwhile could not write.
        #expect(texts.starts(with: ["1 passport", "2 tickets", "3 map"]))
        if writer == .laptop || request.0 == "records/move" { #expect(texts.last == "4 ink") }
        #expect(try world.laptop.memos == texts)
    }

    /// What is deleted here and not yet there does not come home with the rest.
    @Test(arguments: [true, false]) func anUnsentDeletionStaysOneAtTheEnd(_ relayMoves: Bool) async throws {
        let world = try await SharingWorld(relayMoves: relayMoves)
        try await world.shareWithBoth()
        let context = world.phone.context()
        try context.delete(try #require(try context.fetch(Memo.self, \.text == "1 passport").first))
        try context.save()
        let share = try #require(try await world.phone.container.fetchShares(in: world.phone.mine).first)
        try await world.phone.container.stopSharing(share, in: world.phone.mine)
        try await check(world, ["2 tickets"], isShared: false)
    }

    // MARK: Joining while things move

    /// A guest reads the share page by page, of one to three records, while its owner puts more into it.
    @Test(arguments: 1...3, [1, 2, 3]) func aGuestMissesNothingThatComesDuringItsFirstFetch(
        _ size: Int,
        _ page: Int
    ) async throws {
        let world = try await SharingWorld()
        let link = try await world.share(publicly: true)
        var limits = TestRelay.Limits()
        limits.itemsPerRequest = size
        world.relay.limits = limits
        let phone = world.phone
        world.bob.device.network.fail(
            request: page,
            of: "changes/zone",
            by: .beforeAnswer {
                try? phone.addMemo("3 map")
                try? await phone.container.sendChanges()
            }
        )
        try await world.bob.container.acceptShareInvitations(from: [link], into: world.bob.others)
        try await check(world, try phone.memos)
    }

    /// A share ends and another begins, and a guest hears of the second before the end of the first.
    @Test(arguments: [1, 2, 3, 200]) func aGuestFollowsFromShareToShare(_ size: Int) async throws {
        let world = try await SharingWorld()
        try await world.shareWithBoth()
        var limits = TestRelay.Limits()
        limits.itemsPerRequest = size
        world.relay.limits = limits
        let share = try #require(try await world.phone.container.fetchShares(in: world.phone.mine).first)
        try await world.phone.container.stopSharing(share, in: world.phone.mine)
        let link = try await world.share(publicly: true)
        try await world.bob.container.acceptShareInvitations(from: [link], into: world.bob.others)
        try await check(world, ["1 passport", "2 tickets"])
        let memo = try #require(try world.bob.context().fetch(Memo.self, \.text == "1 passport").first)
        let same = try #require(try world.phone.context().fetch(Memo.self, \.text == "1 passport").first)
        #expect(memo.id == same.id)
    }

    /// A guest leaves while a page is on its way, and joins again before it has heard of anything.
    @Test func whoLeavesAndJoinsAgainHasEverything() async throws {
        let world = try await SharingWorld()
        let link = try await world.share(publicly: true)
        let bob = world.bob
        try await bob.container.acceptShareInvitations(from: [link], into: bob.others)
        try world.phone.addMemo("3 map")
        try await world.phone.sync()
        let share = try #require(try await bob.container.fetchShares(in: bob.others).first)
        let (asked, left) = (Gate(), Gate())
        bob.device.network.fail(
            request: 1,
            of: "changes/zone",
            by: .beforeAnswer {
                asked.open()
                await left.wait()
            }
        )
        let fetch = Task { try? await bob.container.fetchChanges() }
        await asked.wait()
        let leaving = Task {
            try await bob.container.leaveShare(share, in: bob.others)
            let metadata = try await bob.device.container.shareMetadata(for: link)
            try await bob.device.container.accept(metadata)
        }
        // Long enough for a leave that waits for nobody.
        for _ in 0..<2_000 where (try? bob.note) != nil { await Task.yield() }
        left.open()
        try await leaving.value
        await fetch.value
        try await check(world, ["1 passport", "2 tickets", "3 map"])
    }

    // MARK: Answers that are lost

    /// A write whose answer was lost is sent again after somebody else has changed the record: the newer values stay.
    @Test func aRepeatedWriteIsAnsweredWithNewerValues() async throws {
        let relay = try TestRelay()
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        try await phone.sync()
        try phone.save(Note(id: "a", title: "1"))
        phone.device.network.fail(request: 1, of: "records/modify", by: .losesAnswer)
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        try await laptop.sync()
        let there = laptop.context()
        try there.edit(Note.self, "a") { $0.stars = 5 }
        try there.save()
        try await laptop.sync()
        for mirror in [phone, laptop] { try await mirror.sync() }
        for mirror in [phone, laptop] {
            #expect(try mirror.context().object(Note.self, "a")?.stars == 5)
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }

    /// What the relay has of an object in its old zone, and nobody here knows of, moves along.
    @Test(arguments: [true, false], [true, false])
    func whatWasOnItsWayMovesAlong(_ relayMoves: Bool, _ isEditedSince: Bool) async throws {
        let world = try await SharingWorld(relayMoves: relayMoves)
        let phone = world.phone
        try phone.addMemo("3 map")
        try rename("1 passport", to: "1 new passport", on: phone)
        phone.device.network.fail(request: 1, of: "records/modify", by: .losesAnswer)
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        if isEditedSince { try rename("3 map", to: "3 maps", on: phone) }
        // What goes before the move is refused for the moment, or its answer lost again.
        phone.device.network.fail(request: 1, of: "records/modify", by: isEditedSince ? .losesAnswer : .unreachable)
        _ = try? await world.share(publicly: true)
        let link = try await world.share(publicly: true)
        try await world.bob.container.acceptShareInvitations(from: [link], into: world.bob.others)
        try await check(world, ["1 new passport", "2 tickets", isEditedSince ? "3 maps" : "3 map"])
    }

    /// The answers to a move, and to the making of a zone, are lost; then the same is done once more.
    @Test(arguments: ["records/move", "zones/modify"], [true, false])
    func aLostAnswerToAMoveDoublesNothing(_ operation: String, _ comesBack: Bool) async throws {
        let world = try await SharingWorld()
        let phone = world.phone
        let note = try #require(try phone.note)
        phone.device.network.fail(request: 1, of: operation, by: .losesAnswer)
        if operation == "records/move" {
            await #expect(throws: MirrorError.self) { try await phone.container.share([try phone.id(note)]) }
            // Meanwhile another device looks, and writes.
            if comesBack {
                try await world.laptop.sync()
                try rename("1 passport", to: "1 new passport", on: world.laptop)
                try await world.laptop.sync()
            }
        }
        let link = try await world.share(publicly: true)
        try await world.bob.container.acceptShareInvitations(from: [link], into: world.bob.others)
        let isRenamed = comesBack && operation == "records/move"
        try await check(world, [isRenamed ? "1 new passport" : "1 passport", "2 tickets"])
        let share = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        phone.device.network.failNothing()
        // The end of a share is one request.
        phone.device.network.fail(request: 1, of: "records/move", by: .losesAnswer)
        await #expect(throws: MirrorError.self) { try await phone.container.stopSharing(share, in: phone.mine) }
        try await check(world, try phone.memos, isShared: false)
        #expect(try world.bob.note == nil)
        let zones = try await phone.device.privateDatabase.allRecordZones().map(\.zoneID.zoneName)
        #expect(!zones.contains(share.recordID.zoneID.zoneName))
    }
}
