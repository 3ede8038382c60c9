import Foundation
import HTTPTypes
import RelayAPI
import RelayCore
import RelayStore

/// The operator's console: its pages at `/console/`, and the API behind them at `/console/api/`.
///
/// Where the configuration does not open it these addresses answer 404, and that it is shut. The pages hold nothing secret
/// and nothing of other origins; every answer of the API but those about signing in is for a signed-in operator.
package struct ConsoleDoor: Sendable {
    private let parts: ConsoleParts?
    private let guardian: ConsoleGuard
    private let executor = DiskExecutor()

    /// - Parameter parts: What it shows; `nil` keeps it shut.
    package init(_ parts: ConsoleParts?) {
        self.parts = parts
        let stopped: @Sendable () -> Duration = { Duration.zero }
        guardian = ConsoleGuard(uptime: parts?.time.uptime ?? stopped)
    }

    /// Answers what is for the console, and leaves the rest to `others`.
    package func before(_ others: @escaping RelayServer.Responder) -> RelayServer.Responder {
        return { request in
            if let way = welcome(request) { return way }
            guard let end = Self.end(of: request.path) else { return await others(request) }
            guard let parts else { return Self.shut }
            return await respond(String(end), request, parts)
        }
    }

    /// Leads somebody with a browser and no more than the relay's address to the console, or where that is shut to their
    /// own account.
    ///
    /// Programs are told in the wire's form that nothing is there.
    private func welcome(_ request: APIRequest) -> APIResponse? {
        guard request.path == "/", request.method == .get || request.method == .head,
            request.headers[.accept]?.contains("text/html") ?? false
        else { return nil }
        var response = APIResponse(status: .seeOther)
        response.headers[.location] = parts == nil ? "account" : "console/"
        response.headers[.cacheControl] = "no-store"
        return response
    }

    private func respond(_ end: String, _ request: APIRequest, _ parts: ConsoleParts) async -> APIResponse {
        guard end.hasPrefix("api/") else { return Self.page(end, request) ?? Self.nothing }
        return await withTaskExecutorPreference(executor) { await answer(String(end.dropFirst(4)), request, parts) }
    }

    /// What follows `/console/`, before which a proxy's prefix may stand; `nil` for all other addresses.
    private static func end(of path: String) -> Substring? {
        // Most requests by far are of the wire.
        guard !path.utf8.starts(with: "/database/".utf8) else { return nil }
        if path.hasSuffix("/console") { return "?" }
        guard let place = path.firstRange(of: "/console/"), !path.contains("/database/1/") else { return nil }
        return path[place.upperBound...]
    }

    // MARK: Pages

    private static func page(_ end: String, _ request: APIRequest) -> APIResponse? {
        guard request.method == .get || request.method == .head else { return nil }
        if end == "?" {
            var response = APIResponse(status: .permanentRedirect)
            response.headers[.location] = "console/"
            return response
        }
        guard let file = ConsoleFiles.file(end) else { return nil }
        var response = APIResponse(status: .ok, body: Array(file.text.utf8))
        response.headers[.contentType] = "\(file.type); charset=utf-8"
        protect(&response)
        // After an update of the relay the parts must fit each other.
        response.headers[.cacheControl] = "no-cache"
        return response
    }

    /// Nothing of other origins, no inline script or style, in no frame, its address told to nobody.
    private static func protect(_ response: inout APIResponse) {
        response.headers[.contentSecurityPolicy] =
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
            + "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
        response.headers[.xContentTypeOptions] = "nosniff"
        response.headers[.cacheControl] = "no-store"
        if let policy = HTTPField.Name("Referrer-Policy") { response.headers[policy] = "no-referrer" }
        if let options = HTTPField.Name("X-Frame-Options") { response.headers[options] = "DENY" }
    }

    private static var nothing: APIResponse {
        var response = APIResponse(status: .notFound, body: Array("There is nothing at this address.\n".utf8))
        response.headers[.contentType] = "text/plain; charset=utf-8"
        return response
    }

    private static var shut: APIResponse {
        let text = "The console of this relay is shut. Its operator opens it with the setting  console: true.\n"
        var response = APIResponse(status: .notFound, body: Array(text.utf8))
        response.headers[.contentType] = "text/plain; charset=utf-8"
        return response
    }

    // MARK: API

    private func answer(_ name: String, _ request: APIRequest, _ parts: ConsoleParts) async -> APIResponse {
        var response: APIResponse
        do {
            let isOwn = ConsoleGuard.isOwnPage(request, publicURL: parts.facts.publicURL)
            guard isOwn || ConsoleDownloads.isDownload(name, request) else {
                throw ConsoleRefusal.otherPage
            }
            guard Self.isBefore(signIn: name, request) || ConsoleGuard.isOfSession(request) else {
                throw ConsoleRefusal.otherSession
            }
            if let answered = try await ConsoleSignIn(parts, guardian, request).answer(name) {
                response = answered
            } else if let answered = try await ConsoleDownloads(parts, guardian, request).answer(name) {
                response = answered
            } else {
                response = try await run(name, request, parts)
            }
        } catch {
            let refusal = ConsoleRefusal(error)
            response = Self.json(refusal, status: refusal.status)
        }
        Self.protect(&response)
        return response
    }

    /// What needs no sign-in, or changes nothing.
    private static func isBefore(signIn name: String, _ request: APIRequest) -> Bool {
        let comesIn = request.method == .post && ["session", "setup", "passkey"].contains(name)
        return comesIn || request.method == .get || request.method == .head
    }

    private func run(_ name: String, _ request: APIRequest, _ parts: ConsoleParts) async throws -> APIResponse {
        guard let secret = ConsoleGuard.secret(of: request),
            let person = try parts.accounts.operatorSession(secret, OperatorSessionRules())
        else { throw ConsoleRefusal.signInFirst }
        let named = ConsoleAPI.routes.filter { $0.name == name || ($0.name.hasSuffix("/") && name.hasPrefix($0.name)) }
        guard !named.isEmpty else { throw ConsoleRefusal("There is nothing at this address.", status: 404) }
        guard let route = named.first(where: { $0.method == request.method }) else {
            throw ConsoleRefusal("This address is called in another way.", status: 405)
        }
        switch try await route.run(ConsoleCall(parts, person, request, guardian: guardian)) {
        case .json(let value): return Self.json(value)
        case .raw(let response): return response
        }
    }

    static func json(_ value: any Encodable, status: Int = 200) -> APIResponse {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.withoutEscapingSlashes, .sortedKeys]
        let body = (try? encoder.encode(value)).map { Array($0) } ?? Array("{}".utf8)
        var response = APIResponse(status: .init(code: status), body: body)
        response.headers[.contentType] = "application/json; charset=utf-8"
        return response
    }
}
