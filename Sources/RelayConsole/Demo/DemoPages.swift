import HTTPTypes
package import RelayAPI

/// The browser demo at `/demo/`, and the client module that it uses at `/zonecast.js`.
///
/// The pages load nothing from other origins and have no inline scripts.
package struct DemoPages: Sendable {
    /// Whether `/demo/` is served; every relay serves `/zonecast.js`.
    private let isOpen: Bool
    /// Identifies one run of the relay.
    private let run: String
    private let files: WebFiles
    /// Kills the relay and starts it again.
    private let restart: (@Sendable () -> Void)?
    private let guests: DemoGuests?

    /// - Parameters:
    ///   - isOpen: Whether `/demo/` is served.
    ///   - run: A value that differs with each start of the relay.
    ///   - files: The pages.
    ///   - restart: Kills the relay and starts it again; `nil` unless the relay runs with `--dev`.
    ///   - guests: Adds guests; `nil` unless the relay belongs to `zonecast demo --join`.
    package init(
        isOpen: Bool,
        run: String,
        files: WebFiles = WebFiles(),
        restart: (@Sendable () -> Void)? = nil,
        guests: DemoGuests? = nil
    ) {
        self.isOpen = isOpen
        self.run = run
        self.files = files
        self.restart = restart
        self.guests = guests
    }

    package var entries: [RouteEntry] {
        let module = entry(.ending("zonecast.js"), .reading) { _, _ in
            files.file("zonecast.js").map { Self.answer($0, isForAll: true) }
        }
        guard isOpen else {
            return [module]
                + ["demo", "demo/"].map { path in
                    entry(.ending(path), [.get, .head, .post]) { _, _ in Self.disabled }
                }
        }
        var entries = [
            module,
            entry(.ending("demo"), .reading) { _, _ in
                var response = APIResponse(status: .permanentRedirect)
                response.headers[.location] = "demo/"
                return response
            },
            entry(.ending("demo/{}"), .reading) { _, match in
                files.file("demo/" + match.parameters[0]).map { Self.answer($0) }
            },
            entry(.ending("demo/means.json"), .reading) { _, _ in
                let invitation = guests?.invitation.map { #","invitation":"\#($0)""# } ?? ""
                let means = #"{"restart":\#(restart != nil),"run":"\#(run)"\#(invitation)}"#
                return Self.answer(WebFiles.File(text: means, type: "application/json"))
            },
            entry(.ending("demo/restart"), [.post]) { request, _ in
                guard let restart, Self.isOwnPage(request) else { return Self.notAllowed }
                restart()
                return APIResponse(status: .accepted)
            },
        ]
        if let guests {
            entries.append(
                entry(.ending("demo/join"), [.post]) { request, _ in
                    Self.isFromDemoPage(request) ? guests.answer(request) : Self.notAllowed
                }
            )
        }
        return entries
    }

    private func entry(
        _ path: RoutePath,
        _ methods: [HTTPRequest.Method],
        _ answer: @escaping @Sendable (APIRequest, RouteMatch) async throws -> APIResponse?
    ) -> RouteEntry {
        .page("demo", path, methods, isMonitored: false, answer)
    }

    /// Returns whether the demo's own page sent the request.
    ///
    /// A foreign name that resolves to this machine is not an accepted host.
    private static func isOwnPage(_ request: APIRequest) -> Bool {
        guard isFromDemoPage(request),
            let hostName = HTTPField.Name("Host"), let host = request.headers[hostName]
        else { return false }
        return ["localhost", "127.0.0.1", "[::1]"].contains { host == $0 || host.hasPrefix($0 + ":") }
    }

    /// Returns whether the request has the header that pages of other sites cannot send without a preflight.
    private static func isFromDemoPage(_ request: APIRequest) -> Bool {
        HTTPField.Name("X-Zonecast-Demo").map { request.headers[$0] != nil } ?? false
    }

    private static func answer(_ file: WebFiles.File, isForAll: Bool = false) -> APIResponse {
        var response = APIResponse(status: .ok, body: Array(file.text.utf8))
        response.headers[.contentType] = "\(file.type); charset=utf-8"
        // Not cached, because after an update of the relay all files must match.
        response.headers[.cacheControl] = "no-cache"
        response.headers[.xContentTypeOptions] = "nosniff"
        if isForAll { response.headers[.accessControlAllowOrigin] = "*" }
        guard file.type == "text/html" else { return response }
        response.headers[.contentSecurityPolicy] =
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
            + "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
        return response
    }

    private static var notAllowed: APIResponse { refusal(.forbidden, "This address is for the demo's own page.") }

    /// The response of a relay that does not serve the demo.
    private static var disabled: APIResponse {
        refusal(.notFound, "The demo of this relay is disabled. Its operator enables it with the setting  demo: true.")
    }

    private static func refusal(_ status: HTTPResponse.Status, _ sentence: String) -> APIResponse {
        var response = APIResponse(status: status, body: Array("\(sentence)\n".utf8))
        response.headers[.contentType] = "text/plain; charset=utf-8"
        return response
    }
}
