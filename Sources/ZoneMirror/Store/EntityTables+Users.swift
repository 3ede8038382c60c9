import GRDB

extension EntityTables {
    /// Returns whether the file holds a public database shared by several users, for a container that does not mirror
    /// it.
    static func haveOwners(_ db: Database) throws -> Bool {
        let sql = """
            SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'mirror\\_%\\_owner' ESCAPE '\\')
            """
        return try Bool.fetchOne(db, sql: sql) ?? false
    }

    /// Triggers that reject changes to an object that has another user's unsent changes.
    ///
    /// Such a change would be sent in the other user's name. Contexts check this before they write; the triggers cover
    /// all other statements.
    func ownership(_ table: TableForm) -> [String] {
        ["UPDATE", "DELETE"].map { event in
            """
            CREATE TRIGGER \("mirror_\(table.name)_\(event.lowercased())_owner".quoted) BEFORE \(event) ON \(table.name.quoted)
            WHEN \(Self.notImporting)
            AND EXISTS (SELECT 1 FROM mirror_outbox WHERE oid = old.id AND account IS NOT NULL) BEGIN
            SELECT RAISE(ABORT, 'Another user has an unsent change to this object. It cannot be changed until that change is sent.');
            END
            """
        }
    }
}
