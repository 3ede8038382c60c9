import Records
import RelayCore
import Synchronization
import Testing
import Wire

/// The relay forgets deletions older than the horizon and refuses older tokens, so no client misses a deletion.
///
/// See Reliability.md, "Invariants", d.
@Suite struct TombstoneHorizonTests {
    typealias Operation = RelayWorld.Operation

    /// A calendar that the test advances.
    private final class Calendar: Sendable {
        private let day = Mutex<Int64>(20_000)
        var today: Timestamp { start(of: day.withLock { $0 }) }
        var source: TimeSource { TimeSource(now: { self.today }, uptime: { .zero }) }

        func pass(_ days: Int64) { day.withLock { $0 += days } }
        func start(of day: Int64) -> Timestamp { Timestamp(milliseconds: day * 86_400_000) }
        func ago(_ days: Int64) -> Timestamp { start(of: day.withLock { $0 } - days) }
    }

    private let calendar = Calendar()
    private let world: RelayWorld

    init() async throws {
        world = try RelayWorld(time: calendar.source)
        try await world.makeZone("Notes")
    }

    private func save(_ name: String, zone: String = "Notes") async throws {
        #expect(try await world.modify(zone: zone, [Operation(kind: "forceUpdate", name: name)]).status == 200)
    }

    private func delete(_ name: String, zone: String = "Notes") async throws {
        #expect(try await world.modify(zone: zone, [Operation(kind: "forceDelete", name: name)]).status == 200)
    }

    private func token(zone: String = "Notes", since: String? = nil) async throws -> String {
        try #require(try await world.changes(zone: zone, since: since).text("syncToken"))
    }

    private func isExpired(_ token: String, zone: String = "Notes") async throws -> Bool {
        try await world.changes(zone: zone, since: token).text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED"
    }

    @discardableResult
    private func forget(olderThan days: Int64) async throws -> Int {
        try await world.stores.forgetTombstones(before: calendar.ago(days))
    }

