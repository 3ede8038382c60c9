import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayConsole
import RelayCore
import RelayServer
import RelaySystem
import Testing

/// Data that operators see and change.
@Suite struct ConsoleDataTests {
    private static let secret = "very-private-word"

    /// Creates a world with a public record and a private one whose name and contents must not be shown.
    private func world() async throws -> ConsoleWorld {
        let world = try ConsoleWorld()
        try await world.wire("private/zones/modify", as: "alice", Self.makesZone)
        try await world.wire("private/records/modify", as: "alice", Self.privateRecord)
        try await world.wire("public/records/modify", as: "alice", Self.publicRecord)
        try await world.enter()
        return world
    }

    private static let makesZone =
        #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Notes"}}}]}"#
    private static let privateRecord = """
        {"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"create","record":{"recordName":"\(secret)-name",
        "recordType":"Note","fields":{"title":{"value":"\(secret)"}}}}]}
        """
    private static let publicRecord = """
        {"operations":[{"operationType":"create","record":{"recordName":"p1","recordType":"Post",
        "fields":{"title":{"value":"Hello"}}}}]}
        """

    private struct Zones: Decodable {
        struct Zone: Decodable { var zoneName: String, owner: String, records: Int, database: String }
        var zones: [Zone]
    }

    private struct Feed: Decodable {
        struct Row: Decodable { var mark: String, recordType: String, change: UInt64, isDeleted: Bool }
        var token: String
        var records: [Row]
    }

    private func notes(_ world: ConsoleWorld) async throws -> Zones.Zone {
        let zones = try await world.ask(.get, "/console/api/zones").json(Zones.self).zones
        return try #require(zones.first { $0.zoneName == "Notes" })
    }

    @Test func noResponseContainsPrivateContents() async throws {
        let world = try await world()
        let zone = try await notes(world)
        #expect(zone.records == 1)
        for name in ConsoleAccessTests.readPaths {
            let answer = try await world.ask(.get, "/console/api/\(name)")
            #expect(answer.status == .ok, "\(name): \(answer.text)")
            #expect(!answer.text.contains(Self.secret), "\(name)")
        }
        let feed = try await world.ask(.get, "/console/api/changes", query: "zone=Notes&owner=\(zone.owner)")
        #expect(try feed.json(Feed.self).records.map(\.recordType) == ["Note"])
        #expect(!feed.text.contains(Self.secret))
        let since = try await world.ask(
            .post,
            "/console/api/changes/since",
            body: #"{"zone":{"zoneName":"Notes","owner":"\#(zone.owner)"},"syncToken":""}"#
        )
        #expect(try since.json(Feed.self).records.count == 1)
        #expect(!since.text.contains(Self.secret))
    }

    @Test(arguments: ["private/records/query", "../private/records/lookup", "records/changes", "users/current"])
    func onlyOperationsOfThePublicDatabaseAreForwarded(operation: String) async throws {
        let world = try await world()
        let answer = try await world.ask(
            .post,
            "/console/api/wire/\(operation)",
            body: #"{"zoneID":{"zoneName":"Notes"},"query":{"recordType":"Note"}}"#
        )
        #expect(answer.status.code >= 400, "\(answer.text)")
        #expect(!answer.text.contains(Self.secret))
    }

