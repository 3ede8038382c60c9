import Foundation
import Synchronization
import ZoneKit
import ZoneMirror

/// The relay and clients of one demo, and the check that every mirror equals the relay.
final class DemoWorld: Sendable {
    let place: DemoPlace
    let clients: [DemoClient]
    /// The demo's relay; `nil` if it uses another one, which it cannot kill.
    let relay: DemoRelay?
    /// The pause between steps.
    let pace: Duration
    private let observer: DemoObserver
    /// Monitors a relay that the demo did not start.
    private let pulse: DemoPulse
    private let watching = Mutex<Task<Void, Never>?>(nil)

    var journal: DemoJournal { place.journal }
    var ledger: DemoLedger { place.ledger }
    var phone: DemoClient { clients[0] }
    var laptop: DemoClient { clients[1] }
    var tablet: DemoClient { clients[2] }

    /// Creates all clients without opening them.
    init(_ place: DemoPlace, relay: DemoRelay?, clients count: Int, pace: Duration) {
        self.place = place
        self.relay = relay
        self.pace = pace
        observer = DemoObserver(place)
        pulse = DemoPulse(place.url, place.journal)
        let named = [("alice", "phone"), ("alice", "laptop"), ("bob", "tablet")]
        clients = (0..<max(3, count)).map { number in
            let (user, device) = number < 3 ? named[number] : (number % 2 == 0 ? "bob" : "alice", "device\(number + 1)")
            return DemoClient(user, device, at: place)
        }
    }

    /// Sends one request, so that a wrong address or token is reported at once.
    func checkRelay() async throws {
        for user in ["alice", "bob"] {
            do {
                try await observer.greet(user)
            } catch let error as CKError {
                let address = place.url.absoluteString
                switch error.code {
                case .networkFailure, .networkUnavailable, .serverResponseLost:
                    let trouble = await (try? RelayAddress(address))?.trouble().map { " The one at \($0)." }
                    throw CommandFailure(
                        .unreachable,
                        "No relay answers at \(address).\(trouble ?? "") Start one: zonecast serve --dev"
                    )
                case .notAuthenticated:
                    throw CommandFailure(
                        .notAllowed,
                        "The relay at \(address) does not know \(user). Start it with --dev, or add --api-token and "
                            + "--web-token \(user)=TOKEN."
                    )
                default: throw CommandFailure(.failed, "The relay at \(address) refused: \(error.localizedDescription)")
                }
            }
        }
    }

    /// Whether the relay is running, as far as is known.
    var isRelayRunning: Bool { relay?.isRunning ?? pulse.isAnswering }

    /// Returns the result of `body`, or throws if the relay stops meanwhile.
    func whileItAnswers<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) async throws -> Result
    {
        if let relay { return try await Wait.race(body, unless: { try await relay.untilItEndsByItself() }) }
        watching.withLock { task in task = task ?? Task { [pulse] in await pulse.watch() } }
        return try await Wait.race(body, unless: { [pulse] in try await pulse.untilLost() })
    }

    /// Opens all clients and waits until each is connected and has fetched its databases once.
    func ready() async throws {
        for client in clients { try await client.begin() }
        let address = place.url.absoluteString
        try await Wait.until("every client to be connected to \(address)", upTo: .seconds(120)) { [clients] in
            for client in clients where !(await client.isReady()) { return false }
            return true
        }
        // The first post creates the board's record type; queries for it fail before.
        let welcome = try tablet.post("Welcome to the board")
        try await Wait.until("the first post to be on the relay") { [self] in await tablet.pending() == 0 }
        for client in clients { await client.pollNow() }
        try await Wait.until("every board to show the first post") { [clients] in
            clients.allSatisfy { $0.board()[welcome] != nil }
        }
        journal.note("demo", "ready", "\(clients.count) clients connected to \(address)")
    }

    /// Closes the clients and deletes the demo's data from a relay it did not start.
    func close() async {
        watching.withLock { $0?.cancel() }
        // A lost relay cannot be cleaned up.
        let isElsewhere = relay == nil && !pulse.isLost
        if isElsewhere {
            // A remaining share would keep a zone that is not recognizable as the demo's.
            for client in [phone, tablet] where (try? await client.ownShare()) != nil {
                try? await client.stopSharing()
            }
        }
        for client in clients { await client.close() }
        if isElsewhere {
            for user in ["alice", "bob"] {
                _ = try? await Wait.upTo(.seconds(10), "the relay to delete the demo's records") { [observer] in
                    try await observer.tidy(user)
                }
            }
        }
        relay?.stop()
    }

    /// Pauses so that people can read the last lines.
    func rest(_ share: Double = 1) async throws {
        if pace > .zero { try await Task.sleep(for: pace * share) }
    }

    // MARK: Edits

    /// Adds a new note to the user's own zone or to a shared list.
    @discardableResult
    func add(_ title: String, on client: DemoClient, into share: CKShare? = nil) throws -> DemoNote {
        let note = DemoNote(name: place.name("n", ledger.nextNumber), title: title)
        let theirs = share?.owner.userIdentity.userRecordID?.recordName
        let owner = share.map { $0.isOwner ? client.user : place.people.name(of: theirs) ?? "" }
        ledger.added(note.name, of: owner ?? client.user)
        try client.save(note, in: share)
        return note
    }

    func delete(_ note: String, on client: DemoClient) throws {
        ledger.deleted(note)
        try client.delete(note)
    }

    // MARK: Check

    /// The differences between the mirrors and the relay; all zero or empty if they are equal.
    struct Verdict: Equatable, Sendable {
        var unequal: [String] = []
        var lost = 0
        var duplicated = 0
        var pending = 0

        var holds: Bool { unequal.isEmpty && lost == 0 && duplicated == 0 && pending == 0 }
    }

    func judge() async throws -> Verdict {
        var verdict = Verdict()
        let board = try await observer.board()
        for user in Set(clients.map(\.user)).sorted() {
            let truth = try await observer.truth(of: user)
            let there = truth.own.map(\.name)
            let wanted = ledger.notes(of: user)
            verdict.lost += wanted.subtracting(there).count
            // Duplicates of a name, or names that no client created.
            verdict.duplicated += there.count - wanted.intersection(there).count
            for client in clients where client.user == user {
                verdict.pending += await client.pending()
                if client.notes() != truth.own { verdict.unequal.append("\(client.name) notes") }
                if client.sharedNotes() != truth.shared { verdict.unequal.append("\(client.name) shared notes") }
                if client.board() != board { verdict.unequal.append("\(client.name) board") }
            }
        }
        return verdict
    }

    private func hasPending() async -> Bool {
        for client in clients where await client.pending() > 0 { return true }
        return false
    }

    /// Waits until nothing is pending and every mirror equals the relay.
    func settle(upTo limit: Duration = .seconds(180)) async throws {
        let last = Mutex(Verdict())
        let trouble = Mutex("")
        do {
            try await Wait.until("every mirror to equal the relay", upTo: limit, every: .milliseconds(40)) { [self] in
                guard !(await hasPending()) else { return false }
                do {
                    let verdict = try await judge()
                    last.withLock { $0 = verdict }
                    return verdict.holds
                } catch {
                    guard !Task.isCancelled else { return false }
                    trouble.withLock { $0 = " The relay could not be read: \(DemoTour.words(error))" }
                    return false
                }
            }
        } catch is CommandFailure {
            let verdict = last.withLock { $0 }
            let unequal = verdict.unequal.prefix(3).joined(separator: ", ")
            var pending = 0
            for client in clients { pending += await client.pending() }
            throw CommandFailure(
                .failed,
                "Waited \(limit.inWords) for every mirror to equal the relay: \(pending) pending, \(verdict.lost) lost, "
                    + "\(verdict.duplicated) duplicated, different: \(unequal.isEmpty ? "none" : unequal)."
                    + trouble.withLock { $0 }
            )
        }
    }
}

