import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Testing

@Suite struct AccountPageTests {
    let world: SignInWorld
    let browser: Browser

    init() throws {
        world = try SignInWorld()
        browser = try Browser(world)
    }

    private func open() async throws {
        try await browser.open("/account")
        let answer = await browser.submit(
            "/account",
            ["email": "alice@example.org", "password": "correct horse"],
            action: "open"
        )
        #expect(answer.status == .ok)
        #expect(browser.page.contains("Sign out everywhere"))
    }

    private func status(_ webToken: String) async -> Int {
        await browser.relay.respond(to: world.request(apiToken: world.apiToken, webToken: webToken)).status.code
    }

    @Test func theAccountPageOpensOnlyWithThePassword() async throws {
        try await browser.open("/account")
        let answer = await browser.submit(
            "/account",
            ["email": "alice@example.org", "password": "wrong"],
            action: "open"
        )
        #expect(answer.status == .forbidden)
        #expect(browser.page.contains("do not match"))
        // Without a ticket, or with a forged one, the page is not accessible.
        for ticket in ["", "1.99999999999999.00", "\(world.alice.id.number).x.y"] {
            await browser.submit("/account", ["action": "name", "given": "Eve", "ticket": ticket], action: "open")
            #expect(!browser.page.contains("Your name is saved"))
        }
        #expect(try world.store.account(world.alice.id)?.name.given == nil)
    }

    @Test func aTicketIsValidForFifteenMinutesInOneBrowser() async throws {
        try await open()
        let fields = browser.hiddenFields(action: "name")
        world.clock.advance(.seconds(899))
        await browser.submit("/account", ["given": "Alice", "family": "Liddell"], action: "name")
        #expect(browser.page.contains("Your name is saved."))
        #expect(try world.store.account(world.alice.id)?.name == PersonName(given: "Alice", family: "Liddell"))
        let other = try Browser(world)
        try await other.open("/account")
        await other.submit(
            "/account",
            ["action": "name", "given": "Eve", "ticket": fields["ticket"] ?? ""],
            action: "open"
        )
        #expect(other.page.contains("role=\"alert\""))
        await browser.submit("/account", fields)
        world.clock.advance(.seconds(900))
        await browser.submit("/account", ["given": "Late"], action: "name")
        #expect(try world.store.account(world.alice.id)?.name.given != "Late")
    }

    @Test func aCodeForSupportIsASignInThatTheUserCanEnd() async throws {
        _ = try world.signIn()
        try await open()
        await browser.submit("/account", browser.hiddenFields(action: "support"))
        let code = try #require(browser.page.firstMatch(of: /<code id="support-code">([^<]+)</)).1
        let token = String(code).replacing("&#43;", with: "+").replacing("&#x2B;", with: "+")
        #expect(await status(token) == 200)
        #expect(browser.page.contains("for 30 minutes"))
        await browser.submit("/account", [:], action: "sign-out")
        #expect(await status(token) != 200)
    }

    @Test func aNewPasswordEndsEverySignIn() async throws {
        let token = try world.signIn().webToken
        #expect(await status(token) == 200)
        try await open()
        let wrong = ["current": "wrong", "new": "another horse", "again": "another horse"]
        await browser.submit("/account", wrong, action: "password")
        #expect(browser.page.contains("current password is wrong"))
        await browser.submit(
            "/account",
            ["current": "correct horse", "new": "another horse", "again": "other"],
            action: "password"
        )
        #expect(browser.page.contains("do not match"))
        await browser.submit(
            "/account",
            ["current": "correct horse", "new": "short", "again": "short"],
            action: "password"
        )
        #expect(browser.page.contains("too short"))
        #expect(await status(token) == 200)
        await browser.submit("/account", wrong.merging(["current": "correct horse"]) { $1 }, action: "password")
        #expect(browser.page.contains("Your password is changed."))
        #expect(await status(token) == 421)
        #expect(try world.store.account(email: "alice@example.org", password: "another horse") != nil)
        #expect(try world.store.account(email: "alice@example.org", password: "correct horse") == nil)
    }

    @Test func signingOutOfOneAppKeepsTheOtherSignIns() async throws {
        let here = try world.signIn().webToken
        _ = try world.signIn(in: world.elsewhere)
        try await open()
        await browser.submit("/account", [:], action: "sign-out")
        #expect(browser.page.contains("You are signed out of iCloud.org.example.notes"))
        #expect(await status(here) == 421)
        #expect(try world.store.sessions(of: world.alice.id).map(\.home) == [world.elsewhere])
        await browser.submit("/account", [:], action: "sign-out-everywhere")
        #expect(try world.store.sessions(of: world.alice.id).isEmpty)
    }

    @Test func discoverabilityIsSetPerApp() async throws {
        _ = try world.signIn()
        try await open()
        #expect(browser.page.contains("Signed in, last used on 2027-01-15. Others cannot find you."))
        await browser.submit("/account", [:], action: "show")
        #expect(browser.page.contains("Others can find you in"))
        #expect(try world.store.profiles(of: world.alice.id).first?.profile.isDiscoverable == true)
        await browser.submit("/account", [:], action: "hide")
        #expect(try world.store.profiles(of: world.alice.id).first?.profile.isDiscoverable == false)
        // An app that does not know the account is not given it.
        await browser.submit("/account", ["container": "iCloud.org.example.other"], action: "show")
        #expect(browser.page.contains("role=\"alert\""))
        #expect(try world.store.profiles(of: world.alice.id).count == 1)
    }

    @Test func aNewPasswordEndsEarlierTickets() async throws {
        try await open()
        try world.store.setPassword("another horse", of: world.alice.id)
        let answer = await browser.submit("/account", ["given": "Eve"], action: "name")
        #expect(answer.status == .forbidden)
        #expect(try world.store.account(world.alice.id)?.name.given == nil)
    }

    /// The page that changes the password stays signed in; pages open elsewhere do not.
    @Test func thePageThatChangesThePasswordStaysOpen() async throws {
        try await open()
        let other = try Browser(world)
        try await other.open("/account")
        await other.submit("/account", ["email": "alice@example.org", "password": "correct horse"], action: "open")
        await browser.submit(
            "/account",
            ["current": "correct horse", "new": "another horse", "again": "another horse"],
            action: "password"
        )
        await browser.submit("/account", ["given": "Alice"], action: "name")
        #expect(browser.page.contains("Your name is saved."))
        await other.submit("/account", ["given": "Eve"], action: "name")
        #expect(try world.store.account(world.alice.id)?.name.given == "Alice")
    }

    @Test func aTicketOfADisabledAccountIsInvalid() async throws {
        try await open()
        try world.store.setDisabled(true, of: world.alice.id)
        await browser.submit("/account", ["given": "Eve"], action: "name")
        #expect(try world.store.account(world.alice.id)?.name.given == nil)
    }
}
