import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import StoreTesting
import TestSupport
import Testing

@Suite struct AuthenticatorTests {
    let world: SignInWorld
    let failed = RelayError(.authenticationFailed, "Authentication failed")

    init() throws { world = try SignInWorld() }

    @Test func anAPITokenAloneIdentifiesNoUser() throws {
        let found = try world.authenticator().authenticate(world.request(apiToken: world.apiToken), in: world.home)
        #expect(found.caller.identity == .anonymous)
        #expect(found.freshWebToken == nil)
    }

    @Test func theSignInAddressContainsNoSecrets() throws {
        var request = world.request(apiToken: world.apiToken)
        request.headers[try #require(HTTPField.Name("Host"))] = "relay.example:8080"
        let error = try world.authenticator().authenticate(request, in: world.home).signInRequired
        #expect(error.code == .authenticationRequired)
        #expect(error.reason == "request needs authorization")
        let url = try #require(error.redirectURL)
        #expect(
            url.hasPrefix(
                "http://relay.example:8080/signin?container=iCloud.org.example.notes&environment=development&token="
            )
        )
        #expect(!url.contains(world.apiToken))
        world.settings.publicURL = "https://sync.example/relay"
        let other = try world.authenticator().authenticate(request, in: world.home).signInRequired.redirectURL
        #expect(other?.hasPrefix("https://sync.example/relay/signin?") == true)
    }

