import Foundation
import Records
import Synchronization
import Wire
import ZoneKit
import ZoneMirror

/// One device of one user, with its own files, mirrors and connection.
///
/// It can be taken offline and restarted.
final class DemoClient: Sendable {
    let user: String
    let device: String
    let name: String
    let settings: DemoSettings
    private let network: DemoNetwork
    private let running = Mutex<DemoSession?>(nil)

    init(_ user: String, _ device: String, at settings: DemoSettings) {
        self.user = user
        self.device = device
        let name = "\(user)/\(device)"
        self.name = name
        self.settings = settings
        let journal = settings.journal
        network = DemoNetwork(url: settings.url) { notice in
            let what = notice.zone.map { DemoTranscript.zone($0.zoneName) } ?? "database"
            journal.received(
                DemoTranscript.Step("relay", "→ notice", "\(name)  (\(what) changed, no content)"),
                by: name
            )
        } onRequest: { request in
            DemoTranscript.isWrite(request) ? journal.writeStarted() : nil
        } onResponse: { request, response, write in
            let steps = response.map { DemoTranscript.steps(request, $0, client: name) } ?? []
            guard let write else { return steps.forEach { journal.received($0, by: name) } }
            journal.writeEnded(write, of: name, steps)
        }
    }

    var session: DemoSession {
        get throws {
            guard let session = running.withLock({ $0 }) else {
                throw CommandFailure(.failed, "\(name) is not running.")
            }
            return session
        }
    }

    var mirror: DemoMirror { get throws { try session.mirror } }

    /// Opens the files and starts to sync.
    func begin() async throws {
        let connection = RelayConnection(
            container: settings.container,
            url: settings.url,
            credentials: RelayCredentials(apiToken: settings.apiToken, webAuthToken: settings.webToken(of: user)),
            deviceID: "\(settings.run)-\(user)-\(device)",
            transport: network,
            sockets: network
        )
        let cloud = CKContainer(connection: connection)
        let mirror = DemoMirror(cloud, path: settings.folder + "/\(user)-\(device)", settings)
        let session = DemoSession(name, mirror, connection, settings)
        try await session.begin()
        running.withLock { $0 = session }
    }

    // MARK: State

    var isOnline: Bool { network.isOnline }
    func isLive() -> Bool { (try? session.isLive) ?? false }
    func isReady() async -> Bool { await (try? session)?.isReady() ?? false }
    /// The user's own notes, shared or not.
    func notes() -> [DemoNote] { mine(\.own) }
    /// The notes in lists shared by others.
    func sharedNotes() -> [DemoNote] { mine(\.others) }
    func board() -> [String: String] {
        let posts = (try? mirror.posts()) ?? []
        return Dictionary(posts.map { ($0.id.text, $0.text) }) { $1 }
    }
    func pending() async -> Int { (try? await mirror.pending()) ?? 0 }
    func contents() async -> DemoContents { (try? await mirror.contents()) ?? DemoContents() }
    func lists() async -> [DemoList] { await contents().lists }

    func untilNextPoll() async -> Duration? {
        guard let mirror = try? mirror else { return nil }
        return await mirror.container.untilNextPoll(of: mirror.board)
    }

    private func mine(_ store: KeyPath<DemoMirror, StoreID>) -> [DemoNote] {
        guard let mirror = try? mirror else { return [] }
        return (try? mirror.notes(in: mirror[keyPath: store])) ?? []
    }

    // MARK: Actions

    /// Saves a note; a new one goes into the user's own zone, or into `share`.
    func save(_ note: DemoNote, in share: CKShare? = nil) throws {
        let session = try session
        session.wrote(note)
        settings.journal.saved(note.version)
        settings.journal.note(name, "save", note.words + (share.map { "  into \"\($0.title ?? "")\"" } ?? ""))
        try session.mirror.save(note, in: share)
    }

    func delete(_ note: String) throws {
        let session = try session
        settings.journal.note(name, "delete", "Note/\(note)")
        session.deleted(note)
        try session.mirror.delete(note)
    }

    /// Adds a post to the public board; others show it after their next poll.
    func post(_ text: String) throws -> String {
        let post = DemoPost(name: settings.name("p", settings.ledger.nextNumber), text: text)
        settings.journal.saved("board \(post.id) \(text)")
        settings.journal.note(name, "post", "Board/\(post.id) \"\(text)\"")
        let session = try session
        session.posted(post)
        try session.mirror.post(post)
        return post.id.text
    }

    /// Hides a post with a soft delete, since deletions are not visible to polls.
    func hide(_ post: String) throws {
        settings.journal.note(name, "hide", "Board/\(post)")
        let session = try session
        session.hid(post)
        try session.mirror.hide(post)
    }

    func pollNow() async { try? await (try? mirror)?.container.pollNow() }

    func goOffline() {
        network.cut()
        settings.journal.note(name, "offline", "")
    }

    func goOnline() async {
        network.heal()
        settings.journal.note(name, "online", "")
        await (try? session)?.connection.notices.networkReturned()
    }

    /// Closes the client as closing an app does, then opens it again on its files.
    func restart() async throws {
        settings.journal.note(name, "restart", "on its own files, \(await pending()) pending")
        await close()
        try await begin()
    }

