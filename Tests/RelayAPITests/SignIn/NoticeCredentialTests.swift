import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Testing

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

    @Test func theUpgradeShowsBothOrABearer() throws {
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

    @Test func theHelloShowsThemAsTheyAre() throws {
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

    @Test func anEndedTokenIsToldFromAWrongOneAndARenewedOneLivesOn() throws {
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
        #expect(throws: CredentialRefusal.ended) { try authenticator.authenticateUpgrade(request, in: world.home) }
        let again = upgrade(query: "ckAPIToken=\(world.apiToken)", bearer: renewed.webAuthToken)
        #expect(try authenticator.authenticateUpgrade(again, in: world.home)?.caller.user == found.caller.user)
    }
}
