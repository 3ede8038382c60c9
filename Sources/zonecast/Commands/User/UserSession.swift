import Foundation
import Records
import RelayAPI
import RelayCore
import RelaySystem
import Synchronization
import Wire

/// A connection to the running relay of a data folder as one user, who may be disabled, in one container.
struct UserSession {
    let home: ContainerEnvironment
    let connection: WireConnection
    private let sessions: UserSessions
    private let user: UserID
    private let folder: String

    /// - Throws: `CommandFailure` if no relay is running on the folder.
    init(of account: Account, in home: ContainerEnvironment, _ sessions: UserSessions, folder: String) async throws {
        guard case let address?? = FolderLock.runningRelay(in: folder), var probeAddress = ProbeAddress(address) else {
            throw CommandFailure(
                .unreachable,
                "No relay is running on \(folder), but this command needs one. Start it: zonecast serve --data \(folder.shellWord)"
            )
        }
        probeAddress.resolveWildcard()
        // Reading all data of a user may take long on a busy machine.
        probeAddress.timeout = 120
        self.home = home
        self.folder = folder
        self.sessions = sessions
        do {
            let started = try sessions.start(account, in: home)
            user = started.user
            let credentials = DoctorCredentials(
                container: home.container.name,
                environment: home.environment.rawValue,
                apiToken: started.apiToken,
                webToken: started.webToken
            )
            connection = try await WireConnection(probeAddress, credentials, device: "zonecast-command")
        } catch {
            sessions.end()
            throw error
        }
    }

    func end() {
        connection.close()
        sessions.end()
    }

    /// Returns the user's own zones as JSON, or those shared with the user.
    func zones(in database: String) async throws -> [JSONValue] {
        try await connection.post("zones/list", in: database, "{}").list("zones")
    }

    /// Passes every record of a zone to `visit`, page by page.
    func records(of zone: String, _ visit: (JSONValue) -> Void) async throws {
        guard zone != ZoneID.defaultName else { return try await defaultRecords(visit) }
        var token: String?
        while true {
            let since = token.map { #","syncToken":\#(quoted($0))"# } ?? ""
            let answer = try await connection.post(
                "changes/zone",
                in: "private",
                #"{"zones":[{"zoneID":{"zoneName":\#(quoted(zone))},"resultsLimit":200\#(since)}]}"#
            )
            guard let page = answer.list("zones").first else { return }
            for record in page.list("records") where (try? record["deleted"]?.bool()) != true { visit(record) }
            token = page.text("syncToken")
            guard (try? page["moreComing"]?.bool()) == true else { return }
        }
    }

    /// Leaves another user's zone by deleting the shares in it that the user takes part in.
    func leaveShare(_ zone: JSONValue) async throws {
        var (shares, token): ([String], String?) = ([], nil)
        while true {
            let since = token.map { #","syncToken":\#(quoted($0))"# } ?? ""
            let wish = #"{"zoneID":\#(zone.line),"desiredRecordTypes":["cloudkit.share"]\#(since)}"#
            let answer = try await connection.post("changes/zone", in: "shared", #"{"zones":[\#(wish)]}"#)
            guard let page = answer.list("zones").first else { break }
            shares += page.list("records").filter { (try? $0["deleted"]?.bool()) != true }
                .compactMap { $0.text("recordName") }
            token = page.text("syncToken")
            guard (try? page["moreComing"]?.bool()) == true else { break }
        }
        for share in shares {
            let operation = #"{"operationType":"forceDelete","record":{"recordName":\#(quoted(share))}}"#
            let body = #"{"zoneID":\#(zone.line),"operations":[\#(operation)]}"#
            try await connection.post("records/modify", in: "shared", body)
        }
    }

    /// Deletes a zone of the user, including the default zone, which the user cannot delete.
    func delete(_ zone: JSONValue) async throws {
        let body = #"{"operations":[{"operationType":"delete","zone":{"zoneID":\#(zone.line)}}]}"#
        try await connection.post("zones/modify", in: "private", body)
    }

    /// Reads the names from the store's file and the records from the relay.
    private func defaultRecords(_ visit: (JSONValue) -> Void) async throws {
        try await fetchRecords(
            named: try DataFolder.home(folder).upkeep.defaultZoneNames(of: user, in: home),
            in: "private",
            visit
        )
    }

    /// Passes the user's records in the public database to `visit`, including the `Users` record.
    func publicRecords(_ visit: (JSONValue) -> Void) async throws {
        try await fetchRecords(
            named: try DataFolder.home(folder).upkeep.publicNames(madeBy: user, in: home),
            in: "public",
            visit
        )
    }

    /// Clears the app's fields of the user's `Users` record; the record itself belongs to the relay.
    func clearUserRecord() async throws {
        let record = #"{"recordName":\#(quoted(user.recordName)),"recordType":"Users","fields":{}}"#
        let body = #"{"operations":[{"operationType":"forceReplace","record":\#(record)}]}"#
        try await connection.post("records/modify", in: "public", body)
    }

    private func fetchRecords(named names: [String], in database: String, _ visit: (JSONValue) -> Void) async throws {
        for start in stride(from: 0, to: names.count, by: 200) {
            let list = names[start..<min(start + 200, names.count)].map { #"{"recordName":\#(quoted($0))}"# }
            let body = #"{"records":[\#(list.joined(separator: ","))]}"#
            // Records without read permission are left out.
            let answer = try await connection.post("records/lookup", in: database, body, itemsMayFail: true)
            for record in answer.list("records") where record["serverErrorCode"] == nil { visit(record) }
        }
    }
}

/// The sessions and tokens that a command has created for itself, which must not outlive it.
///
/// Contains only open ones: the command ends them as it proceeds, and a signal ends the rest.
final class UserSessions: Sendable {
    private struct Open {
        var tokens: Set<String> = []
        var sessions: Set<Session.ID> = []
    }

    let store: any AccountDirectory
    private let open = Mutex(Open())

    init(_ store: any AccountDirectory) { self.store = store }

    /// Runs `body` and ends its sessions afterwards, also if a signal ends the program.
    static func during<Value>(_ store: any AccountDirectory, _ body: (UserSessions) async throws -> Value)
        async rethrows
        -> Value
    {
        let sessions = UserSessions(store)
        let ending = TerminationSignals { sessions.end() }
        defer { ending.end() }
        return try await body(sessions)
    }

    /// Creates an API token and a session, atomically with respect to signals.
    func start(_ account: Account, in home: ContainerEnvironment) throws -> Started {
        try open.withLock { open in
            let (text, token) = try store.addAPIToken(
                in: home,
                name: "command line",
                notes: "",
                callbackURL: nil,
                allowedOrigins: []
            )
            open.tokens.insert(token.id)
            let (webToken, user, session) = try SignIn.start(
                for: account.id,
                in: home,
                kind: .visit,
                directory: store,
                time: .system,
                random: .system
            )
            open.sessions.insert(session)
            return Started(apiToken: text, webToken: webToken, user: user)
        }
    }

    func end() {
        open.withLock { open in
            for session in open.sessions { try? store.revokeSession(session) }
            for token in open.tokens { try? store.removeAPIToken(token) }
            open = Open()
        }
    }

    struct Started {
        var apiToken: String
        var webToken: String
        var user: UserID
    }
}
