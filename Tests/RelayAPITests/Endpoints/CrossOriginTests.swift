import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Testing

/// Requests from web pages on other origins.
///
/// See Wire.md, "Headers and bodies".
@Suite struct CrossOriginTests {
    let world: SignInWorld

    init() throws { world = try SignInWorld() }

    private func ask(
        _ relay: Relay,
        origin: String,
        _ method: HTTPRequest.Method = .get,
        apiToken: String? = nil,
        webToken: String? = nil,
        host: String = "relay.example"
    ) async throws -> APIResponse {
        var request = world.request(apiToken: apiToken ?? world.apiToken, webToken: webToken)
        request.method = method
        request.headers[.origin] = origin
        request.headers[try #require(HTTPField.Name("Host"))] = host
        return await relay.respond(to: request)
    }

    @Test func anAllowedPageMayReadEveryResponseAndSendCredentials() async throws {
        let relay = try world.relay()
        let signedIn = try world.signIn().webToken
        let good = try await ask(relay, origin: "https://app.example", webToken: signedIn)
        // Without a user, or after the sign-in ended, the page must be able to read where to sign in.
        let unsigned = try await ask(relay, origin: "https://app.example")
        world.clock.advance(.seconds(3600))
        let ended = try await ask(relay, origin: "https://app.example", webToken: signedIn)
        #expect([good.status.code, unsigned.status.code, ended.status.code] == [200, 421, 421])
        for answer in [good, unsigned, ended] {
            #expect(answer.headers[.accessControlAllowOrigin] == "https://app.example")
            #expect(answer.headers[.accessControlAllowCredentials] == "true")
            #expect(answer.headers[.vary] == "Origin")
            let exposed = answer.headers[.accessControlExposeHeaders] ?? ""
            for name in ["X-Apple-Request-UUID", "X-Apple-CloudKit-Web-Auth-Token", "X-Responding-Instance", "Via"] {
                #expect(exposed.contains(name))
            }
        }
    }

    @Test(arguments: ["https://evil.example", "null", "http://localhost:8000", "https://app.example.evil.example"])
    func aForeignPageIsRefusedWithAnyCredentials(origin: String) async throws {
        let relay = try world.relay()
        for webToken in [nil, try world.signIn().webToken] {
            let answer = try await ask(relay, origin: origin, webToken: webToken)
            #expect(answer.status == .forbidden)
            #expect(answer.headers[.accessControlAllowOrigin] == nil)
        }
        let wrong = try await ask(relay, origin: origin, apiToken: "0")
        #expect(wrong.status == .unauthorized)
        #expect(wrong.headers[.accessControlAllowOrigin] == nil)
        let preflight = try await ask(relay, origin: origin, .options)
        #expect(preflight.status == .forbidden)
        #expect(preflight.headers[.accessControlAllowOrigin] == nil)
    }

    @Test func aPreflightListsTheAllowedMethodsAndHeaders() async throws {
        let answer = try await ask(try world.relay(), origin: "https://app.example", .options)
        #expect(answer.status == .noContent)
        #expect(answer.headers[.accessControlAllowOrigin] == "https://app.example")
        #expect(answer.headers[.accessControlAllowCredentials] == "true")
        #expect(answer.headers[.accessControlAllowMethods] == "GET, POST, OPTIONS")
        let allowed = answer.headers[.accessControlAllowHeaders] ?? ""
        for name in [
            "Content-Type", "X-Apple-CloudKit-Request-KeyID", "X-Apple-CloudKit-Request-ISO8601Date",
            "X-Apple-CloudKit-Request-SignatureV1",
        ] {
            #expect(allowed.contains(name))
        }
        #expect(!answer.headers.contains { $0.value == "*" })
    }

    /// Not sent by a page: a client asks which methods a path accepts.
    @Test func optionsWithoutAnOriginListsTheMethodsOfAPath() async throws {
        let relay = try world.relay()
        for (operation, allowed) in [("users/caller", "GET, POST, OPTIONS"), ("records/modify", "POST, OPTIONS")] {
            var request = world.request(apiToken: nil)
            request.method = .options
            request.path = request.path.replacing("users/caller", with: operation)
            let answer = await relay.respond(to: request)
            #expect(answer.status == .noContent && answer.body.isEmpty)
            #expect(answer.headers[.allow] == allowed)
            #expect(answer.headers[.accessControlAllowOrigin] == nil)
        }
        var whole = world.request(apiToken: nil)
        whole.method = .options
        whole.path = "*"
        #expect(await relay.respond(to: whole).status == .noContent)
    }

    @Test func theRelaysOwnPagesAndConfiguredOriginsAreAllowed() async throws {
        world.settings.allowedOrigins = ["https://admin.example"]
        world.settings.publicURL = "https://sync.example/relay"
        let relay = try world.relay()
        for origin in [
            "https://admin.example", "https://sync.example", "https://relay.example", "http://relay.example",
        ] {
            #expect(try await ask(relay, origin: origin).headers[.accessControlAllowOrigin] == origin)
        }
    }

    @Test func aDevRelayAllowsOnlyPagesOfThisMachine() async throws {
        world.settings.acceptsDevTokens = true
        let relay = try world.relay()
        for origin in ["http://localhost:5173", "http://127.0.0.1", "http://[::1]:80"] {
            #expect(try await ask(relay, origin: origin, webToken: "dev-alice").status == .ok)
        }
        // An attacker's host name that resolves to this machine equals its own Host header, and is still not allowed.
        let rebound = try await ask(relay, origin: "http://evil.example", webToken: "dev-alice", host: "evil.example")
        #expect(rebound.status == .forbidden)
        let link = try await ask(relay, origin: "http://localhost:5173", apiToken: "any")
        #expect(String(decoding: link.body, as: UTF8.self).contains("&origin=http:"))
    }
}
