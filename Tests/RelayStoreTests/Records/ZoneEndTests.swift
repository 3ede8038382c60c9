import Foundation
import GRDB
import Records
import RelayCore
import Testing

@testable import RelayStore

/// Deleted zones, which are remembered for clients that knew them.
@Suite struct ZoneEndTests {
    private let user = UserID("_0000000000000000000000000000000a")

    private func withFile(_ body: (String) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try await body(folder.appending(path: "store.sqlite").path)
    }

    private func ended(after change: UInt64, in store: SQLiteStore) throws -> [String] {
        try store.read { reader throws(RelayError) in
            try reader.endedZones(of: user, after: change).map(\.id.zoneName)
        }
    }

    private func living(in store: SQLiteStore) throws -> [String] {
        try store.read { reader throws(RelayError) in try reader.livingZones(of: user).map(\.id.zoneName) }
    }

    @Test func deletedZonesAreListedByTheirEndAndNotAmongTheLiving() async throws {
        try await withFile { path in
            let store = try SQLiteStore(.file(path: path), draw: { 7 }, onCommit: { _ in })
            defer { store.close() }
            let user = user
            func end(_ name: String) async throws -> UInt64 {
                try await store.write { writer throws(RelayError) in
                    guard let zone = try writer.zone(ZoneID(name, owner: user)) else { throw .zoneNotFound }
                    try writer.deleteZone(zone, by: "phone")
                    return try writer.lastEnd(ofZonesOf: user)
                }
            }
            for name in ["A", "B", "C"] {
                _ = try await store.write { writer throws(RelayError) in
                    try writer.makeZone(ZoneID(name, owner: user), by: "phone")
                }
            }
            #expect(try store.read { reader throws(RelayError) in try reader.lastEnd(ofZonesOf: user) } == 0)
            let first = try await end("B")
            let second = try await end("A")
            #expect(first < second)
            #expect(try ended(after: 0, in: store) == ["B", "A"])
            #expect(try ended(after: first, in: store) == ["A"])
            #expect(try ended(after: second, in: store).isEmpty)
            #expect(try living(in: store) == ["C"])
            // A later zone of the same name exists, and the earlier one's end is still reported.
            _ = try await store.write { writer throws(RelayError) in
                try writer.makeZone(ZoneID("A", owner: user), by: "phone")
            }
            #expect(try ended(after: first, in: store) == ["A"])
            #expect(try living(in: store) == ["C", "A"])
        }
    }

    /// Each listing uses its own index, for any number of zones of the other kind.
    @Test func neitherListingReadsTheOther() throws {
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
