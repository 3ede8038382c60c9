import Dispatch
import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayConsole
import RelayCore
import RelayServer
import Testing

/// Access to the console.
@Suite struct ConsoleAccessTests {
    /// The paths that the pages request with GET.
    static let readPaths = [
        "overview", "zones", "schema", "schema/diff", "schema/indexes", "users", "tokens", "keys", "devices",
        "subscriptions", "pushes", "shares", "telemetry", "logs", "quotas", "rates", "backups", "configuration",
        "audit", "operators",
    ]

    private struct Refusal: Decodable { var code: String, error: String }

    @Test func aDisabledConsoleSaysHowToEnableIt() async throws {
        let world = try ConsoleWorld(isOpen: false)
        for path in ["/console", "/console/", "/console/main.js", "/console/api/session"] {
            let answer = try await world.ask(.get, path)
            #expect(answer.status == .notFound)
            #expect(String(decoding: answer.body, as: UTF8.self).contains("console: true"))
        }
    }

    @Test func otherPathsAreNotHandled() async throws {
        let world = try ConsoleWorld()
        for path in ["/", "/database/1/iCloud.x/development/public/console/", "/consoles", "/healthz"] {
            let answer = try await world.ask(.get, path)
            #expect(answer.errorCode != nil, "\(path)")
        }
    }

    @Test(arguments: [(true, "console/"), (false, "account")])
    func aBrowserAtTheRootIsRedirectedToAPage(isOpen: Bool, place: String) async throws {
        let world = try ConsoleWorld(isOpen: isOpen)
        let browser = ["Accept": "text/html,application/xhtml+xml,*/*;q=0.8"]
        let answer = try await world.ask(.get, "/", headers: browser)
        #expect(answer.status == .seeOther && answer.headers[.location] == place)
        #expect(try await world.ask(.get, "/", headers: ["Accept": "*/*"]).errorCode == .notFound)
        #expect(try await world.ask(.post, "/", headers: browser).status == .methodNotAllowed)
    }

    /// The browser adds the cookie to every request; only a page of the same sign-in knows the token.
    @Test func aChangeRequiresTheTokenOfTheSignedInPage() async throws {
        let world = try ConsoleWorld()
        try await world.enter()
        #expect(try await world.ask(.post, "/console/api/password", body: "{}").status == .badRequest)
        world.forgetToken()
        for (method, path) in [
            (.post, "containers/add"), (.post, "password"), (.post, "passkeys/begin"), (.post, "backups/ticket"),
            (.delete, "passkeys"), (.delete, "session"),
        ] as [(HTTPRequest.Method, String)] {
            let answer = try await world.ask(method, "/console/api/\(path)", body: "{}")
            #expect(answer.status == .forbidden && answer.text.contains("Reload the page"), "\(path) \(answer.text)")
        }
        // Reading still works, and returns the token to the page.
        #expect(try await world.ask(.get, "/console/api/operators").status == .ok)
        #expect(try await world.ask(.get, "/console/api/session").status == .ok)
        #expect(try await world.ask(.delete, "/console/api/session").status == .ok)
        // Without a session, the response has to say that signing in is required.
        #expect(try await world.ask(.post, "/console/api/containers/add", body: "{}").status == .unauthorized)
    }

    @Test func pagesHaveNoInlineScriptAndNoExternalResources() async throws {
        let world = try ConsoleWorld()
        let page = try await world.ask(.get, "/behind/a/proxy/console/")
        let policy = try #require(page.headers[.contentSecurityPolicy])
        #expect(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"))
        #expect(!policy.contains("unsafe"))
        #expect(!page.text.contains("http://") && !page.text.contains("https://"))
        #expect(try await world.ask(.get, "/console").status == .permanentRedirect)
        #expect(try await world.ask(.get, "/console/none.js").status == .notFound)
    }

    /// Every file that the console refers to is served.
    @Test func everyReferencedFileIsServed() async throws {
        let world = try ConsoleWorld()
        var open = [""]
        var seen: Set<String> = []
        while let name = open.popLast() {
            guard seen.insert(name).inserted else { continue }
            let answer = try await world.ask(.get, "/console/\(name)")
            #expect(answer.status == .ok, "\(name)")
            #expect(answer.headers[.xContentTypeOptions] == "nosniff")
            open += answer.text.matches(of: /(?:from |href=|src=)"(?:\.\/)?([a-z]+\.(?:js|css))"/).map { String($0.1) }
        }
        #expect(seen.count > 25)
    }

