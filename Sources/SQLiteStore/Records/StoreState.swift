import GRDB
import Records
import RelayCore
import StoreKit

/// The state that a store reads into memory when it opens.
struct StoredState {
    var epochs: Epochs
    /// Whether the file was created just now.
    var isNew = false
    var names = StoreNames()
    var schema = Schema()
    var lastChange: UInt64
    /// The greatest change number of any zone.
    var greatestStamp: UInt64
    var queries: [CommittedSubscription]

    init(_ database: Database, draw: () -> UInt64) throws {
        if let kept = try Epochs(of: database) {
            epochs = kept
        } else {
            epochs = Epochs(current: try StoreLayout.begin(database, draw: draw))
            isNew = true
        }
        greatestStamp = try Self.greatestStamp(database)
        lastChange = Self.lastNumber(greatestStamp)
        queries = try SubscriptionRow.readQueries(database)
        for (name, number) in try SchemaRows.typeNumbers(database) { names.add(type: name, number: number) }
        schema = try SchemaRows.read(database)
    }

    /// Returns the last change number used: each change stamps its zone, and zone rows are never removed.
    ///
    /// Throws if the number is out of range, as it may be in a file that was edited by hand: later numbers must fit
    /// too.
    static func greatestStamp(_ database: Database) throws -> UInt64 {
        let stamp = try Int64.fetchOne(database, sql: "SELECT max(last_change) FROM zone_stamp") ?? 0
        guard (0...Int64.max / 2).contains(stamp) else {
            throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "a zone's last change is \(stamp)")
        }
        return UInt64(stamp)
    }
}

/// The latest committed state of a store.
///
/// Holds one reference, since every request copies it.
struct CommittedState: Sendable {
    private final class State: Sendable {
        let names: StoreNames
        let schema: Schema

        init(_ names: StoreNames, _ schema: Schema) {
            self.names = names
            self.schema = schema
        }
    }

    private var state: State
    /// When a read last checked whether another process has changed the schema.
    var checkedAt = ContinuousClock.now
    /// The value of `SchemaFolder.changes` at that time.
    var schemaChanges: UInt64 = 0

    init(names: StoreNames, schema: Schema) { state = State(names, schema) }

    var names: StoreNames {
        get { state.names }
        set { state = State(newValue, state.schema) }
    }

    var schema: Schema {
        get { state.schema }
        set { state = State(state.names, newValue) }
    }
}

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