    func close() async {
        let session = running.withLock { session in
            defer { session = nil }
            return session
        }
        await session?.end()
    }
}

/// Sharing actions of a client; they wait for the relay.
extension DemoClient {
    /// Describes a share for the journal, like `"Camping" with bob, read only: 1 note`.
    static func words(_ title: String, _ user: String, _ right: DemoRight, _ notes: Int) -> String {
        "\"\(title)\" with \(user), \(right.words): \(notes.of("note"))"
    }

    /// Shares notes with a user, under a title; returns the link to hand out.
    func share(_ notes: [DemoNote], title: String, with user: String, _ right: DemoRight) async throws -> URL {
        let mirror = try reachable()
        let person = try recordName(of: user)
        settings.journal.note(name, "share", Self.words(title, user, right, notes.count))
        let objects = notes.map { ObjectID(store: mirror.own, entity: DemoNote.entityName, name: $0.id) }
        return try await waiting("to share \"\(title)\"") {
            let share = try await mirror.container.share(objects, title: title).share
            share.addParticipant(user: person, permission: right.permission)
            try await mirror.container.persistUpdatedShare(share, in: mirror.own)
            guard let url = share.url else {
                throw CommandFailure(.failed, "The relay returned no link for the share.")
            }
            return url
        }
    }

    /// Adds notes to an existing share.
    func share(_ notes: [DemoNote], into share: CKShare) async throws {
        let mirror = try reachable()
        settings.journal.note(name, "share", "\(notes.count) more into \"\(share.title ?? "")\"")
        let objects = notes.map { ObjectID(store: mirror.own, entity: DemoNote.entityName, name: $0.id) }
        try await waiting("to share more notes") { _ = try await mirror.container.share(objects, to: share) }
    }

    /// Accepts an invitation link.
    func accept(_ link: URL) async throws {
        let mirror = try reachable()
        settings.journal.note(name, "accept", "the link")
        try await waiting("to accept the link") {
            try await mirror.container.acceptShareInvitations(from: [link], into: mirror.others)
        }
    }

    /// Invites a user again, or changes their permission.
    func invite(_ user: String, _ right: DemoRight) async throws -> URL {
        let person = try recordName(of: user)
        settings.journal.note(name, "invite", "\(user), \(right.words)")
        let share = try await change("to change the permission") { share in
            if let known = share.participants.first(where: { $0.isOf(person) }) {
                share.setPermission(right.permission, for: known)
            } else {
                share.addParticipant(user: person, permission: right.permission)
            }
        }
        guard let url = share.url else { throw CommandFailure(.failed, "The share has no link.") }
        return url
    }

    /// Removes a participant from the shared list.
    func remove(_ user: String) async throws {
        let person = try recordName(of: user)
        settings.journal.note(name, "remove", "\(user) from the shared list")
        _ = try await change("to remove \(user)") { share in
            if let known = share.participants.first(where: { $0.isOf(person) }) { share.removeParticipant(known) }
        }
    }

    private func change(
        _ what: String,
        _ change: @escaping @Sendable (CKShare) -> Void
    ) async throws -> CKShare {
        let mirror = try reachable()
        let share = try await ownShare()
        change(share)
        return try await waiting(what) { try await mirror.container.persistUpdatedShare(share, in: mirror.own) }
    }

    /// Ends the share; the notes become private again.
    func stopSharing() async throws {
        let mirror = try reachable()
        let share = try await ownShare()
        settings.journal.note(name, "stop", "sharing \"\(share.title ?? "")\"")
        try await waiting("to stop sharing") { try await mirror.container.stopSharing(share, in: mirror.own) }
    }

    /// Leaves another user's list.
    func leave() async throws {
        let mirror = try reachable()
        let share = try await theirShare()
        settings.journal.note(name, "leave", "\"\(share.title ?? "")\"")
        try await waiting("to leave the list") { try await mirror.container.leaveShare(share, in: mirror.others) }
    }

    func ownShare() async throws -> CKShare {
        let mirror = try mirror
        guard let share = try await mirror.container.fetchShares(in: mirror.own).first else {
            throw CommandFailure(.failed, "\(user) shares nothing. Press s to share a note.")
        }
        return share
    }

    func theirShare() async throws -> CKShare {
        let mirror = try mirror
        guard let share = try await mirror.container.fetchShares(in: mirror.others).first else {
            throw CommandFailure(.failed, "No list is shared with \(user).")
        }
        return share
    }

    private func recordName(of user: String) throws -> String {
        guard let name = settings.people.recordName(of: user) else {
            throw CommandFailure(.failed, "The record name of \(user) is not known yet. Retry in a moment.")
        }
        return name
    }

    /// Returns the mirror if the client is connected, which sharing requires.
    private func reachable() throws -> DemoMirror {
        guard isOnline else {
            throw CommandFailure(.failed, "\(name) is offline, but sharing needs the relay. Press o first.")
        }
        guard isLive() else { throw CommandFailure(.failed, "\(name) has no connection, but sharing needs the relay.") }
        return try mirror
    }

    private func waiting<Result: Sendable>(
        _ what: String,
        _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result { try await Wait.upTo(.seconds(120), "\(name) \(what)", body) }
}

extension CKShare.Participant {
    fileprivate func isOf(_ recordName: String) -> Bool { userIdentity.userRecordID?.recordName == recordName }
}
