import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

@testable import ZoneMirror

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
        #expect(mirror.container.stores.account == Account(user: alice, standing: .signedIn))
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
