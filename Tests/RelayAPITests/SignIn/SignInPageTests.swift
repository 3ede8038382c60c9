import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayGateways
import Testing

@Suite struct SignInPageTests {
    let world: SignInWorld
    let right = ["email": "alice@example.org", "password": "correct horse"]

    init() throws { world = try SignInWorld() }

    private func token(callback: String?, origins: [String] = []) throws -> String {
        try world.store.addAPIToken(
            in: world.home,
            name: "",
            notes: "",
            callbackURL: callback,
            allowedOrigins: origins
        ).text
    }

    /// Returns the web auth token of a redirect, unescaped.
    private func webToken(_ response: APIResponse) throws -> String {
        let location = try #require(response.headers[.location])
        let found = try #require(location.firstMatch(of: /ckWebAuthToken=([A-Za-z0-9%]+)/)?.1)
        return try #require(String(found).removingPercentEncoding)
    }

    private func caller(_ browser: Browser, _ apiToken: String, _ webToken: String) async -> APIResponse {
        await browser.relay.respond(to: world.request(apiToken: apiToken, webToken: webToken))
    }

    @Test(arguments: [
        ("https://app.example/done", "https://app.example/done?ckWebAuthToken="),
        ("https://app.example/done?a=b", "https://app.example/done?a=b&ckWebAuthToken="),
        ("cloudkit-icloud.org.example.notes://done", "cloudkit-icloud.org.example.notes://done?ckWebAuthToken="),
    ])
    func theBrowserIsRedirectedToTheCallbackWithAToken(callback: String, start: String) async throws {
        let browser = try Browser(world)
        let apiToken = try token(callback: callback)
        let page = try await browser.open(try await browser.link(apiToken: apiToken, in: world.home))
        #expect(page.status == .ok)
        let answer = await browser.submit("/signin", right)
        #expect(answer.status.code == 303)
        #expect(answer.headers[.location]?.hasPrefix(start) == true)
        let token = try webToken(answer)
        #expect(await caller(browser, apiToken, token).status == .ok)
        world.clock.advance(.seconds(3600))
        #expect(await caller(browser, apiToken, token).status.code == 421)
    }

    @Test(
        "the page takes every spelling of an address that an account can have",
        arguments: [
            "zo\u{EB}@b\u{FC}cher.example", "ZOE\u{308}@xn--bcher-kva.example", "zo\u{EB}@XN--BCHER-KVA.EXAMPLE.",
        ]
    )
    func spelledAddresses(typed: String) async throws {
        try world.store.addAccount(email: "zo\u{EB}@b\u{FC}cher.example", password: "correct horse")
        let browser = try Browser(world)
        try await browser.open(
            try await browser.link(apiToken: try token(callback: "https://app.example"), in: world.home)
        )
        // A browser's own check of addresses refuses letters outside ASCII.
        #expect(browser.page.contains("name=\"email\"") && !browser.page.contains("type=\"email\""))
        #expect(await browser.submit("/signin", ["email": typed, "password": "correct horse"]).status.code == 303)
        #expect(await browser.submit("/signin", ["email": typed, "password": "wrong horse"]).status.code == 403)
        try await browser.open("/account")
        #expect(browser.page.contains("name=\"email\"") && !browser.page.contains("type=\"email\""))
    }

    @Test func theTokenIsInsertedBeforeAFragment() async throws {
        let browser = try Browser(world)
        try await browser.open(
            try await browser.link(apiToken: try token(callback: "https://app.example/#/done"), in: world.home)
        )
        let location = await browser.submit("/signin", right).headers[.location]
        #expect(location?.hasPrefix("https://app.example/?ckWebAuthToken=") == true)
        #expect(location?.hasSuffix("#/done") == true)
    }

    @Test func keepMeSignedInLastsTwoWeeks() async throws {
        let browser = try Browser(world)
        let apiToken = try token(callback: "https://app.example/done")
        try await browser.open(try await browser.link(apiToken: apiToken, in: world.home))
        let kept = try webToken(await browser.submit("/signin", right.merging(["keep": "yes"]) { $1 }))
        world.clock.advance(.seconds(13 * 86_400))
        #expect(await caller(browser, apiToken, kept).status == .ok)
    }

