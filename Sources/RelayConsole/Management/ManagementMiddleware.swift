import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
package import RelayServer
import RelayStore
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
package struct ManagementMiddleware: Sendable {
    private static let start = "/management/1/"
    private static let longestText = 4_194_304

    private let parts: ConsoleParts
    private let attempts: AttemptCount
    private let executor = DiskExecutor()

    package init(_ parts: ConsoleParts) {
        self.parts = parts
        attempts = AttemptCount(uptime: parts.time.uptime)
    }

    /// Handles requests to the management API and passes all others to `next`.
    package func wrap(_ next: @escaping RelayServer.AsyncResponder) -> RelayServer.AsyncResponder {
        { request in
            // Shortcut for requests to the wire, which are by far the most.
            guard !request.path.utf8.starts(with: "/database/".utf8),
                let place = request.path.firstRange(of: Self.start), !request.path.contains("/database/1/")
            else { return await next(request) }
            let path = request.path[place.upperBound...].split(separator: "/").map(String.init)
            return await withTaskExecutorPreference(executor) { await answer(path, request) }
        }
    }

    private func answer(_ path: [String], _ request: APIRequest) async -> APIResponse {
        var response: APIResponse
        do {
            guard path.count >= 3, path[2] == "schema", let container = ContainerID(path[0]),
                let environment = Records.Environment(rawValue: path[1])
            else { throw ConsoleRefusal("There is nothing at this address.", status: 404) }
            let token = try admit(request, to: container)
            response = try await perform(path.dropFirst(3).first, request, token, environment)
        } catch {
            let refusal = ConsoleRefusal(error)
            response = ConsoleMiddleware.json(refusal, status: refusal.status)
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
        let schema = try SchemaFolder(folder: parts.facts.data, container: container).schema(of: environment)
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
            return ConsoleMiddleware.json(value, status: isRefused ? 409 : 200)
        case .raw(let response): return response
        }
    }
}

/// Counts failed attempts with management tokens, per network of the caller.
final class AttemptCount: Sendable {
    private let failures: Mutex<TokenBuckets<PeerKey>>
    private let uptime: @Sendable () -> Duration

    init(uptime: @escaping @Sendable () -> Duration) {
        self.uptime = uptime
        failures = Mutex(TokenBuckets(RateLimit(perSecond: 0.2, burst: 20), capacity: 4_096))
    }

    /// Throws if there were too many failed attempts.
    func check(_ address: String) throws {
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

    func failed(_ address: String) {
        let now = uptime()
        _ = failures.withLock { $0.take(PeerKey(address), at: now) }
    }
}
