import GRDB

/// Translates between the object ids in rows and the record names in records, which nearly always are the same text.
final class RecordNameTranslator {
    /// A row with object ids, and the links whose target is not in the store.
    struct Local {
        var values: [DatabaseValue]
        var unresolved: [Unresolved] = []
    }

    struct Unresolved {
        var column: Int
        /// The target's record name.
        var name: String
    }

    /// Whether some object has another id than its record's name, because the name was taken.
    var hasAliases: Bool
    /// Whether there are several zones, so that links may lead from one zone of a user to another.
    let hasManyZones: Bool

    init(_ db: Database) throws {
        hasManyZones = try Int.fetchOne(db, sql: "SELECT count(*) FROM mirror_zone") ?? 0 > 1
        hasAliases =
            try Bool.fetchOne(
                db,
                sql: "SELECT EXISTS (SELECT 1 FROM mirror_record WHERE oid IS NOT NULL AND oid <> name)"
            )
            ?? false
    }

    /// Returns a row with object ids in place of record names.
    ///
    /// `source` is the object whose row it is, as received from the relay. For the user's own row it is `nil`; then
    /// the other ends of its links are written with it.
    func toLocal(
        _ values: [DatabaseValue],
        _ table: TableLayout,
        of source: (name: String, oid: String)? = nil,
        zone: Int64,
        _ db: Database
    ) throws -> Local {
        var local = Local(values: values)
        for column in table.links {
            guard let name = String.fromDatabaseValue(values[column]) else { continue }
            let form = table.columns[column]
            if let oid = try identity(of: name, zone, form.link?.destination, db),
                try source.map({ try isMutual(form, to: oid, from: values, table, $0, db) }) ?? true
            {
                local.values[column] = oid.databaseValue
            } else {
                local.values[column] = .null
                local.unresolved.append(Unresolved(column: column, name: name))
            }
        }
        return local
    }

    private func identity(of name: String, _ zone: Int64, _ destination: String?, _ db: Database) throws -> String? {
        let sql = "SELECT oid FROM mirror_record WHERE zone = ? AND name = ? AND oid IS NOT NULL"
        if let oid = try String.fetchOne(db.cachedStatement(sql: sql), arguments: [zone, name]) {
            // If the target was deleted here but not on the relay yet, the link is kept as unresolved, as it will be
            // everywhere.
            return try isMissing(oid, destination, db) ? nil : oid
        }
        if hasManyZones, let destination {
            let elsewhere = """
                SELECT r.oid FROM mirror_record r JOIN mirror_zone z ON z.id = r.zone WHERE r.oid = ? AND r.entity = ?
                AND z.owner = (SELECT owner FROM mirror_zone WHERE id = ?)
                """
            let statement = try db.cachedStatement(sql: elsewhere)
            if let oid = try String.fetchOne(statement, arguments: [name, destination, zone]) {
                return try isMissing(oid, destination, db) ? nil : oid
            }
        }
        // A local object that was not sent yet.
        guard let destination, try db.tableExists(destination) else { return nil }
        let own = "SELECT id FROM \(destination.quoted) WHERE id = ?"
        guard let found = try String.fetchOne(db.cachedStatement(sql: own), arguments: [name]),
            try KnownRecord.find(db, oid: found) == nil
        else { return nil }
        return found
    }

    private func isMissing(_ oid: String, _ destination: String?, _ db: Database) throws -> Bool {
        guard let destination, try db.tableExists(destination) else { return false }
        let sql = "SELECT 1 FROM \(destination.quoted) WHERE id = ?"
        return try Int.fetchOne(db.cachedStatement(sql: sql), arguments: [oid]) == nil
    }

