import Foundation
import HTTPTypes
package import RelayAPI
import RelayCore
import RelayServer

/// The operator's console: its pages at `/console/`, and their API at `/console/api/`.
///
/// If the console is disabled, these paths answer 404 with an explanation. The pages contain no secrets and load
/// nothing from other origins; the whole API except sign-in requires a signed-in operator.
package struct Console: Sendable {
    private let parts: ConsoleParts?
    private let executor = DiskExecutor()

    /// - Parameter parts: The services that the console uses; `nil` disables the console.
    package init(_ parts: ConsoleParts?) { self.parts = parts }

    /// The console's endpoints, and the root of the relay.
    package var entries: [RouteEntry] {
        let root = entry(.whole("/"), .reading) { request, _ in rootRedirect(request) }
        guard let parts else {
            let disabled = ["console", "console/**"].map { path in
                entry(.ending(path), Self.allMethods) { _, _ in Self.disabled }
            }
            return [root] + disabled
        }
        let guardian = ConsoleGuard(
            attempts: parts.accounts.attempts ?? AttemptsInMemory(uptime: parts.time.uptime),
            relayKey: try? parts.accounts.relayKey()
        )
        let endpoints =
            ConsoleSignIn.endpoints(parts, guardian) + ConsolePasskeys.endpoints(parts, guardian)
            + ConsoleDownloads.endpoints(parts, guardian) + ConsoleAPI.endpoints(parts, guardian)
            + Self.allMethods.map { ConsoleEndpoint($0, "", Self.unknown(parts)) }
        return [root] + pages(parts.files) + endpoints.map { entry(of: $0, parts) }
    }

    private static let allMethods: [HTTPRequest.Method] = [.get, .head, .post, .put, .patch, .delete]

    private func entry(
        _ path: RoutePath,
        _ methods: [HTTPRequest.Method],
        _ answer: @escaping @Sendable (APIRequest, RouteMatch) async throws -> APIResponse?
    ) -> RouteEntry {
        .page("console", path, methods, isMonitored: false, answer)
    }

    private func pages(_ files: WebFiles) -> [RouteEntry] {
        [
            entry(.ending("console"), .reading) { _, _ in
                var response = APIResponse(status: .permanentRedirect)
                response.headers[.location] = "console/"
                return response
            },
            entry(.ending("console/**"), .reading) { _, match in
                files.file("console/" + match.parameters[0]).map { Self.page($0) } ?? Self.notFound
            },
        ]
    }

    /// Redirects a browser that opens the root to the console, or to the account page if the console is disabled.
    ///
    /// Programs get the wire's error instead.
    private func rootRedirect(_ request: APIRequest) -> APIResponse? {
        guard request.headers[.accept]?.contains("text/html") ?? false else { return nil }
        var response = APIResponse(status: .seeOther)
        response.headers[.location] = parts == nil ? "account" : "console/"
        response.headers[.cacheControl] = "no-store"
        return response
    }

    // MARK: Pages

    private static func page(_ file: WebFiles.File) -> APIResponse {
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

    /// Returns the entry of an endpoint of the API, which checks that the console's own page has sent the request.
    private func entry(of endpoint: ConsoleEndpoint, _ parts: ConsoleParts) -> RouteEntry {
        let path = "console/api/\(endpoint.name)" + (endpoint.isPrefix ? "**" : "")
        return entry(.ending(path), [endpoint.method]) { [executor] request, _ in
            await withTaskExecutorPreference(executor) { await Self.answer(request, at: endpoint, parts) }
        }
    }

    private static func answer(
        _ request: APIRequest,
        at endpoint: ConsoleEndpoint,
        _ parts: ConsoleParts
    ) async -> APIResponse {
        var response: APIResponse
        do {
            let isOwn = ConsoleGuard.isOwnPage(request, publicURL: parts.facts.publicURL)
            guard isOwn || (endpoint.isDownload && ConsoleGuard.isSameSite(request)) else {
                throw ConsoleRefusal.otherPage
            }
            let changes = request.method != .get && request.method != .head
            guard !changes || endpoint.isSignIn || ConsoleGuard.hasSessionToken(request) else {
                throw ConsoleRefusal.otherSession
            }
            response = try await endpoint.run(request)
        } catch {
            let refusal = ConsoleRefusal(error)
            response = json(refusal, status: refusal.status)
        }
        protect(&response)
        return response
    }

    /// Returns the function for names that the API does not have: only an operator learns that.
    private static func unknown(_ parts: ConsoleParts) -> @Sendable (APIRequest) async throws -> APIResponse {
        { request in
            _ = try ConsoleSignIn.person(of: request, parts)
            throw ConsoleRefusal("There is nothing at this address.", status: 404)
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

/// One endpoint of the console's API.
struct ConsoleEndpoint: Sendable {
    let method: HTTPRequest.Method
    /// The path after `/console/api/`; empty, or with a trailing `/`, for all paths that begin with it.
    let name: String
    /// Whether the request begins a session, and therefore has no token of one.
    var isSignIn = false
    /// Whether the browser opens the address itself, and therefore without the console's header.
    var isDownload = false
    let run: @Sendable (APIRequest) async throws -> APIResponse

    var isPrefix: Bool { name.isEmpty || name.hasSuffix("/") }

    init(
        _ method: HTTPRequest.Method,
        _ name: String,
        isSignIn: Bool = false,
        isDownload: Bool = false,
        _ run: @escaping @Sendable (APIRequest) async throws -> APIResponse
    ) {
        self.method = method
        self.name = name
        self.isSignIn = isSignIn
        self.isDownload = isDownload
        self.run = run
    }
}

extension ConsoleAPI {
    /// The endpoints of signed-in operators.
    static func endpoints(_ parts: ConsoleParts, _ guardian: ConsoleGuard) -> [ConsoleEndpoint] {
        routes.map { route in
            ConsoleEndpoint(route.method, route.name) { request in
                let person = try ConsoleSignIn.person(of: request, parts)
                switch try await route.run(ConsoleCall(parts, person, request, guardian: guardian)) {
                case .json(let value): return Console.json(value)
                case .raw(let response): return response
                }
            }
        }
    }
}
