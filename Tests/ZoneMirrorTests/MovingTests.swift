import Foundation
import GRDB
import TestSupport
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Objects that move into and out of a share while other devices fetch, write and join: each device has each object
/// once.
///
/// See SharingRules.md, "What is shared" and "The end of a share".
@Suite(.timeLimit(.minutes(15))) struct MovingTests {
    private let home = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")

    /// The order in which a device sends and fetches.
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

    /// Checks that all devices have each object once, with these texts, and that the home zone is empty.
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
        #expect(page.modificationResultsByID.isEmpty, "records are left in the home zone")
    }

    private func rename(_ text: String, to other: String, on app: NotesApp) throws {
        let context = app.context()
        let memo = try #require(try context.fetch(Memo.self, \.text == text).first)
        try context.edit(Memo.self, memo.id) { $0.text = other }
        try context.save()
    }

    // MARK: Edits during a move

    /// An unsent edit moves into the share with its object, without a duplicate.
    @Test(arguments: Order.allCases, [true, false])
    func anUnsentEditMovesWithItsObject(_ order: Order, _ relayMoves: Bool) async throws {
        let world = try await SharingWorld(relayMoves: relayMoves)
        try rename("1 passport", to: "1 new passport", on: world.laptop)
        let link = try await world.share(publicly: true)
        try await sync(world.laptop, order)
        try await world.bob.container.acceptShareInvitations(from: [link], into: world.bob.others)
        try await check(world, ["1 new passport", "2 tickets"])
    }

    /// The same out of the share, with edits of different objects on two devices.
    @Test(arguments: Order.allCases) func anUnsentEditMovesOutOfTheShareWithItsObject(_ order: Order) async throws {
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

    /// The move does not restore an object with an unsent deletion.
    @Test(arguments: Order.allCases) func anUnsentDeletionAppliesAfterTheMove(_ order: Order) async throws {
        let world = try await SharingWorld()
        let context = world.laptop.context()
        try context.delete(try #require(try context.fetch(Memo.self, \.text == "1 passport").first))
        try context.save()
        let link = try await world.share(publicly: true)
        try await sync(world.laptop, order)
        try await world.bob.container.acceptShareInvitations(from: [link], into: world.bob.others)
        try await check(world, ["2 tickets"])
    }

    /// Edits of different properties on two devices are both kept although the object moved in between.
    @Test(arguments: Order.allCases) func editsOfTwoDevicesSurviveAMove(_ order: Order) async throws {
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

    // MARK: Interrupted moves

    /// Sharing starts without a network; changes that other devices make until it continues are kept.
    @Test(arguments: Order.allCases, [true, false])
    func editsOfOriginalsMoveWithThem(_ order: Order, _ relayMoves: Bool) async throws {
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

    /// Starts to share the note while the device has no network.
    private func begin(_ app: NotesApp) async throws {
        let id = try app.id(try #require(try app.note))
        app.device.network.cut()
        await #expect(throws: MirrorError.self) { try await app.container.share([id]) }
        // Without a network the account check fails first, so the second attempt loses later requests instead.
        app.device.network.heal()
        app.device.network.fail(request: 1, of: "records/move", by: .unreachable)
        app.device.network.fail(request: 1, of: "records/modify", by: .unreachable)
        app.device.network.fail(request: 1, of: "zones/modify", by: .unreachable)
        await #expect(throws: MirrorError.self) { try await app.container.share([id]) }
        app.device.network.failNothing()
    }

    @Test(arguments: Order.allCases, [true, false])
    func objectsDeletedOnAnotherDeviceAreNotMoved(_ order: Order, _ relayMoves: Bool) async throws {
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
        // Without support for moves, a device that has not fetched the deletion sends a copy of the object.
        if relayMoves || order != .sendsFirst { try await check(world, ["2 tickets"]) }
    }

    /// An object joins a share that ends on another device before the object's record has moved: it keeps the record.
    @Test(arguments: Order.allCases, [true, false])
    func anObjectThatJoinsAnEndingShareIsKept(_ order: Order, _ relayMoves: Bool) async throws {
        let world = try await SharingWorld(relayMoves: relayMoves)
        let (phone, laptop) = (world.phone, world.laptop)
        try await world.shareWithBoth()
        let trip = try #require(try phone.note)
        let context = phone.context()
        let other = SharedNote(id: "other", title: "Other")
        try context.insert(other)
        try context.insert(Memo(text: "9 map", note: other))
        try context.save()
        for app in [phone, laptop] { try await app.sync() }
        let memo = try #require(try context.fetch(Memo.self, \.text == "9 map").first)
        try context.edit(Memo.self, memo.id) { $0.note = ToOne(trip) }
        try context.save()
        // The object is assigned to the share, and no request gets through.
        for operation in ["records/move", "records/modify"] {
            phone.device.network.fail(request: 1, of: operation, by: .unreachable)
        }
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        phone.device.network.failNothing()
        let share = try #require(try await laptop.container.fetchShares(in: laptop.mine).first)
        try await laptop.container.stopSharing(share, in: laptop.mine)
        try await sync(phone, order)
        try await world.settle()
        for app in [phone, laptop] {
            let memos = try app.context().fetch(Memo.self, sortedBy: .ascending(\.text))
            #expect(memos.map(\.text) == ["1 passport", "2 tickets", "9 map"], "\(app.device.name)")
            #expect(memos.allSatisfy { $0.note.target == "trip" }, "\(app.device.name)")
        }
        // The relay has each record once.
        var names: [String] = []
        for zone in try await phone.device.privateDatabase.allRecordZones() where zone.zoneID.zoneName != "_defaultZone"
        {
            let page = try await phone.device.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: nil)
            names += page.modificationResultsByID.keys.map(\.recordName)
        }
        #expect(Set(names).count == 5 && names.count == 5, "\(names)")
    }

    /// An object that is deleted locally during a move is deleted from both zones.
    @Test(arguments: Order.allCases, [true, false])
    func anObjectDeletedDuringAMoveIsDeleted(_ order: Order, _ relayMoves: Bool) async throws {
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

    /// Both of the owner's devices share the same object at the same time; each object ends up in one share.
    @Test(arguments: Order.allCases) func sharingAnObjectOnTwoDevicesMakesOneShare(_ order: Order) async throws {
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

    // MARK: Outdated pages

    /// A page of the former zone arrives late, after the device has fetched the object from its new zone.
    @Test func aLatePageDoesNotUndoAMove() async throws {
        let relay = try TestRelay()
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        try phone.save(Note(id: "first", title: "f"), Note(id: "late", title: "l"))
        try await phone.sync()
        let first = ObjectID(store: phone.store, entity: "Note", name: "first")
        let share = try await phone.container.share([first]).share
        try await laptop.sync()
        // Both zones have changes. The home zone's page is read before the move and arrives after the other zone's
        // page.
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

    /// The moving device is fetching at the same time.
    @Test func aFetchInProgressDoesNotUndoAMove() async throws {
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
        // Waits until the store has the object in the new zone, while the former zone's page is in progress.
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

    /// A share ends while another device of the owner fetches its zone; after that fetch all objects are in the home
    /// zone.
    @Test func aShareThatEndsDuringAFetchIsRemovedByIt() async throws {
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

    /// Devices with automatic sync share an object and stop sharing it.
    @Test(arguments: 0..<4) func automaticDevicesFollowAShareAndItsEnd(_ round: Int) async throws {
        let relay = try TestRelay()
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), isAutomatic: true)
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"), isAutomatic: true)
        try phone.save(Note(id: "a", title: "a"), Note(id: "b", title: "b"))
        let shown = ObservedValues(laptop.context().objects(Note.self))
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
            try #require(ContinuousClock.now < end, "timed out waiting for \(what)")
            await Task.yield()
        }
    }

    // MARK: Additions to a share that ends

    /// The device that adds a memo to a share while the owner, without having fetched it, ends the share.
    enum Writer: CaseIterable, Sendable { case participant, laptop }

    @Test(arguments: Writer.allCases, [true, false])
    func endingAShareKeepsUnfetchedObjects(_ writer: Writer, _ relayMoves: Bool) async throws {
        let world = try await SharingWorld(relayMoves: relayMoves)
        try await world.shareWithBoth()
        let app = writer == .participant ? world.bob : world.laptop
        try app.addMemo("3 map")
        try await app.sync()
        let share = try #require(try await world.phone.container.fetchShares(in: world.phone.mine).first)
        try await world.phone.container.stopSharing(share, in: world.phone.mine)
        try await check(world, ["1 passport", "2 tickets", "3 map"], isShared: false)
        #expect(try world.bob.note == nil)
    }

    /// The same with an addition between any two of the requests that end the share.
    @Test(
        arguments: [("records/move", 1), ("records/modify", 1), ("changes/zone", 1), ("changes/zone", 2)],
        Writer.allCases
    )
    func endingAShareKeepsObjectsAddedMeanwhile(_ request: (String, Int), _ writer: Writer) async throws {
        let world = try await SharingWorld()
        try await world.shareWithBoth()
        let app = writer == .participant ? world.bob : world.laptop
        // One memo is sent before the share ends, the other while it ends.
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
        // Sending fails because the zone is gone; the next fetch tells the reason.
        if writer == .participant { try? await app.container.sendChanges() }
        try await app.container.fetchChanges()
        try await world.settle()
        let texts = try world.phone.memos
        // A participant who lost access meanwhile could not write.
        #expect(texts.starts(with: ["1 passport", "2 tickets", "3 map"]))
        if writer == .laptop || request.0 == "records/move" { #expect(texts.last == "4 ink") }
        #expect(try world.laptop.memos == texts)
    }

    /// An object with an unsent deletion does not return to the home zone.
    @Test(arguments: [true, false]) func endingAShareKeepsAnUnsentDeletion(_ relayMoves: Bool) async throws {
        let world = try await SharingWorld(relayMoves: relayMoves)
        try await world.shareWithBoth()
        let context = world.phone.context()
        try context.delete(try #require(try context.fetch(Memo.self, \.text == "1 passport").first))
        try context.save()
        let share = try #require(try await world.phone.container.fetchShares(in: world.phone.mine).first)
        try await world.phone.container.stopSharing(share, in: world.phone.mine)
        try await check(world, ["2 tickets"], isShared: false)
    }

    // MARK: Joining during changes

    /// A participant fetches the share in pages of one to three records while the owner adds more.
    @Test(arguments: 1...3, [1, 2, 3]) func aParticipantsFirstFetchMissesNoChange(
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

    /// A share ends and another starts; the participant learns of the second before the end of the first.
    @Test(arguments: [1, 2, 3, 200]) func aParticipantCanJoinTheNextShareAtOnce(_ size: Int) async throws {
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

    /// A participant leaves while a page is in progress, and joins again before the next fetch.
    @Test func aParticipantWhoLeavesAndRejoinsHasEverything() async throws {
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
        // Long enough for leaving without a wait.
        for _ in 0..<2_000 where (try? bob.note) != nil { await Task.yield() }
        left.open()
        try await leaving.value
        await fetch.value
        try await check(world, ["1 passport", "2 tickets", "3 map"])
    }

    // MARK: Lost responses

    /// A write with a lost response is repeated after another device has changed the record: the newer values are kept.
    @Test func aRepeatedWriteKeepsNewerValues() async throws {
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

    /// An object that the relay has stored in the former zone, unknown to this device, moves as well.
    @Test(arguments: [true, false], [true, false])
    func changesWithLostResponsesMoveToTheShare(_ relayMoves: Bool, _ isEditedSince: Bool) async throws {
        let world = try await SharingWorld(relayMoves: relayMoves)
        let phone = world.phone
        try phone.addMemo("3 map")
        try rename("1 passport", to: "1 new passport", on: phone)
        phone.device.network.fail(request: 1, of: "records/modify", by: .losesAnswer)
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        if isEditedSince { try rename("3 map", to: "3 maps", on: phone) }
        // The request before the move fails, or its response is lost again.
        phone.device.network.fail(request: 1, of: "records/modify", by: isEditedSince ? .losesAnswer : .unreachable)
        _ = try? await world.share(publicly: true)
        let link = try await world.share(publicly: true)
        try await world.bob.container.acceptShareInvitations(from: [link], into: world.bob.others)
        try await check(world, ["1 new passport", "2 tickets", isEditedSince ? "3 maps" : "3 map"])
    }

    /// The response to a move or to the creation of a zone is lost; then the operation is repeated.
    @Test(arguments: ["records/move", "zones/modify"], [true, false])
    func aLostResponseToAMoveDuplicatesNothing(_ operation: String, _ comesBack: Bool) async throws {
        let world = try await SharingWorld()
        let phone = world.phone
        let note = try #require(try phone.note)
        phone.device.network.fail(request: 1, of: operation, by: .losesAnswer)
        if operation == "records/move" {
            await #expect(throws: MirrorError.self) { try await phone.container.share([try phone.id(note)]) }
            // Meanwhile another device fetches and writes.
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
        // Ending a share is one request.
        phone.device.network.fail(request: 1, of: "records/move", by: .losesAnswer)
        await #expect(throws: MirrorError.self) { try await phone.container.stopSharing(share, in: phone.mine) }
        try await check(world, try phone.memos, isShared: false)
        #expect(try world.bob.note == nil)
        let zones = try await phone.device.privateDatabase.allRecordZones().map(\.zoneID.zoneName)
        #expect(!zones.contains(share.recordID.zoneID.zoneName))
    }
}
