import GRDB
import RelayCore

/// Reads and writes the epochs in a store's file.
extension Epochs {
    /// The number of ended epochs that are kept: a client that was away for more runs of the relay starts over.
    private static let mostEnded = 10_000

    /// `nil` if the file is new.
    init?(of database: Database) throws {
        guard let current = try Int64.fetchOne(database, sql: "SELECT value FROM fact WHERE name = 'epoch'") else {
            return nil
        }
        var ends: [UInt64: UInt64] = [:]
        let rows = try Row.fetchCursor(database, sql: "SELECT epoch, last_change FROM ended_epoch")
        while let row = try rows.next() {
            ends[UInt64(bitPattern: row["epoch"])] = UInt64(bitPattern: row["last_change"])
        }
        self.init(current: UInt64(bitPattern: current), ends: ends)
    }

    /// Ends the current epoch at the change number `last`, and starts the epoch `next`.
    static func follow(by next: UInt64, after last: UInt64, in database: Database) throws {
        try database.execute(
            sql: """
                INSERT OR REPLACE INTO ended_epoch (epoch, last_change) SELECT value, ? FROM fact WHERE name = 'epoch';
                DELETE FROM ended_epoch WHERE last_change < (
                    SELECT last_change FROM ended_epoch ORDER BY last_change DESC LIMIT 1 OFFSET \(mostEnded)
                )
                """,
            arguments: [Int64(bitPattern: last)]
        )
        try setCurrent(next, in: database)
    }

    /// Replaces all epochs with a new one: every earlier token is refused.
    static func replace(by next: UInt64, in database: Database) throws {
        try database.execute(sql: "DELETE FROM ended_epoch")
        try setCurrent(next, in: database)
    }

    private static func setCurrent(_ epoch: UInt64, in database: Database) throws {
        try database.execute(
            sql: "UPDATE fact SET value = ? WHERE name = 'epoch'",
            arguments: [Int64(bitPattern: epoch)]
        )
    }
}
