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