    @Test func anInvalidHostHeaderIsNotRepeated() throws {
        var request = world.request(apiToken: world.apiToken)
        request.headers[try #require(HTTPField.Name("Host"))] = "evil/\"<script>"
        let url = try world.authenticator().authenticate(request, in: world.home).signInRequired.redirectURL
        #expect(url?.hasPrefix("http://localhost/signin?") == true)
    }

    @Test func allInvalidCredentialsGetTheSameError() throws {
        let authenticator = try world.authenticator()
        let signedIn = try world.signIn().webToken
        let foreign = try world.signIn(in: world.elsewhere).webToken
        let wrong = String(repeating: "0", count: 64)
        var tampered = Array(signedIn)
        tampered[70] = tampered[70] == "A" ? "B" : "A"
        let unknownHome = ContainerEnvironment(try #require(ContainerID("iCloud.nobody")), .development)
        let production = ContainerEnvironment(world.home.container, .production)
        let cases: [(APIRequest, ContainerEnvironment)] = [
            (world.request(apiToken: nil), world.home),
            (world.request(apiToken: ""), world.home),
            (world.request(apiToken: wrong), world.home),
            (world.request(apiToken: wrong, webToken: signedIn), world.home),
            (world.request(apiToken: nil, webToken: signedIn), world.home),
            (world.request(apiToken: world.apiToken), world.elsewhere),
            (world.request(apiToken: world.apiToken), production),
            (world.request(apiToken: world.apiToken), unknownHome),
            (world.request(apiToken: world.apiToken, webToken: "nonsense"), world.home),
            (world.request(apiToken: world.apiToken, webToken: "dev-alice"), world.home),
            (world.request(apiToken: world.apiToken, webToken: foreign), world.home),
            (world.request(apiToken: world.apiToken, webToken: String(tampered)), world.home),
            (world.request(apiToken: world.apiToken + "&ckAPIToken=" + world.apiToken), world.home),
            (world.request(apiToken: world.apiToken + "%"), world.home),
        ]
        for (index, (request, home)) in cases.enumerated() {
            #expect(throws: failed, "case \(index)") { try authenticator.authenticate(request, in: home) }
        }
    }

    @Test func aWebTokenIsAcceptedInEveryEncoding() throws {
        let (token, user) = try world.signIn()
        let authenticator = try world.authenticator()
        let everyByte = token.utf8.map { "%" + String($0, radix: 16) }.joined()
        // A plus sign that a client forgot to escape is accepted.
        for written in [SignInWorld.escaped(token), token, everyByte] {
            var request = world.request(apiToken: world.apiToken)
            request.query = "remapEnums=true&ckWebAuthToken=\(written)&ckAPIToken=\(world.apiToken)"
            let found = try authenticator.authenticate(request, in: world.home)
            #expect(found.caller.identity == .user(user))
            #expect(found.account == world.alice.id)
        }
    }

    @Test func everyResponseHasAFreshTokenAndTheOldOneStillWorks() throws {
        let authenticator = try world.authenticator()
        let (first, user) = try world.signIn()
        var token = first
        var seen: Set<String> = [first]
        for _ in 0..<5 {
            let found = try authenticator.authenticate(
                world.request(apiToken: world.apiToken, webToken: token),
                in: world.home
            )
            #expect(found.caller.user == user)
            token = try #require(found.freshWebToken)
            #expect(token.count >= 10)
            #expect(seen.insert(token).inserted)
        }
        let again = try authenticator.authenticate(
            world.request(apiToken: world.apiToken, webToken: first),
            in: world.home
        )
        #expect(again.caller.user == user)
    }

    @Test func aTokenHasOneSuccessorPerSecond() throws {
        let authenticator = try world.authenticator()
        let request = world.request(apiToken: world.apiToken, webToken: try world.signIn().webToken)
        let first = try authenticator.authenticate(request, in: world.home).freshWebToken
        #expect(try authenticator.authenticate(request, in: world.home).freshWebToken == first)
        world.clock.advance(.seconds(1))
        #expect(try authenticator.authenticate(request, in: world.home).freshWebToken != first)
    }

    @Test(arguments: [(Session.Kind.brief, Duration.seconds(1800)), (.kept, .seconds(14 * 86_400))])
    func aTokenExpiresAfterItsLifetime(kind: Session.Kind, lifetime: Duration) throws {
        let authenticator = try world.authenticator()
        let request = world.request(apiToken: world.apiToken, webToken: try world.signIn(nil, in: nil, kind).webToken)
        world.clock.advance(lifetime - .seconds(1))
        let answer = try authenticator.authenticate(request, in: world.home)
        let fresh = try #require(answer.freshWebToken)
        world.clock.advance(.seconds(1))
        let error = #expect(throws: RelayError.self) { try authenticator.authenticate(request, in: world.home) }
        #expect(error?.code == .authenticationRequired)
        #expect(error?.redirectURL?.contains("&token=") == true)
        _ = try authenticator.authenticate(world.request(apiToken: world.apiToken, webToken: fresh), in: world.home)
    }

    private func hex(_ byte: UInt8) -> String { String(UInt16(byte) + 0x100, radix: 16).suffix(2).uppercased() }

    @Test func aTokenExpiresAfterTheGracePeriodOfItsSuccessor() throws {
        world.settings.grace = .seconds(10)
        let authenticator = try world.authenticator()
        let token = try world.signIn().webToken
        let request = world.request(apiToken: world.apiToken, webToken: token)
        for _ in 0..<3 {
            _ = try authenticator.authenticate(request, in: world.home)
            world.clock.advance(.seconds(5))
        }
        #expect(throws: RelayError.self) { try authenticator.authenticate(request, in: world.home) }
        // The successor's grace period also applies to other spellings and to the notice connection.
        var spelled = request
        spelled.query = "ckAPIToken=\(world.apiToken)&ckWebAuthToken=" + token.utf8.map { "%" + hex($0) }.joined()
        #expect(throws: RelayError.self) { try authenticator.authenticate(spelled, in: world.home) }
        #expect(throws: CredentialRefusal.self) {
            try authenticator.authenticateHello(
                apiToken: world.apiToken,
                webToken: token,
                deviceID: nil,
                upgrade: APIRequest(method: .get, path: "/"),
                in: world.home
            )
        }
        // Another user's revocation does not revive the token.
        try world.store.setDisabled(true, of: world.store.devAccount(named: "somebody").id)
        world.clock.advance(.seconds(1))
        #expect(throws: RelayError.self) { try authenticator.authenticate(request, in: world.home) }
    }

    @Test func aRevocationByThisProcessAppliesAtOnce() throws {
        let authenticator = try world.authenticator()
        let session = try world.signIn()
        let request = world.request(apiToken: world.apiToken, webToken: session.webToken)
        let before = try authenticator.authenticate(request, in: world.home)
        let generation = authenticator.generation
        #expect(try authenticator.isStillValid(before.credential))
        try world.store.setDisabled(true, of: world.alice.id)
        #expect(authenticator.generation > generation)
        #expect(try !authenticator.isStillValid(before.credential))
        #expect(try authenticator.renew(before) == nil)
        let error = #expect(throws: RelayError.self) { try authenticator.authenticate(request, in: world.home) }
        #expect(error?.code == .authenticationRequired)
    }

    /// Requests do not read the directory's generation; the watcher does, or a request if there is no watcher.
    @Test(arguments: [true, false]) func aRevocationByAnotherProcessAppliesOnceItIsSeen(_ isWatched: Bool) throws {
        let place = TestStore.current.makeHome(.lasting)
        let world = try SignInWorld(in: place)
        let other = try place.accounts(time: world.clock.source)
        let authenticator = try world.authenticator()
        let request = world.request(apiToken: world.apiToken, webToken: try world.signIn().webToken)
        _ = try authenticator.authenticate(request, in: world.home)
        try other.setDisabled(true, of: world.alice.id)
        world.clock.advance(.seconds(1))
        #expect(throws: Never.self) { try authenticator.authenticate(request, in: world.home) }
        if isWatched { try authenticator.watchGeneration() } else { world.clock.advance(.seconds(30)) }
        #expect(throws: RelayError.self) { try authenticator.authenticate(request, in: world.home) }
    }

    /// A visit session, which a command uses, works for a disabled user until it ends.
    @Test func aVisitSessionWorksForADisabledUser() throws {
        let authenticator = try world.authenticator()
        try world.store.setDisabled(true, of: world.alice.id)
        let (visit, other) = (try world.start(world.alice, in: world.home, .visit), try world.signIn())
        let request = world.request(apiToken: world.apiToken, webToken: visit.webToken)
        let found = try authenticator.authenticate(request, in: world.home)
        #expect(found.caller.identity == .user(visit.user))
        #expect(try authenticator.isStillValid(found.credential))
        let barred = world.request(apiToken: world.apiToken, webToken: other.webToken)
        #expect(throws: RelayError.self) { try authenticator.authenticate(barred, in: world.home) }
        try world.store.revokeSession(visit.session)
        world.clock.advance(.seconds(1))
        #expect(throws: RelayError.self) { try authenticator.authenticate(request, in: world.home) }
        #expect(try !authenticator.isStillValid(found.credential))
    }

    @Test func aRevokedAPITokenIsRefused() throws {
        let authenticator = try world.authenticator()
        let request = world.request(apiToken: world.apiToken)
        let found = try authenticator.authenticate(request, in: world.home)
        try world.store.revokeAPIToken(world.apiToken)
        world.clock.advance(.seconds(1))
        #expect(throws: failed) { try authenticator.authenticate(request, in: world.home) }
        #expect(try !authenticator.isStillValid(found.credential))
    }

    @Test func signingOutEndsEveryTokenOfTheSessionAtOnce() throws {
        let authenticator = try world.authenticator()
        let request = world.request(apiToken: world.apiToken, webToken: try world.signIn().webToken)
        let other = world.request(apiToken: world.apiToken, webToken: try world.signIn().webToken)
        try authenticator.signOut(try authenticator.authenticate(request, in: world.home))
        #expect(throws: RelayError.self) { try authenticator.authenticate(request, in: world.home) }
        _ = try authenticator.authenticate(other, in: world.home)
    }

    @Test func aSignInIsRemovedADayAfterItsLastTokenExpired() throws {
        let authenticator = try world.authenticator()
        var used = world.request(apiToken: world.apiToken, webToken: try world.signIn(nil, in: nil, .kept).webToken)
        let unused = world.request(apiToken: world.apiToken, webToken: try world.signIn(nil, in: nil, .kept).webToken)
        for _ in 0..<4 {
            world.clock.advance(.seconds(10 * 86_400))
            let fresh = try authenticator.authenticate(used, in: world.home).freshWebToken
            used = world.request(apiToken: world.apiToken, webToken: fresh)
            try authenticator.maintainSessions()
        }
        #expect(try world.store.sessions(of: world.alice.id).map(\.used) == [world.clock.now])
        _ = try authenticator.authenticate(used, in: world.home)
        let error = #expect(throws: RelayError.self) { try authenticator.authenticate(unused, in: world.home) }
        #expect(error?.code == .authenticationRequired)
        #expect(error?.redirectURL != nil)
    }

    @Test func aClockThatJumpsAheadEndsNoSignIn() throws {
        let authenticator = try world.authenticator()
        _ = try world.signIn()
        world.clock.advance(.seconds(10 * 365 * 86_400))
        try authenticator.maintainSessions()
        #expect(try world.store.sessions(of: world.alice.id).count == 1)
    }

    @Test func aClockThatIsAheadForAWhileEndsNoSignIn() throws {
        let authenticator = try world.authenticator()
        let used = world.request(apiToken: world.apiToken, webToken: try world.signIn().webToken)
        let unused = world.request(apiToken: world.apiToken, webToken: try world.signIn().webToken)
        _ = try authenticator.authenticate(used, in: world.home)
        world.clock.leap(.seconds(365 * 86_400))
        for _ in 0..<3 {
            try authenticator.maintainSessions()
            world.clock.advance(.seconds(300))
            _ = try world.signIn()
        }
        world.clock.leap(.seconds(-365 * 86_400))
        try authenticator.maintainSessions()
        for request in [used, unused] { _ = try authenticator.authenticate(request, in: world.home) }
        // A clock that stays ahead was corrected, so old sign-ins end eventually.
        world.clock.leap(.seconds(365 * 86_400))
        try authenticator.maintainSessions()
        world.clock.advance(.seconds(3 * 86_400))
        _ = try world.signIn()
        try authenticator.maintainSessions()
        #expect(try world.store.sessions(of: world.alice.id).count == 1)
    }

    @Test func theDataFolderDoesNotSufficeToForgeAToken() throws {
        // Contents of a stolen data folder: the relay's key, and the session's row with the hash of its secret.
        let session = Session(
            id: Session.ID(1),
            secretHash: Array(repeating: 7, count: 32),
            account: world.alice.id,
            home: world.home,
            kind: .kept,
            created: world.clock.now
        )
        try world.store.addSession(session)
        var bytes: [UInt8] = [1] + Array(repeating: 0, count: 15) + [1] + session.secretHash
        bytes += Array(repeating: 0, count: 32)
        let forged = Base64.encode(bytes)
        #expect(throws: failed) {
            try world.authenticator().authenticate(
                world.request(apiToken: world.apiToken, webToken: forged),
                in: world.home
            )
        }
    }

