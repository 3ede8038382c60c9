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
    let place: DemoPlace
    private let network: DemoNetwork
    private let running = Mutex<DemoLife?>(nil)

    init(_ user: String, _ device: String, at place: DemoPlace) {
        self.user = user
        self.device = device
        let name = "\(user)/\(device)"
        self.name = name
        self.place = place
        let journal = place.journal
        network = DemoNetwork(url: place.url) { notice in
            let what = notice.zone.map { DemoOverheard.zone($0.zoneName) } ?? "database"
            journal.hear(DemoOverheard.Step("relay", "→ notice", "\(name)  (\(what) changed, no content)"), by: name)
        } sending: { request in
            DemoOverheard.isWrite(request) ? journal.writeBegins() : nil
        } answered: { request, response, write in
            let steps = response.map { DemoOverheard.steps(request, $0, client: name) } ?? []
            guard let write else { return steps.forEach { journal.hear($0, by: name) } }
            journal.writeEnded(write, of: name, steps)
        }
    }

    var life: DemoLife {
        get throws {
            guard let life = running.withLock({ $0 }) else { throw CommandFailure(.failed, "\(name) is not running.") }
            return life
        }
    }

    var mirror: DemoMirror { get throws { try life.mirror } }

    /// Opens the files and starts to sync.
    func begin() async throws {
        let connection = RelayConnection(
            container: place.container,
            url: place.url,
            credentials: RelayCredentials(apiToken: place.apiToken, webAuthToken: place.webToken(of: user)),
            deviceID: "\(place.run)-\(user)-\(device)",
            transport: network,
            sockets: network
        )
        let cloud = CKContainer(connection: connection)
        let mirror = DemoMirror(cloud, path: place.folder + "/\(user)-\(device)", place)
        let life = DemoLife(name, mirror, connection, place)
        try await life.begin()
        running.withLock { $0 = life }
    }

    // MARK: State

    var isOnline: Bool { network.isOnline }
    func isLive() -> Bool { (try? life.isLive) ?? false }
    func isReady() async -> Bool { await (try? life)?.isReady() ?? false }
    /// The user's own notes, shared or not.
    func notes() -> [DemoNote] { mine(\.own) }
    /// The notes in lists shared by others.
    func sharedNotes() -> [DemoNote] { mine(\.others) }
    func board() -> [String: String] {
        let posts = (try? mirror.posts()) ?? []
        return Dictionary(posts.map { ($0.id.text, $0.text) }) { $1 }
    }
    func pending() async -> Int { (try? await mirror.pending()) ?? 0 }
    func holdings() async -> DemoHoldings { (try? await mirror.holdings()) ?? DemoHoldings() }
    func lists() async -> [DemoList] { await holdings().lists }

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
        let life = try life
        life.wrote(note)
        place.journal.saved(note.version)
        place.journal.note(name, "save", note.words + (share.map { "  into \"\($0.title ?? "")\"" } ?? ""))
        try life.mirror.save(note, in: share)
    }

    func delete(_ note: String) throws {
        let life = try life
        place.journal.note(name, "delete", "Note/\(note)")
        life.deleted(note)
        try life.mirror.delete(note)
    }

    /// Adds a post to the public board; others show it after their next poll.
    func post(_ text: String) throws -> String {
        let post = DemoPost(name: place.name("p", place.ledger.nextNumber), text: text)
        place.journal.saved("board \(post.id) \(text)")
        place.journal.note(name, "post", "Board/\(post.id) \"\(text)\"")
        let life = try life
        life.posted(post)
        try life.mirror.post(post)
        return post.id.text
    }

    /// Hides a post with a soft delete, since deletions are not visible to polls.
    func hide(_ post: String) throws {
        place.journal.note(name, "hide", "Board/\(post)")
        let life = try life
        life.hid(post)
        try life.mirror.hide(post)
    }

    func pollNow() async { try? await (try? mirror)?.container.pollNow() }

    func goOffline() {
        network.cut()
        place.journal.note(name, "offline", "")
    }

    func goOnline() async {
        network.heal()
        place.journal.note(name, "online", "")
        await (try? life)?.connection.notices.networkReturned()
    }

    /// Closes the client as closing an app does, then opens it again on its files.
    func restart() async throws {
        place.journal.note(name, "restart", "on its own files, \(await pending()) pending")
        await close()
        try await begin()
    }

    func close() async {
        let life = running.withLock { life in
            defer { life = nil }
            return life
        }
        await life?.end()
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
        place.journal.note(name, "share", Self.words(title, user, right, notes.count))
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
        place.journal.note(name, "share", "\(notes.count) more into \"\(share.title ?? "")\"")
        let objects = notes.map { ObjectID(store: mirror.own, entity: DemoNote.entityName, name: $0.id) }
        try await waiting("to share more notes") { _ = try await mirror.container.share(objects, to: share) }
    }

    /// Accepts an invitation link.
    func accept(_ link: URL) async throws {
        let mirror = try reachable()
        place.journal.note(name, "accept", "the link")
        try await waiting("to accept the link") {
            try await mirror.container.acceptShareInvitations(from: [link], into: mirror.others)
        }
    }

    /// Invites a user again, or changes their permission.
    func invite(_ user: String, _ right: DemoRight) async throws -> URL {
        let person = try recordName(of: user)
        place.journal.note(name, "invite", "\(user), \(right.words)")
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
        place.journal.note(name, "remove", "\(user) from the shared list")
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
        place.journal.note(name, "stop", "sharing \"\(share.title ?? "")\"")
        try await waiting("to stop sharing") { try await mirror.container.stopSharing(share, in: mirror.own) }
    }

    /// Leaves another user's list.
    func leave() async throws {
        let mirror = try reachable()
        let share = try await theirShare()
        place.journal.note(name, "leave", "\"\(share.title ?? "")\"")
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
        guard let name = place.people.recordName(of: user) else {
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