    /// A command shown by the console works from any folder, because it names the data folder or the relay.
    @Test func commandsNameTheDataFolderOrTheRelay() async throws {
        let world = try ConsoleWorld()
        let sections = try await world.ask(.get, "/console/sections.js").text
        var count = 0
        for name in sections.matches(of: /from "\.\/([a-z]+)\.js"/).map({ String($0.1) }) {
            let text = try await world.ask(.get, "/console/\(name).js").text
            for command in text.matches(of: /\bcommand: .*=> (.*),\n/).map({ String($0.1) }) {
                count += 1
                let isOfNoFolder = command.contains("config show") || command.contains("log show")
                let place = command.contains("--data ${data}") || command.contains("--url ${url}")
                #expect(place || isOfNoFolder, "\(name).js: \(command)")
            }
        }
        #expect(count > 20)
        struct Welcome: Decodable { var data: String }
        try await world.enter()
        let welcome = try await world.ask(.get, "/console/api/session").json(Welcome.self)
        #expect(welcome.data == URL(fileURLWithPath: world.folder).standardizedFileURL.path)
    }

    /// Data is inserted as text: no script uses a function that parses markup.
    @Test func noScriptParsesTextAsMarkup() async throws {
        let world = try ConsoleWorld()
        for name in ["dom", "shell", "records", "editor", "explorer", "schema", "users", "zones", "changes", "charts"] {
            let text = try await world.ask(.get, "/console/\(name).js").text
            for way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"] {
                #expect(!text.contains(way), "\(name).js: \(way)")
            }
        }
    }

    @Test func requestsWithoutASessionAreRefused() async throws {
        let world = try ConsoleWorld()
        for name in Self.readPaths {
            let answer = try await world.ask(.get, "/console/api/\(name)")
            #expect(answer.status == .unauthorized, "\(name)")
            #expect(try answer.json(Refusal.self).code == "signIn")
        }
        #expect(try await world.ask(.post, "/console/api/wire/records/query", body: "{}").status == .unauthorized)
    }

    @Test func otherPagesAreRefusedEvenWithTheCookie() async throws {
        let world = try ConsoleWorld()
        try await world.enter()
        #expect(try await world.ask(.get, "/console/api/session").status == .ok)
        #expect(try await world.ask(.get, "/console/api/session", isOwnPage: false).status == .forbidden)
        #expect(try await world.ask(.post, "/console/api/zones/delete", isOwnPage: false).status == .forbidden)
    }

    /// The headers with which a browser describes a request's source.
    ///
    /// Old browsers send none; then the console's own header decides.
    @Test(arguments: [
        ("same-origin", true), ("none", true), ("cross-site", false), ("same-site", false), ("", false),
        ("nonsense", false),
    ])
    func onlyRequestsFromTheSameOriginAreAccepted(site: String, isAdmitted: Bool) async throws {
        let world = try ConsoleWorld()
        try await world.enter()
        world.host = "relay.example"
        let headers = ["Sec-Fetch-Site": site, "Origin": "https://relay.example"]
        let expected: HTTPResponse.Status = isAdmitted ? .ok : .forbidden
        #expect(try await world.ask(.get, "/console/api/session", headers: headers).status == expected)
        let body = #"{"id":"iCloud.org.example.csrf"}"#
        let made = try await world.ask(.post, "/console/api/containers/add", body: body, headers: headers)
        #expect(made.status == expected)
        #expect(try world.accounts.containers().isEmpty == !isAdmitted)
        for name in Self.readPaths where !isAdmitted {
            #expect(try await world.ask(.get, "/console/api/\(name)", headers: headers).status == .forbidden, "\(name)")
        }
    }

    /// An old browser sends only the origin, and a request with the console's header may still come from another site.
    @Test(arguments: [
        ("https://relay.example", true), ("http://relay.example", true), ("https://Relay.Example", true),
        ("https://evil.example", false), ("null", false), ("https://relay.example:8443", false), ("", false),
        ("https://relay.example.evil.example", false), ("relay.example", false), ("http://relay.example:443", false),
    ])
    func aChangeMustComeFromThePagesOrigin(origin: String, isAdmitted: Bool) async throws {
        let world = try ConsoleWorld()
        try await world.enter()
        for host in ["relay.example", origin.hasPrefix("https") ? "relay.example:443" : "relay.example:80"] {
            world.host = host
            let answer = try await world.ask(
                .post,
                "/console/api/containers/add",
                body: #"{"id":"iCloud.org.example.n\#(host.count)"}"#,
                headers: ["Origin": origin]
            )
            #expect(answer.status == (isAdmitted ? .ok : .forbidden), "\(host): \(answer.text)")
        }
        #expect(try world.accounts.containers().count == (isAdmitted ? 2 : 0))
    }

    @Test func aChangeMayComeFromThePublicAddress() async throws {
        let world = try ConsoleWorld(publicURL: "https://sync.example/relay")
        try await world.enter()
        world.host = "127.0.0.1:8080"
        let body = #"{"id":"iCloud.org.example.proxied"}"#
        for (origin, expected) in [("https://evil.example", 403), ("https://sync.example", 200)] {
            let headers = ["Origin": origin]
            let answer = try await world.ask(.post, "/console/api/containers/add", body: body, headers: headers)
            #expect(answer.status.code == expected, "\(origin)")
        }
    }

    /// A form of another site can send the cookie of an old browser, but not the header; and CORS does not allow a
    /// script to send it.
    @Test func noOtherOriginIsAllowed() async throws {
        let world = try ConsoleWorld()
        try await world.enter()
        let form = ["Origin": "https://evil.example", "Content-Type": "application/x-www-form-urlencoded"]
        let sent = try await world.ask(.post, "/console/api/zones/delete", body: "a=b", isOwnPage: false, headers: form)
        #expect(sent.status == .forbidden)
        let wish = [
            "Origin": "https://evil.example", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "x-zonecast-console",
        ]
        for path in ["/console/api/session", "/console/api/zones/delete", "/console/", "/console/main.js"] {
            let answer = try await world.ask(.options, path, isOwnPage: false, headers: wish)
            #expect(answer.status.code >= 400, "\(path): \(answer.status)")
            #expect(
                answer.headers[.accessControlAllowOrigin] == nil && answer.headers[.accessControlAllowHeaders] == nil
            )
        }
        let plain = try await world.ask(.get, "/console/api/session", headers: ["Origin": "https://evil.example"])
        #expect(plain.headers[.accessControlAllowOrigin] == nil)
    }

    @Test func aSetupLinkWorksOnce() async throws {
        let world = try ConsoleWorld()
        let code = try world.accounts.makeOperatorLink()
        let body = #"{"code":"\#(code)","name":"Ada","password":"correct horse"}"#
        #expect(try await world.ask(.get, "/console/api/setup", query: "code=\(code.lowercased())").status == .ok)
        let first = try await world.ask(.post, "/console/api/setup", body: body)
        #expect(first.status == .ok)
        let cookie = try #require(first.headers[.setCookie])
        #expect(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains("Path"))
        world.forgetCookie()
        #expect(try await world.ask(.get, "/console/api/setup", query: "code=\(code)").status == .notFound)
        #expect(try await world.ask(.post, "/console/api/setup", body: body).status == .notFound)
        #expect(try await world.ask(.get, "/console/api/session").status == .unauthorized)
        #expect(try world.accounts.operators().map(\.name) == ["ada"])
    }

    @Test func aLinkForAnOperatorSetsTheirPasswordAndEndsTheirSessions() async throws {
        let world = try ConsoleWorld()
        try await world.enter("ada")
        let code = try world.accounts.makeOperatorLink(for: "ADA")
        let wrong = #"{"code":"\#(code)","name":"bob","password":"correct horse"}"#
        #expect(try await world.ask(.post, "/console/api/setup", body: wrong).status == .badRequest)
        #expect(try await world.ask(.get, "/console/api/session").status == .ok)
        _ = try world.accounts.useOperatorLink(code, name: "ada", password: "battery staple")
        #expect(try await world.ask(.get, "/console/api/session").status == .unauthorized)
    }

    @Test func passwordsAreChecked() async throws {
        let world = try ConsoleWorld()
        try await world.enter("ada")
        world.forgetCookie()
        let path = "/console/api/session"
        #expect(try await world.ask(.post, path, body: #"{"name":"ada","password":"wrong"}"#).status == .forbidden)
        #expect(
            try await world.ask(.post, path, body: #"{"name":"eve","password":"correct horse"}"#).status == .forbidden
        )
        #expect(
            try await world.ask(.post, path, body: #"{"name":" ADA ","password":"correct horse"}"#).status == .ok
        )
        #expect(try await world.ask(.get, path).status == .ok)
        #expect(try await world.ask(.delete, path).status == .ok)
        #expect(try await world.ask(.get, path).status == .unauthorized)
    }

    @Test func guessingIsThrottled() async throws {
        let world = try ConsoleWorld()
        var statuses: [Int] = []
        for _ in 0..<12 {
            let body = #"{"name":"ada","password":"guess"}"#
            statuses.append(try await world.ask(.post, "/console/api/session", body: body).status.code)
        }
        #expect(statuses.prefix(10).allSatisfy { $0 == 403 })
        #expect(statuses.suffix(2).allSatisfy { $0 == 429 })
        // One-time codes are limited too.
        #expect(try await world.ask(.get, "/console/api/setup", query: "code=AAAA").status.code == 429)
    }

    @Test func changesAreWrittenToTheAuditLog() async throws {
        let world = try ConsoleWorld()
        try await world.enter("ada")
        let made = try await world.ask(
            .post,
            "/console/api/containers/add",
            body: #"{"id":"iCloud.org.example.notes"}"#
        )
        #expect(made.status == .ok, "\(made.text)")
        let entries = try world.accounts.auditEntries(limit: 10)
        #expect(entries.map(\.action) == ["container.create", "operator.setup"])
        #expect(entries.allSatisfy { $0.actor == "ada" })
        #expect(!entries.contains { "\($0)".contains("correct horse") })
    }
}