    @Test func aDeviceIsIdentifiedByItsHeaderOrElseItsSession() throws {
        let authenticator = try world.authenticator()
        let token = try world.signIn().webToken
        let first = try authenticator.authenticate(
            world.request(apiToken: world.apiToken, webToken: token),
            in: world.home
        )
        let fresh = try #require(first.freshWebToken)
        let second = try authenticator.authenticate(
            world.request(apiToken: world.apiToken, webToken: fresh),
            in: world.home
        )
        #expect(first.caller.deviceID == second.caller.deviceID)
        let name = try #require(HTTPField.Name("X-Zonecast-Device-ID"))
        let named = world.request(apiToken: world.apiToken, webToken: token, headers: [name: "phone"])
        #expect(try authenticator.authenticate(named, in: world.home).caller.deviceID == "phone")
        let bad = world.request(apiToken: world.apiToken, webToken: token, headers: [name: "phöne"])
        #expect(throws: RelayError.self) { try authenticator.authenticate(bad, in: world.home) }
    }

    @Test func eachUserHasTheirOwnRate() throws {
        world.settings.requestRate = RateLimit(perSecond: 1, burst: 2)
        let authenticator = try world.authenticator()
        let alice = world.request(apiToken: world.apiToken, webToken: try world.signIn().webToken)
        let bob = try world.store.addAccount(email: "bob@example.org", password: "battery staple")
        let other = world.request(apiToken: world.apiToken, webToken: try world.signIn(bob).webToken)
        for _ in 0..<2 { _ = try authenticator.authenticate(alice, in: world.home) }
        let error = #expect(throws: RelayError.self) { try authenticator.authenticate(alice, in: world.home) }
        #expect(error?.code == .throttled)
        #expect(error?.retryAfter == .seconds(1))
        _ = try authenticator.authenticate(other, in: world.home)
        world.clock.advance(.seconds(1))
        _ = try authenticator.authenticate(alice, in: world.home)
    }

