import Foundation
import Records
import RelayAPI
import RelayCore
import RelaySystem

/// The credentials with which the doctor saves and fetches.
struct DoctorCredentials: Sendable {
    var container: String
    var environment = "development"
    var apiToken: String?
    var webToken: String

    func query() -> String {
        var parts = ["ckWebAuthToken=\(Self.escaped(webToken))"]
        if let apiToken { parts.append("ckAPIToken=\(Self.escaped(apiToken))") }
        return parts.joined(separator: "&")
    }

    private static func escaped(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? text
    }
}

/// A test sync in a temporary zone: one device saves, another receives the notice and fetches.
struct RoundTrip: Sendable {
    let address: ProbeAddress
    let credentials: DoctorCredentials
    private let zone = "doctor-\(UUID().uuidString.prefix(8))"
    /// The zone's share: saving it needs no record type, so the app's schema stays unchanged.
    private let record = "cloudkit.zoneshare"

    init(address: ProbeAddress, credentials: DoctorCredentials) {
        self.address = address
        self.credentials = credentials
    }

    /// An error response from the relay.
    private struct Refused: Error {
        var operation: String
        var answer: ProbeAnswer

        /// The operation, status, error code and reason.
        var words: String {
            struct Body: Decodable {
                var serverErrorCode: String?
                var reason: String?
            }
            let body = try? JSONDecoder().decode(Body.self, from: Data(answer.body))
            let parts = ["\(answer.status)", body?.serverErrorCode, body?.reason].compactMap { $0 }
            return "\(operation): \(parts.joined(separator: " "))"
        }
    }

    func check() async -> Finding {
        do {
            let took = try await run()
            return Finding(
                "round trip",
                .good,
                "save → notice → fetch in \(RelayChecks.text(took)) (container \(credentials.container))"
            )
        } catch let refused as Refused {
            return Finding(
                "round trip",
                .problem,
                "the relay refused \(refused.words)",
                next: refused.answer.status == 401 && credentials.apiToken == nil
                    ? "add the container's API token with --api-token; create one: zonecast token create"
                    : "read the relay's log; log.access: true logs each request"
            )
        } catch {
            return Finding(
                "round trip",
                .problem,
                "\(address) \(error)",
                next: "without notices, clients poll; see the WebSocket check"
            )
        }
    }

    private func run() async throws -> Double {
        let (writer, reader) = (try await Probe.connect(to: address), try await Probe.connect(to: address))
        let socket = try await Probe.connect(to: address)
        defer { [writer, reader, socket].forEach { $0.close() } }
        try await post("zones/modify", #"{"operations":[{"operationType":"create","zone":\#(zoneID)}]}"#, "a", writer)
        let outcome: Result<Double, any Error>
        do {
            outcome = .success(try await saveAndAwaitNotice(writer, reader, socket))
        } catch {
            outcome = .failure(error)
        }
        _ = try? await post("subscriptions/modify", subscription("delete"), "a", writer)
        _ = try? await post(
            "zones/modify",
            #"{"operations":[{"operationType":"delete","zone":\#(zoneID)}]}"#,
            "a",
            writer
        )
        return try outcome.get()
    }

    private func saveAndAwaitNotice(_ writer: Probe, _ reader: Probe, _ socket: Probe) async throws -> Double {
        try await post("subscriptions/modify", subscription("create"), "a", writer)
        try await listen(socket)
        // One fetch first, so that the set-up cost of a first request is not measured.
        _ = try await hasFetched(reader)
        let start = ContinuousClock.now
        try await post("records/modify", save, "a", writer)
        let deadline = start + .seconds(address.timeout)
        while ContinuousClock.now < deadline {
            guard case .text = try await socket.frame("a notice of a saved record") else {
                throw ProbeFault.ended("a notice of a saved record")
            }
            if try await hasFetched(reader) { return (ContinuousClock.now - start).milliseconds }
        }
        throw ProbeFault.timedOut("a notice of a saved record", address.timeout)
    }

    private func listen(_ socket: Probe) async throws {
        let path = "/push/1/\(credentials.container)/\(credentials.environment)"
        let answer = try await socket.upgrade(path)
        guard answer.status == 101 else { throw Refused(operation: "the WebSocket", answer: answer) }
        var hello = ["deviceID": "doctor-b", "ckWebAuthToken": credentials.webToken]
        hello["ckAPIToken"] = credentials.apiToken
        let frame = try JSONEncoder().encode(["hello": hello])
        socket.send(text: [UInt8](frame))
        guard case .text = try await socket.frame("the answer to hello") else {
            throw ProbeFault.ended("it was ready for notices")
        }
    }

    private func hasFetched(_ reader: Probe) async throws -> Bool {
        let answer = try await post("changes/zone", #"{"zones":[\#(zoneID)]}"#, "b", reader)
        return String(decoding: answer.body, as: UTF8.self).contains(record)
    }

    // MARK: Requests

    private var zoneID: String { #"{"zoneID":{"zoneName":"\#(zone)"}}"# }

    private var save: String {
        #"{"zoneID":{"zoneName":"\#(zone)"},"operations":[{"operationType":"create","record":"#
            + #"{"recordName":"\#(record)","recordType":"cloudkit.share","fields":{}}}]}"#
    }

    private func subscription(_ type: String) -> String {
        #"{"operations":[{"operationType":"\#(type)","subscription":{"subscriptionID":"\#(zone)","#
            + #""subscriptionType":"zone","zoneID":{"zoneName":"\#(zone)"}}}]}"#
    }

    /// Sends a request; an error for one item counts as a failure too.
    @discardableResult
    private func post(_ operation: String, _ body: String, _ device: String, _ probe: Probe) async throws -> ProbeAnswer
    {
        let place = "/database/1/\(credentials.container)/\(credentials.environment)/private/"
        let answer = try await probe.send(
            "POST",
            place + operation + "?" + credentials.query(),
            headers: ["X-Zonecast-Device-ID: doctor-\(device)"],
            body: body
        )
        let text = String(decoding: answer.body, as: UTF8.self)
        guard answer.status == 200, !text.contains("\"serverErrorCode\"") else {
            throw Refused(operation: operation, answer: answer)
        }
        return answer
    }
}

/// A temporary session and API token in the container `_doctor`, for one check.
struct DoctorSession {
    let credentials: DoctorCredentials
    private let home: ContainerEnvironment
    private let account: Account.ID
    private let token: APIToken

    init(_ accounts: any AccountDirectory) throws {
        guard let container = ContainerID("_doctor") else { throw DirectoryError.invalid("_doctor is no container") }
        home = ContainerEnvironment(container, .development)
        try accounts.ensureContainer(container)
        // The account has no password, so no one else can sign in with it.
        account = try accounts.devAccount(named: "_doctor").id
        let (text, token) = try accounts.addAPIToken(
            in: home,
            name: "doctor",
            notes: "",
            callbackURL: nil,
            allowedOrigins: []
        )
        self.token = token
        let started = try SignIn.start(
            for: account,
            in: home,
            kind: .brief,
            directory: accounts,
            time: .system,
            random: .system
        )
        credentials = DoctorCredentials(container: container.name, apiToken: text, webToken: started.webToken)
    }

    func end(_ accounts: any AccountDirectory) {
        try? accounts.revokeSessions(of: account, in: home)
        try? accounts.removeAPIToken(token.id)
    }
}
