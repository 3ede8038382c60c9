import HTTPTypes
package import RelayAPI
package import RelayServer

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

    /// Serves the pages and passes other requests to `next`.
    package func wrap(_ next: @escaping RelayServer.AsyncResponder) -> RelayServer.AsyncResponder {
        { request in
            if let page = answer(request) { return page }
            return await next(request)
        }
    }

    /// Returns the response if the request is for one of the pages.
    package func answer(_ request: APIRequest) -> APIResponse? {
        // Shortcut for requests to the wire, which are by far the most.
        guard !request.path.contains("/database/1/"), let subpath = Self.subpath(of: request.path) else { return nil }
        if isOpen, let answer = answerAction(subpath, request) { return answer }
        if !isOpen, ["/demo", "/demo/"].contains(subpath) { return Self.disabled }
        let isForAll = subpath == "/zonecast.js"
        guard isOpen || isForAll, let file = files.file(String(subpath.dropFirst())) else { return nil }
        guard request.method == .get || request.method == .head else { return Self.notAllowed }
        return Self.answer(file, isForAll: isForAll)
    }

    /// Returns the response of an address that is not a file.
    private func answerAction(_ subpath: String, _ request: APIRequest) -> APIResponse? {
        switch subpath {
        case "/demo":
            var response = APIResponse(status: .permanentRedirect)
            response.headers[.location] = "demo/"
            return response
        case "/demo/means.json":
            let invitation = guests?.invitation.map { #","invitation":"\#($0)""# } ?? ""
            let means = #"{"restart":\#(restart != nil),"run":"\#(run)"\#(invitation)}"#
            return Self.answer(WebFiles.File(text: means, type: "application/json"))
        case "/demo/join":
            guard let guests else { return nil }
            guard request.method == .post, Self.isFromDemoPage(request) else { return Self.notAllowed }
            return guests.answer(request)
        case "/demo/restart":
            guard request.method == .post, let restart, Self.isOwnPage(request) else { return Self.notAllowed }
            restart()
            return APIResponse(status: .accepted)
        default: return nil
        }
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

    /// Returns the last part of a path, with its folder if that is the demo's; a proxy's prefix is left out.
    private static func subpath(of path: String) -> String? {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return nil }
        return path[..<slash].hasSuffix("/demo") ? "/demo" + path[slash...] : String(path[slash...])
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

    private static var notAllowed: APIResponse {
        var response = refusal(.methodNotAllowed, "This address is called by GET, or by the demo's own page.")
        response.headers[.allow] = "GET, HEAD"
        return response
    }

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
