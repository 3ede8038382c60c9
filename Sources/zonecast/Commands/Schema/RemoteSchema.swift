import ArgumentParser
import Foundation
import Records
import ZoneKit

/// At which relay a schema command works, where that is not the data folder's.
struct ManagementOptions: ParsableArguments {
    @Option(help: "Work at the relay there, by a management token, instead of in a data folder.")
    var url: String?

    @Option(
        help: ArgumentHelp(
            "With --url: what zonecast token management create has given. (default: $ZONECAST_MANAGEMENT_TOKEN)",
            valueName: "token"
        )
    )
    var managementToken: String?

    init() {}

    /// For a command with options of its own.
    init(url: String?, token: String?) {
        self.url = url
        managementToken = token
    }

    /// `nil` where the data folder is meant.
    func schema(of container: ContainerID, json: Bool) throws -> RemoteSchema? {
        guard let url else { return nil }
        let relay = try RelayAddress(url, like: "https://sync.example.org")
        let token = managementToken ?? ProcessInfo.processInfo.environment["ZONECAST_MANAGEMENT_TOKEN"]
        guard let token, !token.isEmpty else {
            throw CommandFailure(
                .usage,
                "--url needs a management token. On the relay's machine: zonecast token management create --container \(container)"
            )
        }
        return RemoteSchema(relay: relay, container: container, token: token, json: json)
    }
}

/// What the schema commands do at a relay elsewhere, in the same words as in a data folder.
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

        /// `file`: the text's name; `nil` where there is none.
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
        try SchemaWork.say(text, of: container, environment, to: path, json: json)
    }

    func importText(_ file: SchemaFile, applies: Bool) async throws {
        try file.requireValid(json: json)
        let report = try await change("development/schema", Array(file.source.utf8), dryRun: !applies).report(
            of: file.name
        )
        guard report.isAccepted else { try report.refuse("The schema", json: json) }
        try report.say("\(applies ? "imported into development" : "valid"), \(report.counted)", json: json)
    }

    func promote(applies: Bool) async throws {
        let report = try await change("production/schema/promotion", [], dryRun: !applies).report(of: nil)
        guard report.isAccepted else { try report.refuse("The promotion", json: json) }
        let conclusion = applies ? "promoted to production" : "would be promoted to production"
        try report.say("\(conclusion), \(report.counted)", json: json)
    }

    func diff() async throws {
        let answer = try read(try await send(.get, "production/schema/difference"))
        try SchemaWork.say(answer.changes, of: "production and development", json: json)
    }

    func diff(with file: SchemaFile) async throws {
        try file.requireValid(json: json)
        let answer = try await change("development/schema", Array(file.source.utf8), dryRun: true)
        try SchemaWork.say(answer.changes, of: "development and \(file.name)", json: json)
    }

    private func change(_ path: String, _ body: [UInt8], dryRun: Bool) async throws -> Answer {
        try read(try await send(.post, path, query: dryRun ? "dryRun=1" : "", body: body))
    }

    private func read(_ body: [UInt8]) throws -> Answer {
        do {
            return try JSONDecoder().decode(Answer.self, from: Data(body))
        } catch {
            throw CommandFailure(.failed, "The answer of \(relay.place) is none of a relay's.")
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
        // A refused change says what stands in its way, as one that was made says what it has changed.
        guard [200, 409].contains(response.status) else {
            struct Refusal: Decodable { var error: String }
            let reason = (try? JSONDecoder().decode(Refusal.self, from: Data(response.body)))?.error
            throw CommandFailure(
                response.status == 401 || response.status == 403 ? .notAllowed : .failed,
                reason
                    ?? "\(relay.place) answers \(response.status) to \(path): is it a zonecast relay, and not an older one?"
            )
        }
        return response.body
    }
}
