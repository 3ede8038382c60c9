import Foundation
import Sockets

/// A relay for one row, with a container, an API token and a signed-in user, on a new folder or in a new database.
///
/// The configuration raises the rate limits, since one address plays a thousand users; everything else has its default.
final class Relay {
    static let container = "iCloud.zonecast.benchmarks"

    let endpoint: Endpoint
    let meter: ProcessMeter
    private let process: ServerProcess
    private let apiToken: String
    private let user: Login

    /// The user of a request.
    struct Login {
        var webToken: String

        /// A user that `--dev` creates on first use.
        static func dev(_ number: Int) -> Login { Login(webToken: "dev-user\(number)") }

        init(webToken: String) {
            self.webToken = webToken.replacing("+", with: "%2B").replacing("/", with: "%2F").replacing("=", with: "%3D")
        }
    }

    convenience init(program: String, folder: URL) throws {
        let data = folder.appendingPathComponent("relay-\(UUID().uuidString)").path
        let (apiToken, user) = try Self.makeAccount(program, in: ["--data", data])
        try self.init(program, ["--data", data], apiToken, user, folder)
    }

    /// The first node of a cluster on an empty database.
    convenience init(program: String, folder: URL, database: String) throws {
        let (apiToken, user) = try Self.makeAccount(program, in: ["--store", database])
        try self.init(program, Self.place(ofNode: 1, folder, database), apiToken, user, folder)
    }

    /// A further node of the cluster of `first`.
    convenience init(node: Int, beside first: Relay, program: String, folder: URL, database: String) throws {
        try self.init(program, Self.place(ofNode: node, folder, database), first.apiToken, first.user, folder)
    }

    private static func place(ofNode node: Int, _ folder: URL, _ database: String) -> [String] {
        let cache = folder.appendingPathComponent("node-\(UUID().uuidString)").path
        return ["--store", database, "--node", "node\(node)", "--data", cache]
    }

    private init(_ program: String, _ place: [String], _ apiToken: String, _ user: Login, _ folder: URL) throws {
        (self.apiToken, self.user) = (apiToken, user)
        let configuration = folder.appendingPathComponent("relay.yaml")
        try Self.configuration.write(to: configuration, atomically: true, encoding: .utf8)
        process = try ServerProcess(
            program,
            ["serve", "--listen", "127.0.0.1:0", "--dev", "--config", configuration.path] + place,
            errors: folder.appendingPathComponent("relay-\(UUID().uuidString).log")
        )
        guard let port = process.readyLine.split(separator: ":").last.flatMap({ UInt16($0) }) else {
            throw LoadError.missing("`zonecast serve` printed ready without an address: \(process.readyLine)")
        }
        endpoint = Endpoint(port: port)
        meter = ProcessMeter(process.identifier)
    }

    /// Creates the container, an API token, and an account that is signed in.
    private static func makeAccount(_ program: String, in place: [String]) throws -> (apiToken: String, user: Login) {
        let scope = ["--container", container, "--environment", "development", "--json"] + place
        try Shell.run(program, ["container", "create", container] + place)
        let apiToken = try member("apiToken", of: Shell.run(program, ["token", "create"] + scope))
        let email = "bench@example.com"
        try Shell.run(
            program,
            ["user", "create", email, "--password-stdin", "--json"] + place,
            input: "correct horse\n"
        )
        let session = try Shell.run(program, ["user", "sign-in", email] + scope)
        return (apiToken, Login(webToken: try member("ckWebAuthToken", of: session)))
    }

    private var cpuGroup: URL { URL(fileURLWithPath: "/sys/fs/cgroup/cpu/zonecast-bench-\(process.identifier)") }

    /// Lets the relay use only this share of one core.
    ///
    /// Returns `false` if the system has no CPU control group of version 1 that this process may change.
    func limitCPU(to share: Double) -> Bool {
        let group = cpuGroup
        let period = 20_000
        do {
            try FileManager.default.createDirectory(at: group, withIntermediateDirectories: true)
            for (file, value) in [
                ("cpu.cfs_period_us", period), ("cpu.cfs_quota_us", Int(Double(period) * share)),
                ("cgroup.procs", Int(process.identifier)),
            ] {
                let handle = try FileHandle(forWritingTo: group.appendingPathComponent(file))
                try handle.write(contentsOf: Data("\(value)".utf8))
                try handle.close()
            }
            return true
        } catch {
            return false
        }
    }

    deinit {
        process.stop()
        // The group exists only if `limitCPU` made it, and can go once its process has ended.
        rmdir(cpuGroup.path)
    }

    /// Returns a call, by default to the private database and by the account's user.
    func call(
        _ operation: String,
        _ body: String,
        as login: Login? = nil,
        device: String = "writer",
        in database: String = "private"
    ) -> HTTPRequest {
        HTTPRequest(
            "POST",
            "/database/1/\(Self.container)/development/\(database)/\(operation)?\(query(login))",
            to: endpoint,
            headers: [("X-Zonecast-Device-ID", device)],
            body: Array(body.utf8)
        )
    }