    @Test func onlyTokensFromBeforeAForgottenDeletionExpire() async throws {
        for name in ["a", "b", "c"] { try await save(name) }
        let first = try await token()
        calendar.pass(1)
        try await delete("a")
        let second = try await token(since: first)
        calendar.pass(100)
        try await delete("b")
        let third = try await token(since: second)

        #expect(try await forget(olderThan: 102) == 0)
        for token in [first, second, third] { #expect(try await !isExpired(token)) }
        #expect(try await forget(olderThan: 90) == 1)
        #expect(try await isExpired(first))
        let since = try await world.changes(since: second).required("records").elements()
        #expect(since.map { $0.text("recordName") } == ["b"] && since.first?.flag("deleted") == true)
        #expect(try await !isExpired(third))
        // Nothing of a forgotten deletion remains.
        try await save("a")
        #expect(try await world.changes(since: third).required("records").elements().count == 1)
        #expect(try await forget(olderThan: 90) == 0)
    }

    /// Applies to tokens of any age.
    @Test func anIdleZoneKeepsItsTokens() async throws {
        try await world.makeZone("Quiet")
        try await save("q", zone: "Quiet")
        let before = try await token(zone: "Quiet")
        try await delete("q", zone: "Quiet")
        let quiet = try await token(zone: "Quiet")
        try await save("n")
        try await delete("n")
        calendar.pass(500)
        #expect(try await forget(olderThan: 90) == 2)
        #expect(try await isExpired(before, zone: "Quiet"))
        #expect(try await !isExpired(quiet, zone: "Quiet"))
        #expect(try await world.changes(zone: "Quiet", since: quiet).required("records").elements().isEmpty)
    }

    /// A client in the middle of a first fetch learns of later deletions of records that it already has, or starts
    /// over.
    @Test(arguments: [false, true]) func aFirstFetchUnderWayMissesNoDeletion(isReversed: Bool) async throws {
        for name in ["a", "b", "c"] { try await save(name) }
        let extra = isReversed ? #","reverse":true"# : ""
        let page = try await world.changes(limit: 1, extra: extra)
        #expect(page.flag("moreComing") == true)
        let underWay = try #require(page.text("syncToken"))
        let held = try #require(try page.required("records").elements().first?.text("recordName"))
        // Deletions from before the first fetch began do not matter to it.
        #expect(try await world.changes(since: underWay, extra: extra).text("ckErrorCode") == nil)
        try await delete(held)
        calendar.pass(100)
        #expect(try await forget(olderThan: 90) == 1)
        #expect(try await world.changes(since: underWay, extra: extra).text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED")
        let anew = try await world.changes(extra: extra).required("records").elements()
        #expect(Set(anew.map { $0.text("recordName") }) == Set(["a", "b", "c"]).subtracting([held]))
    }

    @Test func aFirstFetchThatBeganAfterADeletionContinues() async throws {
        for name in ["a", "b", "c"] { try await save(name) }
        try await delete("a")
        calendar.pass(100)
        for extra in ["", #","reverse":true"#] {
            let underWay = try await world.changes(limit: 1, extra: extra).text("syncToken")
            try await forget(olderThan: 90)
            #expect(try await world.changes(since: underWay, extra: extra).required("records").elements().count == 1)
        }
    }

    /// Whenever deletions are forgotten, a token either yields all changes since or is refused.
    ///
    /// A current token is never refused.
    @Test(arguments: [UInt64](1...8)) func everyTokenLeadsToTheFullStateOrIsRefused(seed: UInt64) async throws {
        var random = SplitMix(state: seed)
        var model: Set<String> = []
        var kept: [(token: String, state: Set<String>)] = []
        try await world.makeZone("Other")
        for _ in 0..<80 {
            let name = "n\(random.next() % 12)"
            if random.next() % 3 == 0 {
                try await delete(name)
                model.remove(name)
            } else {
                try await save(name)
                model.insert(name)
            }
            if random.next() % 4 == 0 { try await save("o", zone: "Other") }
            if random.next() % 4 == 0 { try await delete("o", zone: "Other") }
            calendar.pass(Int64(random.next() % 10))
            if random.next() % 8 == 0 { try await forget(olderThan: 90) }
            if random.next() % 5 == 0 { kept.append((try await token(), model)) }
        }
        try await forget(olderThan: 90)
        #expect(try await !isExpired(token()))
        var refused = 0
        for (start, held) in kept {
            for limit in [1, 3, 200] {
                guard let state = try await follow(from: start, holding: held, limit: limit) else {
                    refused += 1
                    continue
                }
                #expect(state == model, "seed \(seed), page size \(limit)")
            }
        }
        #expect(refused > 0 && refused < kept.count * 3, "seed \(seed): \(refused)")
    }

    /// Returns the client's records at the end of the feed, or `nil` if a token is refused.
    private func follow(from start: String, holding held: Set<String>, limit: Int) async throws -> Set<String>? {
        var (token, state, more) = (start, held, true)
        while more {
            let page = try await world.changes(since: token, limit: limit)
            if page.text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED" {
                #expect(token == start, "the relay refused a token that it issued")
                return nil
            }
            for record in try page.required("records").elements() {
                let name = try record.required("recordName").string()
                if record.flag("deleted") == true { state.remove(name) } else { state.insert(name) }
            }
            (token, more) = (try #require(page.text("syncToken")), page.flag("moreComing") == true)
        }
        return state
    }

    /// Forgets more than one batch of the log; the remaining changes are found as before.
    @Test func manyDeletionsAreForgottenInBatches() async throws {
        let names = (0..<2_600).map { "n\($0)" }
        for part in stride(from: 0, to: names.count, by: 200) {
            let some = names[part..<part + 200]
            #expect(try await world.modify(some.map { Operation(kind: "forceUpdate", name: $0) }).status == 200)
            let gone = some.dropFirst().map { Operation(kind: "forceDelete", name: $0) }
            #expect(try await world.modify(gone).status == 200)
        }
        let end = try await token()
        calendar.pass(91)
        #expect(try await forget(olderThan: 90) == 2_587)
        #expect(try await !isExpired(end))
        let page = try await world.changes()
        #expect(try page.required("records").elements().count == 13 && page.flag("moreComing") == false)
        try await save("after")
        let since = try await world.changes(since: end).required("records").elements()
        #expect(since.map { $0.text("recordName") } == ["after"])
    }
}
