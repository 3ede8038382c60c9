import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Testing
import Wire

@Suite struct NoticeCredentialTests {
    let world: SignInWorld

    init() throws { world = try SignInWorld() }

    private func upgrade(query: String?, bearer: String? = nil) -> APIRequest {
        APIRequest(
            method: .get,
            path: "/push/1/\(world.home.container)/development",
            query: query,
            headers: bearer.map { [.authorization: "Bearer \($0)"] } ?? [:]
        )
    }

    @Test func theUpgradeAcceptsBothTokensOrABearerToken() throws {
        let authenticator = try world.authenticator()
        let (token, user) = try world.signIn()
        let escaped = SignInWorld.escaped(token)
        let ways = [
            upgrade(query: "ckAPIToken=\(world.apiToken)&ckWebAuthToken=\(escaped)"),
            upgrade(query: "ckAPIToken=\(world.apiToken)", bearer: token),
        ]
        for way in ways { #expect(try authenticator.authenticateUpgrade(way, in: world.home)?.caller.user == user) }
        #expect(
            try authenticator.authenticateUpgrade(upgrade(query: "ckAPIToken=\(world.apiToken)"), in: world.home) == nil
        )
        #expect(throws: CredentialRefusal.failed) {
            try authenticator.authenticateUpgrade(upgrade(query: nil, bearer: token), in: world.home)
        }
        #expect(throws: CredentialRefusal.failed) {
            try authenticator.authenticateUpgrade(ways[1], in: world.elsewhere)
        }
    }

    @Test func theHelloHasUnescapedTokens() throws {
        let authenticator = try world.authenticator()
        let (token, user) = try world.signIn()
        let hello = try authenticator.authenticateHello(
            apiToken: world.apiToken,
            webToken: token,
            deviceID: "D5B7",
            upgrade: upgrade(query: nil),
            in: world.home
        )
        #expect(hello.caller == Caller(.user(user), deviceID: "D5B7"))
        let half = try authenticator.authenticateHello(
            apiToken: nil,
            webToken: token,
            deviceID: nil,
            upgrade: upgrade(query: "ckAPIToken=\(world.apiToken)"),
            in: world.home
        )
        #expect(half.caller.user == user)
        #expect(throws: CredentialRefusal.failed) {
            try authenticator.authenticateHello(
                apiToken: world.apiToken,
                webToken: "%41nonsense",
                deviceID: nil,
                upgrade: upgrade(query: nil),
                in: world.home
            )
        }
    }

    @Test func anExpiredTokenDiffersFromAWrongOneAndARenewedOneStaysValid() throws {
        let authenticator = try world.authenticator()
        let request = upgrade(query: "ckAPIToken=\(world.apiToken)", bearer: try world.signIn().webToken)
        let opened = try authenticator.authenticateUpgrade(request, in: world.home)
        let found = try #require(opened)
        #expect(found.expires == world.clock.now + .seconds(1800))
        world.clock.advance(.seconds(1700))
        let longer = try authenticator.renew(found)
        let renewed = try #require(longer)
        #expect(renewed.life == .seconds(1800))
        world.clock.advance(.seconds(200))
        #expect(throws: CredentialRefusal.expired) { try authenticator.authenticateUpgrade(request, in: world.home) }
        let again = upgrade(query: "ckAPIToken=\(world.apiToken)", bearer: renewed.webAuthToken)
        #expect(try authenticator.authenticateUpgrade(again, in: world.home)?.caller.user == found.caller.user)
    }

    /// The close code tells a returning device whether to renew its token or to sign in again.
    @Test(arguments: [false, true]) func theCloseCodeTellsASignOutFromExpiry(_ isSignedOut: Bool) async throws {
        let relay = try SubscriptionWorld(directory: world.store, time: world.clock.source)
        let (token, _) = try world.signIn()
        if isSignedOut {
            let authenticator = try world.authenticator()
            let request = world.request(apiToken: world.apiToken, webToken: token)
            try authenticator.signOut(try authenticator.authenticate(request, in: world.home))
        } else {
            world.clock.advance(.seconds(1801))
        }
        let phone = TestDevice()
        await phone.connect(
            .hello(NoticeHello(deviceID: "phone", apiToken: world.apiToken, webAuthToken: token)),
            path: "/push/1/\(world.home.container)/development",
            hub: relay.hub,
            worker: relay.number,
            registry: relay.registry,
            admission: relay.admission
        )
        #expect(phone.closed == (isSignedOut ? .notAuthenticated : .tokenExpired))
    }

    /// The cache recognises a token by all of its bytes, and never accepts another one for it.
    @Test func aTokenSimilarToAValidOneIsRefused() throws {
        let authenticator = try world.authenticator()
        let (good, user) = try world.signIn()
        func open(_ token: String) throws -> UserID? {
            let request = upgrade(query: "ckAPIToken=\(world.apiToken)", bearer: token)
            return try authenticator.authenticateUpgrade(request, in: world.home)?.caller.user
        }
        for _ in 0..<3 { #expect(try open(good) == user) }
        let bytes = try #require(Base64.decode(good))
        // Bytes of the secret, the time, the nonce, and the first and last byte of the tag.
        for index in [20, 56, 60, 65, 80] {
            var changed = bytes
            changed[index] ^= 1
            #expect(throws: CredentialRefusal.failed, "byte \(index)") { try open(Base64.encode(changed)) }
        }
        #expect(try open(good) == user)
        let opened = try authenticator.authenticateUpgrade(
            upgrade(query: "ckAPIToken=\(world.apiToken)", bearer: good),
            in: world.home
        )
        let renewal = try authenticator.renew(try #require(opened))
        let next = try #require(renewal).webAuthToken
        for token in [next, good, next] { #expect(try open(token) == user) }
    }
}