    @Test func changesSinceADevicesTokenAreListed() async throws {
        let world = try await world()
        let zone = try await notes(world)
        let path = "/console/api/changes/since"
        func since(_ token: String) async throws -> APIResponse {
            let zoneText = #"{"zoneName":"Notes","owner":"\#(zone.owner)"}"#
            return try await world.ask(.post, path, body: #"{"zone":\#(zoneText),"syncToken":"\#(token)"}"#)
        }
        let first = try await since("").json(Feed.self)
        #expect(try await since(first.token).json(Feed.self).records.isEmpty)
        try await world.wire(
            "private/records/modify",
            as: "alice",
            """
            {"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"forceDelete",
            "record":{"recordName":"\(Self.secret)-name"}}]}
            """
        )
        #expect(try await since(first.token).json(Feed.self).records.map(\.isDeleted) == [true])
        #expect(try await since("bm9uZQ==").status == .badRequest)
    }

    @Test func operatorsMayReadAndWriteWithoutGrants() async throws {
        let world = try await world()
        let closed = try await world.ask(
            .post,
            "/console/api/schema/edit",
            body: #"{"recordType":"Post","grants":{"_world":[],"_icloud":[],"_creator":[]}}"#
        )
        #expect(closed.status == .ok, "\(closed.text)")
        let read = try await world.ask(
            .post,
            "/console/api/wire/records/lookup",
            body: #"{"records":[{"recordName":"p1"}]}"#
        )
        #expect(read.text.contains("Hello"))
        let change = try await world.ask(
            .post,
            "/console/api/wire/records/modify",
            body: """
                {"operations":[{"operationType":"forceUpdate","record":{"recordName":"p1","recordType":"Post",
                "fields":{"title":{"value":"Hi"}}}}]}
                """
        )
        #expect(change.text.contains(#""Hi""#), "\(change.text)")
        #expect(try world.accounts.auditEntries(limit: 1).first?.action == "records.modify")
    }

    @Test func aContainerGetsADisplayName() async throws {
        let world = try await world()
        let named = try await world.ask(.post, "/console/api/containers/name", body: #"{"name":" Family notes "}"#)
        #expect(named.status == .ok)
        let container = try #require(ContainerID(world.container))
        #expect(try world.accounts.title(of: container) == "Family notes")
        #expect(try await world.ask(.get, "/console/api/overview").text.contains(#""title":"Family notes""#))
        let page = await world.relay.respond(
            to: APIRequest(
                method: .get,
                path: "/signin",
                query: "container=\(world.container)&origin=http://127.0.0.1:1"
            )
        )
        #expect(page.text.contains("to use <strong>Family notes</strong>"), "\(page.text)")
        let lines = #"{"name":"two\nlines"}"#
        #expect(try await world.ask(.post, "/console/api/containers/name", body: lines).status == .badRequest)
        #expect(try await world.ask(.post, "/console/api/containers/name", body: #"{"name":""}"#).status == .ok)
        #expect(try world.accounts.title(of: container) == nil)
    }

    @Test func anAccountAndAnOperatorOfOneAddressHaveOnePassword() async throws {
        let world = try await world()
        let accounts = world.accounts
        #expect(throws: DirectoryError.self, "the password of another person's operator") {
            try accounts.addAccount(email: "Ada@example.org", password: "something else")
        }
        let ada = try accounts.addAccount(email: "Ada@example.org", password: "correct horse")
        let change = #"{"password":"correct horse","newPassword":"battery staple"}"#
        #expect(try await world.ask(.post, "/console/api/password", body: change).status == .ok)
        #expect(try accounts.account(email: "ada@example.org", password: "battery staple")?.id == ada.id)
        try accounts.setPassword("third password", of: ada.id)
        #expect(try accounts.operator(name: "ada@example.org", password: "third password") != nil)
        #expect(try await world.ask(.get, "/console/api/session").status == .unauthorized, "sessions have ended")
        // A link for a new operator takes the account's password only.
        try accounts.addAccount(email: "bob@example.org", password: "own password")
        let code = try accounts.makeOperatorLink()
        #expect(throws: DirectoryError.self) {
            try accounts.useOperatorLink(code, name: "bob@example.org", password: "chosen by another")
        }
        _ = try accounts.useOperatorLink(code, name: "bob@example.org", password: "own password")
        try await world.enter("eve@example.org")
        let bob = try #require(try accounts.account(email: "bob@example.org")).id.number
        let set = #"{"id":\#(bob),"password":"by another one","own":"correct horse"}"#
        #expect(try await world.ask(.post, "/console/api/users/password", body: set).status == .badRequest)
    }

