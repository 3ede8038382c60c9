import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Which objects can be shared with which people, which linked objects are included, and which effects are announced.
///
/// See SharingRules.md, "What is shared" and "Public links and participants".
@Suite(.timeLimit(.minutes(15))) struct ShareRulesTests {
    private func code(_ work: () async throws -> Void) async -> MirrorError.Code? {
        do {
            try await work()
            return nil
        } catch {
            return (error as? MirrorError)?.code
        }
    }

    @Test func anObjectCanBeInOnlyOneShare() async throws {
        let world = try await SharingWorld()
        let phone = world.phone
        let note = try #require(try phone.note)
        _ = try await world.share(publicly: true)
        // This includes sharing through a linked object.
        let context = phone.context()
        let memo = try #require(try context.fetch(Memo.self).first)
        let id = try context.objectID(of: memo)
        guard case .alreadyShared(let listed)? = await code({ _ = try await phone.container.share([id]) }) else {
            Issue.record("the object was shared twice")
            return
        }
        #expect(listed.contains(try phone.id(note)) && listed.count == 3)
        // Objects of two shares cannot be linked.
        let other = SharedNote(id: "other", title: "Other")
        try context.insert(other)
        try context.insert(Memo(text: "its own", note: other))
        try context.save()
        let second = try await phone.container.share([try context.objectID(of: other)])
        #expect(second.objects.count == 2)
        try context.edit(Memo.self, memo.id) { $0.note = ToOne(other) }
        #expect(await code { try context.save() } == .crossShareRelationship)
        context.rollback()
        #expect(try await phone.container.fetchShares(in: phone.mine).count == 2)
    }

    /// Rejected writes of other objects do not prevent sharing; rejected writes of the shared objects make it throw.
    @Test func rejectedWritesOfOtherObjectsDoNotPreventSharing() async throws {
        let world = try await SharingWorld()
        let phone = world.phone
        world.relay.limits.recordBytes = 2_000
        let id = try phone.id(try #require(try phone.note))
        func refusedNote(_ letter: Character) throws -> ObjectID {
            let context = phone.context()
            // Too large for a record.
            let note = SharedNote(id: RecordName(String(letter)), title: String(repeating: "x", count: 3_000))
            try context.insert(note)
            try context.save()
            return try context.objectID(of: note)
        }
        _ = try refusedNote("a")
        let (_, share, _) = try await phone.container.share([id])
        #expect(try await phone.container.fetchShares(matching: [id]).count == 1)
        _ = try refusedNote("b")
        try await phone.container.stopSharing(share, in: phone.mine)
        #expect(try await phone.container.fetchShares(in: phone.mine).isEmpty)
        #expect(try await phone.container.rejectedWrites(phone.mine).count == 2)
        #expect(try phone.memos.count == 2)
        let refused = try refusedNote("c")
        await #expect(throws: MirrorError.self) { try await phone.container.share([refused]) }
    }

    /// Objects can be added to a share, and objects linked to it later join automatically.
    @Test func objectsCanBeAddedToAShare() async throws {
        let world = try await SharingWorld()
        let (phone, bob) = (world.phone, world.bob)
        let link = try await world.share(publicly: true)
        try await bob.container.acceptShareInvitations(from: [link], into: bob.others)
        let share = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        let context = phone.context()
        let second = SharedNote(id: "second", title: "Second")
        try context.insert(second)
        try context.insert(Memo(text: "goes along", note: second))
        try context.save()
        try await phone.sync()
        let (objects, same, _) = try await phone.container.share([try context.objectID(of: second)], to: share)
        #expect(objects.count == 2 && same.recordID == share.recordID)
        let third = SharedNote(id: "third", title: "Third")
        try context.insert(third)
        try context.assign(third, to: share)
        try context.save()
        try await phone.sync()
        try await bob.sync()
        let titles = try bob.context().fetch(SharedNote.self, sortedBy: .ascending(\.title)).map(\.title)
        #expect(titles == ["Second", "Third", "Trip"])
        #expect(try bob.context().fetch(Memo.self).count == 3)
        // A new object linked to a shared one joins the share, with its own linked objects.
        let memo = Memo(text: "loose", note: second)
        try context.insert(memo)
        try context.save()
        try await phone.sync()
        try await bob.sync()
        #expect(try bob.context().fetch(Memo.self, \.text == "loose").count == 1)
        for object in [try context.objectID(of: memo), try context.objectID(of: third)] {
            #expect(try await phone.container.isShared(object))
        }
    }

    @Test func aFailedShareChangesNothing() async throws {
        let world = try await SharingWorld()
        let (phone, bob) = (world.phone, world.bob)
        let note = try #require(try phone.note)
        let id = try phone.id(note)
        // Another user's object, an unsaved object, and too many objects.
        let link = try await world.share(publicly: true, by: phone)
        try await bob.container.acceptShareInvitations(from: [link], into: bob.others)
        let theirs = try bob.id(try #require(try bob.note))
        #expect(await code { _ = try await bob.container.share([theirs]) } == .wrongStore)
        let unsaved = ObjectID(store: nil, entity: "SharedNote", name: "x")
        #expect(await code { _ = try await phone.container.share([unsaved]) } == .wrongStore)
        let wrong = await code { try await bob.container.acceptShareInvitations(from: [link], into: bob.mine) }
        #expect(wrong == .wrongStore)
        let own = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        let seen = try #require(try await bob.container.fetchShares(in: bob.others).first)
        #expect(own.isOwner && !seen.isOwner && seen.currentUserPermission == .readWrite)
        #expect(await code { try await bob.container.stopSharing(seen, in: bob.others) } == .wrongStore)
        #expect(await code { try await phone.container.leaveShare(own, in: phone.mine) } == .wrongStore)
        try await phone.container.stopSharing(own, in: phone.mine)
        #expect(await code { _ = try await phone.container.share([id], limit: 2) } == .tooManyObjects(3))
        #expect(try await phone.container.pendingExportCount(phone.mine) == 0)
        // No user is signed in.
        phone.device.connection.credentials.replace(webAuthToken: nil)
        #expect(await code { _ = try await phone.container.share([id]) } != nil)
        let zones = try await world.laptop.device.privateDatabase.allRecordZones()
        #expect(zones.count == 2)
    }

    /// A link with `stopsSharing` is not followed, and stays on all devices.
    @Test func aLinkCanStopSharing() async throws {
        let relay = try TestRelay()
        let model = MirrorModel(Bookcase.self, Lent.self)
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), model: model)
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"), model: model)
        let context = phone.context()
        let shelf = Bookcase(id: "shelf")
        for name in ["a", "b"] { try context.insert(Lent(id: RecordName(name), shelf: shelf)) }
        try context.insert(shelf)
        try context.save()
        for mirror in [phone, laptop] { try await mirror.sync() }
        let book = ObjectID(store: phone.store, entity: "Lent", name: "a")
        #expect(try await phone.container.share([book]).objects == [book])
        for mirror in [phone, laptop, phone, laptop] { try await mirror.sync() }
        for mirror in [phone, laptop] {
            let books = try mirror.context().fetch(Lent.self)
            #expect(books.map(\.shelf.target) == ["shelf", "shelf"], "\(mirror.device.name)")
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
        // A new device has the same content.
        let tablet = try await Mirrored(relay.device(of: "alice", named: "tablet"), model: model)
        try await tablet.sync()
        #expect(try tablet.context().fetch(Lent.self).map(\.shelf.target) == ["shelf", "shelf"])
    }

    // MARK: People

    @Test func peopleAreFoundAndInvited() async throws {
        let world = try await SharingWorld()
        let phone = world.phone
        _ = try await world.share(publicly: false)
        let infos = ["bob@example.org", "nobody@example.org"].map { CKUserIdentity.LookupInfo(emailAddress: $0) }
        let found = try await phone.container.fetchParticipants(matching: infos, into: phone.mine)
        // People whom the relay does not know can be invited as well.
        #expect(found.count == 2)
        let share = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        found[1].permission = .readOnly
        share.addParticipant(found[1])
        try await phone.container.persistUpdatedShare(share, in: phone.mine)
        let kept = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        let newcomer = try #require(kept.participants.first { world.isCalled("nobody@example.org", $0) })
        #expect(newcomer.acceptanceStatus == .pending && newcomer.permission == .readOnly)
        let nowhere = phone.container.store(at: URL(fileURLWithPath: "/nowhere.sqlite"))
        let wrong = await code { _ = try await phone.container.fetchParticipants(matching: infos, into: nowhere) }
        #expect(wrong == .wrongStore)
    }

    /// A public link excludes named participants; the affected participants are announced before.
    @Test func aPublicLinkRemovesNamedParticipants() async throws {
        let world = try await SharingWorld()
        let (phone, bob, carol) = (world.phone, world.bob, world.carol)
        let link = try await world.share(publicly: false)
        try await bob.container.acceptShareInvitations(from: [link], into: bob.others)
        try await phone.sync()
        let share = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        let dropped = share.effectsOfChangingPublicPermission(to: .readOnly)
        #expect(dropped.map { world.isCalled("carol@example.org", $0) } == [true])
        #expect(share.effectsOfChangingPublicPermission(to: .none).isEmpty)
        share.publicPermission = .readOnly
        try await phone.container.persistUpdatedShare(share, in: phone.mine)
        // A participant who had joined keeps access through the public link.
        try await bob.container.fetchChanges()
        #expect(try bob.memos.count == 2)
        #expect(try await !bob.badges(try #require(try bob.note)).canEdit)
        // Named participants cannot be added now.
        let open = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        #expect(open.participants.allSatisfy { $0.role != .privateUser })
        open.addParticipant(emailAddress: "dora@example.org", permission: .readOnly)
        await #expect(throws: (any Error).self) { try await phone.container.persistUpdatedShare(open, in: phone.mine) }
        // Carol joins by the link; closing the link removes all participants.
        let now = try #require(try await world.laptop.device.privateDatabase.record(for: share.recordID) as? CKShare)
        try await carol.container.acceptShareInvitations(from: [try #require(now.url)], into: carol.others)
        #expect(try carol.memos.count == 2)
        try await phone.sync()
        let shut = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        #expect(shut.effectsOfChangingPublicPermission(to: .none).count == 2)
        shut.publicPermission = .none
        try await phone.container.persistUpdatedShare(shut, in: phone.mine)
        for app in [bob, carol] {
            try await app.container.fetchChanges()
            #expect(try app.note == nil)
        }
    }

    /// An edit made before the permission was withdrawn becomes a rejected write.
    @Test func anEditUnderAnOldPermissionIsQuarantined() async throws {
        let world = try await SharingWorld()
        try await world.shareWithBoth()
        let (phone, bob) = (world.phone, world.bob)
        let context = bob.context()
        try context.edit(SharedNote.self, "trip") { $0.title = "bob's title" }
        try context.save()
        let share = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        let participant = try #require(share.participants.first { world.isCalled("bob@example.org", $0) })
        share.setPermission(.readOnly, for: participant)
        try await phone.container.persistUpdatedShare(share, in: phone.mine)
        await #expect(throws: MirrorError.self) { try await bob.container.sendChanges() }
        try await bob.container.fetchChanges()
        #expect(try bob.note?.title == "Trip")
        #expect(try await !bob.badges(try #require(try bob.note)).canEdit)
        let refused = try await bob.container.rejectedWrites(bob.others)
        #expect(refused.map(\.code) == [.permissionFailure])
        #expect(refused.first?.fields["CD_title"]?.contains("bob's title") == true)
    }

    // MARK: Purging

    /// Unlike ending a share, purging deletes all objects for all users.
    @Test func purgingDeletesTheObjectsForAllUsers() async throws {
        let world = try await SharingWorld()
        try await world.shareWithBoth()
        let share = try #require(try await world.phone.container.fetchShares(in: world.phone.mine).first)
        try await world.phone.container.purgeObjectsAndRecordsInZone(with: share, in: world.phone.mine)
        #expect(try world.phone.note == nil)
        try await world.settle()
        for app in [world.phone, world.laptop, world.bob, world.carol] {
            #expect(try app.context().fetch(SharedNote.self).isEmpty)
            #expect(try app.context().fetch(Memo.self).isEmpty)
            #expect(try await app.container.fetchShares(in: app.mine).isEmpty)
        }
    }
}

/// A shelf whose books can be shared individually.
private struct Bookcase: SyncedRecord {
    var id = RecordName()
    var name = ""
    var books = ToMany<Lent>(inverse: "shelf")

    init() {}
    init(id: RecordName) { self.id = id }
}

private struct Lent: SyncedRecord {
    var id = RecordName()
    var shelf = ToOne<Bookcase>(inverse: "books")

    init() {}

    init(id: RecordName, shelf: Bookcase) {
        self.id = id
        self.shelf = ToOne(shelf)
    }

    static func describe(_ entity: inout Entity) {
        entity.relationship("shelf") { $0.stopsSharing = true }
    }
}