    @Test func signingInCanTurnDiscoverabilityOnButNotOff() async throws {
        let browser = try Browser(world)
        try await browser.open(
            try await browser.link(apiToken: try token(callback: "https://app.example"), in: world.home)
        )
        func isFound() throws -> Bool? {
            try world.store.profiles(of: world.alice.id).first { $0.home == world.home }?.profile.isDiscoverable
        }
        await browser.submit("/signin", right)
        #expect(try isFound() == false)
        await browser.submit("/signin", right.merging(["discoverable": "yes"]) { $1 })
        #expect(try isFound() == true)
        await browser.submit("/signin", right)
        #expect(try isFound() == true)
    }

    @Test func theTokenIsPassedOnlyToOpenersOfAllowedOrigins() async throws {
        let browser = try Browser(world)
        let apiToken = try token(callback: nil, origins: ["https://app.example", "https://b.example"])
        try await browser.open(
            try await browser.link(apiToken: apiToken, in: world.home) + "&origin=https://evil.example"
        )
        let answer = await browser.submit("/signin", right)
        #expect(answer.status == .ok)
        #expect(browser.page.contains("data-origins=\"https://app.example https://b.example\""))
        #expect(!browser.page.contains("evil"))
        let found = try #require(browser.page.firstMatch(of: /data-token="([^"]*)"/)?.1)
        #expect(await caller(browser, apiToken, String(found)).status == .ok)
        let script = try await browser.open("/signin/hand-over.js")
        #expect(script.headers[.contentType] == "text/javascript; charset=utf-8")
        #expect(!browser.page.contains("\"*\""))
    }

    @Test func everyPageForbidsFramingAndInlineCode() async throws {
        let browser = try Browser(world)
        let link = try await browser.link(apiToken: try token(callback: "https://app.example/x"), in: world.home)
        for page in [link, "/signin", "/account"] {
            let answer = try await browser.open(page)
            let policy = try #require(answer.headers[.contentSecurityPolicy])
            #expect(policy.hasPrefix("default-src 'none'; style-src 'self'; script-src 'self';"))
            #expect(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"))
            #expect(answer.headers[.cacheControl] == "no-store")
            #expect(answer.headers[.xContentTypeOptions] == "nosniff")
            #expect(browser.page.firstMatch(of: /["\s](?:style|on[a-z]+)=/) == nil, "\(page) has something inline")
            #expect(browser.page.firstMatch(of: /<script(?! src="signin\/hand-over.js")/) == nil)
            #expect(browser.page.contains("<html lang=\"en\">") && browser.page.contains("<main>"))
        }
        let answer = try await browser.open(link)
        #expect(answer.headers[.contentSecurityPolicy]?.contains("form-action 'self' https:;") == true)
        #expect(browser.page.contains("You will continue to <strong>app.example</strong>"))
    }

