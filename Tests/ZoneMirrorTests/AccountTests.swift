import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// One device with two users in turn.
@Suite(.timeLimit(.minutes(15))) struct AccountTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    /// Fetches until the store has the expected content; no API call waits for the file switch.
    private func settle(_ mirror: Mirrored, _ expected: [String: String]) async throws {
        let end = ContinuousClock.now + .seconds(120)
        while ContinuousClock.now < end {
            try? await mirror.container.fetchChanges()
            if (try? mirror.titles) == expected { return }
            try await Task.sleep(for: .milliseconds(5))
        }
        #expect(try mirror.titles == expected)
    }

    @Test func switchingUsersAndBackKeepsEachUsersObjects() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let mirror = try await Mirrored(device)
        let credentials = device.connection.credentials
        try mirror.save(Note(id: "a", title: "Alice's"))
        try await mirror.sync()
        try mirror.save(Note(id: "unsent", title: "Alice's, not sent"))
        credentials.replace(webAuthToken: "dev-bob")
        try await settle(mirror, [:])
        try mirror.save(Note(id: "b", title: "Bob's"))
        try await mirror.sync()
        let bob = try await Mirrored(relay.device(of: "bob", named: "other"))
        try await bob.sync()
        #expect(try bob.titles == ["b": "Bob's"])
        credentials.replace(webAuthToken: "dev-alice")
        try await settle(mirror, ["a": "Alice's", "unsent": "Alice's, not sent"])
        try await mirror.sync()
        let alice = try await Mirrored(relay.device(of: "alice", named: "other"))
        try await alice.sync()
        #expect(try alice.titles == ["a": "Alice's", "unsent": "Alice's, not sent"])
        try await bob.sync()
        #expect(try bob.titles == ["b": "Bob's"])
    }

    /// One user's read position in the history does not apply to another user's.
    @Test func aHistoryTokenBelongsToOneUsersFile() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let mirror = try await Mirrored(device)
        try mirror.save(Note(id: "a", title: "1"), Note(id: "b", title: "2"), Note(id: "c", title: "3"))
        try await mirror.sync()
        let token = try await mirror.container.currentHistoryToken()
        let kept = try JSONDecoder().decode(HistoryToken.self, from: try JSONEncoder().encode(token))
        #expect(try await mirror.container.history(after: kept).isEmpty)
        device.connection.credentials.replace(webAuthToken: "dev-bob")
        try await settle(mirror, [:])
        try mirror.save(Note(id: "n", title: "Bob's"))
        let news = try await mirror.container.history(after: kept)
        #expect(news.flatMap(\.changes).map(\.object.name) == ["n"])
        let after = kept.joined(with: try #require(news.last?.token))
        #expect(try await mirror.container.history(after: after).isEmpty)
        try await mirror.container.deleteHistory(before: kept)
        #expect(try await mirror.container.history().count == 1)
    }

    @Test func aRestartOpensTheLastUsersFile() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let folder = try TemporaryFolder()
        let mirror = try await Mirrored(device, folder: folder)
        try mirror.save(Note(id: "a", title: "Alice's"))
        try await mirror.sync()
        device.connection.credentials.replace(webAuthToken: "dev-bob")
        try await settle(mirror, [:])
        await mirror.container.close()
        device.network.cut()
        let offline = try await Mirrored(device, folder: folder)
        #expect(try offline.titles == [:])
        await offline.container.close()
        device.network.heal()
        device.connection.credentials.replace(webAuthToken: "dev-alice")
        let again = try await Mirrored(device, folder: folder)
        try await settle(again, ["a": "Alice's"])
    }

    /// Another program syncs the next user's file.
    ///
    /// The store then has no file rather than another user's, reports why, and opens the file when it is loaded again.
    @Test func theStoreIsClosedIfTheNextUsersFileCannotBeOpened() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let mirror = try await Mirrored(device)
        try mirror.save(Note(id: "a", title: "Alice's"))
        try await mirror.sync()
        let credentials = device.connection.credentials
        credentials.replace(webAuthToken: "dev-bob")
        try await settle(mirror, [:])
        try mirror.save(Note(id: "b", title: "Bob's"))
        try await mirror.sync()
        credentials.replace(webAuthToken: "dev-alice")
        try await settle(mirror, ["a": "Alice's"])
        let files = try FileManager.default.contentsOfDirectory(atPath: mirror.folder.url.path)
        let bobs = try #require(files.first { $0.hasPrefix("private-") && $0.hasSuffix(".sqlite") })
        var other = try StoreLock(path: mirror.folder.url.appendingPathComponent(bobs).path)
        #expect(other != nil)
        let events = mirror.container.events
        credentials.replace(webAuthToken: "dev-bob")
        await #expect(throws: MirrorError.self) { try await mirror.container.fetchChanges() }
        for await event in events {
            guard case .storeClosed(let why)? = event.details.first else { continue }
            #expect(why.contains("another container") && why.hasSuffix("."), "\(why)")
            #expect(event.store == mirror.store)
            break
        }
        // None of Alice's objects are visible, nothing can be saved for Bob, and a fetch throws the reason.
        #expect(try mirror.context().fetch(Note.self).isEmpty)
        #expect(throws: MirrorError.self) { try mirror.save(Note(id: "x", title: "lost?")) }
        let error = await #expect(throws: MirrorError.self) { try await mirror.container.fetchChanges() }
        #expect(error?.code == .storeSyncedElsewhere)
        withExtendedLifetime(other) {}
        other = nil
        try await mirror.container.loadStores()
        try await settle(mirror, ["b": "Bob's"])
        await mirror.container.close()
    }

    // MARK: Signing out

    /// Alice's tablet, with one sent and one unsent note.
    private func tablet(_ policy: AccountPolicy = AccountPolicy()) async throws -> (Mirrored, RelayCredentials) {
        let device = relay.device(of: "alice", named: "tablet")
        let mirror = try await Mirrored(device)
        mirror.container.accountPolicy = policy
        try mirror.save(Note(id: "a", title: "Alice's"))
        try await mirror.sync()
        try mirror.save(Note(id: "unsent", title: "Alice's, not sent"))
        return (mirror, device.connection.credentials)
    }

    @Test func aLateSignOutReportOfAClosedFileIsIgnored() async throws {
        let asked = Mutex(0)
        let policy = AccountPolicy(signedOut: { _ in
            asked.withLock { $0 += 1 }
            return .keepClosed
        })
        let (mirror, credentials) = try await tablet(policy)
        let file = try #require(mirror.container.stores.file(mirror.store))
        let alice = try #require(mirror.container.stores.account.user)
        credentials.replace(webAuthToken: nil)
        try await settle(mirror, [:])
        await mirror.container.accountChanged(.signedOut(of: alice), in: file)
        credentials.replace(webAuthToken: "dev-alice")
        try await settle(mirror, ["a": "Alice's", "unsent": "Alice's, not sent"])
        await mirror.container.accountChanged(.signedOut(of: alice), in: file)
        #expect(mirror.container.stores.account == Account(user: alice, status: .signedIn))
        try await mirror.sync()
        #expect(try mirror.titles.count == 2)
        #expect(asked.withLock { $0 } == 1)
    }

    @Test func filesAreClosedAndKeptAfterASignOut() async throws {
        let asked = Mutex<[AccountPolicy.SignOut]>([])
        let policy = AccountPolicy(signedOut: { question in
            asked.withLock { $0.append(question) }
            return .keepClosed
        })
        let (mirror, credentials) = try await tablet(policy)
        credentials.replace(webAuthToken: nil)
        try await settle(mirror, [:])
        #expect(asked.withLock { $0.map(\.unsent) } == [[mirror.store: 1]])
        // Objects saved while signed out are not sent.
        try mirror.save(Note(id: "local", title: "saved while signed out"))
        await #expect(throws: MirrorError.self) { try await mirror.sync() }
        credentials.replace(webAuthToken: "dev-alice")
        try await settle(mirror, ["a": "Alice's", "unsent": "Alice's, not sent"])
        try await mirror.sync()
        let other = try await Mirrored(relay.device(of: "alice", named: "other"))
        try await other.sync()
        #expect(try other.titles == ["a": "Alice's", "unsent": "Alice's, not sent"])
        // The note saved while signed out is still available for adoption.
        #expect(mirror.container.localObjects == [mirror.store: 1])
        #expect(try await mirror.container.adoptLocalData() == 1)
        #expect(mirror.container.localObjects.isEmpty)
        try await mirror.sync()
        try await other.sync()
        #expect(try other.titles.count == 3)
        #expect(try other.titles["local"] == "saved while signed out")
    }

    @Test func filesCanBeDeletedAtASignOut() async throws {
        let (mirror, credentials) = try await tablet(AccountPolicy(signedOut: { _ in .delete }))
        let before = try FileManager.default.contentsOfDirectory(atPath: mirror.folder.url.path)
        #expect(before.contains("private.sqlite"))
        credentials.replace(webAuthToken: nil)
        try await settle(mirror, [:])
        let end = ContinuousClock.now + .seconds(120)
        let file = mirror.folder.url.appendingPathComponent("private.sqlite").path
        while FileManager.default.fileExists(atPath: file), ContinuousClock.now < end { await Task.yield() }
        #expect(!FileManager.default.fileExists(atPath: file))
        credentials.replace(webAuthToken: "dev-alice")
        // The relay's objects are fetched again; the unsent one was deleted, as the policy says.
        try await settle(mirror, ["a": "Alice's"])
    }

    @Test func objectsCanStayAsLocalDataAfterASignOut() async throws {
        let (mirror, credentials) = try await tablet(AccountPolicy(signedOut: { _ in .keepLocal }))
        credentials.replace(webAuthToken: nil)
        try await settle(mirror, ["a": "Alice's", "unsent": "Alice's, not sent"])
        // Another user signs in and does not adopt the local data.
        credentials.replace(webAuthToken: "dev-bob")
        try await settle(mirror, [:])
        try await mirror.sync()
        let bob = try await Mirrored(relay.device(of: "bob", named: "other"))
        try await bob.sync()
        #expect(try bob.titles == [:])
        // Alice finds each of her own objects once.
        credentials.replace(webAuthToken: "dev-alice")
        try await settle(mirror, ["a": "Alice's", "unsent": "Alice's, not sent"])
        #expect(try await mirror.container.adoptLocalData() == 0)
        try await mirror.sync()
        #expect(try mirror.titles.count == 2)
    }

    /// The app was not running when the user signed out.
    @Test func aSignOutWhileClosedIsNoticedAtLaunch() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let folder = try TemporaryFolder()
        let mirror = try await Mirrored(device, folder: folder)
        try mirror.save(Note(id: "a", title: "Alice's"))
        try await mirror.sync()
        await mirror.container.close()
        device.connection.credentials.replace(webAuthToken: nil)
        let again = try await Mirrored(device, folder: folder)
        #expect(try again.titles == [:])
        device.connection.credentials.replace(webAuthToken: "dev-alice")
        try await settle(again, ["a": "Alice's"])
    }

    // MARK: Signing in

    @Test func objectsSavedBeforeTheFirstSignInAreAdoptedOnce() async throws {
        let other = try await Mirrored(relay.device(of: "alice", named: "other"), model: notesModel)
        let there = other.context()
        try there.insert(Folder(id: "A inbox", name: "Inbox"))
        try there.save()
        try await other.sync()
        let device = relay.device(of: "alice", named: "new")
        device.connection.credentials.replace(webAuthToken: nil)
        let mirror = try await Mirrored(device)
        mirror.container.accountPolicy = AccountPolicy(signedIn: { question in
            question.localObjects.values.reduce(0, +) == 3 ? .merge(by: ["Folder": ["name"]]) : .leave
        })
        let context = mirror.context()
        let (inbox, home) = (Folder(id: "B inbox", name: "Inbox"), Folder(id: "home", name: "Home"))
        var note = Note(id: "n", title: "written while signed out")
        note.folder = ToOne(inbox)
        try context.insert(inbox)
        try context.insert(home)
        try context.insert(note)
        try context.save()
        device.connection.credentials.replace(webAuthToken: "dev-alice")
        let end = ContinuousClock.now + .seconds(120)
        while !mirror.container.localObjects.isEmpty, ContinuousClock.now < end {
            try? await mirror.container.fetchChanges()
        }
        try await settle(mirror, ["n": "written while signed out"])
        for mirror in [mirror, other, mirror, other, mirror, other] { try await mirror.sync() }
        for mirror in [mirror, other] {
            #expect(try mirror.context().fetch(Folder.self).map(\.id) == ["A inbox", "home"])
            #expect(try mirror.context().object(Note.self, "n")?.folder.target == "A inbox")
        }
    }
}

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
        #expect(mirror.container.stores.account.status == .signedIn)
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
    private struct PasswordTransport: RelayTransport {
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
                transport: PasswordTransport(relay: connection.transport, token: "dev-alice")
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
