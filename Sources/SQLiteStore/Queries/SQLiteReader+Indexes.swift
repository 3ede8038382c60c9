import GRDB
package import Records
package import RelayCore
package import StoreKit

/// The indexes are rows of `field_value`; the public zone's records have an index of their own by modification time, by
/// which clients poll it.
extension SQLiteReader: IndexReader {
    package func isServedByRecords(_ target: IndexTarget, in zone: Int64) -> Bool {
        zone == 1 && target == .value(.system(.modified))
    }

    package func count(_ scan: IndexScan, upTo limit: Int) throws -> Int {
        let statement = try SQL("SELECT count(*) FROM (\(scan.text(selecting: "1")))", in: database)
        defer { statement.reset() }
        scan.bind(to: statement, limit: limit)
        return try statement.step() ? Int(statement.int(0)) : 0
    }

    package func portion(of scan: IndexScan, limit: Int, into portion: inout [IndexEntry]) throws {
        let statement = try SQL(scan.text(), in: database)
        defer { statement.reset() }
        scan.bind(to: statement, limit: limit)
        while try statement.step() { portion.append(IndexEntry(key: statement.key(0), name: statement.text(1))) }
    }

    package func indexes(ofType type: Int64) throws -> [IndexTarget: FieldIndex] {
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

    package func liveRecord(named name: String, in zone: Zone) throws -> StoredRecord? {
        if let view = zone.view, view.isPartial { return try records(named: [name], in: zone, through: view)[name] }
        let statement = try SQL(Self.byName, in: database)
        defer { statement.reset() }
        statement.bind(1, zone.number)
        statement.bind(2, name)
        guard try statement.step(), !statement.bool(3) else { return nil }
        return try record(in: statement)
    }

    package func contains(_ key: QueryKey, of name: String, index: Int64, in zone: Int64) throws -> Bool {
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

    package func names(ofType type: Int64, in zone: Zone, _ visit: (String?) throws -> Void) throws {
        let statement = try SQL(zone.number == 1 ? Self.publicNames : Self.zoneNames, in: database)
        defer { statement.reset() }
        statement.bind(1, zone.number)
        statement.bind(2, type)
        while try statement.step() { try visit(statement.int(0) == type ? statement.text(1) : nil) }
    }
}

/// The SQL of a scan; tests check its query plan.
extension IndexScan {
    private var key: String {
        switch source {
        case .entries: "value"
        case .records: "modified_at"
        }
    }

    /// The statement, apart from the columns to select.
    ///
    /// The parameters are: 1 the index or type, 2 the zone, 3 and 4 the bounds, 5 and 6 the entry to continue from, 7
    /// the limit.
    fileprivate func text(selecting columns: String) -> String {
        var text: String
        switch source {
        case .entries: text = "SELECT \(columns) FROM field_value WHERE field = ?1 AND zone = ?2"
        // The zone is a literal, so that SQLite uses the partial index.
        case .records:
            text = """
                SELECT \(columns) FROM record INDEXED BY public_by_modified
                WHERE type = ?1 AND zone = 1 AND deleted = 0 AND ?2 = 1
                """
        }
        if let lower { text += " AND \(key) \(lower.isInclusive ? ">=" : ">") ?3" }
        if let upper { text += " AND \(key) \(upper.isInclusive ? "<=" : "<") ?4" }
        if let from {
            let sign = (isAscending ? ">" : "<") + (from.isIncluded ? "=" : "")
            text += " AND (\(key), name) \(sign) (?5, ?6)"
        }
        let direction = isAscending ? "ASC" : "DESC"
        return text + " ORDER BY \(key) \(direction), name \(direction) LIMIT ?7"
    }

    func text() -> String { text(selecting: "\(key), name") }

    fileprivate func bind(to statement: SQL, limit: Int) {
        switch source {
        case .entries(let number): statement.bind(1, number)
        case .records(let type): statement.bind(1, type)
        }
        statement.bind(2, zone)
        if let lower { statement.bind(3, lower.key) }
        if let upper { statement.bind(4, upper.key) }
        if let from {
            statement.bind(5, from.entry.key)
            statement.bind(6, from.entry.name)
        }
        statement.bind(7, Int64(limit))
    }
}

extension FieldIndex {
    static let select = "SELECT id, type, target, built_to, goal FROM field_index"

    /// Reads a row of `select`.
    init(row: SQL) {
        self.init(
            number: row.int(0),
            type: row.int(1),
            target: IndexTarget(text: row.text(2)),
            builtTo: IndexProgress(change: row.unsigned(3)),
            goal: IndexProgress(change: row.unsigned(4))
        )
    }
}
