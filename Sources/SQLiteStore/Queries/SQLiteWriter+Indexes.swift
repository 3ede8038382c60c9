import GRDB
package import Records
package import RelayCore
package import StoreKit

/// The indexes that writes must update, by record type number.
struct CachedIndexes {
    var ofType: [Int64: [FieldIndex]] = [:]
}

extension SQLiteWriter {
    // MARK: Updates by writes

    /// Enters the values of `record` and removes those of the record it replaces.
    ///
    /// Costs one lookup in an empty dictionary until a query has needed an index.
    func updateIndexes(
        for record: StoredRecord,
        ofType type: Int64,
        over replaced: StoredRecord?,
        in zone: Zone
    ) throws {
        let kept = try cachedIndexes()
        guard !kept.ofType.isEmpty, let indexes = kept.ofType[type],
            let definition = cache.schema.queryable(record.type)
        else { return }
        try indexes.update(
            for: record,
            over: replaced,
            of: definition,
            where: { !isServedByRecords($0, in: zone.number) },
            remove: { try remove($1, of: record.name, index: $0.number, in: zone.number) },
            enter: { try enter($1, of: record.name, index: $0.number, in: zone.number) }
        )
    }

    private func remove(_ key: QueryKey, of name: String, index: Int64, in zone: Int64) throws {
        let statement = try SQL(
            "DELETE FROM field_value WHERE field = ? AND zone = ? AND value = ? AND name = ?",
            in: database
        )
        try run(statement, key, index, zone, name)
    }

    private func run(_ statement: SQL, _ key: QueryKey, _ index: Int64, _ zone: Int64, _ name: String) throws {
        statement.bind(1, index)
        statement.bind(2, zone)
        statement.bind(3, key)
        statement.bind(4, name)
        try statement.run()
    }

    /// Returns the cached indexes, or reads them from the file.
    private func cachedIndexes() throws -> CachedIndexes {
        if let kept = cache.indexes { return kept }
        var kept = CachedIndexes()
        let statement = try SQL(FieldIndex.select + " WHERE dropped = 0", in: database)
        defer { statement.reset() }
        while try statement.step() {
            let index = FieldIndex(row: statement)
            kept.ofType[index.type, default: []].append(index)
        }
        cache.indexes = kept
        return kept
    }

    // MARK: Dropping

    /// Drops the indexes that the new schema does not want.
    ///
    /// Queries no longer use them; their entries are removed gradually.
    func dropIndexes(from old: Schema, to new: Schema) throws {
        for (number, kept) in try cachedIndexes().ofType {
            guard let name = names.type(number) else { continue }
            for index in kept where !index.target.survives(from: old.queryable(name), to: new.queryable(name)) {
                let statement = try SQL("UPDATE field_index SET dropped = 1 WHERE id = ?", in: database)
                statement.bind(1, index.number)
                try statement.run()
                cache.indexes = nil
                hasDroppedIndexes = true
            }
        }
    }

    /// Removes up to `limit` entries of dropped indexes; returns whether there are more.
    func purgeDroppedIndexes(limit: Int) throws -> Bool {
        let next = try SQL("SELECT id FROM field_index WHERE dropped = 1 LIMIT 1", in: database)
        guard try next.step() else {
            next.reset()
            return false
        }
        let number = next.int(0)
        next.reset()
        if try removeEntries(of: number, limit: limit) < limit {
            let statement = try SQL("DELETE FROM field_index WHERE id = ?", in: database)
            statement.bind(1, number)
            try statement.run()
        }
        return true
    }

    private func removeEntries(of index: Int64, zone: Int64? = nil, limit: Int) throws -> Int {
        let statement = try SQL(
            """
            DELETE FROM field_value WHERE (field, zone, value, name) IN (
                SELECT field, zone, value, name FROM field_value
                WHERE field = ?1 \(zone == nil ? "" : "AND zone = ?3") LIMIT ?2)
            """,
            in: database
        )
        statement.bind(1, index)
        statement.bind(2, Int64(limit))
        if let zone { statement.bind(3, zone) }
        try statement.run()
        return database.changesCount
    }

    /// Removes up to `limit` entries of a deleted zone; returns whether there are more.
    func purgeEntries(ofZone zone: Int64, limit: Int) throws -> Bool {
        for index in try cachedIndexes().ofType.values.joined()
        where try removeEntries(of: index.number, zone: zone, limit: limit) == limit {
            return true
        }
        return false
    }
}

extension SQLiteWriter: IndexBuilder {
    package func queryableType(_ name: String) -> (number: Int64, definition: RecordType)? {
        guard let number = names.number(ofType: name), let definition = cache.schema.queryable(name) else { return nil }
        return (number, definition)
    }

    package func makeIndex(_ target: IndexTarget, ofType type: Int64) throws -> FieldIndex {
        let statement = try SQL(
            "INSERT INTO field_index (type, target, built_to, goal) VALUES (?, ?, 0, ?)",
            in: database
        )
        statement.bind(1, type)
        statement.bind(2, target.text)
        statement.bind(3, cache.lastChange)
        try statement.run()
        cache.indexes = nil
        return FieldIndex(
            number: database.lastInsertedRowID,
            type: type,
            target: target,
            builtTo: .start,
            goal: IndexProgress(change: cache.lastChange)
        )
    }

    package func records(
        ofType type: Int64,
        after place: IndexProgress,
        upTo goal: IndexProgress,
        limit: Int,
        _ visit: (StoredRecord, Int64) throws -> Void
    ) throws -> IndexProgress {
        let rows = try SQL(
            """
            SELECT \(Self.recordColumns), r.zone FROM record r WHERE r.change > ? AND r.change <= ?
            ORDER BY r.change LIMIT ?
            """,
            in: database
        )
        rows.bind(1, place.change)
        rows.bind(2, goal.change)
        rows.bind(3, Int64(limit))
        defer { rows.reset() }
        var (seen, reached) = (0, goal.change)
        while try rows.step() {
            seen += 1
            reached = rows.unsigned(0)
            guard rows.int(2) == type, !rows.bool(3) else { continue }
            try visit(record(in: rows), rows.int(13))
        }
        return seen < limit ? goal : IndexProgress(change: reached)
    }

    package func enter(_ key: QueryKey, of name: String, index: Int64, in zone: Int64) throws {
        let statement = try SQL(
            "INSERT OR IGNORE INTO field_value (field, zone, value, name) VALUES (?, ?, ?, ?)",
            in: database
        )
        try run(statement, key, index, zone, name)
    }

    package func setBuilt(_ index: FieldIndex, to place: IndexProgress) throws {
        let statement = try SQL("UPDATE field_index SET built_to = ? WHERE id = ?", in: database)
        statement.bind(1, place.change)
        statement.bind(2, index.number)
        try statement.run()
        cache.indexes = nil
    }
}
