import Foundation
import HTTPTypes
import Records
package import RelayAPI
import RelayCore
import RelayServer
import Synchronization
import Wire

/// The schema API for programs with a management token: `/management/1/CONTAINER/ENVIRONMENT/schema`.
///
/// - `GET …/schema`: returns the schema's text.
/// - `POST …/development/schema`: replaces the schema by the text in the body; with `?dryRun=1` only returns the
///   changes.
/// - `GET …/production/schema/difference`: returns the changes that a promotion would make.
/// - `POST …/production/schema/promotion`: promotes the schema; with `?dryRun=1` only returns the changes.
///
/// A refused change is answered with 409 and the reasons.
///
/// The token is in `Authorization: Bearer …`, so no browser page sends it automatically. Invalid tokens are
/// rate-limited.
package struct ManagementAPI: Sendable {
    private static let longestText = 4_194_304

    private let parts: ConsoleParts
    private let attempts: AttemptCount
    private let executor = DiskExecutor()

    package init(_ parts: ConsoleParts) {
        self.parts = parts
        attempts = AttemptCount(uptime: parts.time.uptime)
    }

    package var entries: [RouteEntry] {
        [
            entry("schema", [.get, .post]), entry("schema/difference", [.get], verb: "difference"),
            entry("schema/promotion", [.post], verb: "promotion"),
            .page("management", .ending("management/1/**"), [.get, .post], isMonitored: false) { _, _ in nil },
        ]
    }

    private func entry(_ name: String, _ methods: [HTTPRequest.Method], verb: String? = nil) -> RouteEntry {
        let path = RoutePath.ending("management/1/{}/{}/\(name)")
        return .page("management", path, methods, isMonitored: false) { request, match in
            await withTaskExecutorPreference(executor) { await answer(request, match.parameters, verb) }
        }
    }

    private func answer(_ request: APIRequest, _ path: [String], _ verb: String?) async -> APIResponse {
        var response: APIResponse
        do {
            guard let container = ContainerID(path[0]), let environment = Records.Environment(rawValue: path[1]) else {
                throw ConsoleRefusal("There is nothing at this address.", status: 404)
            }
            let token = try admit(request, to: container)
            response = try await perform(verb, request, token, environment)
        } catch {
            let refusal = ConsoleRefusal(error)
            response = Console.json(refusal, status: refusal.status)
        }
        response.headers[.cacheControl] = "no-store"
        response.headers[.xContentTypeOptions] = "nosniff"
        return response
    }

    private func admit(_ request: APIRequest, to container: ContainerID) throws -> ManagementToken {
        try attempts.check(request.remoteAddress)
        let words = (request.headers[.authorization] ?? "").split(separator: " ")
        guard words.count == 2, words[0].lowercased() == "bearer",
            let token = try parts.accounts.managementToken(String(words[1])), token.container == container
        else {
            attempts.failed(request.remoteAddress)
            throw ConsoleRefusal(
                "This requires a management token of \(container). Create one with: zonecast token create --kind management",
                status: 401
            )
        }
        return token
    }

    private func perform(
        _ verb: String?,
        _ request: APIRequest,
        _ token: ManagementToken,
        _ environment: Records.Environment
    ) async throws -> APIResponse {
        let dryRun = FormFields((request.query ?? "").utf8)?["dryRun"] == "1"
        switch (request.method, verb, environment) {
        case (.get, nil, _): return try text(token.container, environment)
        case (.post, nil, .development): return try await importing(request, token, applies: !dryRun)
        case (.get, "difference", .production): return try await run("schema/diff", request, token)
        case (.post, "promotion", .production):
            return try await run(dryRun ? "schema/diff" : "schema/promote", request, token, applies: !dryRun)
        case (.post, nil, .production):
            throw ConsoleRefusal("A schema is changed in development and promoted from there.", status: 405)
        default: throw ConsoleRefusal("This address does not support this method.", status: 405)
        }
    }

    private func text(_ container: ContainerID, _ environment: Records.Environment) throws -> APIResponse {
        let schema = try parts.home.schemas(of: container).schema(of: environment)
        var response = APIResponse(status: .ok, body: Array(SchemaPrinter.text(of: schema).utf8))
        response.headers[.contentType] = "text/plain; charset=utf-8"
        return response
    }

    private func importing(
        _ request: APIRequest,
        _ token: ManagementToken,
        applies: Bool
    ) async throws -> APIResponse {
        struct ImportBody: Encodable {
            var text: String
            var applies: Bool
        }
        guard request.body.count <= Self.longestText else {
            throw ConsoleRefusal("The text of a schema may have at most 4 MiB.", status: 413)
        }
        var importRequest = request
        importRequest.body = Array(
            try JSONEncoder().encode(ImportBody(text: String(decoding: request.body, as: UTF8.self), applies: applies))
        )
        return try await run("schema/import", importRequest, token, applies: applies)
    }

    /// Runs a route of the console; the audit entry names the token.
    ///
    /// A refused change has status 409, so that programs detect it; the response contains the reasons.
    private func run(
        _ name: String,
        _ request: APIRequest,
        _ token: ManagementToken,
        applies: Bool = false
    ) async throws -> APIResponse {
        guard let route = ConsoleAPI.schema.first(where: { $0.name == name }) else {
            throw ConsoleRefusal("There is nothing at this address.", status: 404)
        }
        let place = "container=\(token.container)&environment=development"
        let asked = APIRequest(
            method: route.method,
            path: request.path,
            // The confirmation is implied by the call of this endpoint.
            query: "\(place)&confirm=\(token.container)",
            headers: request.headers,
            body: request.body,
            remoteAddress: request.remoteAddress
        )
        let actor = Operator(
            id: 0,
            name: "token \(token.name.isEmpty ? token.id : token.name)",
            user: UserID("_management"),
            created: token.created
        )
        switch try await route.run(ConsoleCall(parts, actor, asked)) {
        case .json(let value):
            let isRefused = applies && (value as? ChangeAnswer)?.isAllowed == false
            return Console.json(value, status: isRefused ? 409 : 200)
        case .raw(let response): return response
        }
    }
}

/// Counts failed attempts with management tokens, per network of the caller.
package final class AttemptCount: Sendable {
    private let failures: Mutex<TokenBuckets<PeerKey>>
    private let uptime: @Sendable () -> Duration

    package init(uptime: @escaping @Sendable () -> Duration) {
        self.uptime = uptime
        failures = Mutex(TokenBuckets(RateLimit(perSecond: 0.2, burst: 20), capacity: 4_096))
    }

    /// Throws if there were too many failed attempts.
    package func check(_ address: String) throws {
        let (now, peer) = (uptime(), PeerKey(address))
        let wait = failures.withLock { failures in
            let wait = failures.take(peer, at: now)
            if wait == nil { failures.giveBack(peer, at: now) }
            return wait
        }
        guard let wait else { return }
        let seconds = max(1, Int(wait.inSeconds.rounded(.up)))
        throw ConsoleRefusal("Too many attempts. Retry in \(seconds) seconds.", status: 429)
    }

    package func failed(_ address: String) {
        let now = uptime()
        _ = failures.withLock { $0.take(PeerKey(address), at: now) }
    }
}