    private func isMutual(
        _ column: ColumnLayout,
        to target: String,
        from values: [DatabaseValue],
        _ table: TableLayout,
        _ source: (name: String, oid: String),
        _ db: Database
    ) throws -> Bool {
        // A link to the object itself: the row being imported also contains the other end.
        if target == source.oid, let position = column.inverseLink.flatMap({ table.index[$0] }) {
            return values[position] == source.name.databaseValue
        }
        return try pointsBack(column, from: target, to: source.oid, named: source.name, db)
    }

    /// Returns whether the inverse of a link points back to the holder, if the link has a to-one inverse.
    func pointsBack(
        _ column: ColumnLayout,
        from target: String,
        to source: String,
        named name: String? = nil,
        _ db: Database
    ) throws -> Bool {
        guard let inverseLink = column.inverseLink, let destination = column.link?.destination else { return true }
        let sql = "SELECT \(inverseLink.quoted) FROM \(destination.quoted) WHERE id = ?"
        if let shown = try String.fetchOne(db.cachedStatement(sql: sql), arguments: [target]) { return shown == source }
        guard let open = try UnresolvedLinks.target(db, of: target, inverseLink) else { return false }
        return try open == name ?? KnownRecord.find(db, oid: source)?.name ?? source
    }

    /// Returns a row with record names in place of object ids, including unresolved links.
    func toRelay(_ row: [DatabaseValue], _ table: TableLayout, _ oid: String, _ db: Database) throws -> [DatabaseValue]
    {
        guard !table.links.isEmpty else { return row }
        var values = row
        for column in table.links {
            if row[column].isNull {
                let target = try UnresolvedLinks.target(db, of: oid, table.columns[column].name)
                if let target { values[column] = target.databaseValue }
            } else if hasAliases, let target = String.fromDatabaseValue(row[column]) {
                let sql = "SELECT name FROM mirror_record WHERE oid = ?"
                let name = try String.fetchOne(db.cachedStatement(sql: sql), arguments: [target])
                if let name { values[column] = name.databaseValue }
            }
        }
        return values
    }
}

/// Links that records have but objects do not show, because the target is not here or does not point back.
enum UnresolvedLinks {
    static func keep(
        _ db: Database,
        _ oid: String,
        _ entity: String,
        _ column: String,
        _ zone: Int64,
        to name: String
    ) throws {
        let sql = "INSERT OR REPLACE INTO mirror_link(oid, entity, col, zone, target) VALUES (?, ?, ?, ?, ?)"
        try db.cachedStatement(sql: sql).execute(arguments: [oid, entity, column, zone, name])
    }

    /// The record name that an unresolved link points to.
    static func target(_ db: Database, of oid: String, _ column: String) throws -> String? {
        let sql = "SELECT target FROM mirror_link WHERE oid = ? AND col = ?"
        return try String.fetchOne(db.cachedStatement(sql: sql), arguments: [oid, column])
    }

    /// Returns whether any unresolved link points to a name.
    static func exist(_ db: Database, to name: String) throws -> Bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM mirror_link WHERE target = ?)"
        return try Bool.fetchOne(db.cachedStatement(sql: sql), arguments: [name]) ?? false
    }

    /// Looks for the targets of an object's links in another zone from now on.
    static func move(_ db: Database, of oid: String, to zone: Int64) throws {
        try db.cachedStatement(sql: "UPDATE mirror_link SET zone = ? WHERE oid = ?").execute(arguments: [zone, oid])
    }

    static func forget(_ db: Database, of oid: String, _ column: String) throws {
        let sql = "DELETE FROM mirror_link WHERE oid = ? AND col = ?"
        try db.cachedStatement(sql: sql).execute(arguments: [oid, column])
    }

    /// Returns the statement of a trigger that forgets an object's links that meet a condition.
    static func forgetting(_ id: String, _ condition: String = "") -> String {
        "DELETE FROM mirror_link WHERE oid = \(id)\(condition);"
    }

    static func forget(_ db: Database, of oid: String) throws {
        try db.cachedStatement(sql: "DELETE FROM mirror_link WHERE oid = ?").execute(arguments: [oid])
    }
}
