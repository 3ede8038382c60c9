import Foundation
import Synchronization
import ZoneKit
import ZoneMirror

/// The relay and clients of one demo, and the check that every mirror equals the relay.
final class DemoWorld: Sendable {
    let settings: DemoSettings
    let clients: [DemoClient]
    /// The demo's relay; `nil` if it uses another one, which it cannot kill.
    let relay: DemoRelay?
    /// The demo's relays, if there are several.
    let cluster: DemoCluster?
    /// The pause between steps.
    let pace: Duration
    private let observer: DemoObserver
    /// Monitors a relay that the demo did not start.
    private let healthMonitor: DemoHealthMonitor
    private let watching = Mutex<Task<Void, Never>?>(nil)

    var journal: DemoJournal { settings.journal }
    var ledger: DemoLedger { settings.ledger }
    var phone: DemoClient { clients[0] }
    var laptop: DemoClient { clients[1] }
    var tablet: DemoClient { clients[2] }

    /// Creates all clients without opening them.
    init(
        _ settings: DemoSettings,
        relay: DemoRelay?,
        cluster: DemoCluster? = nil,
        clients count: Int,
        pace: Duration
    ) {
        self.settings = settings
        self.relay = relay
        self.cluster = cluster
        self.pace = pace
        observer = DemoObserver(settings)
        healthMonitor = DemoHealthMonitor(settings.url, settings.journal)
        let named = [("alice", "phone"), ("alice", "laptop"), ("bob", "tablet")]
        clients = (0..<max(3, count)).map { number in
            let (user, device) = number < 3 ? named[number] : (number % 2 == 0 ? "bob" : "alice", "device\(number + 1)")
            return DemoClient(user, device, at: settings)
        }
    }

