import Foundation
import HTTPTypes
import RelayAPI
import RelayCore
package import RelayServer
import RelayStore

/// The operator's console: its pages at `/console/`, and their API at `/console/api/`.
///
/// If the console is disabled, these paths answer 404 with an explanation. The pages contain no secrets and load
/// nothing from other origins; the whole API except sign-in requires a signed-in operator.
package struct ConsoleMiddleware: Sendable {
    private let parts: ConsoleParts?
    private let guardian: ConsoleGuard
    private let executor = DiskExecutor()

    /// - Parameter parts: The services that the console uses; `nil` disables the console.
    package init(_ parts: ConsoleParts?) {
        self.parts = parts
        let stopped: @Sendable () -> Duration = { Duration.zero }
        guardian = ConsoleGuard(uptime: parts?.time.uptime ?? stopped)
    }

    /// Handles requests to the console and passes all others to `next`.
    package func wrap(_ next: @escaping RelayServer.AsyncResponder) -> RelayServer.AsyncResponder {
        return { request in
            if let redirect = rootRedirect(request) { return redirect }
            guard let subpath = Self.subpath(of: request.path) else { return await next(request) }
            guard let parts else { return Self.disabled }
            return await respond(String(subpath), request, parts)
        }
    }

    /// Redirects a browser that opens the root to the console, or to the account page if the console is disabled.
    ///
    /// Programs get the wire's error instead.
    private func rootRedirect(_ request: APIRequest) -> APIResponse? {
        guard request.path == "/", request.method == .get || request.method == .head,
            request.headers[.accept]?.contains("text/html") ?? false
        else { return nil }
        var response = APIResponse(status: .seeOther)
        response.headers[.location] = parts == nil ? "account" : "console/"
        response.headers[.cacheControl] = "no-store"
        return response
    }

    private func respond(_ subpath: String, _ request: APIRequest, _ parts: ConsoleParts) async -> APIResponse {
        guard subpath.hasPrefix("api/") else { return Self.page(subpath, request, parts.files) ?? Self.notFound }
        return await withTaskExecutorPreference(executor) { await answer(String(subpath.dropFirst(4)), request, parts) }
    }

    /// Returns the path after `/console/`, which may follow a proxy's prefix; `nil` for all other paths.
    private static func subpath(of path: String) -> Substring? {
        // Shortcut for requests to the wire, which are by far the most.
        guard !path.utf8.starts(with: "/database/".utf8) else { return nil }
        if path.hasSuffix("/console") { return "?" }
        guard let place = path.firstRange(of: "/console/"), !path.contains("/database/1/") else { return nil }
        return path[place.upperBound...]
    }

    // MARK: Pages

    private static func page(_ subpath: String, _ request: APIRequest, _ files: WebFiles) -> APIResponse? {
        guard request.method == .get || request.method == .head else { return nil }
        if subpath == "?" {
            var response = APIResponse(status: .permanentRedirect)
            response.headers[.location] = "console/"
            return response
        }
        guard let file = files.file("console/" + subpath) else { return nil }
        var response = APIResponse(status: .ok, body: Array(file.text.utf8))
        response.headers[.contentType] = "\(file.type); charset=utf-8"
        protect(&response)
        // Not cached, because after an update of the relay all files must match.
        response.headers[.cacheControl] = "no-cache"
        return response
    }

    /// Adds security headers: no foreign content, no inline scripts or styles, no frames, no referrer.
    private static func protect(_ response: inout APIResponse) {
        response.headers[.contentSecurityPolicy] =
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
            + "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
        response.headers[.xContentTypeOptions] = "nosniff"
        response.headers[.cacheControl] = "no-store"
        if let policy = HTTPField.Name("Referrer-Policy") { response.headers[policy] = "no-referrer" }
        if let options = HTTPField.Name("X-Frame-Options") { response.headers[options] = "DENY" }
    }

    private static var notFound: APIResponse {
        var response = APIResponse(status: .notFound, body: Array("There is nothing at this address.\n".utf8))
        response.headers[.contentType] = "text/plain; charset=utf-8"
        return response
    }

    private static var disabled: APIResponse {
        let text = "The console of this relay is disabled. Its operator enables it with the setting  console: true.\n"
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
            guard Self.needsNoSession(signIn: name, request) || ConsoleGuard.hasSessionToken(request) else {
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

    /// Returns whether the request needs no session token: sign-in, or a request that changes nothing.
    private static func needsNoSession(signIn name: String, _ request: APIRequest) -> Bool {
        let isSigningIn = request.method == .post && ["session", "setup", "passkey"].contains(name)
        return isSigningIn || request.method == .get || request.method == .head
    }

    private func run(_ name: String, _ request: APIRequest, _ parts: ConsoleParts) async throws -> APIResponse {
        guard let secret = ConsoleGuard.secret(of: request),
            let person = try parts.accounts.operatorSession(secret, OperatorSessionRules())
        else { throw ConsoleRefusal.signInFirst }
        let named = ConsoleAPI.routes.filter { $0.name == name || ($0.name.hasSuffix("/") && name.hasPrefix($0.name)) }
        guard !named.isEmpty else { throw ConsoleRefusal("There is nothing at this address.", status: 404) }
        guard let route = named.first(where: { $0.method == request.method }) else {
            throw ConsoleRefusal("This address does not support this method.", status: 405)
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
