import GRDB
import Records
import RelayCore

/// What a store keeps in memory, read when it opens.
struct StoredState {
    var epochs: Epochs
    /// Whether the file has been made just now.
    var isNew = false
    var names = StoreNames()
    var schema = Schema()
    var lastChange: UInt64
    /// The greatest number that anything in the file is stamped with.
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

    /// Every change stamps its zone, and zone rows stay for ever: the greatest stamp is the last number given.
    ///
    /// None of a file that somebody has made by hand: it may be any number, and those that follow have to fit as well.
    static func greatestStamp(_ database: Database) throws -> UInt64 {
        let stamp = try Int64.fetchOne(database, sql: "SELECT max(last_change) FROM zone_stamp") ?? 0
        guard (0...Int64.max / 2).contains(stamp) else {
            throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "a zone's last change is \(stamp)")
        }
        return UInt64(stamp)
    }
}

/// What is known of a store's committed state: one reference, since every request takes it out.
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
    /// When a read last looked whether another process has changed the schema.
    var looked = ContinuousClock.now
    /// `SchemaFolder.changes` as of then.
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
