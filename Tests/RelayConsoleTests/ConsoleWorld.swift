import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayConsole
import RelayCore
import RelayServer
import RelaySystem
import StoreTesting
import Synchronization
import Testing

/// A relay with a console in a temporary folder, called with request values.
final class ConsoleWorld: Sendable {
    private let place = TestStore.current.makeHome(.lasting)
    var folder: String { place.folder }
    let container = "iCloud.org.example.notes"
    let accounts: any AccountDirectory
    let relay: Relay
    let recent: RecentRequests
    private let cookie = Mutex<String?>(nil)
    /// The token that the page was given for changes.
    private let token = Mutex("1")
    private let shownHost = Mutex<String?>(nil)
    /// The `Host` that the browser sends, if set.
    var host: String? {
        get { shownHost.withLock { $0 } }
        set { shownHost.withLock { $0 = newValue } }
    }
    private let stores: any ServedStores

    /// Calls `onCommit` with every commit.
    init(
        isOpen: Bool = true,
        publicURL: String? = nil,
        push: (any PushGateway)? = nil,
        onCommit: @escaping @Sendable (any AccountDirectory) -> Void = { _ in }
    ) throws {
        let time = TimeSource(now: TimeSource.system.now, uptime: { .zero })
        accounts = try place.accounts(time: time)
        let stores = place.stores(TestStoreOptions(committed: { [accounts] _, _ in onCommit(accounts) }))
        self.stores = stores
        var settings = SignInSettings()
        settings.acceptsDevTokens = true
        let hub = NoticeHub(relayName: "test", noticeID: { "n" })
        relay = Relay(
            authenticator: try Authenticator(directory: accounts, settings: settings, time: time, random: .system),
            stores: stores,
            hub: hub,
            time: time,
            random: .system
        )
        recent = RecentRequests(Pseudonyms(relayKey: [1, 2, 3]), now: time.now)
        let parts = ConsoleParts(
            home: place,
            accounts: accounts,
            stores: stores,
            relay: relay,
            hub: hub,
            metrics: RelayMetrics(),
            telemetry: Telemetry(),
            requests: recent,
            facts: ConsoleFacts(
                version: "0",
                isDev: true,
                isSecure: false,
                publicURL: publicURL,
                data: place.folder,
                started: 0,
                limits: Limits(),
                settings: []
            ),
            time: time,
            push: push
        )
        relay.router.add(Console(isOpen ? parts : nil).entries)
    }

    deinit {
        relay.router.removeAll()
        stores.close()
    }

    /// Sends a request as a browser with the console's page would.
    func ask(
        _ method: HTTPRequest.Method,
        _ path: String,
        query: String = "",
        body: String = "",
        isOwnPage: Bool = true,
        headers more: [String: String] = [:]
    ) async throws -> APIResponse {
        var headers: HTTPFields = [:]
        for (name, value) in more { headers[try #require(HTTPField.Name(name))] = value }
        if isOwnPage { headers[try #require(HTTPField.Name("X-Zonecast-Console"))] = token.withLock { $0 } }
        if let cookie = cookie.withLock({ $0 }) { headers[.cookie] = cookie }
        if let host { headers[try #require(HTTPField.Name("Host"))] = host }
        let place = "container=\(container)&environment=development"
        let response = await relay.respond(
            to: APIRequest(
                method: method,
                path: path,
                query: query.contains("environment=") ? query : "\(place)&\(query)",
                headers: headers,
                body: Array(body.utf8)
            )
        )
        if let set = response.headers[.setCookie] {
            cookie.withLock { $0 = set.split(separator: ";").first.map(String.init) }
        }
        struct Welcome: Decodable { var token: String }
        let isWelcome = ["session", "setup", "passkey"].contains { path.hasSuffix("/\($0)") }
        if isWelcome, let welcome = try? response.json(Welcome.self) { token.withLock { $0 = welcome.token } }
        return response
    }

    /// Acts as a page that was loaded before the sign-in.
    func forgetToken() { token.withLock { $0 = "1" } }

    func forgetCookie() { cookie.withLock { $0 = nil } }

    /// Signs in with a one-time link.
    func enter(_ name: String = "ada@example.org") async throws {
        let code = try accounts.makeOperatorLink()
        let answer = try await ask(
            .post,
            "/console/api/setup",
            body: #"{"code":"\#(code)","name":"\#(name)","password":"correct horse"}"#
        )
        #expect(answer.status == .ok, "\(answer.text)")
    }

    /// Calls an operation of the wire protocol as a user.
    func answer(_ operation: String, as user: String, _ body: String) async -> APIResponse {
        await relay.respond(
            to: APIRequest(
                method: .post,
                path: "/database/1/\(container)/development/\(operation)",
                query: "ckWebAuthToken=dev-\(user)",
                body: Array(body.utf8)
            )
        )
    }

    /// Calls an operation of the wire protocol as a user and expects success.
    func wire(_ operation: String, as user: String, _ body: String) async throws {
        let response = await answer(operation, as: user, body)
        #expect(response.status == .ok, "\(response.text)")
    }
}

extension APIResponse {
    var text: String { String(decoding: body, as: UTF8.self) }

    func json<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        try JSONDecoder().decode(type, from: Data(body))
    }
}
