/// What a store says about what moves, besides its rows.
package struct MoveFacts: Hashable, Sendable {
    /// The identity of the public database's zone.
    package var publicIdentity: UInt64
    /// The epoch of new tokens.
    package var epoch: UInt64
    /// The last change number of each epoch that has ended.
    package var endedEpochs: [UInt64: UInt64]
    /// The greatest change number in use; no number up to it may be given again.
    package var lastChange: UInt64
    package var schemaVersion: Int64
    package var subscriptionsVersion: Int64

    package init(
        publicIdentity: UInt64,
        epoch: UInt64,
        endedEpochs: [UInt64: UInt64],
        lastChange: UInt64,
        schemaVersion: Int64 = 0,
        subscriptionsVersion: Int64 = 0
    ) {
        self.publicIdentity = publicIdentity
        self.epoch = epoch
        self.endedEpochs = endedEpochs
        self.lastChange = lastChange
        self.schemaVersion = schemaVersion
        self.subscriptionsVersion = subscriptionsVersion
    }
}

/// The store that rows come from.
package protocol MoveSource: AnyObject {
    /// Whether the copy may be read in several snapshots, since rows come in the order of their changes.
    ///
    /// A row with a change number up to a fixed one can then only disappear, by getting a later number.
    var readsInOrderOfChanges: Bool { get }

    /// Calls `body` with one committed state.
    func read<Result>(_ body: (any MoveReader) throws -> Result) throws -> Result
}

/// How far the changes of a store have been read.
package struct MovePosition: Hashable, Sendable {
    /// The greatest change number, of a store that counts for all owners together.
    package var number: UInt64
    /// The greatest change number of each zone, for a store whose owners count for themselves.
    package var zones: [Int64: UInt64]

    package init(number: UInt64, zones: [Int64: UInt64] = [:]) {
        self.number = number
        self.zones = zones
    }
}

/// The rows of a table that a reader visits.
package struct MoveSelection: Sendable {
    /// Those that have changed since, of records and entries of hierarchies; `nil`: all.
    package var after: MovePosition?
    /// The change number after which to stop, and the number of rows: only of records, in the order of their changes.
    package var upTo: UInt64?
    package var limit: Int?

    package init(after: MovePosition? = nil, upTo: UInt64? = nil, limit: Int? = nil) {
        self.after = after
        self.upTo = upTo
        self.limit = limit
    }
}

/// One committed state of what moves.
package protocol MoveReader: AnyObject {
    func facts() throws -> MoveFacts

    /// Returns how far this state goes.
    func position() throws -> MovePosition

    /// Visits rows of a table, some thousand at a time.
    ///
    /// Rows of records, references and uses of assets in deleted zones are left out.
    func visit(_ table: MovedTable, _ selection: MoveSelection, _ body: (MovedRows) throws -> Void) throws

    /// Returns what a number means: the name of a user or record type, the identity of a zone, the link of a share.
    func names(of numbers: Set<Int64>, _ kind: MovedTable.Kind) throws -> [Int64: String]

    /// Returns the number of rows that `visit` visits.
    func count(_ table: MovedTable) throws -> Int64

    /// Returns the number of rows by zone, or for `shareEntry` by share, as the store numbers them.
    func counts(_ table: MovedTable) throws -> [Int64: Int64]

    /// Returns the keys of all rows of a zone or share; the other columns are NULL.
    func keys(_ table: MovedTable, in group: Int64) throws -> MovedRows
}

/// The store that rows go to.
///
/// Everything runs inside `transaction`, on one thread.
package protocol MoveSink: AnyObject {
    /// Runs `body` in a transaction, and commits it.
    func transaction<Result>(_ body: () throws -> Result) throws -> Result

    /// Creates what the rows belong to, unless it is there.
    func begin(_ facts: MoveFacts) throws

    /// Returns the store's own numbers; users and record types that are missing get one, zones and shares do not.
    func numbers(of names: [String], _ kind: MovedTable.Kind) throws -> [String: Int64]

    /// Adds rows, none of which is there.
    func insert(_ rows: MovedRows) throws

    /// Adds rows, or replaces those with the same keys.
    func upsert(_ rows: MovedRows) throws

    /// Removes the rows with these keys; other columns are ignored.
    func delete(_ keys: MovedRows) throws

    /// Removes all rows of a table that move.
    func removeAll(_ table: MovedTable) throws

    /// Returns the rows with the keys of these rows.
    func existing(_ keys: MovedRows) throws -> MovedRows

    /// Returns the greatest change number among the records that have come; 0 if there is none.
    func greatestChange() throws -> UInt64

    /// Returns what the store has so far, for comparison.
    func reader() throws -> any MoveReader

    /// Completes the move of rows: epochs, high-water marks of owners, and the next change number, which comes after
    /// all that moved.
    func finish(_ facts: MoveFacts) throws
}
