import Foundation
import GRDB

extension EntityTables {
    /// Removes the `NOT NULL` constraint that older versions put on a column.
    ///
    /// SQLite can remove the constraint only together with the column, so the values are copied to a new column.
    func relax(_ column: ColumnForm, of table: TableForm, _ db: Database) throws {
        let (name, spare, own) = (column.name.quoted, "mirror_\(column.name)".quoted, table.name.quoted)
        let form = ColumnForm(name: "mirror_\(column.name)", kind: column.kind, back: nil)
        try withoutDependents(of: table, db) {
            do {
                try db.inSavepoint {
                    try db.execute(
                        sql: """
                            ALTER TABLE \(own) ADD COLUMN \(definition(form));
                            UPDATE \(own) SET \(spare) = \(name);
                            ALTER TABLE \(own) DROP COLUMN \(name);
                            ALTER TABLE \(own) RENAME COLUMN \(spare) TO \(name);
                            """
                    )
                    return .commit
                }
            } catch {
                guard try remake(table, relaxing: column, db) else { throw error }
            }
        }
    }

    /// Creates the table again without the `NOT NULL` constraint, otherwise with the same definition.
    ///
    /// Needed if a generated column or a check of the application names the column, which then cannot be dropped.
    /// Returns `false` and changes nothing if the constraint is not found in the definition.
    private func remake(_ table: TableForm, relaxing column: ColumnForm, _ db: Database) throws -> Bool {
        let (own, spare) = (table.name.quoted, "mirror_\(table.name)".quoted)
        let referring = """
            SELECT EXISTS (SELECT 1 FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) f
            WHERE m.type = 'table' AND f."table" = ? COLLATE NOCASE)
            """
        let text = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE"
        let rule = try Regex("([(,]\\s*[\"`\\[]?\(column.name)[\"`\\]]?\\s[^,()]*?)\\bNOT\\s+NULL\\b").ignoresCase()
        guard let sql = try String.fetchOne(db, sql: text, arguments: [table.name]),
            let start = sql.firstIndex(of: "("), let found = sql[start...].firstMatch(of: rule),
            let kept = found.output[1].substring
        else { return false }
        let definition = sql[start...].replacingCharacters(in: found.range, with: kept)
        // Dropping this table would delete rows of the tables whose foreign keys point to it.
        if try Bool.fetchOne(db, sql: referring, arguments: [table.name]) == true {
            try rewrite(table, as: String(sql[..<start]) + definition, db)
            return true
        }
        let columns = try String.fetchAll(
            db,
            sql: "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0",
            arguments: [table.name]
        ).map(\.quoted).joined(separator: ", ")
        try db.execute(
            sql: """
                CREATE TABLE \(spare)\(definition);
                INSERT INTO \(spare)(rowid, \(columns)) SELECT rowid, \(columns) FROM \(own);
                DROP TABLE \(own);
                ALTER TABLE \(spare) RENAME TO \(own);
                """
        )
        return true
    }

    /// Replaces a table's definition in place; the stored rows are the same without the constraint.
    ///
    /// Follows <https://www.sqlite.org/lang_altertable.html#otheralter>.
    private func rewrite(_ table: TableForm, as definition: String, _ db: Database) throws {
        let version = try Int.fetchOne(db, sql: "PRAGMA schema_version") ?? 0
        try db.execute(sql: "PRAGMA writable_schema = ON")
        defer { try? db.execute(sql: "PRAGMA writable_schema = OFF") }
        try db.execute(
            sql: "UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ? COLLATE NOCASE",
            arguments: [definition, table.name]
        )
        try db.execute(sql: "PRAGMA schema_version = \(version + 1)")
        db.clearSchemaCache()
    }

    /// Drops the table's indexes and all views and triggers, runs `body`, and creates them again.
    ///
    /// SQLite does not drop a column that one of them names. The application may have created its own.
    private func withoutDependents(of table: TableForm, _ db: Database, _ body: () throws -> Void) throws {
        // Triggers come last: those on views are dropped with the view.
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
