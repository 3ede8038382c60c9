import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Testing

@Suite struct RateTests {
    let world: SignInWorld

    init() throws { world = try SignInWorld() }

    private func ask(
        _ relay: Relay,
        _ operation: String = "public/records/lookup",
        apiToken: String? = nil,
        webToken: String? = nil,
        from address: String = "192.0.2.1"
    ) async -> APIResponse {
        var request = world.post(operation, #"{"records":[]}"#, apiToken: apiToken, webToken: webToken)
        request.remoteAddress = address
        return await relay.respond(to: request)
    }

    @Test func callersOfAPublicDatabaseShareARateLimit() async throws {
        world.settings.publicRate = RateLimit(perSecond: 2, burst: 4)
        world.settings.publicRatePerUser = nil
        let relay = try world.relay()
        for number in 0..<4 { #expect(await ask(relay, from: "192.0.2.\(number)").status == .ok) }
        let answer = await ask(relay, from: "192.0.2.9")
        #expect(answer.status == .tooManyRequests)
        #expect(answer.headers[.retryAfter] == "1")
        let body = String(decoding: answer.body, as: UTF8.self)
        #expect(body.contains(#""serverErrorCode":"THROTTLED""#) && body.contains(#""retryAfter":0.5"#))
        // Private databases do not count.
        let token = try world.signIn().webToken
        #expect(await ask(relay, "private/records/lookup", webToken: token).status == .ok)
        // Neither do sign-ins.
        #expect(await ask(relay, "public/users/caller", webToken: token).status == .ok)
        #expect(await ask(relay, "public/users/caller").status.code == 421)
        world.clock.advance(.milliseconds(500))
        #expect(await ask(relay).status == .ok)
    }

    @Test func eachSignedInUserHasAnAdditionalRateOfTheirOwn() async throws {
        world.settings.publicRate = RateLimit(perSecond: 1, burst: 1)
        world.settings.publicRatePerUser = RateLimit(perSecond: 1, burst: 2)
        let relay = try world.relay()
        let alice = try world.signIn().webToken
        let bob = try world.signIn(try world.store.addAccount(email: "bob@example.org", password: "battery staple"))
        for _ in 0..<3 { #expect(await ask(relay, webToken: alice).status == .ok) }
        #expect(await ask(relay, webToken: alice).status == .tooManyRequests)
        #expect(await ask(relay).status == .tooManyRequests)
        for _ in 0..<2 { #expect(await ask(relay, webToken: bob.webToken).status == .ok) }
    }

    @Test func wrongCredentialsAreLimitedByAddressAndValidOnesAreNot() async throws {
        world.settings.failedCredentialRate = RateLimit(perSecond: 0.1, burst: 3)
        let relay = try world.relay()
        let wrong = String(repeating: "0", count: 64)
        for _ in 0..<3 { #expect(await ask(relay, apiToken: wrong).status == .unauthorized) }
        let answer = await ask(relay, apiToken: wrong)
        #expect(answer.status == .tooManyRequests)
        #expect(answer.headers[.retryAfter] == "10")
        // By then, a missing container, another container's token and a forged web token get the same response.
        #expect(await ask(relay, webToken: "nonsense").status == .tooManyRequests)
        #expect(await ask(relay).status == .ok)
        #expect(await ask(relay, webToken: try world.signIn().webToken).status == .ok)
        #expect(await ask(relay, apiToken: wrong, from: "192.0.2.2").status == .unauthorized)
    }

    @Test func aNetworkOfIPv6AddressesCountsAsOne() async throws {
        world.settings.failedCredentialRate = RateLimit(perSecond: 0.1, burst: 2)
        let relay = try world.relay()
        func wrong(_ address: String) async -> Int { await ask(relay, apiToken: "0", from: address).status.code }
        #expect(await wrong("2001:db8:1:2::1") == 401)
        #expect(await wrong("2001:db8:1:2:ffff::9") == 401)
        #expect(await wrong("2001:db8:1:2::1") == 429)
        #expect(await wrong("2001:db8:1:3::1") == 401)
        #expect(await wrong("::ffff:192.0.2.1") == 401)
        #expect(await wrong("192.0.2.1") == 401)
        #expect(await wrong("::ffff:192.0.2.1") == 429)
        #expect(await wrong("192.0.2.2") == 401)
    }

    @Test func withoutAPublicRateNothingIsLimited() async throws {
        world.settings.publicRate = nil
        world.settings.requestRate = nil
        let relay = try world.relay()
        for _ in 0..<500 { #expect(await ask(relay).status == .ok) }
    }

    @Test func throttledCallersAreReportedToTheOperator() async throws {
        world.settings.publicRate = RateLimit(perSecond: 1, burst: 1)
        world.settings.publicRatePerUser = nil
        world.settings.failedCredentialRate = RateLimit(perSecond: 0.1, burst: 1)
        let relay = try world.relay()
        let alice = try world.signIn()
        #expect(await ask(relay, webToken: alice.webToken).status == .ok)
        #expect(relay.rateHits().isEmpty)
        for _ in 0..<2 { #expect(await ask(relay, webToken: alice.webToken).status == .tooManyRequests) }
        #expect(await ask(relay).status == .tooManyRequests)
        for _ in 0..<2 { _ = await ask(relay, apiToken: "0") }
        let hits = relay.rateHits()
        #expect(hits.first?.rate == .publicRequests && hits.first?.count == 2)
        #expect(hits.first?.subject == .user(alice.user))
        #expect(hits.contains { $0.subject == .anyone(world.home.container) })
        let wrong = try #require(hits.first { $0.rate == .failedCredentials })
        // The address is not stored in plain text.
        #expect(!"\(wrong.subject)".contains("192.0.2.1"))
        world.clock.advance(.seconds(86_401))
        #expect(relay.rateHits().isEmpty)
    }
}
