import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelaySystem
import StoreTesting
import Testing
import Wire

/// The codes that a request does not cause by itself: too many requests, and a store that is closed or damaged.
///
/// See Errors.md, "Codes".
@Suite(.timeLimit(.minutes(15))) struct ServerErrorTests {
    /// The whole table, including codes that the relay does not send: it accepts the repeated creation of a zone or a
    /// subscription, and answers `CONFLICT` for a record.
    @Test(
        arguments: [
            "ACCESS_DENIED": 403, "ATOMIC_ERROR": 400, "AUTHENTICATION_FAILED": 401, "AUTHENTICATION_REQUIRED": 421,
            "BAD_REQUEST": 400, "CONFLICT": 409, "EXISTS": 409, "INTERNAL_ERROR": 500, "NOT_FOUND": 404,
            "QUOTA_EXCEEDED": 413, "THROTTLED": 429, "TRY_AGAIN_LATER": 503, "UNIQUE_FIELD_ERROR": 409,
            "VALIDATING_REFERENCE_ERROR": 412, "ZONE_NOT_FOUND": 404,
        ]
    ) func everyCodeHasItsStatus(_ name: String, _ status: Int) {
        #expect(ErrorCode(rawValue: name)?.status == status)
    }

    @Test func thereAreNoOtherCodes() { #expect(ErrorCode.allCases.count == 15) }

    /// Checks the members that every failure of a whole request has, and the time to retry.
    private func expect(_ answer: Answer, _ status: Int, _ code: String, retryAfter: ClosedRange<Double>?) throws {
        #expect(answer.status == status)
        #expect(answer.code == code)
        #expect(answer.json.text("uuid")?.count == 36)
        #expect((answer.json.text("reason")?.count ?? 0) >= 10)
        let wait = try answer.json["retryAfter"]?.double()
        guard let retryAfter else { return #expect(wait == nil && answer.response.headers[.retryAfter] == nil) }
        let seconds = try #require(wait)
        #expect(retryAfter.contains(seconds))
        // The header has whole seconds, rounded up.
        #expect(answer.response.headers[.retryAfter].flatMap { Double($0) } == max(1, seconds.rounded(.up)))
    }

    @Test func tooManyRequestsOfAUserAreThrottled() async throws {
        // The clock stands still, so that no request is forgiven while the machine is busy.
        let time = TimeSource(now: TimeSource.system.now, uptime: { .zero })
        let world = try RelayWorld(time: time) { $0.requestRate = RateLimit(perSecond: 0.5, burst: 1) }
        #expect(try await world.ask("private/zones/list", method: .get).status == 200)
        try expect(try await world.ask("private/zones/list", method: .get), 429, "THROTTLED", retryAfter: 2...2)
        #expect(try await world.ask("private/zones/list", as: "bob", method: .get).status == 200)
    }

    private func home(_ world: RelayWorld) throws -> ContainerEnvironment {
        ContainerEnvironment(try #require(ContainerID(world.container)), .development)
    }

    @Test func aStoreThatIsClosedForACommandAsksToTryAgainLater() async throws {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        try await world.stores.hold(home(world))
        let answer = try await world.modify([.create("a")])
        try expect(answer, 503, "TRY_AGAIN_LATER", retryAfter: 2...2)
    }

    @Test func aDamagedRecordIsAnInternalErrorUntilItIsReplaced() async throws {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        #expect(try await world.modify([.create("a")]).status == 200)
        let store = try world.stores.store(of: home(world))
        let owner = try #require(try await world.changes()["zoneID"]?.text("ownerRecordName"))
        try await store.write(touching: UserID(owner)) { writer throws(RelayError) in
            guard let zone = try writer.zone(ZoneID("Notes", owner: UserID(owner))) else { throw .zoneNotFound }
            let before = try writer.records(named: ["a"], in: zone)
            guard var record = before["a"] else { throw .recordNotFound }
            record.fields = Array(#"{"title":{"#.utf8)
            record.change = writer.takeChangeNumber()
            try writer.put([record], replacing: before, in: zone, by: "")
        }
        let answer = try await world.ask(
            "private/records/lookup",
            #"{"zoneID":{"zoneName":"Notes"},"records":[{"recordName":"a"}],"desiredKeys":["title"]}"#
        )
        try expect(answer, 500, "INTERNAL_ERROR", retryAfter: nil)
        #expect(answer.json.text("reason")?.contains("title") == false)
        // Replacing the record repairs it.
        let replaced = try await world.modify([.init(kind: "forceReplace", name: "a")])
        #expect(try replaced.items("records").first?.text("serverErrorCode") == nil)
    }
}