    /// Sends one request, so that a wrong address or token is reported at once.
    func checkRelay() async throws {
        for user in ["alice", "bob"] {
            do {
                try await observer.fetchRecordName(user)
            } catch let error as CKError {
                let address = settings.url.absoluteString
                switch error.code {
                case .networkFailure, .networkUnavailable, .serverResponseLost:
                    let problem = await (try? RelayAddress(address))?.problem().map { " The one at \($0)." }
                    throw CommandFailure(
                        .unreachable,
                        "No relay answers at \(address).\(problem ?? "") Start one: zonecast serve --dev"
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
    var isRelayRunning: Bool { cluster != nil || relay?.isRunning ?? healthMonitor.isAnswering }

    /// Returns the result of `body`, or throws if the relay stops meanwhile.
    func whileRelayAnswers<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) async throws
        -> Result
    {
        if let relay { return try await Wait.race(body, unless: { try await relay.throwWhenEnded() }) }
        // It may be silent while a standby is promoted, and starts again what ends.
        if cluster != nil { return try await body() }
        watching.withLock { task in task = task ?? Task { [healthMonitor] in await healthMonitor.watch() } }
        return try await Wait.race(body, unless: { [healthMonitor] in try await healthMonitor.throwWhenLost() })
    }

    /// Opens all clients and waits until each is connected and has fetched its databases once.
    func openClients() async throws {
        for client in clients { try await client.begin() }
        let address = settings.url.absoluteString
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
        let isElsewhere = relay == nil && cluster == nil && !healthMonitor.isLost
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
                    try await observer.deleteDemoRecords(user)
                }
            }
        }
        relay?.stop()
        await cluster?.stop()
    }

    /// Pauses so that people can read the last lines.
    func rest(_ share: Double = 1) async throws {
        if pace > .zero { try await Task.sleep(for: pace * share) }
    }

    // MARK: Edits

    /// Adds a new note to the user's own zone or to a shared list.
    @discardableResult
    func add(_ title: String, on client: DemoClient, into share: CKShare? = nil) throws -> DemoNote {
        let note = DemoNote(name: settings.name("n", ledger.nextNumber), title: title)
        let theirs = share?.owner.userIdentity.userRecordID?.recordName
        let owner = share.map { $0.isOwner ? client.user : settings.people.name(of: theirs) ?? "" }
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
    struct Comparison: Equatable, Sendable {
        var unequal: [String] = []
        var lost = 0
        var duplicated = 0
        var pending = 0

        var isEqual: Bool { unequal.isEmpty && lost == 0 && duplicated == 0 && pending == 0 }
    }

    func compareWithRelay() async throws -> Comparison {
        var comparison = Comparison()
        let board = try await observer.board()
        for user in Set(clients.map(\.user)).sorted() {
            let relayRecords = try await observer.relayRecords(of: user)
            let there = relayRecords.own.map(\.name)
            let wanted = ledger.notes(of: user)
            comparison.lost += wanted.subtracting(there).count
            // Duplicates of a name, or names that no client created.
            comparison.duplicated += there.count - wanted.intersection(there).count
            for client in clients where client.user == user {
                comparison.pending += await client.pending()
                if client.notes() != relayRecords.own { comparison.unequal.append("\(client.name) notes") }
                if client.sharedNotes() != relayRecords.shared {
                    comparison.unequal.append("\(client.name) shared notes")
                }
                if client.board() != board { comparison.unequal.append("\(client.name) board") }
            }
        }
        return comparison
    }

    private func hasPending() async -> Bool {
        for client in clients where await client.pending() > 0 { return true }
        return false
    }

    /// Waits until nothing is pending and every mirror equals the relay.
    func waitUntilEqual(upTo limit: Duration = .seconds(180)) async throws {
        let last = Mutex(Comparison())
        let problem = Mutex("")
        do {
            try await Wait.until("every mirror to equal the relay", upTo: limit, every: .milliseconds(40)) { [self] in
                guard !(await hasPending()) else { return false }
                do {
                    let comparison = try await compareWithRelay()
                    last.withLock { $0 = comparison }
                    return comparison.isEqual
                } catch {
                    guard !Task.isCancelled else { return false }
                    problem.withLock { $0 = " The relay could not be read: \(DemoTour.words(error))" }
                    return false
                }
            }
        } catch is CommandFailure {
            let comparison = last.withLock { $0 }
            let unequal = comparison.unequal.prefix(3).joined(separator: ", ")
            var pending = 0
            for client in clients { pending += await client.pending() }
            throw CommandFailure(
                .failed,
                "Waited \(limit.inWords) for every mirror to equal the relay: \(pending) pending, \(comparison.lost) lost, "
                    + "\(comparison.duplicated) duplicated, different: \(unequal.isEmpty ? "none" : unequal)."
                    + problem.withLock { $0 }
            )
        }
    }
}

/// Reads the relay directly, like a device without local storage.
final class DemoObserver: Sendable {
    /// The relay's records of one user.
    struct RelayRecords: Equatable, Sendable {
        var own: [DemoNote] = []
        var shared: [DemoNote] = []
    }

    private let settings: DemoSettings
    private let containers = Mutex<[String: CKContainer]>([:])

    init(_ settings: DemoSettings) { self.settings = settings }

    /// Fetches a user's record name.
    func fetchRecordName(_ user: String) async throws {
        let name = try await container(of: user).userRecordID().recordName
        settings.people.register(user, as: name)
    }

    func relayRecords(of user: String) async throws -> RelayRecords {
        let container = container(of: user)
        return RelayRecords(
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
        return notes.filter { settings.belongsToRun($0.name) }.sorted { $0.name < $1.name }
    }

    func board() async throws -> [String: String] {
        let database = container(of: "bob").publicCloudDatabase
        var board: [String: String] = [:]
        let query = CKQuery(recordType: DemoPost.entityName, predicate: NSPredicate(value: true))
        var page = try await database.records(matching: query)
        while true {
            for case (let id, .success(let record)) in page.matchResults
            where record["deletedAt"] as Date? == nil && settings.belongsToRun(id.recordName) {
                board[id.recordName] = record["text"]
            }
            guard let cursor = page.queryCursor else { return board }
            page = try await database.records(continuingMatchFrom: cursor)
        }
    }

    /// Deletes everything of this run from a relay that the demo did not start.
    func deleteDemoRecords(_ user: String) async throws {
        let container = container(of: user)
        for zone in try await container.privateCloudDatabase.allRecordZones()
        where zone.zoneID.zoneName == settings.zoneName
            || !settings.usesExistingAccounts && zone.zoneID.zoneName.contains(".share.")
        {
            try await container.privateCloudDatabase.deleteRecordZone(withID: zone.zoneID)
        }
        let query = CKQuery(recordType: DemoPost.entityName, predicate: NSPredicate(value: true))
        let page = try await container.publicCloudDatabase.records(matching: query)
        for (id, _) in page.matchResults where settings.belongsToRun(id.recordName) {
            _ = try? await container.publicCloudDatabase.deleteRecord(withID: id)
        }
    }

    private func container(of user: String) -> CKContainer {
        containers.withLock { containers in
            if let known = containers[user] { return known }
            let made = CKContainer(
                connection: RelayConnection(
                    container: settings.container,
                    url: settings.url,
                    credentials: RelayCredentials(
                        apiToken: settings.apiToken,
                        webAuthToken: settings.webToken(of: user)
                    ),
                    deviceID: "\(settings.run)-observer",
                    transport: NetworkTransport.to(settings.url, timeout: 10)
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
