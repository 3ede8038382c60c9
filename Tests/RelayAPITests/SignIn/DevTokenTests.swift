import Records
import RelayAPI
import RelayCore
import RelayStore
import Testing

@Suite struct DevTokenTests {
    let world: SignInWorld

    init() throws {
        world = try SignInWorld()
        world.settings.acceptsDevTokens = true
    }

    @Test(arguments: [nil, "anything", ""])
    func aDevTokenCreatesItsUserOnFirstUseWithAnyAPIToken(apiToken: String?) throws {
        let authenticator = try world.authenticator()
        let fresh = ContainerEnvironment(try #require(ContainerID("iCloud.made.on.the.fly")), .production)
        let request = world.request(apiToken: apiToken, webToken: "dev-alice")
        let found = try authenticator.authenticate(request, in: fresh)
        #expect(found.caller.user != nil)
        #expect(found.freshWebToken == nil)
        #expect(try authenticator.authenticate(request, in: fresh).caller == found.caller)
        #expect(try world.store.hasContainer(fresh.container))
        let other = try authenticator.authenticate(world.request(apiToken: apiToken, webToken: "dev-bob"), in: fresh)
        #expect(other.caller.user != found.caller.user)
    }

    @Test func aDevRelayAcceptsAnonymousCallersAndRealTokens() throws {
        let authenticator = try world.authenticator()
        let anonymous = try authenticator.authenticate(world.request(apiToken: nil), in: world.home)
        #expect(anonymous.caller.identity == .anonymous)
        let (token, user) = try world.signIn()
        let found = try authenticator.authenticate(world.request(apiToken: nil, webToken: token), in: world.home)
        #expect(found.caller.identity == .user(user))
        #expect(found.freshWebToken != nil)
        #expect(try authenticator.isStillGood(found.credential))
    }

    @Test(arguments: ["dev-", "dev-a b", "dev-%C3%A4"])
    func anInvalidDevNameIsRefused(token: String) throws {
        let request = world.request(apiToken: nil, webToken: token)
        #expect(throws: RelayError.self) { try world.authenticator().authenticate(request, in: world.home) }
    }
}
