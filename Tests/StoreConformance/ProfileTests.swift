import Records
import RelayCore
import StoreTesting
import Testing

/// People, as the relay's accounts and foreign issuers know them.
@Suite struct ProfileTests {
    private let store: any AccountDirectory
    private let home = ContainerEnvironment.test

    init() throws {
        store = try TestStore.current.makeHome().accounts()
        try store.addContainer(home.container)
    }

    private func foreign(_ subject: String, email: String?, name: String? = nil) -> ExternalIdentity {
        ExternalIdentity(
            issuer: "https://id.example",
            subject: subject,
            email: email,
            phone: nil,
            name: PersonName(given: name)
        )
    }

    @Test("quotas of users and containers are stored until they are removed") func quotas() throws {
        let account = try store.addAccount(email: "ada@example.org", password: "correct horse")
        let user = try store.user(of: account.id, in: home)
        let production = ContainerEnvironment(home.container, .production)
        #expect(try store.ownQuotas().isEmpty)
        try store.setPrivateQuota(500, of: account.id)
        let quota = ContainerQuota(privateBytes: 1, publicAssets: .max, publicTransfer: 0)
        try store.setQuota(quota, of: home)
        #expect(try store.quota(of: home) == quota && store.quota(of: production).isEmpty)
        #expect(try store.ownQuotas() == QuotaOverrides(users: [home: [user: 500]], containers: [home: quota]))
        try store.setQuota(ContainerQuota(publicRecords: 7), of: production)
        try store.setQuota(ContainerQuota(), of: home)
        #expect(try Array(store.ownQuotas().containers.keys) == [production])
        let other = ContainerEnvironment(try #require(ContainerID("iCloud.org.example.none")), .development)
        #expect(throws: DirectoryError.self) { try store.setQuota(quota, of: other) }
        try store.removeContainer(home.container)
        #expect(try store.ownQuotas().containers.isEmpty)
    }

    @Test("an address finds the relay's own account first, unless it is hidden") func addresses() throws {
        let outside = try store.account(for: foreign("7", email: "ada@example.org"))
        let own = try store.addAccount(email: "ada@example.org", password: "correct horse")
        let outsider = try store.user(of: outside.id, in: home)
        let insider = try store.user(of: own.id, in: home)
        func found() throws -> UserID? {
            try store.profiles(matching: [.email("ada@example.org")], in: home, includesDev: false).values.first?.user
        }
        #expect(try found() == insider)
        try store.setDiscoverable(true, user: outsider, in: home)
        #expect(try found() == outsider)
        try store.setDiscoverable(true, user: insider, in: home)
        #expect(try found() == insider)
    }

    @Test("a dev user is found by address on a dev relay only") func devUsers() throws {
        let dev = try store.devAccount(named: "ada@example.org")
        let user = try store.user(of: dev.id, in: home)
        let lookup = UserLookup.email("ada@example.org")
        #expect(try store.profiles(matching: [lookup], in: home, includesDev: false).isEmpty)
        #expect(try store.profiles(matching: [lookup], in: home, includesDev: true)[lookup]?.user == user)
        #expect(try store.profile(of: user, in: home)?.account.id == dev.id)
    }

    @Test("looking a person up creates no user") func lookups() throws {
        let own = try store.addAccount(email: "ada@example.org", password: "correct horse")
        #expect(try store.profiles(matching: [.email("ada@example.org")], in: home, includesDev: true).isEmpty)
        #expect(try store.profiles(of: own.id).isEmpty)
    }

    @Test("a foreign person keeps one account, which the issuer updates") func foreignPeople() throws {
        let first = try store.account(for: foreign("7", email: "ada@example.org", name: "Ada"))
        let again = try store.account(for: foreign("7", email: nil, name: "Augusta"))
        #expect(again.id == first.id)
        #expect(again.name.given == "Augusta" && again.email == nil)
        #expect(try store.account(for: foreign("8", email: nil)).id != first.id)
        #expect(again.login == .foreign(issuer: "https://id.example", subject: "7"))
        // The account has no password, and does not occupy an address of the relay's own accounts.
        #expect(try store.account(email: "ada@example.org") == nil)
    }

    @Test("an issuer is stored, and its removal ends the sessions of its users") func issuers() throws {
        let issuer = TokenIssuer(
            container: home.container,
            issuer: "https://id.example",
            audiences: ["notes", "web"],
            algorithms: [.es256, .edDSA],
            keys: .url("https://id.example/keys"),
            claims: [.email: "mail"],
            trustsContacts: true,
            created: Timestamp(milliseconds: 5)
        )
        try store.putIssuer(issuer)
        #expect(try store.issuers(of: home.container) == [issuer])
        let other = try #require(ContainerID("iCloud.org.example.other"))
        #expect(try store.issuers(of: other).isEmpty)
        let person = try store.account(for: foreign("7", email: nil))
        let longer = try store.account(
            for: ExternalIdentity(
                issuer: "https://id.example.evil",
                subject: "7",
                email: nil,
                phone: nil,
                name: PersonName()
            )
        )
        for (number, account) in [(UInt128(1), person), (2, longer)] {
            try store.addSession(
                Session(
                    id: Session.ID(number),
                    secretHash: [1],
                    account: account.id,
                    home: home,
                    kind: .brief,
                    created: Timestamp(milliseconds: 1)
                )
            )
        }
        let generation = try store.generation()
        try store.removeIssuer("https://id.example", of: home.container)
        #expect(try store.generation() != generation)
        #expect(try store.issuers().isEmpty)
        #expect(try store.sessions(of: person.id).isEmpty)
        #expect(try store.sessions(of: longer.id).count == 1)
        #expect(throws: DirectoryError.self) { try store.removeIssuer("https://id.example", of: home.container) }
    }

    @Test("sessions are revoked for one container or for all") func revocation() throws {
        let own = try store.addAccount(email: "ada@example.org", password: "correct horse")
        let production = ContainerEnvironment(home.container, .production)
        for (number, place) in [(UInt128(1), home), (2, home), (3, production)] {
            try store.addSession(
                Session(
                    id: Session.ID(number),
                    secretHash: [1],
                    account: own.id,
                    home: place,
                    kind: .kept,
                    created: Timestamp(milliseconds: Int64(number))
                )
            )
        }
        #expect(try store.sessions(of: own.id).map(\.id.number) == [3, 2, 1])
        try store.revokeSessions(of: own.id, in: home)
        #expect(try store.sessions(of: own.id).map(\.id.number) == [3])
        try store.revokeSessions(of: own.id, in: nil)
        #expect(try store.sessions(of: own.id).isEmpty)
    }

    // MARK: Spellings of addresses

    private static let spellings = [
        "j\u{FC}rgen@b\u{FC}cher.example", "J\u{DC}RGEN@XN--BCHER-KVA.Example", "ju\u{308}rgen@bu\u{308}cher.example.",
        " J\u{FC}rgen@xn--bcher-kva.EXAMPLE\n",
    ]

    @Test("an account is found and signed in to by every spelling of its address", arguments: spellings)
    func accountsBySpelling(added: String) throws {
        let account = try store.addAccount(email: added, password: "correct horse")
        for spelling in Self.spellings {
            #expect(try store.account(email: spelling)?.id == account.id)
            #expect(try store.account(email: spelling, password: "correct horse")?.id == account.id)
            #expect(try store.account(email: spelling, password: "battery staple") == nil)
            #expect(throws: DirectoryError.self) { try store.addAccount(email: spelling, password: "correct horse") }
        }
        _ = try store.user(of: account.id, in: home)
        let address = try #require(AccountRules.canonicalEmail("j\u{FC}rgen@xn--bcher-kva.example"))
        #expect(try store.profiles(matching: [.email(address)], in: home, includesDev: false).count == 1)
    }

    @Test(
        "an address that cannot be used to sign in is refused",
        arguments: [
            "ada", "ada@", "ada@b@c", "ada@exa mple.org", "ada@example..org", "ada@.example", "ada@example.org/x",
            "ada@a:80",
            "ada@[192.0.2.1]", "ada@xn--a.example", "ada@a,b", "\u{201C}ada@example.org\u{201D}",
            "ada\u{201D}@example.org", "a da@example.org",
            "a\u{A0}da@example.org",
            "ada\u{200B}@example.org", "\u{202E}ada@example.org", "ada\u{FEFF}@example.org", "ada@1.2.3",
            "<ada@example.org>",
            "ada@\(String(repeating: "a", count: 64)).org",
        ]
    )
    func refusedAddresses(address: String) throws {
        #expect(throws: DirectoryError.self) { try store.addAccount(email: address, password: "correct horse") }
        #expect(try store.accounts().isEmpty)
    }

    @Test(
        "a number without its country code is refused with a hint",
        arguments: ["030 1234567", "(030) 123-4567", "1234567"]
    )
    func nationalNumbers(number: String) throws {
        let account = try store.addAccount(email: "ada@example.org", password: "correct horse")
        do throws(DirectoryError) {
            try store.setPhone(number, of: account.id)
            Issue.record("\(number) was accepted")
        } catch {
            #expect("\(error)".contains("country"))
        }
        try store.setPhone("0049 30 1234567", of: account.id)
        #expect(try store.account(account.id)?.phone == "+49301234567")
    }
}
