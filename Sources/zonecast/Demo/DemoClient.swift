import Foundation
import Records
import SyncCore
import Synchronization
import Wire
import ZoneKit

/// One device of one user: its own file, its own sync engine, its own connection.
///
/// It can be taken offline and restarted.
final class DemoClient: Sendable {
    let user: String
    let device: String
    let name: String
    let zone = CKRecordZone.ID(zoneName: "Notes")
    private let place: DemoPlace
    private let path: String
    private let network: DemoNetwork
    private let running: Mutex<DemoLife?>

    init(_ user: String, _ device: String, at place: DemoPlace) throws {
        self.user = user
        self.device = device
        name = "\(user)/\(device)"
        self.place = place
        path = place.folder + "/\(user)-\(device).sqlite"
        let (name, journal) = (name, place.journal)
        network = DemoNetwork(url: place.url) { notice in
            journal.note("relay", "→ notice", "\(name)  (\(notice.zone?.zoneName ?? "database") changed, no content)")
        }
        running = Mutex(nil)
        try begin()
    }

    private var life: DemoLife {
        get throws {
            guard let life = running.withLock({ $0 }) else { throw CommandFailure(.failed, "\(name) is not running.") }
            return life
        }
    }

    private func begin() throws {
        let connection = RelayConnection(
            container: place.container,
            url: place.url,
            credentials: RelayCredentials(apiToken: place.apiToken, webAuthToken: place.webToken(of: user)),
            deviceID: "\(place.run)-\(user)-\(device)",
            transport: network,
            sockets: network
        )
        let life = try DemoLife(
            name,
            CKContainer(connection: connection),
            connection,
            store: DemoStore(path: path),
            zone: zone,
            place
        )
        running.withLock { $0 = life }
        life.begin()
    }

    // MARK: What it shows

    var isOnline: Bool { network.isOnline }
    func isLive() -> Bool { (try? life.isLive) ?? false }
    func notes() -> [DemoNote] { (try? life.store.notes()) ?? [] }
    func board() -> [String: String] { (try? life.store.board()) ?? [:] }
    func pending() -> Int { (try? life.store.pendingCount()) ?? 0 }
    /// The zone for the notes is on the relay.
    func hasZone() -> Bool { (try? life.hasZone) ?? false }
    func token() -> String { (try? life.tokenText) ?? "–" }
    func untilNextPoll() async -> Duration? { await (try? life)?.poller.untilNextPoll }

    // MARK: What it does

    func save(_ note: DemoNote) throws {
        place.journal.saved("\(user)/\(note)")
        place.journal.note(name, "save", "Note/\(note.name) \"\(note.title)\"\(note.isDone ? " ☑" : "")")
        try life.save(note)
    }

    func delete(_ note: String) throws {
        place.journal.note(name, "delete", "Note/\(note)")
        try life.delete(note)
    }

    /// Puts a post on the public board; shown by the others after their next poll.
    func post(_ post: String, _ text: String, isGone: Bool = false) async throws {
        place.journal.saved("board/\(post)/\(text)")
        place.journal.note(name, isGone ? "hide" : "post", "Board/\(post) \"\(text)\"")
        try await life.post(post, text, isGone: isGone)
    }

    func pollNow() async { await (try? life)?.poller.pollNow() }

    func goOffline() {
        network.cut()
        place.journal.note(name, "offline", "")
    }

    func goOnline() async {
        network.heal()
        place.journal.note(name, "online", "")
        await (try? life)?.connection.notices.networkReturned()
    }

    /// Ends the client as closing an app does, and starts it anew on its file.
    func restart() async throws {
        place.journal.note(name, "restart", "on its own file, \(pending()) pending")
        await close()
        try begin()
    }

    func close() async {
        let life = running.withLock { life in
            defer { life = nil }
            return life
        }
        await life?.end()
    }
}

/// What all clients of a demo have in common.
struct DemoPlace: Sendable {
    var url: URL
    var container: String
    var apiToken: String?
    /// Web auth tokens by user, for a relay elsewhere; without one, `dev-NAME`.
    var webTokens: [String: String] = [:]
    var folder: String
    /// Part of every device's and record's name, so that runs do not meet.
    var run: String
    var boardInterval: Duration
    var journal: DemoJournal
    /// The record type of the public board; one of its own for each run, since the public database is everybody's.
    var boardType: String { "Board\(run)" }

    func webToken(of user: String) -> String { webTokens[user] ?? "dev-\(run)-\(user)" }
}
