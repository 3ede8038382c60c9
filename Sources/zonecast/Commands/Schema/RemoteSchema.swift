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
        struct Change: Codable {
            var sign: String
            var kind: String
            var element: String
            var before: String
            var after: String

            var line: String {
                let values = [before, after].filter { !$0.isEmpty }.joined(separator: " → ")
                return "\(sign) \(element)\(values.isEmpty ? "" : "  \(values)")"
            }
        }

        struct Issue: Codable {
            var line: Int?
            var column: Int?
            var isWarning: Bool
            var message: String

            func shown(_ file: String) -> String {
                let place = line.map { ":\($0):\(column ?? 1)" } ?? ""
                return "\(file)\(place): \(isWarning ? "warning: " : "")\(message)"
            }
        }

        var isAllowed: Bool
        var isApplied: Bool
        var changes: [Change]
        var issues: [Issue]
    }

    private struct Report: Encodable {
        var accepted: Bool
        var applied: Bool
        var changes: [Answer.Change]
        var issues: [Answer.Issue]
    }

    func export(_ environment: Records.Environment, to path: String?) async throws {
        let text = String(decoding: try await send(.get, "\(environment.rawValue)/schema"), as: UTF8.self)
        try SchemaWork.say(text, of: container, environment, to: path, json: json)
    }

    func importText(_ file: SchemaFile, applies: Bool) async throws {
        try file.requireValid(json: json)
        let answer = try await change("development/schema", Array(file.source.utf8), dryRun: !applies)
        try say(answer, of: file.name, "The import", applies ? "imported into development" : "valid")
    }

    func promote(applies: Bool) async throws {
        let answer = try await change("production/schema/promotion", [], dryRun: !applies)
        let done = applies ? "promoted to production" : "would be promoted to production"
        try say(answer, of: "development", "The promotion", done)
    }

    func diff() async throws {
        let body = try await send(.get, "production/schema/difference")
        try say(try read(body), of: "development", nil, "development has, and production has not")
    }

    func diff(with file: SchemaFile) async throws {
        try file.requireValid(json: json)
        let answer = try await change("development/schema", Array(file.source.utf8), dryRun: true)
        try say(answer, of: file.name, nil, "\(file.name) has, and development has not")
    }

    private func change(_ path: String, _ body: [UInt8], dryRun: Bool) async throws -> Answer {
        try read(try await send(.post, path, query: dryRun ? "dryRun=1" : "", body: body))
    }

    /// `refusable`: what is said to have been refused; `nil` where nothing was asked for.
    private func say(_ answer: Answer, of file: String, _ refusable: String?, _ conclusion: String) throws {
        if json {
            try Terminal.say(
                json: Report(
                    accepted: answer.isAllowed,
                    applied: answer.isApplied,
                    changes: answer.changes,
                    issues: answer.issues
                )
            )
        } else {
            for issue in answer.issues { Terminal.complain(issue.shown(file)) }
            for change in answer.changes { Terminal.say(change.line) }
        }
        let count = answer.issues.count { !$0.isWarning }
        guard let refusable, !answer.isAllowed else {
            let changes = answer.changes.count == 1 ? "1 change" : "\(answer.changes.count) changes"
            if !json { Terminal.tell("\(conclusion), \(changes)") }
            return
        }
        throw CommandFailure(
            .failed,
            "\(refusable) was refused as a whole, for \(count == 1 ? "1 reason" : "\(count) reasons"). Nothing was changed."
        )
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
