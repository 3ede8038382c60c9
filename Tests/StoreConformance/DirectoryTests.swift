import Records
import RelayCore
import StoreTesting
import Synchronization
import Testing

/// A calendar that the test advances.
final class TestCalendar: Sendable {
    private let time = Mutex(Timestamp(milliseconds: 1_780_000_000_000))

    var now: Timestamp { time.withLock { $0 } }
    var source: TimeSource { TimeSource(now: { self.now }, uptime: { .zero }) }

    func pass(_ duration: Duration) { time.withLock { $0 = $0 + duration } }
}

/// Accounts, credentials and containers.
@Suite struct DirectoryTests {
    private let calendar = TestCalendar()
    private let place = TestStore.current.makeHome(.lasting)
    private let store: any AccountDirectory
    private let home = ContainerEnvironment.test

    init() throws { store = try place.accounts(time: calendar.source) }

    private func session(
        _ number: UInt128,
        of account: Account.ID,
        in home: ContainerEnvironment = .test,
        _ kind: Session.Kind = .kept
    ) -> Session {
        Session(
            id: Session.ID(number),
            secretHash: [1, 2],
            account: account,
            home: home,
            kind: kind,
            created: calendar.now
        )
    }

    // MARK: Containers

    @Test("containers are listed by name with their titles and times") func containers() throws {
        let other = ContainerEnvironment.named("iCloud.a").container
        try store.addContainer(home.container)
        calendar.pass(.seconds(60))
        try store.ensureContainer(other)
        try store.ensureContainer(other)
        #expect(try store.hasContainer(other) && store.hasContainer(home.container))
        let listed = try store.containers()
        #expect(listed.map(\.container) == [other, home.container])
        #expect(listed.map(\.created) == [calendar.now, calendar.now + .seconds(-60)])
        #expect(throws: DirectoryError.exists("container \(other)")) { try store.addContainer(other) }
        #expect(try store.title(of: other) == nil)
        try store.setTitle("Shopping", of: other)
        #expect(try store.title(of: other) == "Shopping" && store.title(of: home.container) == nil)
        try store.setTitle("", of: other)
        #expect(try store.title(of: other) == nil)
    }

    @Test("a removed container takes its tokens, keys, issuers, sessions and devices along") func removedContainer()
        throws
    {
        try store.addContainer(home.container)
        let account = try store.devAccount(named: "alice")
        let user = try store.user(of: account.id, in: home)
        let token = try store.addAPIToken(in: home, name: "", notes: "", callbackURL: nil, allowedOrigins: []).token
        let management = try store.addManagementToken(for: home.container, name: "", expires: nil)
        let key = try store.addServerKey(in: home, name: "", publicKeyPEM: Self.publicKey)
        let started = session(1, of: account.id)
        try store.addSession(started)
        _ = try store.addPushDevice(device("1", of: user), limit: 5)
        let generation = try store.generation()
        try store.removeContainer(home.container)
        #expect(try !store.hasContainer(home.container) && store.containers().isEmpty)
        #expect(try store.apiToken(id: token.id) == nil && store.serverKey(key.id) == nil)
        #expect(try store.managementToken(management.text) == nil && store.managementTokens().isEmpty)
        #expect(try store.sessions(of: account.id).isEmpty && store.pushDevices().isEmpty)
        #expect(try store.generation() != generation)
        #expect(try store.account(account.id) == account, "accounts belong to the relay")
    }

