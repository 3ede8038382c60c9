import Foundation
import GRDB
import Records
import RelayCore
import SQLiteStore
import Testing

/// Deleted zones, which are remembered for clients that knew them.
@Suite struct ZoneDeletionTests {
    /// Each listing uses its own index, for any number of zones of the other kind.
    @Test func zoneListingsUseSeparateIndexes() throws {
        let queue = try DatabaseQueue()
        try queue.inDatabase { try StoreLayout.file.migrate($0) }
        func plan(_ statement: String, _ arguments: StatementArguments) throws -> [String] {
            try queue.read { database in
                let sql = "EXPLAIN QUERY PLAN " + statement
                return try String.fetchAll(
                    database,
                    sql: sql,
                    arguments: arguments,
                    adapter: RangeRowAdapter(3..<4)
                )
            }
        }
        let living = try plan("SELECT * FROM zone WHERE \(SQLiteReader.living)", [2])
        #expect(living.contains { $0.contains("zone_by_name") }, "\(living)")
        let ended = try plan("SELECT * FROM zone WHERE id IN (\(SQLiteReader.ended))", [2, 0])
        #expect(ended.contains { $0.contains("zone_by_end") }, "\(ended)")
        let former = try plan("SELECT loss FROM zone_row WHERE \(SQLiteReader.endedOne)", [7, 2, "Notes"])
        #expect(former.contains { $0.contains("zone_by_identity") }, "\(former)")
        #expect(!(living + ended).contains { $0.contains("SCAN") }, "\(living) \(ended)")
    }
}

/// Deleted zones stay in their database's feed for ever.
///
/// They must not slow down writes.
@Suite struct DeletedZoneTests {
    private func database(_ user: UserID) -> DatabaseAddress {
        DatabaseAddress(scope: .private, caller: Caller(.user(user), deviceID: "phone"))
    }

    /// Creates zones with these numbers, each in a write of its own, and deletes them.
    private func makeAndEnd(_ numbers: Range<Int>, for user: UserID, in store: SQLiteStore) async throws {
        let (database, now) = (database(user), Timestamp(milliseconds: 1))
        var limits = Limits()
        limits.zonesPerUser = 100
        for start in stride(from: numbers.lowerBound, to: numbers.upperBound, by: 100) {
            let zones = (start..<min(start + 100, numbers.upperBound)).map { ZoneID("z\($0)", owner: user) }
            let make = ModifyZones(zones.map { .create($0) }, of: database, limits: limits, now: now)
            let end = ModifyZones(zones.map { .delete($0) }, of: database, limits: limits, now: now)
            for request in [make, end] {
                let part = try #require(request.parts.first)
                let outcomes = try await store.write(touching: part.owner) { writer throws(RelayError) in
                    try request.run(part, in: writer)
                }
                for outcome in outcomes {
                    if case .failed(_, let error) = outcome { Issue.record(error) }
                }
            }
        }
    }

    @Test func aUserWithManyDeletedZonesCreatesZonesAsFastAsOthers() async throws {
        let store = try SQLiteStore(.memory, draw: { UInt64.random(in: 1 ... .max) })
        let old = UserID("_00000000000000000000000000000001")
        try await makeAndEnd(0..<4_000, for: old, in: store)
        let clock = ContinuousClock()
        var (slow, quick) = (Duration.seconds(600), Duration.seconds(600))
        // One quiet moment on a busy machine is enough: reading all zones for each creation took forty times as long.
        for turn in 1...9 where turn == 1 || slow >= quick * 5 {
            let numbers = (4_000 + 100 * turn)..<(4_100 + 100 * turn)
            slow = min(slow, try await clock.measure { try await makeAndEnd(numbers, for: old, in: store) })
            let fresh = UserID("_0000000000000000000000000000010\(turn)")
            quick = min(quick, try await clock.measure { try await makeAndEnd(numbers, for: fresh, in: store) })
        }
        #expect(slow < quick * 5, "\(slow) where a new user needs \(quick)")
    }
}