    @Test func anOperatorActsAsAUserOnlyWithTheUsersCode() async throws {
        let world = try await world()
        let eve = try world.accounts.addAccount(email: "eve@example.org", password: "correct horse")
        let home = ContainerEnvironment(try #require(ContainerID(world.container)), .development)
        func code() throws -> (text: String, session: Session.ID) {
            let started = try SignIn.start(
                for: eve.id,
                in: home,
                kind: .brief,
                directory: world.accounts,
                time: .system,
                random: .system
            )
            return (started.webToken, started.session)
        }
        let consent = try code()
        let path = "/console/api/act/private/zones/list"
        func act(_ headers: [String: String], query: String = "") async throws -> APIResponse {
            try await world.ask(.post, path, query: query, body: "{}", headers: headers)
        }
        #expect(try await act([:]).status == .badRequest)
        #expect(try await act(["X-Zonecast-Consent": "dev-alice"]).status == .forbidden)
        let listed = try await act(["X-Zonecast-Consent": consent.text])
        #expect(listed.status == .ok && listed.text.contains("zones"), "\(listed.text)")
        let entry = try world.accounts.auditEntries(limit: 1).first
        #expect(entry?.action == "explorer.act-as-user")
        #expect(entry?.subject == "eve@example.org" && entry?.detail == "private/zones/list")
        let elsewhere = "container=\(world.container)&environment=production"
        #expect(try await act(["X-Zonecast-Consent": consent.text], query: elsewhere).status == .forbidden)
        let other = #"{"id":\#(eve.id.number + 1),"code":"\#(consent.text)"}"#
        #expect(try await world.ask(.post, "/console/api/act", body: other).status == .badRequest)
        let own = #"{"id":\#(eve.id.number),"code":"\#(consent.text)"}"#
        #expect(try await world.ask(.post, "/console/api/act", body: own).status == .ok)
        // The user ends it by signing out of the app.
        try world.relay.authenticator.endSessions(of: eve.id, in: home)
        #expect(try await act(["X-Zonecast-Consent": consent.text]).status == .forbidden)
    }

    @Test func changingProductionRequiresConfirmingTheName() async throws {
        let world = try await world()
        let place = "container=\(world.container)&environment=production"
        let body = #"{"operations":[]}"#
        let path = "/console/api/wire/records/modify"
        let asked = try await world.ask(.post, path, query: place, body: body)
        #expect(asked.status == .conflict)
        #expect(asked.text.contains(#""code":"confirm""#))
        let named = try await world.ask(.post, path, query: "\(place)&confirm=\(world.container)", body: body)
        #expect(named.status != .conflict, "\(named.text)")
        #expect(try await world.ask(.post, "/console/api/schema/promote", query: place).status == .conflict)
    }

    @Test func indexAdviceFollowsTheClientsQueries() async throws {
        struct Advice: Decodable {
            struct Row: Decodable { var recordType: String, field: String, index: String, advice: String }
            var rows: [Row]
        }
        let world = try await world()
        let query = #"{"query":{"recordType":"Post","sortBy":[{"fieldName":"title"}]}}"#
        let edit = #"{"recordType":"Post","declaration":"title STRING QUERYABLE"}"#
        #expect(try await world.ask(.post, "/console/api/schema/edit", body: edit).status == .ok)
        // The operator's own queries do not count.
        for isOperator in [true, false] {
            let rows = try await world.ask(.get, "/console/api/schema/indexes").json(Advice.self).rows
            #expect(!rows.contains { $0.advice == "missing" })
            let refused =
                try await isOperator
                ? world.ask(.post, "/console/api/wire/records/query", body: query)
                : world.answer("public/records/query", as: "alice", query)
            #expect(refused.status == .badRequest, "\(refused.text)")
        }
        let unknown = query.replacing("title", with: "nosuch")
        #expect(await world.answer("public/records/query", as: "alice", unknown).status == .badRequest)
        let rows = try await world.ask(.get, "/console/api/schema/indexes").json(Advice.self).rows
        let title = rows.filter { $0.recordType == "Post" && $0.field == "title" }
        #expect(title.first { $0.index == "SORTABLE" }?.advice == "missing")
        #expect(title.first { $0.index == "QUERYABLE" }?.advice == "unused")
        #expect(!rows.contains { $0.field == "nosuch" }, "an index on an undeclared field cannot be created")
    }

    @Test func aDeletedZoneIsGone() async throws {
        let world = try await world()
        let zone = try await notes(world)
        let body = #"{"zoneName":"Notes","owner":"\#(zone.owner)"}"#
        #expect(try await world.ask(.post, "/console/api/zones/delete", body: body).status == .ok)
        #expect(try await world.ask(.post, "/console/api/zones/delete", body: body).status == .notFound)
        #expect(try await !world.ask(.get, "/console/api/zones").text.contains(#""Notes""#))
    }

    @Test func quotasAreShownAndChanged() async throws {
        struct Quotas: Decodable {
            struct Meter: Decodable { var used: Int?, limit: Int?, own: Int? }
            struct Owner: Decodable { var id: Int64, name: String, limit: Int?, own: Int? }
            var privateBytes: Meter, publicRecords: Meter
            var owners: [Owner]
        }
        let world = try await world()
        let path = "/console/api/quotas/container"
        func now() async throws -> Quotas { try await world.ask(.get, "/console/api/quotas").json(Quotas.self) }
        let first = try await now()
        #expect(first.publicRecords.own == nil && first.publicRecords.used ?? 0 > 0)
        let owner = try #require(first.owners.first)
        #expect(owner.name == "dev-alice" && owner.limit == 5_000_000_000 && owner.own == nil)
        let wish = #"{"privateBytes":1000,"publicRecords":0}"#
        #expect(try await world.ask(.post, path, body: wish).status == .ok)
        let second = try await now()
        #expect(second.publicRecords.limit == nil && second.publicRecords.own == 0)
        #expect(second.privateBytes.own == 1000 && second.owners.first?.limit == 1000)
        let ofUser = #"{"id":\#(owner.id),"bytes":2000}"#
        #expect(try await world.ask(.post, "/console/api/users/quota", body: ofUser).status == .ok)
        #expect(try await now().owners.first?.own == 2000)
        let audit = try world.accounts.auditEntries(limit: 2)
        #expect(audit.map(\.action) == ["user.quota", "container.quota"])
        #expect(audit.last?.detail == "private 1 kB, public records no limit")
        #expect(try await world.ask(.post, path, body: #"{"publicAssets":-1}"#).status == .badRequest)
        let production = "container=\(world.container)&environment=production"
        #expect(try await world.ask(.post, path, query: production, body: wish).status == .conflict)
        #expect(try await world.ask(.post, path, body: "{}").status == .ok)
        #expect(try await now().privateBytes.own == nil)
    }

    @Test func throttledUsersAreShownByPseudonym() async throws {
        struct Rates: Decodable {
            struct Row: Decodable { var id: String, refused: Int }
            struct Hit: Decodable { var rate: String, kind: String, who: String, count: Int }
            var rates: [Row]
            var hits: [Hit]
        }
        let world = try await world()
        let none = try await world.ask(.get, "/console/api/rates").json(Rates.self)
        #expect(none.rates.map(\.id) == RateName.allCases.map(\.rawValue) && none.hits.isEmpty)
        // The clock stands still, and a user may send a burst of 200 requests.
        for _ in 0..<210 { _ = await world.answer("private/records/lookup", as: "alice", #"{"records":[]}"#) }
        let rates = try await world.ask(.get, "/console/api/rates").json(Rates.self)
        let hit = try #require(rates.hits.first)
        #expect(hit.rate == "requests" && hit.kind == "user" && hit.count > 0)
        #expect(rates.rates.first { $0.id == "requests" }?.refused == hit.count)
        let account = try #require(try world.accounts.accounts().first)
        let user = try #require(try world.accounts.profiles(of: account.id).first?.1.user)
        #expect(hit.who == world.recent.names.of(user) && !hit.who.contains(user.recordName))
    }

    @Test func backupsAreCreatedAndVerified() async throws {
        struct Made: Decodable { var name: String, records: Int }
        let world = try await world()
        let made = try await world.ask(.post, "/console/api/backups/create").json(Made.self)
        #expect(made.records > 0)
        let verdict = try await world.ask(.post, "/console/api/backups/verify", body: #"{"name":"\#(made.name)"}"#)
        #expect(verdict.text == #"{"faults":[]}"#)
        let elsewhere = try await world.ask(.post, "/console/api/backups/verify", body: #"{"name":"../x"}"#)
        #expect(elsewhere.status == .badRequest)
        struct Listed: Decodable {
            struct Row: Decodable { var verified: Int64?, faults: Int? }
            var backups: [Row]
        }
        let row = try #require(try await world.ask(.get, "/console/api/backups").json(Listed.self).backups.first)
        #expect(row.verified != nil && row.faults == 0)
    }

    @Test func aBackupDownloadNeedsThePasswordEachTime() async throws {
        struct Made: Decodable { var name: String }
        struct Offer: Decodable { var ticket: String, bytes: Int64, file: String }
        let world = try await world()
        let name = try await world.ask(.post, "/console/api/backups/create").json(Made.self).name
        let path = "/console/api/backups/ticket"
        func wish(_ name: String, _ password: String) -> String { #"{"name":"\#(name)","password":"\#(password)"}"# }
        let right = "correct horse"
        #expect(try await world.ask(.post, path, body: wish(name, "wrong")).status == .forbidden)
        for other in ["../../etc", "none.zonecastbak", "", "latest", ".", "schedule.json"] {
            let answer = try await world.ask(.post, path, body: wish(other, right))
            #expect(answer.status.code >= 400, "\(other)")
        }
        let sameOrigin = ["Sec-Fetch-Site": "same-origin"]
        func fetch(_ ticket: String, _ headers: [String: String]) async throws -> APIResponse {
            let query = "ticket=\(ticket)"
            let place = "/console/api/backups/download"
            return try await world.ask(.get, place, query: query, isOwnPage: false, headers: headers)
        }
        let offer = try await world.ask(.post, path, body: wish(name, right)).json(Offer.self)
        #expect(offer.file == name + ".tar")
        // A request from another site, and an unknown ticket.
        #expect(try await fetch(offer.ticket, ["Sec-Fetch-Site": "cross-site"]).status == .forbidden)
        #expect(try await fetch("nothing", sameOrigin).status == .notFound)
        let file = try await fetch(offer.ticket, sameOrigin)
        #expect(file.status == .ok && file.sentLength == Int(offer.bytes) && file.isStreamed)
        #expect(file.headers[.contentDisposition] == "attachment; filename=\"\(name).tar\"")
        #expect(file.headers[.cacheControl] == "no-store")
        #expect(try await fetch(offer.ticket, sameOrigin).status == .notFound)
        #expect(try world.accounts.auditEntries(limit: 1).first?.action == "backup.download")
        // A ticket belongs to the operator who requested it.
        let second = try await world.ask(.post, path, body: wish(name, right)).json(Offer.self)
        world.forgetCookie()
        #expect(try await fetch(second.ticket, sameOrigin).status == .unauthorized)
        try await world.enter("eve@example.org")
        #expect(try await fetch(second.ticket, sameOrigin).status == .notFound)
    }

    @Test func aTokensTextIsShownOnce() async throws {
        let world = try await world()
        struct Made: Decodable { var text: String, id: String }
        let made = try await world.ask(.post, "/console/api/tokens/add", body: #"{"name":"app"}"#).json(Made.self)
        #expect(made.text.count == 64)
        let list = try await world.ask(.get, "/console/api/tokens")
        #expect(list.text.contains(made.id) && !list.text.contains(made.text))
        #expect(try await !world.ask(.get, "/console/api/audit").text.contains(made.text))
        let next = try await world.ask(.post, "/console/api/tokens/rotate", body: #"{"id":"\#(made.id)"}"#).json(
            Made.self
        )
        #expect(next.text != made.text && next.id != made.id)
        #expect(try world.accounts.apiToken(id: made.id)?.revoked != nil)
        #expect(try world.accounts.apiToken(id: next.id)?.name == "app")
        let revoked = try await world.ask(.post, "/console/api/tokens/revoke", body: #"{"id":"\#(next.id)"}"#)
        #expect(revoked.status == .ok)
        #expect(try world.accounts.apiToken(id: next.id)?.revoked != nil)
        let again = try await world.ask(.post, "/console/api/tokens/rotate", body: #"{"id":"\#(next.id)"}"#)
        #expect(again.status == .notFound)
    }

    @Test func managementTokensAreCreatedAndRevoked() async throws {
        let world = try await world()
        struct Made: Decodable { var text: String, id: String }
        let wish = #"{"name":"build machine","days":30}"#
        let made = try await world.ask(.post, "/console/api/management/add", body: wish).json(Made.self)
        let list = try await world.ask(.get, "/console/api/keys")
        #expect(list.text.contains(made.id) && !list.text.contains(made.text))
        #expect(try world.accounts.managementToken(made.text)?.name == "build machine")
        let revoke = #"{"id":"\#(made.id)"}"#
        #expect(try await world.ask(.post, "/console/api/management/revoke", body: revoke).status == .ok)
        #expect(try world.accounts.managementToken(made.text) == nil)
        let other = #"{"id":"none"}"#
        #expect(try await world.ask(.post, "/console/api/management/revoke", body: other).status == .notFound)
        let long = #"{"name":"x","days":-1}"#
        #expect(try await world.ask(.post, "/console/api/management/add", body: long).status == .badRequest)
        let audit = try world.accounts.auditEntries(limit: 5).map(\.action)
        #expect(audit.prefix(2) == ["management-token.revoke", "management-token.create"])
    }
}

/// The requests that the console's log page polls for every two seconds.
@Suite struct RecentRequestsTests {
    @Test func aPageOfAnEarlierProcessGetsAllEntries() {
        let recent = RecentRequests(Pseudonyms(relayKey: [1, 2, 3]), now: { Timestamp(milliseconds: 1) })
        let note = {
            recent.note(APIResponse(status: .notFound), to: APIRequest(method: .get, path: "/x"), in: .milliseconds(1))
        }
        let numbers = { (after: Int) in recent.look(after: after, limit: 10) { _ in true }.map(\.number) }
        #expect(numbers(0).isEmpty && numbers(500).isEmpty)
        for _ in 0..<3 { note() }
        #expect(numbers(0) == [3, 2, 1])
        #expect(numbers(2) == [3])
        #expect(numbers(3).isEmpty)
        let later = RecentRequests(Pseudonyms(relayKey: [1, 2, 3]), now: { Timestamp(milliseconds: 1) })
        recent.saved.map(later.load)
        #expect(
            later.look(after: 0, limit: 10) { _ in true }.map(\.number) == [3, 2, 1],
            "saved lines survive a restart"
        )
        // A client of an earlier process asks for entries after a number that this process has not reached.
        #expect(numbers(500) == [3, 2, 1])
    }
}
