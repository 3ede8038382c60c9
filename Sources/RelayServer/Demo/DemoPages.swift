import HTTPTypes
package import RelayAPI

/// The browser demo at `/demo/`, and the client module it stands on at `/zonecast.js`.
///
/// The pages are literals in the files beside this one, so that the program stays a single file and nothing has to be
/// generated; each literal is served as it stands there. They hold nothing of other origins and no inline script.
package struct DemoPages: Sendable {
    /// Whether `/demo/` is there; `/zonecast.js` is on every relay.
    private let isOpen: Bool
    /// Tells one run of the relay from the next.
    private let run: String
    /// Kills the relay and starts it again.
    private let restart: (@Sendable () -> Void)?

    /// - Parameters:
    ///   - isOpen: Whether `/demo/` is there.
    ///   - run: Another value with each start of the relay.
    ///   - restart: Kills the relay and starts it again; `nil` where no page may do that, as on every relay but one in
    ///     `--dev`.
    package init(isOpen: Bool, run: String, restart: (@Sendable () -> Void)? = nil) {
        self.isOpen = isOpen
        self.run = run
        self.restart = restart
    }

    /// What is served at an address.
    private struct File {
        var text: String
        var type: String
        /// Whether it is there without the demo, and pages of other origins may load it.
        var isForAll = false

        static func script(_ text: String) -> File { File(text: text, type: "text/javascript") }
    }

    /// By the end of the path.
    private static let files: [String: File] = [
        "/zonecast.js": File(
            text: clientModule + exactJSONModule + containerModule + lostWritesModule + databaseModule + noticesModule,
            type: "text/javascript",
            isForAll: true
        ),
        "/demo/": File(text: page, type: "text/html"),
        "/demo/demo.css": File(text: style, type: "text/css"),
        "/demo/demo.js": .script(mainScript),
        "/demo/store.js": .script(storeScript),
        "/demo/client.js": .script(clientScript),
        "/demo/sync.js": .script(syncScript),
        "/demo/notes.js": .script(notesScript),
        "/demo/sharing.js": .script(sharingScript),
        "/demo/board.js": .script(boardScript),
        "/demo/pane.js": .script(paneScript),
        "/demo/timeline.js": .script(timelineScript),
        "/demo/world.js": .script(worldScript),
        "/demo/tour.js": .script(tourScript),
        "/demo/qr.js": .script(qrScript),
    ]

    /// Answers what is for one of the pages, and leaves the rest to `others`.
    package func before(_ others: @escaping RelayServer.Responder) -> RelayServer.Responder {
        { request in
            if let page = answer(request) { return page }
            return await others(request)
        }
    }

    /// The answer, if the request is for one of the pages.
    package func answer(_ request: APIRequest) -> APIResponse? {
        // Most requests by far are of the wire, and none of them is a page.
        guard !request.path.contains("/database/1/"), let end = Self.end(of: request.path) else { return nil }
        if isOpen, let answer = act(end, request) { return answer }
        if !isOpen, ["/demo", "/demo/"].contains(end) { return Self.shut }
        guard let file = Self.files[end], isOpen || file.isForAll else { return nil }
        guard request.method == .get || request.method == .head else { return Self.notAllowed }
        return Self.answer(file)
    }

    /// What is no file.
    private func act(_ end: String, _ request: APIRequest) -> APIResponse? {
        switch end {
        case "/demo":
            var response = APIResponse(status: .permanentRedirect)
            response.headers[.location] = "demo/"
            return response
        case "/demo/means.json":
            let means = #"{"restart":\#(restart != nil),"run":"\#(run)"}"#
            return Self.answer(File(text: means, type: "application/json"))
        case "/demo/restart":
            guard request.method == .post, let restart, Self.isOwnPage(request) else { return Self.notAllowed }
            restart()
            return APIResponse(status: .accepted)
        default: return nil
        }
    }

    /// Whether the demo itself asks: other sites' pages cannot send the header without being asked first, and a name that
    /// was made to point to this machine is not among its own.
    private static func isOwnPage(_ request: APIRequest) -> Bool {
        guard let name = HTTPField.Name("X-Zonecast-Demo"), request.headers[name] == "restart",
            let hostName = HTTPField.Name("Host"), let host = request.headers[hostName]
        else { return false }
        return ["localhost", "127.0.0.1", "[::1]"].contains { host == $0 || host.hasPrefix($0 + ":") }
    }

    /// What follows a proxy's prefix: the last part, with the folder it stands in if that is the demo's.
    private static func end(of path: String) -> String? {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return nil }
        return path[..<slash].hasSuffix("/demo") ? "/demo" + path[slash...] : String(path[slash...])
    }

    private static func answer(_ file: File) -> APIResponse {
        var response = APIResponse(status: .ok, body: Array(file.text.utf8))
        response.headers[.contentType] = "\(file.type); charset=utf-8"
        // After an update of the relay the parts must fit each other.
        response.headers[.cacheControl] = "no-cache"
        response.headers[.xContentTypeOptions] = "nosniff"
        if file.isForAll { response.headers[.accessControlAllowOrigin] = "*" }
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

    /// For whoever has read of the demo and asks a relay that has none.
    private static var shut: APIResponse {
        refusal(.notFound, "The demo of this relay is disabled. Its operator enables it with the setting  demo: true.")
    }

    private static func refusal(_ status: HTTPResponse.Status, _ sentence: String) -> APIResponse {
        var response = APIResponse(status: status, body: Array("\(sentence)\n".utf8))
        response.headers[.contentType] = "text/plain; charset=utf-8"
        return response
    }
}
