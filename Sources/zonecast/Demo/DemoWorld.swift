import Foundation
import Synchronization
import ZoneKit

/// Relay and clients of one demo, and the judgement over them: does every mirror equal the relay.
final class DemoWorld: Sendable {
    let place: DemoPlace
    let clients: [DemoClient]
    /// `nil` for a relay elsewhere, which is not ours to kill.
    let relay: DemoRelay?
    private let observer: DemoObserver
    /// The notes that must be there: saved and not deleted, by user.
    private let expected = Mutex<[String: Set<String>]>([:])
    private let lastNumber = Mutex(0)

    var journal: DemoJournal { place.journal }
    var phone: DemoClient { clients[0] }
    var laptop: DemoClient { clients[1] }
    var tablet: DemoClient { clients[2] }

    /// Makes all clients; they connect by themselves.
    init(_ place: DemoPlace, relay: DemoRelay?, clients count: Int) throws {
        self.place = place
        self.relay = relay
        observer = DemoObserver(place)
        let named = [("alice", "phone"), ("alice", "laptop"), ("bob", "tablet")]
        clients = try (0..<max(3, count)).map { number in
            let (user, device) = number < 3 ? named[number] : (number % 2 == 0 ? "bob" : "alice", "device\(number + 1)")
            return try DemoClient(user, device, at: place)
        }
    }

    /// Asks the relay one thing, so that a wrong address or token is told at once and not after a wait.
    func checkRelay() async throws {
        for user in ["alice", "bob"] {
            do {
                try await observer.greet(user)
            } catch let error as CKError {
                let address = place.url.absoluteString
                switch error.code {
                case .networkFailure, .networkUnavailable, .serverResponseLost:
                    throw CommandFailure(
                        .unreachable,
                        "No relay answers at \(address). Start one: zonecast serve --dev"
                    )
                case .notAuthenticated:
                    throw CommandFailure(
                        .notAllowed,
                        "The relay at \(address) does not know \(user). Start it with --dev, or give --api-token and "
                            + "--web-token \(user)=TOKEN."
                    )
                default: throw CommandFailure(.failed, "The relay at \(address) says: \(error.localizedDescription)")
                }
            }
        }
    }

    /// Waits until every client has its connection and its zone.
    func ready() async throws {
        try await Wait.until("every client to be connected to \(place.url.absoluteString)", upTo: .seconds(30)) {
            [clients] in
            clients.allSatisfy { $0.isLive() && $0.hasZone() }
        }
        // The first post makes the board's record type; before that the relay knows of no board.
        try await tablet.post("welcome-\(place.run)", "Welcome to the board")
        for client in clients { await client.pollNow() }
        journal.note("demo", "ready", "\(clients.count) clients connected to \(place.url.absoluteString)")
    }

    func close() async {
        for client in clients { await client.close() }
        relay?.stop()
    }

    // MARK: Edits

    /// A note of a new name.
    @discardableResult
    func add(_ title: String, on client: DemoClient) throws -> DemoNote {
        let number = lastNumber.withLock { number in
            number += 1
            return number
        }
        let note = DemoNote(name: "n\(place.run)-\(String(format: "%03d", number))", title: title)
        expected.withLock { _ = $0[client.user, default: []].insert(note.name) }
        try client.save(note)
        return note
    }

    func delete(_ note: String, on client: DemoClient) throws {
        expected.withLock { _ = $0[client.user]?.remove(note) }
        try client.delete(note)
    }

    // MARK: Judgement

    /// How the mirrors differ from the relay; everything zero and empty when they do not.
    struct Verdict: Equatable, Sendable {
        var unequal: [String] = []
        var lost = 0
        var duplicated = 0
        var pending = 0

        var holds: Bool { unequal.isEmpty && lost == 0 && duplicated == 0 && pending == 0 }
    }

    func judge() async throws -> Verdict {
        var verdict = Verdict()
        let wanted = expected.withLock { $0 }
        let board = try await observer.board()
        for user in Set(clients.map(\.user)).sorted() {
            let there = try await observer.notes(of: user)
            verdict.lost += (wanted[user] ?? []).subtracting(there.map(\.name)).count
            verdict.duplicated += there.count - Set(there.map(\.title)).count
            for client in clients where client.user == user {
                verdict.pending += client.pending()
                if client.notes() != there { verdict.unequal.append("\(client.name) notes") }
                if client.board() != board { verdict.unequal.append("\(client.name) board") }
            }
        }
        return verdict
    }

    /// Waits until nothing is pending and every mirror equals the relay.
    func settle(upTo limit: Duration = .seconds(30)) async throws {
        let last = Mutex(Verdict())
        let trouble = Mutex("")
        do {
            try await Wait.until("every mirror to equal the relay", upTo: limit, every: .milliseconds(40)) { [self] in
                guard clients.allSatisfy({ $0.pending() == 0 }) else { return false }
                do {
                    let verdict = try await judge()
                    last.withLock { $0 = verdict }
                    return verdict.holds
                } catch {
                    guard !Task.isCancelled else { return false }
                    trouble.withLock { $0 = " The relay could not be compared with: \(DemoTour.words(error))" }
                    return false
                }
            }
        } catch is CommandFailure {
            let verdict = last.withLock { $0 }
            let unequal = verdict.unequal.prefix(3).joined(separator: ", ")
            let pending = clients.reduce(0) { $0 + $1.pending() }
            throw CommandFailure(
                .failed,
                "Waited \(limit.inWords) for every mirror to equal the relay: \(pending) pending, \(verdict.lost) lost, "
                    + "\(verdict.duplicated) duplicated, different: \(unequal.isEmpty ? "none" : unequal)."
                    + trouble.withLock { $0 }
            )
        }
    }
}

/// Looks at the relay from outside, as a device that keeps nothing.
final class DemoObserver: Sendable {
    private let place: DemoPlace
    private let containers = Mutex<[String: CKContainer]>([:])

    init(_ place: DemoPlace) { self.place = place }

    func greet(_ user: String) async throws { _ = try await container(of: user).userRecordID() }

    func notes(of user: String) async throws -> [DemoNote] {
        let database = container(of: user).privateCloudDatabase
        var notes: [DemoNote] = []
        var token: CKServerChangeToken?
        var moreComing = true
        while moreComing {
            let page = try await database.zoneChangesPage(in: CKRecordZone.ID(zoneName: "Notes"), since: token)
            notes += page.records.map { DemoNote($0) }
            token = page.changeToken
            moreComing = page.moreComing
        }
        return notes.sorted { $0.name < $1.name }
    }

    func board() async throws -> [String: String] {
        let database = container(of: "bob").publicCloudDatabase
        var board: [String: String] = [:]
        let query = CKQuery(recordType: place.boardType, predicate: NSPredicate(value: true))
        var page = try await database.records(matching: query)
        while true {
            for case (let id, .success(let record)) in page.matchResults where record["deletedAt"] as Date? == nil {
                board[id.recordName] = record["text"]
            }
            guard let cursor = page.queryCursor else { return board }
            page = try await database.records(continuingMatchFrom: cursor)
        }
    }

    private func container(of user: String) -> CKContainer {
        containers.withLock { containers in
            if let known = containers[user] { return known }
            let made = CKContainer(
                connection: RelayConnection(
                    container: place.container,
                    url: place.url,
                    credentials: RelayCredentials(apiToken: place.apiToken, webAuthToken: place.webToken(of: user)),
                    deviceID: "\(place.run)-observer",
                    transport: URLSessionTransport(base: place.url, timeout: 10)
                )
            )
            containers[user] = made
            return made
        }
    }
}
