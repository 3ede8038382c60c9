import GRDB
import SyncCore
import ZoneKit

/// Imports links.
///
/// A link is shown if the object at its other end is here and, for a to-one inverse, points back. All other links are
/// open: the column is NULL, `mirror_link` stores the target's name, and the link is resolved once both conditions
/// hold. So the result depends on the records and not on the order of their arrival, and imports are never recorded as
/// changes of the user.
extension Importer {
    /// Writes an object's values, with links as record names, and returns the columns that have changed.
    func write(
        _ values: [DatabaseValue],
        to table: TableLayout,
        _ oid: String,
        named name: String,
        over current: [DatabaseValue]?,
        zone: Int64
    ) throws -> [Int] {
        let row = try names.toLocal(values, table, of: (name, oid), zone: zone, db)
        try UnresolvedLinks.forget(db, of: oid)
        try keep(row.unresolved, of: table, oid, zone)
        let changed = table.columns.indices.filter { current?[$0] != row.values[$0] }
        if let current {
            for position in changed { try clearInverseLink(current[position], table.columns[position], oid, name) }
            if !changed.isEmpty { try table.update(db, oid, row.values) }
        } else {
            try table.insert(db, oid, row.values)
        }
        if hasLinks { try resolveLinks(to: name, zone: zone, as: oid, table) }
        return changed
    }

    /// Stores links that cannot be shown yet.
    func keep(_ unresolved: [RecordNameTranslator.Unresolved], of table: TableLayout, _ oid: String, _ zone: Int64)
        throws
    {
        for link in unresolved {
            try storeUnresolved(table, table.columns[link.column].name, of: oid, zone, to: link.name)
        }
    }

    private func storeUnresolved(
        _ table: TableLayout,
        _ column: String,
        of oid: String,
        _ zone: Int64,
        to name: String
    ) throws {
        hasLinks = true
        try UnresolvedLinks.keep(db, oid, table.name, column, zone, to: name)
    }

    /// Resolves the open links to an object that was imported or that points back now.
    func resolveLinks(to name: String, zone: Int64, as oid: String, _ target: TableLayout) throws {
        // Includes links from other zones of the same owner, because sharing may have stopped at the link.
        let sql = """
            SELECT oid, entity, col FROM mirror_link WHERE target = ?1 AND (zone = ?2 OR zone IN
                (SELECT id FROM mirror_zone WHERE owner = (SELECT owner FROM mirror_zone WHERE id = ?2)))
            """
        for row in try Row.fetchAll(db.cachedStatement(sql: sql), arguments: [name, zone]) {
            let (source, entity, column): (String, String, String) = (row[0], row[1], row[2])
            guard let table = mapping.tables[entity], let form = table.index[column].map({ table.columns[$0] }),
                form.link?.destination == target.name, try names.pointsBack(form, from: oid, to: source, db)
            else { continue }
            try db.cachedStatement(
                sql: "UPDATE \(entity.quoted) SET \(column.quoted) = ? WHERE id = ? AND \(column.quoted) IS NULL"
            ).execute(arguments: [oid, source])
            if db.changesCount > 0 { try note(table, source, .update, names: column) }
            try UnresolvedLinks.forget(db, of: source, column)
        }
    }

    /// Makes the inverse link of a former target open, because the object now points elsewhere.
    private func clearInverseLink(_ other: DatabaseValue, _ column: ColumnLayout, _ oid: String, _ name: String) throws
    {
        guard let inverseLink = column.inverseLink, let other = String.fromDatabaseValue(other), other != oid,
            let table = column.link.flatMap({ mapping.tables[$0.destination] }),
            let position = table.index[inverseLink], try table.row(db, other)?[position] == oid.databaseValue
        else { return }
        try open(table, inverseLink, of: other, to: name)
    }

    private func open(_ table: TableLayout, _ column: String, of source: String, to name: String) throws {
        let sql = "UPDATE \(table.name.quoted) SET \(column.quoted) = NULL WHERE id = ?"
        try db.cachedStatement(sql: sql).execute(arguments: [source])
        let zone = try KnownRecord.zone(db, oid: source) ?? file.homeZone.map { try KnownZone.make(db, $0).id }
        try storeUnresolved(table, column, of: source, zone ?? 0, to: name)
        try note(table, source, .update, names: column)
    }

    // MARK: Deletions

    /// Deletes a row as part of an import; links to it become open and are resolved if an object of this name returns.
    func deleteRow(_ table: TableLayout, _ oid: String, named name: String) throws {
        for (other, column) in mapping.incoming[table.name] ?? [] {
            let sql = "SELECT id FROM \(other.name.quoted) WHERE \(column.quoted) = ? AND id <> ?"
            for source in try String.fetchAll(db.cachedStatement(sql: sql), arguments: [oid, oid]) {
                try open(other, column, of: source, to: name)
            }
        }
        try table.delete(db, oid)
        try UnresolvedLinks.forget(db, of: oid)
    }

