import Foundation
import Testing
import ZoneKit
import ZoneTesting

@testable import ZoneMirror

/// Account changes with several stores, with unsaved contexts, and with a file that cannot be written.
@Suite(.timeLimit(.minutes(15))) struct AccountChangeTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    /// A container of several stores that syncs only when told to.
    private func board(
        _ container: CKContainer,
        _ folder: TemporaryFolder,
        _ scopes: CKDatabase.Scope...
    ) async throws -> MirroredContainer {
        let clock = relay.clock
        var conditions = MirrorConditions()
        conditions.isAutomatic = false
        conditions.wallClock = { clock.date }
        let stores = scopes.map { scope in
            StoreDescription(
                url: folder.url.appendingPathComponent("\(scope).sqlite"),
                cloud: CloudOptions(container: container, scope: scope)
            )
        }
        let board = MirroredContainer(model: MirrorModel(Post.self), stores: stores, conditions: conditions)
        try await board.loadStores()
        return board
    }

    private func write(_ post: Post, in container: MirroredContainer, _ store: Int) throws {
        let context = container.newBackgroundContext()
        try context.insert(post)
        try context.assign(post, to: container.descriptions[store].id)
        try context.save()
    }

    private func texts(_ container: MirroredContainer) throws -> [String] {
        try container.newBackgroundContext().fetch(Post.self).map(\.text).sorted()
    }

    /// Fetches until the stores have the expected content and a fetch succeeds; no API call waits for the file switch.
    private func settle(_ container: MirroredContainer, _ expected: [String]) async throws {
        let end = ContinuousClock.now + .seconds(120)
        while ContinuousClock.now < end {
            let isFetched = (try? await container.fetchChanges()) != nil
            if isFetched, try texts(container) == expected { return }
            await Task.yield()
        }
        #expect(try texts(container) == expected)
        try await container.fetchChanges()
    }

    // MARK: Several stores

    /// The public store's file already names the user; the private store's file must be switched all the same.
    @Test func aReturningUserGetsTheirPrivateFileBesideAPublicStore() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let folder = try TemporaryFolder()
        let first = try await board(device.container, folder, .private, .public)
        try write(Post(id: "a", text: "Alice's"), in: first, 0)
        try await first.sendChanges()
        try await first.fetchChanges()
        await first.close()
        device.connection.credentials.replace(webAuthToken: nil)
        let second = try await board(device.container, folder, .private, .public)
        #expect(try texts(second).isEmpty)
        device.connection.credentials.replace(webAuthToken: "dev-alice")
        try await settle(second, ["Alice's"])
        await second.close()
        withExtendedLifetime(folder) {}
    }

    /// The public store notices the account change first; the private store's file is switched all the same.
    @Test func aPrivateFileIsSwitchedWhenAPublicStoreNoticesTheChangeFirst() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let folder = try TemporaryFolder()
        let container = try await board(device.container, folder, .public, .private)
        try write(Post(id: "a", text: "Alice's"), in: container, 1)
        try await container.sendChanges()
        try await container.fetchChanges()
        device.connection.credentials.replace(webAuthToken: "dev-bob")
        try await settle(container, [])
        device.connection.credentials.replace(webAuthToken: "dev-alice")
        try await settle(container, ["Alice's"])
        await container.close()
        withExtendedLifetime(folder) {}
    }

    @Test func aUserIsSignedInAgainAfterARejectedToken() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let mirror = try await Mirrored(device)
        try mirror.save(Note(id: "a", title: "Alice's"))
        try await mirror.sync()
        device.connection.credentials.replace(webAuthToken: "no token of this relay's")
        await #expect(throws: MirrorError.self) { try await mirror.container.fetchChanges() }
        await #expect(throws: MirrorError.self) { try await mirror.container.adoptLocalData() }
        device.connection.credentials.replace(webAuthToken: "dev-alice")
        try await mirror.container.fetchChanges()
        #expect(try await mirror.container.adoptLocalData() == 0)
        #expect(mirror.container.stores.account.standing == .signedIn)
        await mirror.container.close()
    }

    // MARK: A public store

    @Test func aSignedOutUserCannotChangePublicRecords() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let folder = try TemporaryFolder()
        let first = try await board(device.container, folder, .public)
        try await first.fetchChanges()
        try write(Post(id: "a", text: "Hello"), in: first, 0)
        try await first.sendChanges()
        let post = ObjectID(store: first.descriptions[0].id, entity: "Post", name: "a")
        #expect(first.canUpdateRecord(for: post))
        device.connection.credentials.replace(webAuthToken: nil)
        try await first.fetchChanges()
        #expect(!first.canUpdateRecord(for: post))
        #expect(!first.canModifyManagedObjects(in: post.store ?? first.descriptions[0].id))
        #expect(first.stores.account == Account())
        #expect(try texts(first) == ["Hello"])
        await first.close()
        let second = try await board(device.container, folder, .public)
        #expect(!second.canUpdateRecord(for: post))
        #expect(second.stores.account == Account())
        device.connection.credentials.replace(webAuthToken: "dev-alice")
        try await second.fetchChanges()
        #expect(second.canUpdateRecord(for: post))
        await second.close()
        withExtendedLifetime(folder) {}
    }

    /// Answers sign-in requests with a fixed token, and passes all others to the relay.
    private struct PasswordDesk: RelayTransport {
        let relay: any RelayTransport
        let token: String

        func send(_ request: RelayRequest) async throws(TransportError) -> RelayResponse {
            guard request.path.hasSuffix("/users/signin") else { return try await relay.send(request) }
            let body = #"{"ckWebAuthToken":"\#(token)","userRecordName":"_somebody"}"#
            return RelayResponse(status: 200, headers: [], body: Array(body.utf8))
        }
    }

    /// With a password there is no token before the first request; the public store learns its user all the same.
    @Test func ownPublicRecordsAreWritableAfterAPasswordSignIn() async throws {
        let connection = relay.device(of: "alice", named: "tablet").connection
        let container = CKContainer(
            connection: RelayConnection(
                container: connection.container,
                environment: connection.environment,
                url: connection.url,
                credentials: RelayCredentials(
                    apiToken: connection.credentials.apiToken,
                    credential: .account(emailAddress: "alice@example.com", password: "correct horse")
                ),
                deviceID: connection.deviceID,
                transport: PasswordDesk(relay: connection.transport, token: "dev-alice")
            )
        )
        let folder = try TemporaryFolder()
        let board = try await board(container, folder, .public)
        try await board.fetchChanges()
        try write(Post(id: "a", text: "Hello"), in: board, 0)
        try await board.sendChanges()
        #expect(board.canUpdateRecord(for: ObjectID(store: board.descriptions[0].id, entity: "Post", name: "a")))
        #expect(board.stores.account.user != nil)
        await board.close()
        withExtendedLifetime(folder) {}
    }

    // MARK: Files

    /// If the accounts file cannot be written, the next user gets no file rather than the last user's.
    @Test func aUserNeverSeesAnothersObjectsIfTheAccountsFileCannotBeWritten() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let mirror = try await Mirrored(device)
        try mirror.save(Note(id: "a", title: "Alice's"))
        try await mirror.sync()
        try mirror.save(Note(id: "unsent", title: "Alice's, not sent"))
        let place = mirror.container.descriptions[0].url.appendingPathExtension("accounts")
        try? FileManager.default.removeItem(at: place)
        // A folder in its place prevents that the file is written.
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: false)
        device.connection.credentials.replace(webAuthToken: "dev-bob")
        await #expect(throws: MirrorError.self) { try await mirror.container.fetchChanges() }
        let end = ContinuousClock.now + .seconds(120)
        while mirror.container.stores.file(mirror.store) != nil, ContinuousClock.now < end { await Task.yield() }
        try? await mirror.sync()
        #expect(try mirror.context().fetch(Note.self).isEmpty)
        let bob = try await Mirrored(relay.device(of: "bob", named: "other"))
        try await bob.sync()
        #expect(try bob.titles == [:])
        try FileManager.default.removeItem(at: place)
        device.connection.credentials.replace(webAuthToken: "dev-alice")
        try await mirror.container.loadStores()
        try await mirror.sync()
        #expect(try mirror.titles == ["a": "Alice's", "unsent": "Alice's, not sent"])
        await mirror.container.close()
    }

    // MARK: Unsaved contexts

    /// Fetches until it succeeds; the first fetches fail because another user has signed in.
    private func fetchAsNewUser(_ mirror: Mirrored) async {
        let end = ContinuousClock.now + .seconds(120)
        while (try? await mirror.container.fetchChanges()) == nil, ContinuousClock.now < end { await Task.yield() }
    }

    @Test func unsavedChangesOfOneUserAreNotSavedForTheNext() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let mirror = try await Mirrored(device)
        try mirror.save(Note(id: "a", title: "Alice's"), Note(id: "b", title: "Alice's too"))
        try await mirror.sync()
        let (form, edited, made, child) = (
            mirror.context(), mirror.context(), mirror.context(), mirror.context().newChildContext()
        )
        var note = try #require(try form.object(Note.self, "a"))
        try edited.edit(Note.self, "b") { $0.title = "Alice's, edited" }
        try made.insert(Note(id: "c", title: "Alice's, not saved"))
        try child.insert(Note(id: "d", title: "Alice's, on a form"))
        let view = await mirror.container.viewContext
        try view.insert(Note(id: "e", title: "Alice's, in view"))
        device.connection.credentials.replace(webAuthToken: "dev-bob")
        await fetchAsNewUser(mirror)
        #expect(!view.hasChanges)
        note.title = "Alice's, edited later"
        var error = #expect(throws: MirrorError.self) {
            try form.update(note)
            try form.save()
        }
        #expect(error?.code == .objectUnavailable)
        for context in [edited, made] {
            error = #expect(throws: MirrorError.self) { try context.save() }
            #expect(error?.code == .objectUnavailable)
            context.rollback()
        }
        try child.save()
        error = #expect(throws: MirrorError.self) { try child.parent?.save() }
        #expect(error?.code == .objectUnavailable)
        try made.insert(Note(id: "x", title: "Bob's"))
        try made.save()
        try await mirror.sync()
        let bob = try await Mirrored(relay.device(of: "bob", named: "other"))
        try await bob.sync()
        #expect(try bob.titles == ["x": "Bob's"])
        // After Alice returns, she can change the objects in her own file again.
        device.connection.credentials.replace(webAuthToken: "dev-alice")
        await fetchAsNewUser(mirror)
        form.rollback()
        try form.edit(Note.self, "a") { $0.title = "Alice's again" }
        try form.save()
        #expect(try mirror.titles == ["a": "Alice's again", "b": "Alice's too"])
        await mirror.container.close()
    }
}
