import GRDB
import Records
import RelayCore

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
    var looked = ContinuousClock.now
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