/// Limits by address count an IPv6 network as one address, because a client controls all of its network.
@Suite(.timeLimit(.minutes(5))) struct PeerLimitTests {
    @Test func connectionsFromOneNetworkAreCountedTogether() {
        var limits = ServerLimits()
        limits.connectionsPerAddress = 2
        let counts = ConnectionCounts(limits: limits, trustedProxies: [])
        #expect(counts.joined("2001:db8::1") == .accepted)
        #expect(counts.joined("2001:db8::2") == .accepted)
        #expect(counts.joined("2001:db8::3") == .tooMany)
        #expect(counts.joined("2001:db8:0:1::1") == .accepted, "another network")
        #expect(counts.joined("192.0.2.1") == .accepted)
        // Any of the connections may close.
        counts.left("2001:db8::3")
        counts.left("2001:db8::2")
        #expect(counts.joined("2001:db8::4") == .accepted)
    }

    @Test func guessesFromOneNetworkAreCountedTogether() {
        let guardian = ConsoleGuard(attempts: AttemptsInMemory(uptime: { .zero }))
        for host in 1...10 {
            #expect(throws: Never.self) { try guardian.charge(from: "2001:db8::\(host)") }
        }
        #expect(throws: ConsoleRefusal.self) { try guardian.charge(from: "2001:db8::beef") }
        #expect(throws: Never.self) { try guardian.charge(from: "2001:db8:0:1::1") }
    }

    @Test func theNumberOfWaitingSignInsIsLimited() async {
        let guardian = ConsoleGuard(attempts: AttemptsInMemory(uptime: { .zero }))
        let blocker = DispatchSemaphore(value: 0)
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0...ConsoleGuard.maxWaiting {
                group.addTask {
                    do {
                        try await guardian.enqueue {
                            blocker.wait()
                            blocker.signal()
                        }
                        return true
                    } catch {
                        return false
                    }
                }
            }
            // The first result comes while the running request is blocked.
            #expect(await group.next() == false)
            blocker.signal()
            for await isServed in group { #expect(isServed) }
        }
    }
}
