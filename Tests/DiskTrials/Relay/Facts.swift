import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import SQLiteStore
import Wire

/// The relay's content as a flat list of facts, such as `zone Notes`, `Notes/a = 3` or `account eve@example.org`.
package typealias Facts = [String: String]

/// All states that the relay may be in, given that some steps may or may not have happened.
struct PossibleFacts {
    private(set) var states: Set<Facts>

    init(_ state: Facts = [:]) { states = [state] }

    /// Applies a step that was answered with success, in every state that allows it.
    mutating func happened(_ step: Step) { states = Set(states.compactMap(step.apply)) }

    /// Applies a step whose outcome is unknown.
    mutating func mayHaveHappened(_ step: Step) { states.formUnion(states.compactMap(step.apply)) }

    /// Removes the states in which the relay would have accepted the step.
    mutating func wasRefused(_ step: Step) { states = states.filter { step.apply($0) == nil } }

    /// Replaces all states.
    mutating func set(_ states: Set<Facts>) { self.states = states }

    /// Replaces all states by the observed one.
    mutating func observed(_ state: Facts) { states = [state] }

    /// Describes why an observed state is impossible; `nil` if it is possible.
    func objection(to found: Facts) -> String? {
        guard !states.contains(found) else { return nil }
        let nearest = states.map { Self.difference($0, found) }.min { $0.count < $1.count }
        return "none of \(states.count) possible states is the one found; the nearest differs by "
            + (nearest?.sorted().joined(separator: ", ") ?? "everything")
    }

    private static func difference(_ expected: Facts, _ found: Facts) -> [String] {
        Set(expected.keys).union(found.keys).compactMap { key in
            guard expected[key] != found[key] else { return nil }
            return "\(key): expected \(expected[key] ?? "nothing"), found \(found[key] ?? "nothing")"
        }
    }
}

/// One write of a client, and its expected effect.
package struct Step: Sendable {
    package enum Outcome: Hashable {
        case done
        /// The relay refused the step by a rule, which is independent of the disk.
        case refused(code: String)
        /// The disk failed: the step may or may not have happened.
        case unknown(code: String, reason: String)
    }

    var name: String
    /// The facts after the step; `nil` if the relay's rules forbid it.
    var apply: @Sendable (Facts) -> Facts?
    package var run: @Sendable (DiskWorld) async throws -> Outcome
}

// MARK: Reading

extension DiskWorld {
    static let alice = "alice"
    static let bob = "bob@example.org"

    /// Reads everything that steps can change; zones through their feeds in pages of `pageSize`.
    package func facts(pageSize: Int = 200) async throws -> Facts {
        var facts: Facts = [:]
        for zone in try await zones() {
            facts["zone \(zone)"] = "there"
            for (name, value) in try await feed(of: zone, pageSize: pageSize).records {
                facts["\(zone)/\(name)"] = value
            }
        }
        try await readPublic(into: &facts)
        for item in try await checked("private/subscriptions/list").items("subscriptions") {
            facts["subscription \(item.text("subscriptionID") ?? "")"] = "there"
        }
        for zone in try await checked("shared/zones/list", as: Self.bob).items("zones") {
            facts["bob in \(zone["zoneID"]?.text("zoneName") ?? "")"] = "there"
        }
        try readSchemas(into: &facts)
        try readAccounts(into: &facts)
        return facts
    }

    private func zones() async throws -> [String] {
        try await checked("private/zones/list").items("zones").compactMap { $0["zoneID"]?.text("zoneName") }
            .filter { $0 != ZoneID.defaultName }.sorted()
    }

    private func readPublic(into facts: inout Facts) async throws {
        let query = #"{"query":{"recordType":"Note","sortBy":[{"fieldName":"value"}]}}"#
        let answer = try await ask("public/records/query", query)
        // Before the first record exists, the relay knows neither the type nor its sortable field.
        if answer.code == "BAD_REQUEST" || answer.code == "NOT_FOUND" { return }
        for record in try answer.items("records") {
            facts["public/\(record.text("recordName") ?? "")"] = try await value(of: record)
        }
    }

