import GRDB

/// Links that records have but objects do not show, because the target is not here or does not point back.
enum OpenLinks {
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
    static func lead(_ db: Database, to name: String) throws -> Bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM mirror_link WHERE target = ?)"
        return try Bool.fetchOne(db.cachedStatement(sql: sql), arguments: [name]) ?? false
    }

    static func forget(_ db: Database, of oid: String, _ column: String) throws {
        let sql = "DELETE FROM mirror_link WHERE oid = ? AND col = ?"
        try db.cachedStatement(sql: sql).execute(arguments: [oid, column])
    }

    static func forget(_ db: Database, of oid: String) throws {
        try db.cachedStatement(sql: "DELETE FROM mirror_link WHERE oid = ?").execute(arguments: [oid])
    }
}
