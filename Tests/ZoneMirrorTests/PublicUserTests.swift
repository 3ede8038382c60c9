import Foundation
import GRDB
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

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