    /// Reads only the type that the schema steps add.
    private func readSchemas(into facts: inout Facts) throws {
        for environment in [Records.Environment.development, .production] {
            let type: RecordType?
            do {
                type = try schemas.schema(of: environment).types["Imported"]
            } catch  where environment == .production && "\(error)".contains("is full") {
                // A full disk prevents the creation of the file. If the schema existed before, the missing fact shows
                // it.
                continue
            }
            if let fields = type?.fields {
                facts["schema \(environment.rawValue)"] = fields.keys.sorted().joined(separator: " ")
            }
        }
    }

    private func readAccounts(into facts: inout Facts) throws {
        for account in try directory.accounts() {
            guard case .email(let login) = account.login else { continue }
            facts["account \(login)"] = account.isDisabled ? "disabled" : "enabled"
            if !account.isDisabled {
                let isFirst = try directory.account(email: login, password: "first password") != nil
                let isSecond = try directory.account(email: login, password: "second password") != nil
                facts["password \(login)"] = isFirst ? "first" : isSecond ? "second" : "neither"
            }
            facts["sessions \(login)"] = "\(try directory.sessions(of: account.id).count)"
            if let given = account.name.given { facts["name \(login)"] = given }
        }
        for token in try directory.apiTokens() {
            facts["token \(token.name)"] = token.revoked == nil ? "there" : "revoked"
        }
    }

    /// Reads a zone from its beginning or from a token.
    func feed(of zone: String, since token: String? = nil, pageSize: Int) async throws -> (
        records: Facts, gone: Set<String>, token: String
    ) {
        var records: Facts = [:]
        var gone: Set<String> = []
        var token = token
        while true {
            let since = token.map { #","syncToken":"\#($0)""# } ?? ""
            let answer = try await checked(
                "private/changes/zone",
                #"{"zones":[{"zoneID":{"zoneName":"\#(zone)"},"resultsLimit":\#(pageSize)\#(since)}]}"#
            )
            guard let page = try answer.items("zones").first, page.text("serverErrorCode") == nil,
                let next = page.text("syncToken")
            else { throw WorldFailure("the feed of \(zone) was refused: \(answer.response.text)") }
            for record in try page.required("records").elements() {
                let name = record.text("recordName") ?? ""
                if record.flag("deleted") {
                    gone.insert(name)
                    records[name] = nil
                } else {
                    gone.remove(name)
                    records[name] = try await value(of: record)
                }
            }
            if next == token || !page.flag("moreComing") { return (records, gone, next) }
            token = next
        }
    }

    /// The record's value; for a record with an asset, the content of the asset.
    private func value(of record: JSONValue) async throws -> String {
        guard let fields = record["fields"] else { return record.text("recordType") ?? "" }
        if let asset = fields["file"]?["value"] { return try await content(of: asset) }
        guard let value = fields["value"]?["value"] else { return record.text("recordType") ?? "" }
        return "\(try value.int64())"
    }

    private func content(of asset: JSONValue) async throws -> String {
        guard let url = asset.text("downloadURL").flatMap({ URLComponents(string: $0) }) else { return "no address" }
        let request = APIRequest(method: .get, path: url.path, query: url.percentEncodedQuery)
        let answer = await relay.respond(to: request)
        guard answer.status == .ok else { return "asset gone (\(answer.status.code))" }
        guard let file = answer.file else { return String(decoding: answer.body, as: UTF8.self) }
        return String(decoding: FileManager.default.contents(atPath: file.path) ?? Data(), as: UTF8.self)
    }

    private func checked(_ operation: String, as user: String = alice, _ body: String = "{}") async throws -> Reply {
        let answer = try await ask(operation, as: user, body)
        guard answer.status == 200 else {
            throw WorldFailure("\(operation) was answered with \(answer.status): \(answer.response.text)")
        }
        return answer
    }
}

extension APIResponse {
    var text: String { String(decoding: body, as: UTF8.self) }
}
