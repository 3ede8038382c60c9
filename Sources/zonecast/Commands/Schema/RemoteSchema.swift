import ArgumentParser
import Foundation
import Records
import ZoneKit

/// The options that select a remote relay for a schema command.
struct ManagementOptions: ParsableArguments {
    @Option(help: "Use the relay at this address, with a management token, instead of a data folder.")
    var url: String?

    @Option(
        help: ArgumentHelp(
            "With --url: a token from zonecast token create --kind management. (default: $ZONECAST_MANAGEMENT_TOKEN)",
            valueName: "token"
        )
    )
    var managementToken: String?

    init() {}

    /// For a command that declares its own options.
    init(url: String?, token: String?) {
        self.url = url
        managementToken = token
    }

    /// Returns the remote schema; `nil` if the command uses the data folder.
    func schema(of container: ContainerID, json: Bool) throws -> RemoteSchema? {
        guard let url else { return nil }
        let relay = try RelayAddress(url, like: "https://sync.example.org")
        let token = managementToken ?? ProcessInfo.processInfo.environment["ZONECAST_MANAGEMENT_TOKEN"]
        guard let token, !token.isEmpty else {
            throw CommandFailure(
                .usage,
                "--url requires a management token. Create one on the relay's machine: zonecast token create --kind management --container \(container)"
            )
        }
        return RemoteSchema(relay: relay, container: container, token: token, json: json)
    }
}

/// The schema commands on a remote relay, with the same output as on a data folder.
struct RemoteSchema {
    let relay: RelayAddress
    let container: ContainerID
    let token: String
    let json: Bool

    private struct Answer: Decodable {
        struct Issue: Decodable {
            var line: Int?
            var column: Int?
            var isWarning: Bool
            var message: String
        }

        var isAllowed: Bool
        var isApplied: Bool
        var changes: [SchemaReport.Change]
        var issues: [Issue]

        /// Returns a report; `file` is the text's name, `nil` if there is none.
        func report(of file: String?) -> SchemaReport {
            let issues = issues.map { issue in
                let place = (file ?? "") + (issue.line.map { ":\($0):\(issue.column ?? 1)" } ?? "")
                let message = (issue.isWarning ? "warning: " : "") + issue.message
                return SchemaReport.Issue(
                    line: issue.line,
                    column: issue.column,
                    isWarning: issue.isWarning,
                    message: issue.message,
                    shown: place.isEmpty ? message : "\(place): \(message)"
                )
            }
            return SchemaReport(isAccepted: isAllowed, isApplied: isApplied, changes: changes, issues: issues)
        }
    }

    func export(_ environment: Records.Environment, to path: String?) async throws {
        let text = String(decoding: try await send(.get, "\(environment.rawValue)/schema"), as: UTF8.self)
        try LocalSchema.say(text, of: container, environment, to: path, json: json)
    }

    func importText(_ file: SchemaFile, applies: Bool) async throws {
        try file.requireValid(json: json)
        let report = try await change("development/schema", Array(file.source.utf8), dryRun: !applies).report(
            of: file.name
        )
        try report.conclude(.schemaImport, applies: applies, json: json)
    }

    func promote(applies: Bool) async throws {
        let report = try await change("production/schema/promotion", [], dryRun: !applies).report(of: nil)
        try report.conclude(.promotion, applies: applies, json: json)
    }

    func diff() async throws {
        let answer = try read(try await send(.get, "production/schema/difference"))
        try LocalSchema.say(answer.changes, of: "production and development", json: json)
    }

    func diff(with file: SchemaFile) async throws {
        try file.requireValid(json: json)
        let answer = try await change("development/schema", Array(file.source.utf8), dryRun: true)
        try LocalSchema.say(answer.changes, of: "development and \(file.name)", json: json)
    }

    private func change(_ path: String, _ body: [UInt8], dryRun: Bool) async throws -> Answer {
        try read(try await send(.post, path, query: dryRun ? "dryRun=1" : "", body: body))
    }

    private func read(_ body: [UInt8]) throws -> Answer {
        do {
            return try JSONDecoder().decode(Answer.self, from: Data(body))
        } catch {
            throw CommandFailure(.failed, "The response of \(relay.place) is not from a relay. Check the address.")
        }
    }

    private func send(
        _ method: RelayRequest.Method,
        _ path: String,
        query: String = "",
        body: [UInt8] = []
    ) async throws -> [UInt8] {
        let request = RelayRequest(
            method: method,
            path: "/management/1/\(container)/\(path)",
            query: query,
            headers: [("Authorization", "Bearer \(token)"), ("Content-Type", "text/plain")],
            body: body
        )
        let response = try await relay.send(request, timeout: 60)
        // Refused and accepted changes both have a body with details.
        guard [200, 409].contains(response.status) else {
            struct Refusal: Decodable { var error: String }
            let reason = (try? JSONDecoder().decode(Refusal.self, from: Data(response.body)))?.error
            throw CommandFailure(
                response.status == 401 || response.status == 403 ? .notAllowed : .failed,
                reason
                    ?? "\(relay.place) answers \(response.status) to \(path). Check that it is a zonecast relay of this version."
            )
        }
        return response.body
    }
}
