import Foundation
import GRDB
import Records
import TestSupport
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A post with soft deletion.
struct Post: SyncedRecord, Equatable {
    var id = RecordName()
    var text = ""
    var deletedAt: Date?

    init() {}

    init(id: RecordName, text: String) {
        self.id = id
        self.text = text
    }

    static func describe(_ entity: inout Entity) { entity.softDeletion = "deletedAt" }
}

/// The public database, which is polled, with soft deletion.
@Suite(.timeLimit(.minutes(15))) struct PublicTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    func board(_ device: TestDevice) async throws -> Mirrored {
        let clock = relay.clock
        var conditions = MirrorConditions()
        conditions.wallClock = { clock.date }
        return try await Mirrored(device, model: MirrorModel(Post.self), scope: .public, conditions: conditions)
    }

    func texts(_ mirror: Mirrored) throws -> [String: String] {
        let posts = try mirror.context().fetch(Post.self)
        return Dictionary(uniqueKeysWithValues: posts.map { ($0.id.text, $0.text) })
    }

    func write(_ mirror: Mirrored, _ post: Post) throws {
        let context = mirror.context()
        try context.insert(post)
        try context.save()
    }

    @Test func aPostIsPolledByOtherUsers() async throws {
        let alice = try await board(relay.device(of: "alice"))
        let bob = try await board(relay.device(of: "bob"))
        try await alice.container.fetchFirst()
        try write(alice, Post(id: "a", text: "Hello"))
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await bob.container.pollNow()
        #expect(try texts(bob) == ["a": "Hello"])
        // A poll without changes writes nothing.
        let token = try await bob.container.currentHistoryToken()
        try await bob.container.pollNow()
        #expect(try await bob.container.currentHistoryToken() == token)
        // A signed-out user may read.
        let visitor = try await board(relay.visitor())
        try await visitor.container.pollNow()
        #expect(try texts(visitor) == ["a": "Hello"])
    }

    @Test func onlyOwnPostsCanBeChanged() async throws {
        let alice = try await board(relay.device(of: "alice"))
        let bob = try await board(relay.device(of: "bob"))
        try await alice.container.fetchFirst()
        try await bob.container.fetchFirst()
        try write(alice, Post(id: "a", text: "Hello"))
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await bob.container.pollNow()
        let (mine, theirs) = (
            ObjectID(store: alice.store, entity: "Post", name: "a"),
            ObjectID(store: bob.store, entity: "Post", name: "a")
        )
        #expect(alice.container.canUpdateRecord(for: mine))
        #expect(alice.container.canDeleteRecord(for: mine))
        #expect(!bob.container.canUpdateRecord(for: theirs))
        #expect(bob.container.canModifyManagedObjects(in: bob.store))
        let context = bob.context()
        try context.edit(Post.self, "a") { $0.text = "mine now" }
        let error = #expect(throws: MirrorError.self) { try context.save() }
        #expect(error?.code == .permissionFailure([theirs]))
    }

    /// A user whose role grants writes may change all users' objects, and the mirror allows it.
    @Test func aUserWithAWriteGrantCanChangePostsOfOthers() async throws {
        let alice = try await board(relay.device(of: "alice"))
        let bob = try await board(relay.device(of: "bob"))
        for mirror in [alice, bob] { try await mirror.container.fetchFirst() }
        try write(alice, Post(id: "a", text: "Hello"))
        try await alice.container.sendChanges()
        try await relay.changeSchema { $0["CD_Post"]?.grants[.authenticated] = [.create, .write] }
        relay.clock.advance(by: .seconds(600))
        try await bob.container.pollNow()
        let post = ObjectID(store: bob.store, entity: "Post", name: "a")
        #expect(bob.container.canUpdateRecord(for: post) && bob.container.canDeleteRecord(for: post))
        let context = bob.context()
        try context.edit(Post.self, "a") { $0.text = "edited" }
        try context.save()
        try await bob.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await alice.container.pollNow()
        #expect(try texts(alice) == ["a": "edited"])
        // Now only the creator may change a post, and no user may create one.
        try await relay.changeSchema { $0["CD_Post"]?.grants = [.world: .read, .creator: .write] }
        relay.clock.advance(by: .seconds(600))
        try await bob.container.pollNow()
        #expect(!bob.container.canUpdateRecord(for: post))
        #expect(!bob.container.canModifyManagedObjects(in: bob.store))
        #expect(throws: MirrorError.self) { try write(bob, Post(id: "b", text: "mine")) }
    }

    @Test func softDeletionsAreSyncedAndDeletionsAreNot() async throws {
        let alice = try await board(relay.device(of: "alice"))
        let bob = try await board(relay.device(of: "bob"))
        try await alice.container.fetchFirst()
        for name in ["soft", "hard", "stays"] { try write(alice, Post(id: RecordName(name), text: name)) }
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await bob.container.pollNow()
        let context = alice.context()
        try context.softDelete(try #require(try context.object(Post.self, "soft")))
        try context.delete(Post.self, id: "hard")
        try context.save()
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await bob.container.pollNow()
        #expect(try texts(bob) == ["hard": "hard", "stays": "stays"])
        var all = FetchRequest(Post.self)
        all.includesSoftDeleted = true
        #expect(try bob.context().fetch(all).count == 3)
        #expect(try await bob.container.reconcile(Post.self) == 1)
        #expect(try texts(bob) == ["stays": "stays"])
        relay.clock.advance(by: .seconds(3_600))
        #expect(try await alice.container.purgeSoftDeleted(Post.self, olderThan: .seconds(600)) == 1)
        try await alice.container.sendChanges()
        #expect(try await bob.container.purgeSoftDeleted(Post.self, olderThan: .seconds(600)) == 1)
        #expect(try bob.context().fetch(all).count == 1)
        #expect(try await bob.container.statistics(bob.store).rows == ["Post": 1])
        #expect(try await bob.container.pendingExportCount(bob.store) == 0)
    }

    /// A page that the relay read before a local save or deletion does not undo it when it arrives late.
    @Test func aLatePageDoesNotUndoLaterChanges() async throws {
        let alice = try await board(relay.device(of: "alice"))
        try await alice.container.fetchFirst()
        for name in ["edited", "deleted"] { try write(alice, Post(id: RecordName(name), text: "1")) }
        try await alice.container.sendChanges()
        // In the first poll, all posts are new.
        let folder = try TemporaryFolder()
        let conditions = MirrorConditions()
        let again = try await Mirrored(
            relay.device(of: "alice", named: "laptop"),
            model: MirrorModel(Post.self),
            scope: .public,
            folder: folder,
            conditions: conditions
        )
        try await again.container.pollNow()
        let other = alice.context()
        for name in ["edited", "deleted"] as [RecordName] { try other.edit(Post.self, name) { $0.text = "2" } }
        try other.save()
        try await alice.container.sendChanges()
        let (asked, sent) = (Gate(), Gate())
        again.device.network.fail(
            request: 1,
            of: "records/query",
            by: .beforeAnswer {
                asked.open()
                await sent.wait()
            }
        )
        let poll = Task { try await again.container.pollNow() }
        await asked.wait()
        let context = again.context()
        try context.edit(Post.self, "edited") { $0.text = "3" }
        try context.delete(Post.self, id: "deleted")
        try context.save()
        let sending = Task { try await again.container.sendChanges() }
        // Long enough for sending without a wait.
        for _ in 0..<2_000 where try await again.container.pendingExportCount(again.store) > 0 { await Task.yield() }
        sent.open()
        try await poll.value
        try await sending.value
        #expect(try texts(again) == ["edited": "3"])
        try await again.container.pollNow()
        #expect(try texts(again) == ["edited": "3"])
    }

    /// A record that the relay temporarily fails to read does not count as deleted.
    @Test func reconcilingKeepsARecordThatTheRelayFailsToRead() async throws {
        let alice = try await board(relay.device(of: "alice"))
        try await alice.container.fetchFirst()
        try write(alice, Post(id: "a", text: "1"))
        try await alice.container.sendChanges()
        let body = #"{"records":[{"recordName":"a","serverErrorCode":"INTERNAL_ERROR","reason":"broken"}]}"#
        alice.device.network.fail(request: 1, of: "records/query", by: .answered(status: 200, body: body))
        await #expect(throws: MirrorError.self) { try await alice.container.reconcile(Post.self) }
        #expect(try texts(alice) == ["a": "1"])
    }

    /// Objects created or changed while the names are fetched do not count as deleted.
    @Test func reconcilingKeepsNewObjects() async throws {
        let alice = try await board(relay.device(of: "alice"))
        try await alice.container.fetchFirst()
        for name in ["a", "b"] { try write(alice, Post(id: RecordName(name), text: "1")) }
        try await alice.container.sendChanges()
        let (container, store) = (alice.container, alice.store)
        alice.device.network.fail(
            request: 1,
            of: "records/query",
            by: .beforeAnswer {
                let context = container.newBackgroundContext()
                try? context.insert(Post(id: "c", text: "1"))
                try? context.save()
                try? await container.sendChanges()
            }
        )
        #expect(try await alice.container.reconcile(Post.self) == 0)
        #expect(try texts(alice) == ["a": "1", "b": "1", "c": "1"])
        #expect(try await container.pendingExportCount(store) == 0)
    }

    /// Objects with unsent changes are kept, and are not counted as removed.
    @Test func reconcilingKeepsPendingChanges() async throws {
        let alice = try await board(relay.device(of: "alice"))
        let laptop = try await board(relay.device(of: "alice", named: "laptop"))
        try await alice.container.fetchFirst()
        for name in ["a", "b"] { try write(alice, Post(id: RecordName(name), text: "1")) }
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await laptop.container.pollNow()
        let (here, there) = (laptop.context(), alice.context())
        for name in ["a", "b"] as [RecordName] { try there.delete(Post.self, id: name) }
        try there.save()
        try await alice.container.sendChanges()
        try here.edit(Post.self, "a") { $0.text = "2" }
        try here.save()
        #expect(try await laptop.container.reconcile(Post.self) == 1)
        #expect(try texts(laptop) == ["a": "2"])
        try await laptop.container.sendChanges()
        #expect(try await laptop.container.reconcile(Post.self) == 0)
        #expect(try texts(laptop) == ["a": "2"])
    }

    /// The mirror stores only matching objects and the requested properties; a larger extent adds the rest.
    @Test func anExtentLimitsTheMirroredObjectsAndProperties() async throws {
        let alice = try await board(relay.device(of: "alice"))
        try await alice.container.fetchFirst()
        for name in ["news", "news 2", "gossip"] {
            try write(alice, Post(id: RecordName(name), text: String(name.prefix(4))))
        }
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        let folder = try TemporaryFolder()
        let device = relay.device(of: "bob")
        let small = PublicExtent(NSPredicate(format: "text == %@", "news"), properties: ["deletedAt"])
        var bob = try await bounded(device, folder, small)
        try await bob.container.pollNow()
        #expect(try texts(bob) == ["news": "", "news 2": ""])
        // Properties outside the extent are not sent.
        let context = bob.context()
        #expect(try context.fetch(Post.self).count == 2)
        #expect(try await bob.container.reconcile(Post.self) == 0)
        await bob.container.close()
        bob = try await bounded(device, folder, PublicExtent(NSPredicate(format: "text == %@", "news")))
        try await bob.container.pollNow()
        #expect(try texts(bob) == ["news": "news", "news 2": "news"])
        await bob.container.close()
        bob = try await bounded(device, folder, nil)
        try await bob.container.pollNow()
        #expect(try texts(bob).count == 3)
        await bob.container.close()
        bob = try await bounded(device, folder, small)
        #expect(try await bob.container.reconcile(Post.self) == 1)
        await bob.container.close()
        let odd = PublicExtent(NSPredicate(format: "text MATCHES %@", ".*"))
        let error = await #expect(throws: MirrorError.self) { try await self.bounded(device, folder, odd) }
        #expect(error?.explanation.contains("Post") == true)
    }

    private func bounded(_ device: TestDevice, _ folder: TemporaryFolder, _ extent: PublicExtent?) async throws
        -> Mirrored
    {
        try await Mirrored(device, model: MirrorModel(Post.self), scope: .public, folder: folder) {
            $0.cloud?.extents["Post"] = extent
        }
    }

    // MARK: Retry delays

    @Test func aRetryDelayAppliesToPollsAfterARestart() async throws {
        let device = relay.device(of: "bob", named: "tablet")
        let folder = try TemporaryFolder()
        var mirror = try await automatic(device, folder)
        try await relay.settle()
        // The response to the next poll, in half an hour, tells the mirror to wait for the rest of three hours.
        device.network.throttle(for: .seconds(3 * 3600))
        await relay.advance(by: .seconds(1900))
        await mirror.container.close()
        let before = polls(device)
        mirror = try await automatic(device, folder)
        await relay.advance(by: .seconds(2 * 3600))
        #expect(polls(device) == before)
        await relay.advance(by: .seconds(3600))
        #expect(polls(device) > before)
        await mirror.container.close()
    }

    private func polls(_ device: TestDevice) -> Int {
        device.network.operations.count { $0.hasSuffix("records/query") }
    }

    private func automatic(_ device: TestDevice, _ folder: TemporaryFolder? = nil) async throws -> Mirrored {
        let conditions = MirrorConditions(device.connection.conditions ?? SyncConditions())
        let model = MirrorModel(Post.self)
        return try await Mirrored(
            device,
            model: model,
            scope: .public,
            folder: folder,
            isAutomatic: true,
            conditions: conditions
        )
    }

    /// After its poll progress is discarded, a mirror continues to poll at its interval and fetches everything again.
    @Test func pollsContinueAfterTheirProgressIsDiscarded() async throws {
        let device = relay.device(of: "bob", named: "tablet")
        let mirror = try await automatic(device)
        try await relay.settle()
        try await mirror.container.forgetTokens(in: mirror.store)
        try await relay.settle()
        let before = polls(device)
        for hours in 1...3 {
            await relay.advance(by: .seconds(3_600))
            #expect(polls(device) >= before + hours)
        }
        await mirror.container.close()
    }
}