/// Reads the relay directly, like a device without local storage.
final class DemoObserver: Sendable {
    /// The relay's records of one user.
    struct Truth: Equatable, Sendable {
        var own: [DemoNote] = []
        var shared: [DemoNote] = []
    }

    private let place: DemoPlace
    private let containers = Mutex<[String: CKContainer]>([:])

    init(_ place: DemoPlace) { self.place = place }

    /// Fetches a user's record name.
    func greet(_ user: String) async throws {
        let name = try await container(of: user).userRecordID().recordName
        place.people.meet(user, as: name)
    }

    func truth(of user: String) async throws -> Truth {
        let container = container(of: user)
        return Truth(
            own: try await notes(in: container.privateCloudDatabase),
            shared: try await notes(in: container.sharedCloudDatabase)
        )
    }

    private func notes(in database: CKDatabase) async throws -> [DemoNote] {
        var notes: [DemoNote] = []
        for zone in try await database.allRecordZones() where zone.zoneID.zoneName != CKRecordZone.ID.defaultZoneName {
            var token: CKServerChangeToken?
            var moreComing = true
            while moreComing {
                let page = try await database.zoneChangesPage(in: zone.zoneID, since: token)
                notes += page.records.filter { $0.recordType == DemoNote.entityName }.map { DemoNote($0) }
                token = page.changeToken
                moreComing = page.moreComing
            }
        }
        return notes.filter { place.isOurs($0.name) }.sorted { $0.name < $1.name }
    }

    func board() async throws -> [String: String] {
        let database = container(of: "bob").publicCloudDatabase
        var board: [String: String] = [:]
        let query = CKQuery(recordType: DemoPost.entityName, predicate: NSPredicate(value: true))
        var page = try await database.records(matching: query)
        while true {
            for case (let id, .success(let record)) in page.matchResults
            where record["deletedAt"] as Date? == nil && place.isOurs(id.recordName) {
                board[id.recordName] = record["text"]
            }
            guard let cursor = page.queryCursor else { return board }
            page = try await database.records(continuingMatchFrom: cursor)
        }
    }

    /// Deletes everything of this run from a relay that the demo did not start.
    func tidy(_ user: String) async throws {
        let container = container(of: user)
        for zone in try await container.privateCloudDatabase.allRecordZones()
        where zone.zoneID.zoneName == place.zoneName || !place.isBorrowed && zone.zoneID.zoneName.contains(".share.") {
            try await container.privateCloudDatabase.deleteRecordZone(withID: zone.zoneID)
        }
        let query = CKQuery(recordType: DemoPost.entityName, predicate: NSPredicate(value: true))
        let page = try await container.publicCloudDatabase.records(matching: query)
        for (id, _) in page.matchResults where place.isOurs(id.recordName) {
            _ = try? await container.publicCloudDatabase.deleteRecord(withID: id)
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
                    transport: NetworkTransport.to(place.url, timeout: 10)
                )
            )
            containers[user] = made
            return made
        }
    }
}

extension DemoNote {
    /// A note as stored on the relay.
    init(_ record: CKRecord) {
        self.init(
            name: record.recordID.recordName,
            title: record["title"] ?? "",
            done: (record["done"] as Int64?) == 1
        )
    }
}
