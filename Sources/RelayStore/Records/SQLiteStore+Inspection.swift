import Foundation
import GRDB

/// Looking beneath, for checkers and tests.
extension SQLiteStore {
    /// One record's row with its zone's, read by nothing but itself: what checkers compare everything else with.
    package struct BareRow: Sendable {
        package var owner: String
        package var zone: String
        package var identity: UInt64
        package var lastChange: UInt64
        /// `nil`: the zone is empty.
        package var record: String?
        package var type: String?
        package var change: UInt64
        package var isDeleted: Bool
        package var fields: [UInt8]
    }

    /// The records of all zones that are there, and the greatest number that any zone was ever stamped with.
    package func bareRows() throws -> (rows: [BareRow], lastChange: UInt64) {
        try connections.read { database in
            let last = try Int64.fetchOne(database, sql: "SELECT max(last_change) FROM zone") ?? 0
            let rows = try Row.fetchAll(
                database,
                sql: """
                    SELECT u.name, z.name, z.identity, z.last_change, r.name, t.name, r.change, r.deleted, r.fields
                    FROM zone z JOIN user u ON u.id = z.owner LEFT JOIN record r ON r.zone = z.id
                    LEFT JOIN record_type t ON t.id = r.type WHERE z.deleted = 0 ORDER BY r.change
                    """
            ).map { row in
                BareRow(
                    owner: row[0],
                    zone: row[1],
                    identity: UInt64(bitPattern: row[2]),
                    lastChange: UInt64(bitPattern: row[3]),
                    record: row[4],
                    type: row[5],
                    change: UInt64(bitPattern: row[6] ?? 0),
                    isDeleted: row[7] ?? false,
                    fields: (row[8] as Data?).map { [UInt8]($0) } ?? []
                )
            }
            return (rows, UInt64(last))
        }
    }

    /// `PRAGMA synchronous` of the writing connection, for the test that reads it back: 2 is FULL.
    package func synchronousLevel() throws -> Int {
        try connections.inspect { try Int.fetchOne($0, sql: "PRAGMA synchronous") ?? -1 }
    }

    /// How many writes are remembered that may be repeated.
    package func doneWriteCount() async throws -> Int {
        try connections.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM done_write") ?? 0 }
    }

    /// The statement that reads a zone's feed, for the test that looks at its plan.
    package static var feedStatement: String { SQLiteReader.forwardFeed }

    /// What SQLite's own check of the whole file says: `ok` when nothing is wrong.
    package func integrityReport() throws -> String {
        try connections.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") ?? "no answer" }
    }
}