    /// Returns the upgrade to a notice socket; the hello contains the credentials.
    func upgrade() -> [UInt8] {
        HTTPRequest(
            "GET",
            "/push/1/\(Self.container)/development",
            to: endpoint,
            headers: [
                ("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
                ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), ("Sec-WebSocket-Protocol", "zonecast.notices.1"),
            ]
        ).bytes
    }

    /// Returns a function that makes a listener's hello, for the account's user or a user of `--dev`.
    func helloMaker() -> @Sendable (_ device: Int, _ devUser: Int?) -> [UInt8] {
        let (apiToken, accountToken) = (apiToken, user.webToken.removingPercentEncoding ?? "")
        return { device, devUser in
            let web = devUser.map { Login.dev($0).webToken } ?? accountToken
            let credentials = #""ckAPIToken":"\#(apiToken)","ckWebAuthToken":"\#(web)""#
            let hello = #"{"hello":{"deviceID":"device-\#(device)",\#(credentials)}}"#
            return WebSocketFrame.fromClient(.text, Array(hello.utf8))
        }
    }

    private func query(_ login: Login?) -> String {
        "ckAPIToken=\(apiToken)&ckWebAuthToken=\((login ?? user).webToken)"
    }

    private static func member(_ name: String, of json: String) throws -> String {
        let members = try JSONDecoder().decode([String: String].self, from: Data(json.utf8))
        guard let value = members[name] else { throw LoadError.missing("No \(name) in the output: \(json)") }
        return value
    }

    private static let configuration = """
        limits:
          requests-per-second: 0
          connections: 100000
          connections-per-address: 100000
          requests-per-connection: 1000000000
        """
}

/// The content of every record: about 300 bytes of JSON in a request, and the same text in a floor's row.
enum SampleRecord {
    private static let fields = """
        {"title":{"value":"Bread, milk and what else we need","type":"STRING"},\
        "body":{"value":"A line of text that is neither short nor long, as notes are.","type":"STRING"},\
        "position":{"value":1234567,"type":"INT64"},"done":{"value":0,"type":"INT64"}}
        """

    /// The `create` operation of a record with a numbered name.
    static let operation = """
        {"operationType":"create","record":\
        {"recordName":"record-\(NumberedRequest.mark)","recordType":"Note","fields":\(fields)}}
        """

    /// The row that SQLite's and PostgreSQL's floors insert.
    static let row = """
        {"recordName":"record-0000000000000000","recordType":"Note","fields":\(fields)}
        """
}

extension Relay {
    /// Creates `count` records in one zone, in one atomic request.
    func create(_ count: Int, in zone: String, as login: Login? = nil) -> NumberedRequest {
        let operations = Array(repeating: SampleRecord.operation, count: count).joined(separator: ",")
        let body = #"{"zoneID":{"zoneName":"\#(zone)"},"operations":[\#(operations)]}"#
        return NumberedRequest(call("records/modify", body, as: login))
    }

    /// Fetches a page of a zone's feed, from the beginning without a token.
    func changes(in zone: String, since token: String?, limit: Int = 200) -> [UInt8] {
        let since = token.map { #","syncToken":"\#($0)""# } ?? ""
        let body = #"{"zones":[{"zoneID":{"zoneName":"\#(zone)"}\#(since)}],"resultsLimit":\#(limit)}"#
        return call("changes/zone", body).bytes
    }

    func makeZones(_ names: [String], as login: Login? = nil) throws {
        for start in stride(from: 0, to: names.count, by: 100) {
            let operations = names[start..<min(start + 100, names.count)].map {
                #"{"operationType":"create","zone":{"zoneID":{"zoneName":"\#($0)"}}}"#
            }
            try ask("zones/modify", #"{"operations":[\#(operations.joined(separator: ","))]}"#, as: login)
        }
    }

    /// Subscribes all devices of the user to changes of the private database.
    func subscribe(as login: Login? = nil) throws {
        let subscription = #"{"subscriptionID":"all","subscriptionType":"database"}"#
        let body = #"{"operations":[{"operationType":"create","subscription":\#(subscription)}]}"#
        try ask("subscriptions/modify", body, as: login)
    }

    /// Sends a call on a connection of its own; it must succeed.
    func ask(_ operation: String, _ body: String, as login: Login? = nil) throws {
        let connection = try HTTPConnection(to: endpoint)
        try connection.exchange(call(operation, body, as: login).bytes) { try $0.mustBeSuccess() }
    }
}

extension HTTPReply {
    /// Throws the relay's response if the relay refused the request or a part of it.
    func mustBeSuccess() throws(LoadError) {
        guard status == 200, HTTPHead.position(of: "serverErrorCode", in: body) == nil else {
            throw .peer("The relay answered \(status): \(text.prefix(500))")
        }
    }
}
