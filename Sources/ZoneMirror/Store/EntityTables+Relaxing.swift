import Foundation
import GRDB

extension EntityTables {
    /// Files of older versions hold a column to a value, and SQLite lets it go only with the column.
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

    /// A program's own generated column, or its check, names the column, which cannot be dropped then: the table is made again,
    /// word for word but for the rule.
    ///
    /// `false`, and nothing done, where the rule is not found.
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
        // Other tables would lose rows with this one.
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

    /// Changes a table's definition where it stands: for a rule less, SQLite's rows are the same.
    ///
    /// The way of <https://www.sqlite.org/lang_altertable.html#otheralter>.
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
