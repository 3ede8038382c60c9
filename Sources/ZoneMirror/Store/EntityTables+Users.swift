import GRDB

extension EntityTables {
    /// Whether a file is one for all users, for somebody who does not mirror it.
    static func haveOwners(_ db: Database) throws -> Bool {
        let sql = """
            SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'mirror\\_%\\_owner' ESCAPE '\\')
            """
        return try Bool.fetchOne(db, sql: sql) ?? false
    }

    /// What a user has changed and not sent is that user's to send: another's change would go out in their name.
    ///
    /// Contexts ask before they write; this is for all other statements.
    func ownership(_ table: TableForm) -> [String] {
        ["UPDATE", "DELETE"].map { event in
            """
            CREATE TRIGGER \("mirror_\(table.name)_\(event.lowercased())_owner".quoted) BEFORE \(event) ON \(table.name.quoted)
            WHEN \(Self.notImporting)
            AND EXISTS (SELECT 1 FROM mirror_outbox WHERE oid = old.id AND account IS NOT NULL) BEGIN
            SELECT RAISE(ABORT, 'Another user has changed this object and not sent it; until they have, nobody else can.');
            END
            """
        }
    }
}
