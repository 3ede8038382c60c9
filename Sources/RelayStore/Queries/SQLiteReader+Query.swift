import GRDB
import Records
import RelayCore

extension SQLiteReader {
    func page(
        of query: Query,
        in zones: [Zone],
        after position: Query.Position?,
        limit: Int,
        bytes: Int
    ) throws(RelayError) -> QueryPage {
        guard let number = names.number(ofType: query.recordType), let type = try schema.queryable(query.recordType),
            let first = zones.first
        else { return QueryPage(records: [], next: nil) }
        return try attempt {
            let run = try QueryRun(
                query,
                type: (number, type),
                after: position,
                page: QueryPageBuilder(QueryOrder(query), limit: limit, bytes: bytes),
                work: queryWork,
                zone: first,
                reader: self
            )
            defer { queryWork.examined += run.examined }
            do {
                return try QueryTimeLimit.limited(to: queryWork.tuning.longestRun, on: database) {
                    try run.run(in: zones)
                }
            } catch is QueryAllowanceExceeded {
                queryWork.exceedsAllowance = true
                throw RelayError(.tryAgainLater, "The query takes long.")
            } catch let error as MissingIndexError {
                queryWork.missing.formUnion(
                    error.targets.map { WantedIndex(recordType: query.recordType, target: $0) }
                )
                throw error.relayError(of: query.recordType)
            }
        }
    }

    /// Returns the type's indexes that have not been dropped.
    func indexes(ofType type: Int64) throws -> [IndexTarget: FieldIndex] {
        let statement = try SQL(FieldIndex.select + " WHERE type = ? AND dropped = 0", in: database)
        defer { statement.reset() }
        statement.bind(1, type)
        var found: [IndexTarget: FieldIndex] = [:]
        while try statement.step() {
            let index = FieldIndex(row: statement)
            found[index.target] = index
        }
        return found
    }

    func liveRecord(named name: String, in zone: Zone) throws -> StoredRecord? {
        if let view = zone.view, view.isPartial { return try records(named: [name], in: zone, through: view)[name] }
        let statement = try SQL(Self.byName, in: database)
        defer { statement.reset() }
        statement.bind(1, zone.number)
        statement.bind(2, name)
        guard try statement.step(), !statement.bool(3) else { return nil }
        return try record(in: statement)
    }

    func hasEntry(index: Int64, zone: Int64, key: QueryKey, name: String) throws -> Bool {
        let statement = try SQL(Self.entry, in: database)
        defer { statement.reset() }
        statement.bind(1, index)
        statement.bind(2, zone)
        statement.bind(3, key)
        statement.bind(4, name)
        return try statement.step()
    }

    static let entry = "SELECT 1 FROM field_value WHERE field = ? AND zone = ? AND value = ? AND name = ?"

    /// Selects the names of a type in the public zone, through the index by type.
    static let publicNames = """
        SELECT type, name FROM record INDEXED BY public_by_modified
        WHERE zone = 1 AND deleted = 0 AND type = ?2 AND ?1 = 1
        """

    /// Selects the names in a zone, through the zone's runs.
    static let zoneNames = """
        SELECT r.type, r.name FROM zone_run z CROSS JOIN record r INDEXED BY live_by_run
        ON r.run = z.run AND r.zone = z.zone AND r.deleted = 0
        WHERE z.zone = ?1 AND ?2 <> 0
        """

    /// Calls `visit` with the name of each live record in the zone, or `nil` for a record of another type.
    func visitNames(ofType type: Int64, in zone: Zone, _ visit: (String?) throws -> Void) throws {
        let statement = try SQL(zone.number == 1 ? Self.publicNames : Self.zoneNames, in: database)
        defer { statement.reset() }
        statement.bind(1, zone.number)
        statement.bind(2, type)
        while try statement.step() { try visit(statement.int(0) == type ? statement.text(1) : nil) }
    }
}

/// The limits and the accumulated cost of the queries of one access.
struct QueryWork {
    var allowance = QueryRun.Allowance(records: 20_000)
    var tuning = QueryTuning()
    /// The number of records and index entries looked at.
    var examined = 0
    /// Whether a query was stopped because it would take too long on its thread.
    var exceedsAllowance = false
    /// The missing indexes because of which a query failed.
    var missing: Set<WantedIndex> = []
}

extension FieldIndex {
    static let select = "SELECT id, type, target, built_to, goal FROM field_index"

    /// Reads a row of `select`.
    init(row: SQL) {
        self.init(
            number: row.int(0),
            type: row.int(1),
            target: IndexTarget(text: row.text(2)),
            builtTo: row.unsigned(3),
            goal: row.unsigned(4)
        )
    }
}

extension MissingIndexError {
    func relayError(of type: String) -> RelayError {
        let fields = targets.map { "'\($0.fieldName)'" }.sorted().joined(separator: ", ")
        return RelayError(
            .tryAgainLater,
            "The index of record type '\(type)' on \(fields) is being built.",
            retryAfter: .seconds(5)
        )
    }
}
