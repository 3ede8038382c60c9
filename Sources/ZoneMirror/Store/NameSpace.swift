import GRDB

/// Rows hold the local identities of objects, records hold record names; nearly always they are the same text.
final class NameSpace {
    /// A row with local identities, and the links whose target is not here.
    struct Local {
        var values: [DatabaseValue]
        var unresolved: [Unresolved] = []
    }

    struct Unresolved {
        var column: Int
        /// The target's record name.
        var name: String
    }

    /// Some object has another identity than its record's name, because the name was taken.
    var hasAliases: Bool
    /// Objects of one user may be in several zones, with links between them where sharing did not follow those.
    private let hasManyZones: Bool

    init(_ db: Database) throws {
        hasManyZones = try Int.fetchOne(db, sql: "SELECT count(*) FROM mirror_zone") ?? 0 > 1
        hasAliases =
            try Bool.fetchOne(
                db,
                sql: "SELECT EXISTS (SELECT 1 FROM mirror_record WHERE oid IS NOT NULL AND oid <> name)"
            )
            ?? false
    }

    func toLocal(_ values: [DatabaseValue], _ table: TableForm, zone: Int64, _ db: Database) throws -> Local {
        var local = Local(values: values)
        for column in table.links {
            guard let name = String.fromDatabaseValue(values[column]) else { continue }
            if let oid = try identity(of: name, zone, table.columns[column].link?.destination, db) {
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
            // Deleted here and not there yet: the link is kept as one whose target is missing, as it will be everywhere.
            return try isMissing(oid, destination, db) ? nil : oid
        }
        if hasManyZones, let destination {
            let elsewhere = """
                SELECT r.oid FROM mirror_record r JOIN mirror_zone z ON z.id = r.zone WHERE r.oid = ? AND r.entity = ?
                AND z.owner = (SELECT owner FROM mirror_zone WHERE id = ?)
                """
            let statement = try db.cachedStatement(sql: elsewhere)
            if let oid = try String.fetchOne(statement, arguments: [name, destination, zone]) { return oid }
        }
        // An object of ours that is not sent yet.
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

    /// With links as record names, those whose target is not here included.
    func toRelay(_ row: [DatabaseValue], _ table: TableForm, _ oid: String, _ db: Database) throws -> [DatabaseValue] {
        guard !table.links.isEmpty else { return row }
        var values = row
        for column in table.links {
            if row[column].isNull {
                let sql = "SELECT target FROM mirror_link WHERE oid = ? AND col = ?"
                let target = try String.fetchOne(
                    db.cachedStatement(sql: sql),
                    arguments: [oid, table.columns[column].name]
                )
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