    @Test func onlyWrongPasswordsCountAgainstAnAddress() throws {
        let authenticator = try world.authenticator()
        func attempt(_ password: String, from address: String) throws(CredentialRefusal) -> UserID {
            try authenticator.signIn(
                email: "alice@example.org",
                password: password,
                from: address,
                in: world.home,
                kind: .brief
            ).user
        }
        let user = try attempt("correct horse", from: "192.0.2.1")
        for _ in 0..<20 { #expect(try attempt("correct horse", from: "192.0.2.1") == user) }
        for _ in 0..<10 { #expect(throws: CredentialRefusal.failed) { try attempt("wrong", from: "192.0.2.1") } }
        #expect(throws: CredentialRefusal.throttled(retryAfter: .seconds(6))) {
            try attempt("correct horse", from: "192.0.2.1")
        }
        #expect(try attempt("correct horse", from: "192.0.2.2") == user)
        world.clock.advance(.seconds(60))
        #expect(try attempt("correct horse", from: "192.0.2.1") == user)
    }

    /// On a directory that several relays use at once; with one relay on others.
    @Test func relaysTogetherAllowAsManyWrongPasswordsAsOne() throws {
        let count = world.store.attempts == nil ? 1 : 3
        let relays = try (0..<count).map { _ in try world.authenticator() }
        func attempt(_ number: Int, _ password: String = "wrong", from address: String) throws(CredentialRefusal) {
            _ = try relays[number % count].signIn(
                email: "alice@example.org",
                password: password,
                from: address,
                in: world.home,
                kind: .brief
            )
        }
        for number in 0..<10 {
            #expect(throws: CredentialRefusal.failed) { try attempt(number, from: "192.0.2.1") }
        }
        for number in 0..<count {
            #expect(throws: CredentialRefusal.throttled(retryAfter: .seconds(6))) {
                try attempt(number, "correct horse", from: "192.0.2.1")
            }
        }
        // The account's limit is higher.
        for number in 0..<10 {
            #expect(throws: CredentialRefusal.failed) { try attempt(number, from: "192.0.2.2") }
        }
        for number in 0..<count {
            let refusal = #expect(throws: CredentialRefusal.self) {
                try attempt(number, "correct horse", from: "192.0.2.3")
            }
            guard case .throttled = refusal else {
                Issue.record("\(refusal.debugDescription)")
                continue
            }
        }
    }
}

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
        #expect(try authenticator.isStillValid(found.credential))
    }

    @Test(arguments: ["dev-", "dev-a b", "dev-%C3%A4"])
    func anInvalidDevNameIsRefused(token: String) throws {
        let request = world.request(apiToken: nil, webToken: token)
        #expect(throws: RelayError.self) { try world.authenticator().authenticate(request, in: world.home) }
    }
}
