import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// A share's link, opened in a browser.
@Suite struct SharePageTests {
    /// A relay with passwords, alice's zone shared by her app, and a browser.
    private struct World {
        let accounts: SignInWorld
        let browser: Browser
        let link: String

        init(publicly permission: String = "NONE", inviting address: String? = "bob@example.org") async throws {
            accounts = try SignInWorld()
            try accounts.store.addAccount(email: "bob@example.org", password: "battery staple")
            try accounts.store.setName(PersonName(given: "Ada", family: "Byron"), of: accounts.alice.id)
            browser = try Browser(accounts)
            let token = try accounts.signIn().webToken
            let people = address.map { ShareWorld.participant($0) } ?? ""
            _ = try await Self.ask(
                accounts,
                browser,
                token,
                "zones/modify",
                #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Notes"}}}]}"#
            )
            let share = ShareWorld.share(publicly: permission, with: people.isEmpty ? [] : [people], title: "Tea & <b>")
            let answer = try await Self.ask(
                accounts,
                browser,
                token,
                "records/modify",
                #"{"zoneID":{"zoneName":"Notes"},"operations":[\#(share)]}"#
            )
            let record = try #require(try answer.required("records").elements().first)
            let url = try #require(record.text("url"))
            link = try #require(URLComponents(string: url)).path
            #expect(link == "/share/\(accounts.home.container)/development/\(record.text("shortGUID") ?? "?")")
        }

        static func ask(
            _ accounts: SignInWorld,
            _ browser: Browser,
            _ token: String,
            _ operation: String,
            _ body: String
        ) async throws -> JSONValue {
            let response = await browser.relay.respond(
                to: accounts.post("private/\(operation)", body, webToken: token)
            )
            #expect(response.status == .ok)
            return try JSONDocument(parsing: response.body).root
        }

        func join(_ email: String = "bob@example.org", _ password: String = "battery staple") async -> APIResponse {
            await browser.submit(link, ["email": email, "password": password])
        }
    }

    @Test func thePageShowsTheTitleTheOwnerAndThePermission() async throws {
        let world = try await World(publicly: "READ_ONLY", inviting: nil)
        let response = try await world.browser.open(world.link)
        #expect(response.status == .ok)
        #expect(world.browser.page.contains("Tea &amp; &lt;b&gt;"))
        #expect(world.browser.page.contains("Ada Byron"))
        #expect(world.browser.page.contains("You can view it, but not change it."))
        let guid = world.link.split(separator: "/").last ?? ""
        #expect(world.browser.page.contains("cloudkit-icloud.org.example.notes://share/\(guid)"))
        #expect(response.headers[.contentSecurityPolicy]?.contains("default-src 'none'") == true)
        #expect(response.headers[.cacheControl] == "no-store")
        #expect(world.browser.page.contains("href=\"../../../signin/style.css\""))
    }

    @Test func anInviteeAcceptsOnThePage() async throws {
        let world = try await World()
        try await world.browser.open(world.link)
        let joined = await world.join()
        #expect(joined.status == .ok)
        #expect(world.browser.page.contains("id=\"joined\""))
        // Accepting again, and opening one's own share, are no errors.
        try await world.browser.open(world.link)
        #expect(await world.join().status == .ok)
        try await world.browser.open(world.link)
        #expect(await world.join("alice@example.org", "correct horse").status == .ok)
        #expect(world.browser.page.contains("You are the owner"))
        let account = try #require(try world.accounts.store.account(email: "bob@example.org"))
        let token = try world.accounts.signIn(account).webToken
        let response = await world.browser.relay.respond(
            to: APIRequest(
                method: .get,
                path: "/database/1/\(world.accounts.home.container)/development/shared/zones/list",
                query: "ckAPIToken=\(world.accounts.apiToken)&ckWebAuthToken=\(SignInWorld.escaped(token))"
            )
        )
        let zones = try JSONDocument(parsing: response.body).root.required("zones").elements()
        #expect(try zones.map { try $0.required("zoneID").text("zoneName") } == ["Notes"])
    }

    @Test func refusedUsersSeeTheReason() async throws {
        let world = try await World(inviting: "carol@example.org")
        try await world.browser.open(world.link)
        #expect(world.browser.page.contains("Only invited people can join"))
        #expect(await world.join().status == .forbidden)
        #expect(world.browser.page.contains("not among those invited"))
        #expect(await world.join("bob@example.org", "wrong").status == .forbidden)
        #expect(world.browser.page.contains("do not match"))
    }

    @Test func aFormWithoutItsCookieIsRefused() async throws {
        let world = try await World()
        world.browser.cookie = nil
        #expect(await world.join().status == .forbidden)
    }

    @Test(arguments: ["development/AAAA", "production/AAAA", "elsewhere/AAAA"])
    func invalidLinksGetTheSamePage(_ end: String) async throws {
        let world = try await World()
        let container = end.hasPrefix("elsewhere") ? "iCloud.org.example.unknown" : "iCloud.org.example.notes"
        let path = "/share/\(container)/\(end.replacing("elsewhere", with: "development"))"
        let response = try await world.browser.open(path)
        #expect(response.status == .notFound)
        #expect(world.browser.page.contains("This link is not valid"))
    }
}