extension MirroredContainer {
    /// Fetches from an empty database, ignoring the error for its unknown record types.
    fileprivate func fetchFirst() async throws {
        do {
            try await fetchChanges()
        } catch let error where error.code != .relay {
            throw error
        } catch {}
    }
}

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

/// A public store with changing users, and with automatic sync.
@Suite(.timeLimit(.minutes(15))) struct PublicUserTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func board(_ device: TestDevice, isAutomatic: Bool = false) async throws -> Mirrored {
        let conditions = isAutomatic ? MirrorConditions(device.connection.conditions ?? SyncConditions()) : nil
        return try await Mirrored(
            device,
            model: MirrorModel(Post.self),
            scope: .public,
            isAutomatic: isAutomatic,
            conditions: conditions ?? MirrorConditions()
        )
    }

    private func write(_ mirror: Mirrored, _ post: Post) throws {
        let context = mirror.context()
        try context.insert(post)
        try context.save()
    }

    private func edit(_ mirror: Mirrored, _ name: RecordName, _ text: String) throws {
        let context = mirror.context()
        try context.edit(Post.self, name) { $0.text = text }
        try context.save()
    }

    private func texts(_ mirror: Mirrored) async throws -> [String: String] {
        relay.clock.advance(by: .seconds(60))
        try await mirror.container.pollNow()
        let posts = try mirror.context().fetch(Post.self)
        return Dictionary(uniqueKeysWithValues: posts.map { ($0.id.text, $0.text) })
    }

    /// A user with credentials may write before the first contact with the relay; a visitor may not.
    @Test func postsWrittenBeforeTheFirstContactAreSent() async throws {
        let mirror = try await board(relay.device(of: "alice"))
        mirror.device.network.cut()
        #expect(mirror.container.canModifyManagedObjects(in: mirror.store))
        try write(mirror, Post(id: "a", text: "1"))
        try edit(mirror, "a", "2")
        #expect(mirror.container.canUpdateRecord(for: ObjectID(store: mirror.store, entity: "Post", name: "a")))
        mirror.device.network.heal()
        try await mirror.container.sendChanges()
        let visitor = try await board(relay.visitor())
        #expect(!visitor.container.canModifyManagedObjects(in: visitor.store))
        #expect(throws: MirrorError.self) { try write(visitor, Post(id: "b", text: "a visitor's")) }
        #expect(try await texts(visitor) == ["a": "2"])
    }

    /// All users share one file; a user's changes are sent with that user's credentials, or stay pending.
    @Test(arguments: [false, true]) func unsentChangesAreNotSentAsTheNextUser(_ signsOut: Bool) async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let mirror = try await board(device)
        try? await mirror.container.fetchChanges()
        try write(mirror, Post(id: "sent", text: "1"))
        try await mirror.container.sendChanges()
        try write(mirror, Post(id: "unsent", text: "Alice's"))
        try edit(mirror, "sent", "2")
        if signsOut {
            device.connection.credentials.replace(webAuthToken: nil)
            try? await mirror.sync()
        }
        device.connection.credentials.replace(webAuthToken: "dev-bob")
        try await mirror.container.fetchChanges()
        try write(mirror, Post(id: "b", text: "Bob's"))
        #expect(try await mirror.container.pendingExports(mirror.store).map(\.name.text) == ["b"])
        try await mirror.container.sendChanges()
        #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        // Bob may not change them either, because the changes would be sent as his.
        #expect(throws: MirrorError.self) { try edit(mirror, "unsent", "Bob's now") }
        let reader = try await board(relay.device(of: "carol"))
        #expect(try await texts(reader) == ["sent": "1", "b": "Bob's"])
        device.connection.credentials.replace(webAuthToken: "dev-alice")
        try await mirror.sync()
        #expect(try await texts(reader) == ["sent": "2", "b": "Bob's", "unsent": "Alice's"])
        let unsent = ObjectID(store: mirror.store, entity: "Post", name: "unsent")
        #expect(mirror.container.canUpdateRecord(for: unsent))
        #expect(try await mirror.container.rejectedWrites(mirror.store).isEmpty)
    }

    /// SQL may not change objects with another user's unsent changes, because they would be sent as the current user's.
    ///
    /// This also holds after a program without a mirror has added columns to the tables.
    @Test(arguments: [false, true])
    func sqlCannotChangeObjectsWithUnsentChangesOfAnotherUser(_ hasOtherContainer: Bool) async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let mirror = try await board(device)
        try? await mirror.container.fetchChanges()
        try write(mirror, Post(id: "sent", text: "1"))
        try await mirror.container.sendChanges()
        try edit(mirror, "sent", "Alice's")
        device.connection.credentials.replace(webAuthToken: "dev-bob")
        try await mirror.container.fetchChanges()
        if hasOtherContainer {
            let attributes = [Attribute("text", .string), Attribute("deletedAt", .date), Attribute("mood", .string)]
            let otherContainer = MirroredContainer(
                model: MirrorModel(entities: [Entity("Post", attributes: attributes)]),
                stores: [StoreDescription(url: URL(filePath: mirror.store.text))]
            )
            try await otherContainer.loadStores()
            await otherContainer.close()
        }
        let database = try #require(mirror.container.database(of: mirror.store))
        for sql in ["UPDATE Post SET text = 'Bob''s'", "DELETE FROM Post"] {
            let error = await #expect(throws: DatabaseError.self) {
                try await database.write { try $0.execute(sql: sql) }
            }
            #expect(error?.message?.contains("Another user") == true)
        }
        device.connection.credentials.replace(webAuthToken: "dev-alice")
        try await mirror.sync()
        let reader = try await board(relay.device(of: "carol"))
        #expect(try await texts(reader) == ["sent": "Alice's"])
        try await database.write { try $0.execute(sql: "UPDATE Post SET text = 'by SQL'") }
        try await mirror.container.sendChanges()
        #expect(try await texts(reader) == ["sent": "by SQL"])
    }

    /// The next user may not drop them either; the explanation says that they belong to another user.
    @Test func unsentChangesCanOnlyBeDroppedByTheirUser() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let mirror = try await board(device)
        try? await mirror.container.fetchChanges()
        try write(mirror, Post(id: "a", text: "1"))
        try await mirror.container.sendChanges()
        try edit(mirror, "a", "Alice's")
        device.connection.credentials.replace(webAuthToken: "dev-bob")
        try await mirror.container.fetchChanges()
        let post = ObjectID(store: mirror.store, entity: "Post", name: "a")
        let error = await #expect(throws: MirrorError.self) { try await mirror.container.dropPendingExport(of: post) }
        #expect(error?.code == .objectUnavailable)
        let explanation = try await mirror.container.explain(post)
        #expect(explanation.state == .pending && explanation.reason.contains("Another user"))
        device.connection.credentials.replace(webAuthToken: "dev-alice")
        try await mirror.container.fetchChanges()
        #expect(try await mirror.container.pendingExports(mirror.store) == [post])
        #expect(try await mirror.container.explain(post).reason.contains("Another user") == false)
        try await mirror.container.dropPendingExport(of: post)
        #expect(try await texts(mirror) == ["a": "1"])
    }

    /// Only the user who made a rejected write may retry or discard it.
    @Test func rejectedWritesBelongToTheirUser() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let mirror = try await board(device)
        try? await mirror.container.fetchChanges()
        relay.limits.recordBytes = 2_000
        try write(mirror, Post(id: "x", text: String(repeating: "x", count: 3_000)))
        await #expect(throws: MirrorError.self) { try await mirror.container.sendChanges() }
        let refused = try #require(try await mirror.container.rejectedWrites(mirror.store).first)
        device.connection.credentials.replace(webAuthToken: "dev-bob")
        try? await mirror.container.fetchChanges()
        #expect(try await mirror.container.rejectedWrites(mirror.store).isEmpty)
        let error = await #expect(throws: MirrorError.self) { try await mirror.container.retry(refused) }
        #expect(error?.code == .objectUnavailable)
        try await mirror.container.discard(refused)
        #expect(try await mirror.container.export(refused).isEmpty)
        #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        device.connection.credentials.replace(webAuthToken: "dev-alice")
        try await mirror.container.fetchChanges()
        #expect(try await mirror.container.rejectedWrites(mirror.store) == [refused])
        try await mirror.container.retry(refused)
        #expect(try await mirror.container.pendingExportCount(mirror.store) == 1)
    }

    /// The initial import is completed by scheduled polls, without a call.
    @Test func scheduledPollsCompleteTheInitialImport() async throws {
        let writer = try await board(relay.device(of: "alice"))
        try? await writer.container.fetchChanges()
        try write(writer, Post(id: "a", text: "Hello"))
        try await writer.container.sendChanges()
        let mirror = try await board(relay.device(of: "bob"), isAutomatic: true)
        try await relay.settle()
        #expect(try await mirror.container.hasCompletedInitialImport(mirror.store))
        let first = try #require(try await mirror.container.lastSuccessfulImport(mirror.store))
        await relay.advance(by: .seconds(3_600))
        let next = try #require(try await mirror.container.lastSuccessfulImport(mirror.store))
        #expect(next.timeIntervalSince(first) > 1_700)
        await mirror.container.close()
    }
}