    @Test func everyFieldHasALabel() async throws {
        let browser = try Browser(world)
        try await browser.open(
            try await browser.link(apiToken: try token(callback: "https://app.example"), in: world.home)
        )
        for match in browser.page.matches(of: /<input type="(?:email|password|text)" id="([^"]*)"/) {
            #expect(browser.page.contains("<label for=\"\(match.1)\">"))
        }
        #expect(browser.page.matches(of: /<input type="checkbox"/).count == 2)
        #expect(browser.page.matches(of: /<label class="choice"><input type="checkbox"/).count == 2)
    }

    @Test func wrongUnknownAndDisabledCredentialsLookAlike() async throws {
        let browser = try Browser(world)
        let bob = try world.store.addAccount(email: "bob@example.org", password: "battery staple")
        try world.store.setDisabled(true, of: bob.id)
        try await browser.open(
            try await browser.link(apiToken: try token(callback: "https://app.example"), in: world.home)
        )
        var pages: Set<String> = []
        for (email, password) in [
            ("alice@example.org", "wrong"), ("nobody@example.org", "correct horse"),
            ("bob@example.org", "battery staple"), ("alice@example.org", ""),
        ] {
            let answer = await browser.submit("/signin", ["email": email, "password": password])
            #expect(answer.status == .forbidden)
            #expect(answer.headers[.location] == nil)
            #expect(browser.page.contains("role=\"alert\""))
            pages.insert(browser.page.replacing(email, with: "EMAIL"))
        }
        #expect(pages.count == 1)
    }

    @Test func guessingAnAccountsPasswordFromManyAddressesIsThrottled() async throws {
        let browser = try Browser(world)
        try await browser.open(
            try await browser.link(apiToken: try token(callback: "https://app.example"), in: world.home)
        )
        for email in ["alice@example.org", "nobody@example.org"] {
            for attempt in 0..<20 {
                browser.address = "198.51.100.\(attempt)"
                #expect(await browser.submit("/signin", ["email": email, "password": "guess"]).status == .forbidden)
            }
            browser.address = "198.51.100.99"
            let answer = await browser.submit("/signin", ["email": email, "password": "correct horse"])
            #expect(answer.status == .tooManyRequests, "\(email)")
            #expect(answer.headers[.retryAfter] == "120")
            #expect(browser.page.contains("Wait 2 minutes"))
        }
        world.clock.advance(.seconds(120))
        #expect(await browser.submit("/signin", right).status.code == 303)
    }

    @Test func aFormOfAnotherSiteIsRefused() async throws {
        let browser = try Browser(world)
        try await browser.open(
            try await browser.link(apiToken: try token(callback: "https://app.example"), in: world.home)
        )
        let cookie = browser.cookie
        let site = try #require(HTTPField.Name("Sec-Fetch-Site"))
        for headers: HTTPFields in [[.origin: "https://evil.example"], [.origin: "null"], [site: "cross-site"]] {
            #expect(await browser.submit("/signin", right, headers: headers).status == .forbidden)
            #expect(browser.page.contains("blocks its cookies"))
        }
        #expect(await browser.submit("/signin", right.merging(["form": "00"]) { $1 }).status == .forbidden)
        browser.cookie = nil
        #expect(await browser.submit("/signin", right).status == .forbidden)
        // A cookie of another browser matches that browser's form.
        browser.cookie = "zonecast_page=" + String(repeating: "0", count: 32)
        let stolen = browser.hiddenFields()["form"] ?? ""
        browser.cookie = cookie
        #expect(await browser.submit("/signin", right.merging(["form": stolen]) { $1 }).status == .forbidden)
        try await browser.open(
            try await browser.link(apiToken: try token(callback: "https://app.example"), in: world.home)
        )
        let own: HTTPFields = [.origin: "https://relay.example", site: "same-origin"]
        #expect(await browser.submit("/signin", right, headers: own).status.code == 303)
    }

    @Test func allInvalidLinksGetTheSamePage() async throws {
        let browser = try Browser(world)
        let id = try #require(try world.store.apiTokens().first?.id)
        let revoked = try world.store.addAPIToken(
            in: world.home,
            name: "",
            notes: "",
            callbackURL: "https://app.example",
            allowedOrigins: []
        )
        try world.store.revokeAPIToken(revoked.token.id)
        let links = [
            "", "container=\(world.home.container)", "container=iCloud.nobody&token=\(id)",
            "container=\(world.elsewhere.container)&environment=development&token=\(id)",
            "container=\(world.home.container)&environment=production&token=\(id)",
            "container=\(world.home.container)&environment=development&token=\(revoked.token.id)",
            "container=%ZZ", "container=" + String(repeating: "a", count: 20_000),
        ]
        var pages: Set<String> = []
        for link in links {
            let answer = await browser.relay.respond(to: APIRequest(method: .get, path: "/signin", query: link))
            #expect(answer.status == .badRequest, "\(link.prefix(60))")
            pages.insert(String(decoding: answer.body, as: UTF8.self))
        }
        #expect(pages.count == 1)
        let lonely = try token(callback: nil)
        let answer = try await browser.open(try await browser.link(apiToken: lonely, in: world.home))
        #expect(answer.status == .badRequest)
        #expect(browser.page.contains("needs a callback address"))
    }

    @Test func enteredTextIsEscaped() async throws {
        let browser = try Browser(world)
        try await browser.open(
            try await browser.link(apiToken: try token(callback: "https://app.example"), in: world.home)
        )
        await browser.submit("/signin", ["email": "\"><script>alert(1)</script>", "password": "x"])
        #expect(!browser.page.contains("<script>"))
        #expect(browser.page.contains("&quot;&gt;&lt;script&gt;"))
    }

    @Test func onlyPagePathsAreServedBehindAProxysPrefix() async throws {
        let browser = try Browser(world)
        #expect(try await browser.open("/relay/account").status == .ok)
        #expect(try await browser.open("/relay/signin/style.css").headers[.contentType] == "text/css; charset=utf-8")
        let wrong = await browser.relay.respond(to: APIRequest(method: .put, path: "/signin"))
        #expect(wrong.status == .methodNotAllowed)
        #expect(wrong.headers[.allow] == "GET, HEAD, POST, OPTIONS")
        let wire = "/database/1/\(world.home.container)/development/public/signin"
        #expect(try await browser.open(wire).headers[.contentType] == "application/json; charset=UTF-8")
    }

    @Test func aDevRelaySignsInAnyNameForAPageOfThisMachine() async throws {
        world.settings.acceptsDevTokens = true
        let browser = try Browser(world)
        let link = "/signin?container=\(world.home.container)&environment=development&origin=http://localhost:5173"
        try await browser.open(link)
        let answer = await browser.submit("/signin", ["name": "alice", "discoverable": "yes"])
        #expect(answer.status == .ok)
        #expect(browser.page.contains("data-token=\"dev-alice\" data-origins=\"http://localhost:5173\""))
        try await browser.open(link)
        await browser.submit("/signin", ["name": "no such/name"])
        #expect(browser.page.contains("role=\"alert\""))
        let foreign = try await browser.open(link.replacing("localhost:5173", with: "evil.example"))
        #expect(foreign.status == .badRequest)
    }

    @Test(arguments: [
        ("https://app.example/done", true), ("myapp:done", true), ("cloudkit-icloud.a.b://x", true),
        ("javascript:alert(1)", false), ("JavaScript://%0aalert(1)", false), ("data:text/html,x", false),
        ("/done", false), ("https:", false), ("https://a b", false), ("1a:b", false), ("https://ä.example", false),
        ("https://a\"b", false),
    ])
    func onlyUsableCallbackAddressesAreAccepted(address: String, isUsable: Bool) {
        #expect(Callback.isUsable(address) == isUsable)
    }
}