    /// Deletes the many-to-many links of an object that the relay has deleted, as far as the user may delete them.
    ///
    /// The device that deleted the object did not know the links that others created meanwhile.
    func dropPairs(with name: String, zone: Int64) throws {
        guard hasLinks else { return }
        let sql = "SELECT oid, entity FROM mirror_link WHERE target = ? AND zone = ?"
        for row in try Row.fetchAll(db.cachedStatement(sql: sql), arguments: [name, zone]) {
            let (oid, entity): (String, String) = (row[0], row[1])
            guard let table = mapping.tables[entity], table.entity == nil, try canDelete(oid) else { continue }
            try table.delete(db, oid)
            try UnresolvedLinks.forget(db, of: oid)
            try records.queue(oid, entity: entity, .delete)
            hasOutbox = true
        }
    }

    /// Restores the links of an object that was deleted here, if that deletion was not sent and the object is back.
    ///
    /// Links that the deletion changed in other objects are restored if these changes were not sent either. `deletion`
    /// is the deletion's number in the history.
    func restoreLinks(_ oid: String, _ table: TableLayout, deletion: Int64) throws {
        guard let known = try KnownRecord.find(db, oid: oid), table.entity != nil else { return }
        let sql = "SELECT txn FROM mirror_change WHERE seq = ?"
        let transaction = try Int64.fetchOne(db, sql: sql, arguments: [deletion])
        try restoreJoinRows(oid)
        for (other, column) in mapping.incoming[table.name] ?? [] where other.entity != nil {
            guard let position = other.index[column] else { continue }
            for source in try objectsWithClearedLink(other, column, in: transaction) {
                guard let relayed = try KnownRecord.find(db, oid: source), relayed.state.isInZone,
                    mapping.row(of: relayed.serverFields(), in: other)[position] == known.name.databaseValue,
                    try names.pointsBack(other.columns[position], from: oid, to: source, db)
                else { continue }
                try restoreLink(relayed, source, other, position, to: oid)
            }
        }
    }

    /// Returns the unsent objects whose link was last changed, namely cleared, in the given transaction.
    ///
    /// If the history no longer has that change, the transaction does not matter.
    private func objectsWithClearedLink(_ table: TableLayout, _ column: String, in transaction: Int64?) throws
        -> [String]
    {
        let sql = """
            SELECT o.id FROM \(table.name.quoted) o JOIN mirror_outbox w ON w.oid = o.id
            LEFT JOIN (SELECT oid, txn, max(seq) FROM mirror_change
                WHERE entity = ?1 AND kind = 2 AND instr(',' || names || ',', ',' || ?2 || ',') > 0 GROUP BY oid) c
            ON c.oid = o.id
            WHERE o.\(column.quoted) IS NULL AND w.op = 'save' AND w.account IS NULL
            AND coalesce(c.txn = ?3, true) AND NOT EXISTS
                (SELECT 1 FROM mirror_link l WHERE l.oid = o.id AND l.col = ?2)
            """
        return try String.fetchAll(db, sql: sql, arguments: [table.name, column, transaction])
    }

    /// Sets a link to the relay's value and leaves the other unsent changes of the object.
    private func restoreLink(
        _ known: KnownRecord,
        _ source: String,
        _ table: TableLayout,
        _ position: Int,
        to oid: String
    ) throws {
        guard var row = try table.row(db, source) else { return }
        row[position] = oid.databaseValue
        try table.update(db, source, row)
        try note(table, source, .update, names: table.columns[position].name)
        // A request under way does not contain the link.
        try records.renumber(source, db.lastInsertedRowID)
        let mine = mapping.roundTripped(try names.toRelay(row, table, source, db), in: table)
        if mine == mapping.row(of: known.serverFields(), in: table) { try records.discardChange(of: source) }
        if hasLinks { try resolveLinks(to: known.name, zone: known.zone, as: source, table) }
    }

    /// Restores the many-to-many links of an object, except those that were removed earlier.
    private func restoreJoinRows(_ oid: String) throws {
        let sql = """
            SELECT w.oid, w.entity, c.txn FROM mirror_outbox w LEFT JOIN mirror_change c ON c.seq = w.version
            WHERE w.op = 'delete' AND w.account IS NULL
            """
        var known: [Int64: Set<String>] = [:]
        for row in try Row.fetchAll(db, sql: sql) {
            let (pair, entity, transaction): (String, String, Int64?) = (row[0], row[1], row[2])
            guard let table = mapping.tables[entity], table.entity == nil,
                let record = try KnownRecord.find(db, oid: pair), record.state.isInZone
            else { continue }
            let ends = mapping.row(of: record.serverFields(), in: table)
            let local = try names.toLocal(ends, table, of: (record.name, pair), zone: record.zone, db)
            // A link whose other end is missing too waits until that is back.
            guard local.unresolved.isEmpty, local.values.contains(oid.databaseValue) else { continue }
            if let transaction {
                let deleted = try known[transaction] ?? deletions(in: transaction)
                known[transaction] = deleted
                if deleted.isDisjoint(with: local.values.compactMap { String.fromDatabaseValue($0) }) { continue }
            }
            try records.discardChange(of: pair)
            try revert(pair, table, try table.row(db, pair))
        }
    }

    private func deletions(in transaction: Int64) throws -> Set<String> {
        let sql = "SELECT oid FROM mirror_change WHERE txn = ? AND kind = 3"
        return try String.fetchSet(db, sql: sql, arguments: [transaction])
    }

    private func canDelete(_ oid: String) throws -> Bool {
        let account = Account(user: try State.text(db, .account), status: .signedIn)
        return try Permissions(file: file, account: account).canDelete(db, oid: oid)
    }
}
