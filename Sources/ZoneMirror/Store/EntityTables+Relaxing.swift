import GRDB

extension EntityTables {
    /// Files of older versions hold a column to a value, and SQLite lets it go only with the column.
    func relax(_ column: ColumnForm, of table: TableForm, _ db: Database) throws {
        let (name, spare, own) = (column.name.quoted, "mirror_\(column.name)".quoted, table.name.quoted)
        let form = ColumnForm(name: "mirror_\(column.name)", kind: column.kind, back: nil)
        try withoutDependents(of: table, db) {
            try db.execute(
                sql: """
                    ALTER TABLE \(own) ADD COLUMN \(definition(form));
                    UPDATE \(own) SET \(spare) = \(name);
                    ALTER TABLE \(own) DROP COLUMN \(name);
                    ALTER TABLE \(own) RENAME COLUMN \(spare) TO \(name);
                    """
            )
        }
    }

    /// Takes away the table's indexes and all views and triggers meanwhile, and puts them back as they were.
    ///
    /// SQLite drops no column that any of them names; a program may have made its own.
    private func withoutDependents(of table: TableForm, _ db: Database, _ body: () throws -> Void) throws {
        // Triggers last: some are on views, and go with them.
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL
                AND (type IN ('view', 'trigger') OR type = 'index' AND tbl_name = ? COLLATE NOCASE)
                ORDER BY type = 'trigger', rowid
                """,
            arguments: [table.name]
        )
        let dependents = rows.map { (type: $0[0] as String, name: $0[1] as String, sql: $0[2] as String) }
        for each in dependents { try db.execute(sql: "DROP \(each.type) IF EXISTS \(each.name.quoted)") }
        try body()
        for each in dependents { try db.execute(sql: each.sql) }
    }
}