    @Test("tokens and keys need their container") func missingContainer() throws {
        let missing = DirectoryError.missing("container \(home.container)")
        #expect(throws: missing) {
            try store.addAPIToken(in: home, name: "", notes: "", callbackURL: nil, allowedOrigins: [])
        }
        #expect(throws: missing) { try store.addManagementToken(for: home.container, name: "", expires: nil) }
        #expect(throws: DirectoryError.self) {
            try store.addServerKey(in: home, name: "", publicKeyPEM: Self.publicKey)
        }
        #expect(throws: missing) { try store.requireContainer(home.container) }
    }

    // MARK: Tokens and keys

    @Test("an API token stays listed when it is revoked, and its text is shown once") func apiTokens() throws {
        try store.addContainer(home.container)
        let (text, token) = try store.addAPIToken(
            in: home,
            name: "web",
            notes: "the site",
            callbackURL: "https://app.example/done",
            allowedOrigins: ["https://app.example", "https://b.example"]
        )
        #expect(Hex.isDigits(text, count: 64))
        #expect(try store.apiTokens() == [token] && store.apiToken(id: token.id) == token)
        #expect(token.home == home && token.allowedOrigins.count == 2 && token.created == calendar.now)
        let generation = try store.generation()
        try store.revokeAPIToken(text)
        #expect(try store.generation() != generation)
        #expect(try store.apiTokens().map(\.revoked) == [calendar.now])
        calendar.pass(.seconds(1))
        try store.revokeAPIToken(token.id)
        #expect(try store.apiToken(id: token.id)?.revoked == calendar.now + .seconds(-1), "it was revoked already")
        #expect(throws: DirectoryError.missing("such API token")) { try store.revokeAPIToken("0000000000000000") }
        try store.removeAPIToken(token.id)
        #expect(try store.apiTokens().isEmpty)
    }

    private static let publicKey = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt
        6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==
        -----END PUBLIC KEY-----
        """

    @Test("a server key has a user of its own, which a key in its place continues") func serverKeys() throws {
        try store.addContainer(home.container)
        let first = try store.addServerKey(in: home, name: "one", publicKeyPEM: Self.publicKey)
        calendar.pass(.seconds(1))
        let second = try store.addServerKey(in: home, name: "two", publicKeyPEM: Self.publicKey)
        calendar.pass(.seconds(1))
        let third = try store.addServerKey(in: home, name: "three", publicKeyPEM: Self.publicKey, user: first.user)
        #expect(first.user != second.user && third.user == first.user)
        #expect(try store.serverKeys() == [first, second, third] && store.serverKey(second.id) == second)
        let generation = try store.generation()
        try store.revokeServerKey(first.id)
        #expect(try store.serverKey(first.id)?.revoked == calendar.now && store.generation() != generation)
        #expect(throws: DirectoryError.self) { try store.revokeServerKey("none") }
        #expect(throws: DirectoryError.self) { try store.addServerKey(in: home, name: "", publicKeyPEM: "no key") }
        #expect(try store.profile(of: first.user, in: home) == nil, "a key is no person")
    }

    @Test("a management token is valid until it expires or is revoked, and its use is recorded once a minute")
    func managementTokens() throws {
        try store.addContainer(home.container)
        let (text, token) = try store.addManagementToken(
            for: home.container,
            name: "ci",
            expires: calendar.now + .seconds(600)
        )
        #expect(try store.managementToken(text)?.id == token.id && store.managementToken("wrong") == nil)
        let used = calendar.now
        calendar.pass(.seconds(30))
        _ = try store.managementToken(text)
        #expect(try store.managementTokens().map(\.used) == [used])
        calendar.pass(.seconds(31))
        _ = try store.managementToken(text)
        #expect(try store.managementTokens().map(\.used) == [calendar.now])
        calendar.pass(.seconds(600))
        #expect(try store.managementToken(text) == nil && store.managementTokens().count == 1)
        let (other, lasting) = try store.addManagementToken(for: home.container, name: "", expires: nil)
        #expect(try store.managementToken(other) != nil)
        try store.revokeManagementToken(lasting.id)
        #expect(try store.managementToken(other) == nil)
        #expect(throws: DirectoryError.self) { try store.revokeManagementToken("none") }
    }

    // MARK: Accounts

    @Test("a password signs in to its own account only") func passwords() throws {
        let alice = try store.addAccount(email: "Alice@Example.org", password: "correct horse")
        try store.addAccount(email: "bob@example.org", password: "battery staple")
        #expect(try store.account(email: "alice@example.org ", password: "correct horse") == alice)
        #expect(try store.account(email: "alice@example.org", password: "battery staple") == nil)
        #expect(try store.account(email: "carol@example.org", password: "correct horse") == nil)
        #expect(try store.account(email: "not an address", password: "correct horse") == nil)
        #expect(throws: DirectoryError.exists("user alice@example.org")) {
            try store.addAccount(email: "ALICE@example.org", password: "another one")
        }
        try store.setPassword("a new password", of: alice.id)
        #expect(try store.account(email: "alice@example.org", password: "correct horse") == nil)
        #expect(try store.account(email: "alice@example.org", password: "a new password") == alice)
        try store.setDisabled(true, of: alice.id)
        #expect(try store.account(email: "alice@example.org", password: "a new password") == nil)
        #expect(try store.accounts().map(\.email) == ["alice@example.org", "bob@example.org"])
    }

    @Test("too short and too long passwords are refused") func passwordLengths() throws {
        for password in ["", "seven77", String(repeating: "x", count: 1025)] {
            #expect(throws: DirectoryError.self) { try store.addAccount(email: "a@b.c", password: password) }
        }
        #expect(try store.accounts().isEmpty)
    }

    @Test("a new password has a new fingerprint and ends the account's sessions") func fingerprints() throws {
        let account = try store.addAccount(email: "a@b.c", password: "correct horse")
        let dev = try store.devAccount(named: "bob")
        for (number, account) in [(UInt128(1), account), (2, dev)] {
            try store.addSession(session(number, of: account.id))
        }
        let first = try store.passwordFingerprint(of: account.id)
        #expect(try !first.isEmpty && store.passwordFingerprint(of: account.id) == first)
        #expect(try store.passwordFingerprint(of: dev.id).isEmpty)
        try store.setPassword("correct horse", of: account.id)
        #expect(try store.passwordFingerprint(of: account.id) != first)
        #expect(try store.sessions(of: account.id).isEmpty && store.sessions(of: dev.id).count == 1)
    }

    @Test("a user has another record name in each container and environment") func users() throws {
        let account = try store.devAccount(named: "alice")
        #expect(try store.devAccount(named: "alice") == account && account.login == .dev("alice"))
        let homes = [home, .named("iCloud.other"), .named("iCloud.other", .production)]
        let users = try homes.map { try store.user(of: account.id, in: $0) }
        #expect(Set(users).count == 3)
        for (home, user) in zip(homes, users) {
            #expect(try store.user(of: account.id, in: home) == user)
            #expect(user.recordName.hasPrefix("_") && Hex.isDigits(String(user.recordName.dropFirst()), count: 32))
            #expect(try store.accounts(of: users, in: home) == [user: account])
        }
        #expect(try Set(store.profiles(of: account.id).map(\.profile.user)) == Set(users))
    }

    @Test("names, phone numbers and discoverability are shown in the profile") func profiles() throws {
        let account = try store.addAccount(email: "a@b.c", password: "correct horse")
        let user = try store.user(of: account.id, in: home)
        try store.setName(PersonName(given: "Ada", family: "Lovelace"), of: account.id)
        try store.setPhone("+49 30 1234567", of: account.id)
        let profile = try #require(try store.profile(of: user, in: home))
        #expect(profile.account.name == PersonName(given: "Ada", family: "Lovelace") && !profile.isDiscoverable)
        #expect(profile.account.phone == "+49301234567")
        try store.setDiscoverable(true, user: user, in: home)
        try store.setDiscoverable(true, user: UserID("_nobody"), in: home)
        let lookups: [UserLookup] = [.phone("+49301234567"), .user(user), .email("a@b.c"), .user(UserID("_nobody"))]
        let found = try store.profiles(matching: lookups, in: home, includesDev: false)
        #expect(
            Set(found.keys) == Set(lookups.dropLast())
                && found.values.allSatisfy { $0.user == user && $0.isDiscoverable }
        )
        #expect(try store.profiles(matching: lookups, in: .named("iCloud.other"), includesDev: false).isEmpty)
        try store.setPhone(nil, of: account.id)
        #expect(try store.account(account.id)?.phone == nil)
    }

    @Test("a removed account takes its sessions and devices along, and its user names are not used again")
    func removal() throws {
        let account = try store.addAccount(email: "a@b.c", password: "correct horse")
        let user = try store.user(of: account.id, in: home)
        try store.addSession(session(1, of: account.id))
        _ = try store.addPushDevice(device("1", of: user), limit: 5)
        let generation = try store.generation()
        try store.removeAccount(account.id)
        #expect(try store.account(account.id) == nil && store.accounts().isEmpty && store.generation() != generation)
        #expect(try store.session(Session.ID(1)) == nil && store.pushDevices().isEmpty)
        #expect(try store.accounts(of: [user], in: home).isEmpty)
        let again = try store.addAccount(email: "a@b.c", password: "correct horse")
        #expect(try again.id != account.id && store.user(of: again.id, in: home) != user)
    }

    // MARK: Sessions

    @Test("a disabled account has no sessions, also after it is enabled") func disabledSessions() throws {
        let account = try store.devAccount(named: "alice")
        let started = session(7, of: account.id)
        let before = try store.generation()
        try store.addSession(started)
        #expect(try store.session(started.id) == started)
        #expect(try store.generation() == before, "additions do not invalidate caches")
        try store.setDisabled(true, of: account.id)
        #expect(try store.session(started.id)?.revoked != nil && store.generation() != before)
        try store.setDisabled(false, of: account.id)
        #expect(try store.session(started.id)?.revoked != nil && store.account(account.id)?.isDisabled == false)
        try store.revokeSession(Session.ID(99))
    }

    @Test("sessions are listed newest first until they are revoked") func sessionList() throws {
        let account = try store.devAccount(named: "alice")
        for number in UInt128(1)...3 {
            try store.addSession(session(number, of: account.id))
            calendar.pass(.seconds(1))
        }
        #expect(try store.sessions(of: account.id).map(\.id.number) == [3, 2, 1])
        try store.revokeSession(Session.ID(2))
        #expect(try store.sessions(of: account.id).map(\.id.number) == [3, 1])
        #expect(try store.session(Session.ID(2))?.revoked == calendar.now)
    }

    @Test("sessions that were not used for long are removed, unless the clock has jumped ahead") func oldSessions()
        throws
    {
        let account = try store.devAccount(named: "alice")
        try store.addSession(session(1, of: account.id))
        try store.addSession(session(2, of: account.id))
        try store.addSession(session(3, of: account.id, .brief))
        calendar.pass(.seconds(100))
        try store.noteUse(of: [Session.ID(2)], at: calendar.now)
        #expect(try store.session(Session.ID(2))?.used == calendar.now)
        try store.removeSessions(.kept, unusedFor: .seconds(200), at: calendar.now + .seconds(1_000_000))
        #expect(try store.sessions(of: account.id).count == 3)
        try store.removeSessions(.kept, unusedFor: .seconds(50), at: calendar.now)
        #expect(try store.session(Session.ID(1)) == nil && store.session(Session.ID(2)) != nil)
        #expect(try store.session(Session.ID(3)) != nil, "another kind")
    }

    @Test("listeners hear of a revocation before the call returns") func revocations() throws {
        let heard = Mutex<[UInt64]>([])
        store.onRevocation { generation in heard.withLock { $0.append(generation) } }
        let account = try store.devAccount(named: "alice")
        try store.addSession(session(1, of: account.id))
        #expect(heard.withLock { $0 }.isEmpty)
        try store.revokeSession(Session.ID(1))
        #expect(try heard.withLock { $0 } == [store.generation()])
        try store.setDisabled(true, of: account.id)
        #expect(try heard.withLock { $0.last } == store.generation() && heard.withLock { $0.count } == 2)
    }

    @Test("two objects for the same accounts see each other's changes") func twoObjects() throws {
        let other = try place.accounts(time: calendar.source)
        #expect(try store.relayKey() == other.relayKey() && store.relayKey().count == 32)
        try store.addContainer(home.container)
        #expect(try other.hasContainer(home.container))
        #expect(throws: DirectoryError.exists("container \(home.container)")) { try other.addContainer(home.container) }
        let account = try other.devAccount(named: "alice")
        let started = session(7, of: account.id)
        let before = try store.generation()
        try other.addSession(started)
        #expect(try store.session(started.id) == started && store.generation() == before)
        try other.setDisabled(true, of: account.id)
        #expect(try store.session(started.id)?.revoked != nil && store.generation() != before)
        try other.removeContainer(home.container)
        store.forgetSeen(home.container)
        #expect(try !store.hasContainer(home.container))
    }

    // MARK: Issuers

    @Test("an issuer that is replaced gets a greater revision") func issuers() throws {
        try store.addContainer(home.container)
        var issuer = TokenIssuer(
            container: home.container,
            issuer: "https://id.example",
            audiences: ["notes"],
            algorithms: [.es256],
            keys: .file("/keys"),
            created: calendar.now
        )
        try store.putIssuer(issuer)
        let first = try #require(try store.issuer(named: issuer.issuer, of: home.container))
        issuer.audiences = ["web"]
        try store.putIssuer(issuer)
        let second = try #require(try store.issuer(named: issuer.issuer, of: home.container))
        #expect(second.revision > first.revision && second.issuer == issuer)
        #expect(try store.issuers(of: home.container) == [issuer] && store.issuers() == [issuer])
        #expect(try store.issuer(named: "https://other.example", of: home.container) == nil)
    }

    // MARK: Push devices

    private func device(_ id: String, of user: UserID, _ deviceID: String = "phone", session: Session.ID? = nil)
        -> PushDevice
    {
        PushDevice(
            id: id,
            home: home,
            user: user,
            deviceID: deviceID,
            session: session,
            apiTokenHash: [1, 2, 3],
            target: .webPush(endpoint: "https://push.example", key: [4], secret: [5, 0]),
            registered: calendar.now
        )
    }

    @Test("a registration replaces the device's earlier one, and the user's oldest beyond the limit") func pushDevices()
        throws
    {
        #expect(try store.addPushDevice(device("1", of: .alice), limit: 2).isEmpty)
        #expect(try store.addPushDevice(device("2", of: .bob), limit: 2).isEmpty)
        #expect(try store.addPushDevice(device("3", of: .alice), limit: 2) == ["1"])
        calendar.pass(.seconds(1))
        #expect(try store.addPushDevice(device("4", of: .alice, "tablet"), limit: 2).isEmpty)
        calendar.pass(.seconds(1))
        #expect(try store.addPushDevice(device("5", of: .alice, "watch"), limit: 2) == ["3"])
        #expect(try Set(store.pushDevices().map(\.id)) == ["2", "4", "5"])
        try store.removePushDevices(["4", "none"])
        #expect(try Set(store.pushDevices().map(\.id)) == ["2", "5"])
    }

    @Test(
        "a registration is read back with its target and its last fault",
        arguments: [
            PushTarget.apns(token: "0a", topic: "org.example", isSandbox: true),
            .ntfy(topicURL: "https://ntfy.example/a"),
            .fcm(token: "token"), .webPush(endpoint: "https://push.example", key: [1, 0], secret: []),
        ]
    )
    func pushTargets(_ target: PushTarget) throws {
        var registered = device("1", of: .alice, session: Session.ID(.max))
        registered.target = target
        _ = try store.addPushDevice(registered, limit: 5)
        #expect(try store.pushDevices() == [registered])
        try store.notePushFault("refused", of: "1")
        registered.lastFault = "refused"
        #expect(try store.pushDevices() == [registered])
        try store.notePushFault(nil, of: "1")
        #expect(try store.pushDevices().map(\.lastFault) == [nil])
    }
}
