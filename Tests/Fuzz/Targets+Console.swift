import Foundation
import HTTPTypes
import RelayAPI
import RelayConsole
import RelayCore
import RelayServer
import RelayStore
import Synchronization

/// The operators' console, with requests by operators and by unauthenticated clients.
extension FuzzTarget {
    static let consoles: [FuzzTarget] = [console]

    /// The first line holds the caller (`+` an operator, `-` unauthenticated), the method and the name; the second line
    /// the query; then the body.
    private static let console = FuzzTarget(
        "console",
        seeds: [
            "+POST session\n\n{\"name\":\"ada@example.org\",\"password\":\"correct horse\"}",
            "+GET session\n\n", "-GET overview\n\n", "+GET overview\n\n", "+GET users\nq=a&after=1\n",
            "+POST users/quota\n\n{\"user\":\"_a\",\"bytes\":1e30}",
            "+POST tokens/add\n\n{\"name\":\"t\",\"origins\":[\"*\"]}",
            "+POST schema/import\n\n{\"text\":\"DEFINE SCHEMA RECORD TYPE Note ( a STRING );\"}",
            "+POST schema/edit\n\n{\"type\":\"Note\",\"fields\":[{\"name\":\"a\",\"type\":\"STRING\"}]}",
            "+POST schema/try\n\n{\"type\":\"Note\",\"filter\":\"a == 'b'\"}", "+GET schema/diff\n\n",
            "+GET zones\nowner=_x\n",
            "+POST changes/since\n\n{\"token\":\"AAAA\",\"zone\":\"Notes\"}",
            "+POST zones/delete\n\n{\"zone\":\"Notes\"}",
            "+POST wire/records/query\n\n{\"query\":{\"recordType\":\"Note\"}}", "+GET logs\nlines=10&level=error\n",
            "+POST backups/schedule\n\n{\"every\":3600,\"keep\":3,\"folder\":\"/nowhere\"}", "+GET audit\nbefore=1\n",
            "+POST devices/notice\n\n{\"device\":\"d\"}",
            "-POST setup\n\n{\"code\":\"x\",\"name\":\"y\",\"password\":\"z\"}",
            "+POST operators/remove\n\n{\"name\":\"eve@example.org\"}", "+GET telemetry\nminutes=5\n",
        ],
        words: [
            "environment=production", "container=", "\"confirm\":true", "null", "-1", "1e400", "\"\\u0000\"", "../",
            "%2e%2e/",
            "users/one", "users/sign-out", "keys/revoke", "schema/promote", "quotas", "subscriptions", "_a",
        ]
    ) {
        let world = try await FuzzConsole()
        return { input in await world.finding(input) }
    }
}

/// A console of an in-memory relay with one operator.
private final class FuzzConsole: Sendable {
    private let respond: RelayServer.Responder
    private let signIn: (cookie: String, token: String)

    private struct NoCookie: Error {}

    init() async throws {
        let time = TimeSource(now: TimeSource.system.now, uptime: { .zero })
        let accounts = try AccountStore(inMemory: (), time: time)
        let numbers = Mutex(UInt64(7))
        let stores = StoreFolder(
            folder: nil,
            draw: {
                numbers.withLock {
                    $0 &+= 0x9E37_79B9_7F4A_7C15; return $0
                }
            }
        )
        var settings = SignInSettings()
        settings.acceptsDevTokens = true
        let hub = NoticeHub(relayName: "fuzz", noticeID: { "n" })
        let relay = Relay(
            authenticator: try Authenticator(directory: accounts, settings: settings, time: time, random: .system),
            stores: stores,
            hub: hub,
            time: time,
            random: .system
        )
        // The console must not write anything, so the data folder does not exist.
        let nowhere = "/dev/null/zonecast"
        let parts = ConsoleParts(
            accounts: accounts,
            stores: stores,
            relay: relay,
            hub: hub,
            metrics: RelayMetrics(),
            telemetry: Telemetry(),
            requests: RecentRequests(Pseudonyms(relayKey: [1, 2, 3]), now: time.now),
            facts: ConsoleFacts(
                version: "0",
                isDev: true,
                isSecure: false,
                publicURL: nil,
                data: nowhere,
                started: 0,
                limits: Limits(),
                settings: []
            ),
            time: time
        )
        respond = ConsoleDoor(parts).before { _ in APIResponse(status: .notFound) }
        let code = try accounts.makeOperatorLink()
        let body = #"{"code":"\#(code)","name":"ada@example.org","password":"correct horse"}"#
        let answer = await respond(Self.request(.post, "setup", "", Array(body.utf8), nil))
        guard let set = answer.headers[.setCookie]?.split(separator: ";").first else { throw NoCookie() }
        struct Welcome: Decodable { var token: String }
        let welcome = try JSONDecoder().decode(Welcome.self, from: Data(answer.body))
        signIn = (String(set), welcome.token)
    }

    private static func request(
        _ method: HTTPRequest.Method,
        _ name: String,
        _ query: String,
        _ body: [UInt8],
        _ signIn: (cookie: String, token: String)?
    ) -> APIRequest {
        var headers: HTTPFields = [:]
        if let own = HTTPField.Name("X-Zonecast-Console") { headers[own] = signIn?.token ?? "1" }
        headers[.cookie] = signIn?.cookie
        let home = "container=\(FuzzRelay.container)&environment=development"
        return APIRequest(
            method: method,
            path: "/console/api/\(name)",
            query: query.contains("environment=") ? query : "\(home)&\(query)",
            headers: headers,
            body: body
        )
    }

    func finding(_ input: [UInt8]) async -> Finding {
        let lines = input.split(separator: UInt8(ascii: "\n"), maxSplits: 2, omittingEmptySubsequences: false)
        guard lines.count == 3, let caller = lines[0].first else { return Finding("no request") }
        let words = String(decoding: lines[0].dropFirst(), as: UTF8.self).split(separator: " ", maxSplits: 1)
        guard words.count == 2, let method = HTTPRequest.Method(String(words[0])) else { return Finding("no method") }
        let isSignedIn = caller == UInt8(ascii: "+")
        let request = Self.request(
            method,
            String(words[1]),
            String(decoding: lines[1], as: UTF8.self),
            Array(lines[2]),
            isSignedIn ? signIn : nil
        )
        let answer = await respond(request)
        let outcome = "\(isSignedIn) \(words[1].prefix(20)) \(answer.status.code)"
        guard answer.status.code != 500 else {
            return Finding(outcome, objection: "500: \(String(decoding: answer.body, as: UTF8.self))")
        }
        let isSignIn = ["session", "setup", "password"].contains(String(words[1]))
        if !isSignedIn, !isSignIn, answer.status.code == 200 {
            return Finding(outcome, objection: "an unauthenticated client was served \(words[1])")
        }
        guard answer.headers[.contentType]?.hasPrefix("application/json") ?? false, !answer.body.isEmpty else {
            return Finding(outcome)
        }
        let isJSON = (try? JSONSerialization.jsonObject(with: Data(answer.body), options: .fragmentsAllowed)) != nil
        return Finding(outcome, objection: isJSON ? nil : "the answer is not JSON")
    }
}