/// Hostile input to the sign-in parsers gets a response and never traps.
@Suite struct HostileInputTests {
    @Test(arguments: 0..<20) func mutatedTokensAndKeySetsAreRefusedOrParsed(seed: UInt64) throws {
        var random = SplitMix(state: seed)
        let foreign = try ForeignWorld()
        let token = Array(try foreign.token().utf8)
        let keys = Array(foreign.jwks([("p", .es256), ("r", .rs256), ("e", .edDSA), ("s", .hs256)]).utf8)
        for _ in 0..<100 {
            _ = try? IdentityToken(String(decoding: mutated(token, &random), as: UTF8.self))
            let bytes = mutated(keys, &random)
            // Damage never adds keys to a set, and a published set never contains a secret.
            #expect((try? IssuerKeySet(published: bytes))?.count ?? 0 <= 3)
            _ = try? IssuerKeySet(file: bytes, isSecret: false)
        }
    }

    @Test(arguments: 0..<10) func mutatedFormsGetAPage(seed: UInt64) async throws {
        var random = SplitMix(state: seed)
        let world = try SignInWorld()
        let browser = try Browser(world)
        let id = try #require(try world.store.apiTokens().first?.id)
        let query =
            "container=\(world.home.container)&environment=development&token=\(id)&email=a%40b&password=%C3%A4+x&form=00"
        let good = Array(query.utf8)
        for _ in 0..<50 {
            let bytes = mutated(good, &random)
            let posted = await browser.relay.respond(to: APIRequest(method: .post, path: "/signin", body: bytes))
            #expect([400, 403].contains(posted.status.code))
            let text = String(decoding: bytes.map { $0 & 0x7F }, as: UTF8.self)
            let shown = await browser.relay.respond(to: APIRequest(method: .get, path: "/signin", query: text))
            #expect([200, 400].contains(shown.status.code))
            let account = await browser.relay.respond(to: APIRequest(method: .post, path: "/account", body: bytes))
            #expect(account.status == .forbidden)
        }
    }

    private func mutated(_ bytes: [UInt8], _ random: inout SplitMix) -> [UInt8] {
        var bytes = bytes
        for _ in 0..<Int.random(in: 1...6, using: &random) {
            let index = Int.random(in: 0..<max(1, bytes.count), using: &random)
            switch UInt8.random(in: 0..<5, using: &random) {
            case 0: bytes.insert(UInt8.random(in: 0...255, using: &random), at: min(index, bytes.count))
            case 1 where bytes.count > 1: bytes.remove(at: index)
            case 2: bytes.replaceSubrange(min(index, bytes.count)..., with: [])
            case 3: bytes.insert(contentsOf: bytes.suffix(40), at: min(index, bytes.count))
            default: if index < bytes.count { bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &random) }
            }
        }
        return bytes
    }
}
