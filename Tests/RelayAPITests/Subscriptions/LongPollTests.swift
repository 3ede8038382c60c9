import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelaySystem
import StoreTesting
import Synchronization
import Testing
import Wire

@Suite(.timeLimit(.minutes(15))) struct LongPollTests {
    private static let database = #"""
        {"operations":[{"operationType":"create","subscription":{"subscriptionID":"db","subscriptionType":"database"}}]}
        """#

    private func world(poll: Duration = .seconds(600), directory: (any AccountDirectory)? = nil) throws
        -> SubscriptionWorld
    {
        var limits = Limits()
        limits.longestPoll = poll
        return try SubscriptionWorld(limits: limits, directory: directory)
    }

    /// Creates a token and returns it with its poll address.
    private func create(_ world: SubscriptionWorld, as user: String = "alice") async throws -> (
        token: String, url: String
    ) {
        let answer = try await world.device("tokens/create", as: user, #"{"apnsEnvironment":"development"}"#)
        #expect(answer.status == 200)
        #expect(answer.json.text("apnsEnvironment") == "development")
        return (try #require(answer.json.text("apnsToken")), try #require(answer.json.text("webcourierURL")))
    }

    private func poll(_ relay: Relay, _ url: String) async -> APIResponse {
        let parts = url.split(separator: "?", maxSplits: 1).map(String.init)
        let path = parts[0].firstRange(of: "/device/").map { String(parts[0][$0.lowerBound...]) } ?? parts[0]
        return await relay.respond(to: APIRequest(method: .get, path: path, query: parts.last))
    }

    private func kind(_ response: APIResponse) throws -> String {
        let payload = try JSONDocument(parsing: response.body).root.required("ck")
        let kinds: [StaticString] = ["met", "fet", "qry"]
        return kinds.first { payload.hasMember($0) }.map { "\($0)" } ?? ""
    }

    @Test func aNoticeWaitsForThePoll() async throws {
        let world = try world()
        try await world.makeZone("Notes")
        _ = try await world.ask("private/subscriptions/modify", Self.database)
        let (_, url) = try await create(world)
        try await world.change("a", zone: "Notes")
        let first = await poll(world.relay, url)
        #expect(first.status == .ok)
        #expect(try kind(first) == "met")
        #expect(try JSONDocument(parsing: first.body).root.required("aps").required("content-available").int64() == 1)
    }

    @Test func thePollWaitsForANotice() async throws {
        let world = try world()
        try await world.subscribe("all")
        let (_, url) = try await create(world)
        let relay = world.relay
        async let answer = poll(relay, url)
        try await world.change("a")
        #expect(try kind(await answer) == "qry")
    }

    @Test func aNoticeIsReturnedOnce() async throws {
        let world = try world(poll: .milliseconds(5))
        try await world.subscribe("all")
        let (_, url) = try await create(world)
        try await world.change("a")
        try await world.change("b")
        await world.hub.queries.waitUntilIdle()
        #expect(try kind(await poll(world.relay, url)) == "qry")
        #expect(try kind(await poll(world.relay, url)) == "qry")
        let empty = await poll(world.relay, url)
        #expect(empty.status == .ok && empty.body.isEmpty)
    }

    /// A poll may start to wait after its time is over.
    @Test func aPollWithoutTimeLeftEndsEmpty() async throws {
        let world = try world(poll: .zero)
        let (_, url) = try await create(world)
        for _ in 0..<500 { #expect(await poll(world.relay, url).body.isEmpty) }
    }

    @Test func theWritingDeviceGetsNoNotice() async throws {
        let world = try world(poll: .milliseconds(5))
        try await world.subscribe("all")
        let answer = try await world.device("tokens/create", #"{}"#, from: "browser")
        let url = try #require(answer.json.text("webcourierURL"))
        try await world.change("a", from: "browser")
        await world.hub.queries.waitUntilIdle()
        #expect(await poll(world.relay, url).body.isEmpty)
        try await world.change("a", from: "other")
        await world.hub.queries.waitUntilIdle()
        #expect(await !poll(world.relay, url).body.isEmpty)
    }

    @Test func aLaterPollReplacesAnEarlierOne() async throws {
        let world = try world()
        try await world.subscribe("all")
        let (_, url) = try await create(world)
        let relay = world.relay
        async let first = poll(relay, url)
        async let second = poll(relay, url)
        // The earlier poll is answered empty as soon as the later one arrives. If both arrive only now, each gets a
        // notice.
        for name in ["a", "b"] { try await world.change(name) }
        let answers = await [first, second].filter { !$0.body.isEmpty }
        #expect(answers.count >= 1)
    }

    @Test func aTokenSurvivesARestart() async throws {
        let directory = try TestStore.current.makeHome().accounts()
        let first = try world(directory: directory)
        let (token, url) = try await create(first)
        first.close()
        let second = try world(poll: .milliseconds(5), directory: directory)
        _ = try await second.ask("private/subscriptions/modify", Self.database)
        // Missed notices are unknown after a restart, so the device is told once to fetch.
        let general = await poll(second.relay, url)
        #expect(try kind(general) == "met")
        #expect(await poll(second.relay, url).body.isEmpty)
        let again = try await second.device(
            "tokens/register",
            #"{"apnsEnvironment":"development","apnsToken":"\#(token)"}"#
        )
        #expect(again.status == 200 && again.response.body == Array("{}".utf8))
    }

    @Test func tokensExpire() async throws {
        let now = Mutex(Timestamp(milliseconds: 1_700_000_000_000))
        let time = TimeSource(now: { now.withLock { $0 } }, uptime: TimeSource.system.uptime)
        let world = try SubscriptionWorld(time: time)
        let (token, url) = try await create(world)
        now.withLock { $0 = $0 + .seconds(31 * 24 * 3_600) }
        let answer = await poll(world.relay, url)
        #expect(answer.status == .notFound)
        let again = try await world.device("tokens/register", #"{"apnsToken":"\#(token)"}"#)
        #expect(again.status == 400 && again.code == "BAD_REQUEST")
    }

    @Test func theConnectionsOfAUserAreLimited() async throws {
        let world = try world(poll: .milliseconds(5))
        let (_, oldest) = try await create(world)
        let connections = world.hub.connectionCount
        for _ in 0..<25 { _ = try await create(world) }
        #expect(connections == 1 && world.hub.connectionCount == 20)
        // A new poll brings the oldest back and evicts the next one.
        #expect(await poll(world.relay, oldest).status == .ok)
        #expect(world.hub.connectionCount == 20)
    }

    /// A connection whose sign-in has ended does not count against its user's limit either.
    @Test func signingOutEndsTheConnection() async throws {
        let world = try world(poll: .milliseconds(5))
        _ = try await create(world)
        let caller = try await world.ask("public/users/caller", method: .get)
        let user = UserID(try #require(caller.json.text("userRecordName")))
        let home = ContainerEnvironment(try #require(ContainerID(world.container)), .development)
        #expect(world.hub.connectionCount == 1)
        world.hub.revokeAll(of: NoticeAddress(store: home, user: user))
        #expect(world.hub.connectionCount == 0)
    }

    @Test func otherUsersTokensAreRefused() async throws {
        let world = try world(poll: .milliseconds(5))
        let (token, url) = try await create(world)
        let foreign = try await world.device("tokens/register", as: "bob", #"{"apnsToken":"\#(token)"}"#)
        let unknown = try await world.device("tokens/register", as: "bob", #"{"apnsToken":"abc"}"#)
        #expect(foreign.status == 400 && unknown.status == 400)
        #expect(foreign.json.text("reason") == unknown.json.text("reason"))
        #expect(await poll(world.relay, url + "x").status == .notFound)
        #expect(await poll(world.relay, url.replacing("/development/", with: "/production/")).status == .notFound)
        let anonymous = try await world.device("tokens/create", as: nil, "{}")
        #expect(anonymous.status == 421 && anonymous.code == "AUTHENTICATION_REQUIRED")
    }

    @Test func bothPathsCreateTokens() async throws {
        let world = try world()
        for path in ["/device/1/", "/database/1/"] {
            let answer = try await world.device("tokens/create", "{}", root: path)
            #expect(answer.status == 200)
            let wrong = try await world.device("tokens/create", "{}", method: .get, root: path)
            #expect(wrong.status == 405)
        }
        let other = try await world.device("records/query", "{}")
        #expect(other.status == 404)
        let word = try await world.device("tokens/create", #"{"apnsEnvironment":"sandbox"}"#)
        #expect(word.status == 400 && word.code == "BAD_REQUEST")
    }

    @Test func stoppingTheRelayEndsItsPolls() async throws {
        let world = try world(poll: .seconds(60))
        let (_, url) = try await create(world)
        let relay = world.relay
        async let answer = poll(relay, url)
        world.relay.stopPolls()
        #expect(await answer.body.isEmpty)
    }
}
