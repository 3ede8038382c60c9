import GRDB
import Records
import ZoneKit

/// The user's role permissions in a public database, in `mirror_right`, so that checks need no network.
///
/// See Permissions.md, "Questions".
enum GrantedRights {
    /// Returns the permissions for a record type; `nil` if the relay has not reported them or does not know the type.
    static func of(_ db: Database, type: String) throws -> Rights? {
        let statement = try db.cachedStatement(sql: "SELECT rights FROM mirror_right WHERE type = ?")
        return try Int.fetchOne(statement, arguments: [type]).map { Rights(rawValue: $0) }
    }

    /// Returns whether any type may be written or created; `true` as long as nothing is known.
    static func allowsAnything(_ db: Database) throws -> Bool {
        let sql = "SELECT count(*) = 0 OR max(rights & ?) > 0 FROM mirror_right"
        let wanted = Rights.create.union(.write).rawValue
        return try Bool.fetchOne(db.cachedStatement(sql: sql), arguments: [wanted]) ?? true
    }

    static func store(_ db: Database, _ rights: [String: Rights], of types: [String]) throws {
        try db.execute(sql: "DELETE FROM mirror_right")
        for type in types {
            guard let right = rights[type] else { continue }
            try db.execute(
                sql: "INSERT INTO mirror_right(type, rights) VALUES (?, ?)",
                arguments: [type, right.rawValue]
            )
        }
    }
}
