import Foundation
import GRDB

/// The application's own tables, and the triggers that note every change to them, by whatever statement it comes.
///
/// The triggers use nothing but SQLite itself, so that any program may write to the file.
struct EntityTables {
    let model: MirrorModel
    let tables: [TableForm]
    /// Whether changes go to the outbox; a local-only store has none.
    let isMirrored: Bool
    /// Whether the file is one for all users, of whom each sends what they have changed themselves.
    var isPublic = false
    let tracksHistory: Bool

    /// Makes missing tables and columns, and these tables' triggers anew.
    ///
    /// Returns the columns of tables that were there before whose values are to be looked up in the relay's records.
    func create(_ db: Database, since last: LayoutRecord?) throws -> [String: [LayoutChange]] {
        for table in tables { try dropTriggers(of: table, db) }
        var changes: [String: [LayoutChange]] = [:]
        for table in tables {
            guard let missing = try complete(table, db) else { continue }
            let found = try LayoutChange.of(table, missing: Set(missing.map(\.name)), since: last, db)
            if !found.isEmpty { changes[table.name] = found }
            try fillEmpty(table, db)
        }
        for table in tables { try createTriggers(of: table, db) }
        return changes
    }

    /// Makes what is missing for one who keeps the file not in step: whoever does says what is noted in it.
    ///
    /// Of tables of which this model knows all and the file did not, the changes are noted as they would be then.
    func createMissing(_ db: Database) throws {
        for table in tables {
            let missing = try complete(table, db)
            let all = Set(try db.columns(in: table.name).map(\.name))
            guard missing?.isEmpty != true, all.isSubset(of: table.columns.map(\.name) + ["id"]) else { continue }
            try dropTriggers(of: table, db)
            try createTriggers(of: table, db)
        }
    }

    /// Makes a table, or its missing columns, which it returns; `nil` for a table that was not there.
    private func complete(_ table: TableForm, _ db: Database) throws -> [ColumnForm]? {
        var missing: [ColumnForm]?
        if try db.tableExists(table.name) {
            let known = try db.columns(in: table.name)
            let columns = table.columns.filter { column in !known.contains { $0.name == column.name } }
            for column in columns {
                try db.execute(sql: "ALTER TABLE \(table.name.quoted) ADD COLUMN \(definition(column))")
            }
            for column in table.columns where column.attribute?.isOptional == true {
                if known.contains(where: { $0.name == column.name && $0.isNotNull }) {
                    try relax(column, of: table, db)
                }
            }
            missing = columns
        } else {
            let columns = table.columns.map { ", " + definition($0) }.joined()
            try db.execute(
                sql:
                    "CREATE TABLE \(table.name.quoted)(id TEXT PRIMARY KEY NOT NULL DEFAULT (\(Self.newID))\(columns))"
            )
        }
        for column in table.columns where column.link != nil || column.attribute?.isIndexed == true {
            try db.execute(
                sql: """
                    CREATE INDEX IF NOT EXISTS \("\(table.name)_\(column.name)".quoted)
                    ON \(table.name.quoted)(\(column.name.quoted))
                    """
            )
        }
        return missing
    }

    /// What may not be empty any more has its default where it was: the same as for a record that does not say it.
    private func fillEmpty(_ table: TableForm, _ db: Database) throws {
        for column in table.columns {
            guard let attribute = column.attribute, !attribute.isOptional, !attribute.defaultValue.isNull else {
                continue
            }
            let (name, value) = (column.name.quoted, Self.literal(attribute.defaultValue))
            try db.execute(sql: "UPDATE \(table.name.quoted) SET \(name) = \(value) WHERE \(name) IS NULL")
        }
    }

    /// A UUID as Foundation writes it.
    private static let newID = """
        upper(substr(hex(randomblob(4)),1,8)||'-'||substr(hex(randomblob(2)),1,4)||'-4'||substr(hex(randomblob(2)),2,3)\
        ||'-A'||substr(hex(randomblob(2)),2,3)||'-'||hex(randomblob(6)))
        """

    func definition(_ column: ColumnForm) -> String {
        guard let attribute = column.attribute else { return "\(column.name.quoted) TEXT" }
        let type =
            switch attribute.type {
            case .string, .uuid, .uri, .undefined, .objectID: "TEXT"
            case .integer, .boolean: "INTEGER"
            case .double, .date: "REAL"
            case .data, .transformable: "BLOB"
            }
        let value = attribute.defaultValue
        // None is held to a value: another model may let it be empty, and SQLite does not take such a rule back.
        return "\(column.name.quoted) \(type)\(value.isNull ? "" : " DEFAULT \(Self.literal(value))")"
    }

    static func literal(_ value: DatabaseValue) -> String {
        switch value.storage {
        case .null: "NULL"
        case .int64(let number): String(number)
        // SQL has no word for infinity, but numbers that are as good.
        case .double(let number): number.isFinite ? "\(number)" : number < 0 ? "-9e999" : "9e999"
        case .string(let text): text.literal
        case .blob(let data): "x'" + data.map { String(format: "%02x", $0) }.joined() + "'"
        }
    }

    // MARK: Triggers

    private func dropTriggers(of table: TableForm, _ db: Database) throws {
        let sql = """
            SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? AND name LIKE 'mirror\\_%' ESCAPE '\\'
            """
        for name in try String.fetchAll(db, sql: sql, arguments: [table.name]) {
            try db.execute(sql: "DROP TRIGGER \(name.quoted)")
        }
    }

    private func createTriggers(of table: TableForm, _ db: Database) throws {
        // SQLite begins with the last: a row is noted before anything follows from it that may fail.
        if isMirrored { for sql in arrivals(table) { try db.execute(sql: sql) } }
        for sql in oneToOne(table) { try db.execute(sql: sql) }
        if isMirrored || tracksHistory { for sql in captures(table) { try db.execute(sql: sql) } }
        if isPublic { for sql in ownership(table) { try db.execute(sql: sql) } }
        for sql in deleteRules(table) { try db.execute(sql: sql) }
    }

    static let notImporting = "(SELECT importing FROM mirror_local) = 0"

    private func captures(_ table: TableForm) -> [String] {
        let name = table.name.quoted
        let text = table.name.literal
        let changed = table.columns.map(edited)
        let names = table.columns.map { "CASE WHEN \(edited($0)) THEN '\($0.name),' ELSE '' END" }
        let changedNames = names.isEmpty ? "''" : "rtrim(" + names.joined(separator: "||") + ", ',')"
        return [
            """
            CREATE TRIGGER \("mirror_\(table.name)_insert".quoted) AFTER INSERT ON \(name) WHEN \(Self.notImporting) BEGIN
            \(takenName(text))
            \(change("new.id", text, .insert, names: "NULL"))
            \(outbox("new.id", text, "save"))
            \(editTimes(table, isInsert: true))
            END
            """,
            """
            CREATE TRIGGER \("mirror_\(table.name)_update".quoted) AFTER UPDATE ON \(name)
            WHEN \(Self.notImporting) AND (\(changed.isEmpty ? "0" : changed.joined(separator: " OR "))) BEGIN
            \(change("new.id", text, .update, names: changedNames))
            \(outbox("new.id", text, "save"))
            \(droppedLinks(table))
            \(editTimes(table, isInsert: false))
            END
            """,
            """
            CREATE TRIGGER \("mirror_\(table.name)_delete".quoted) AFTER DELETE ON \(name) WHEN \(Self.notImporting) BEGIN
            \(change("old.id", text, .delete, names: "NULL", kept: kept(table)))
            \(outbox("old.id", text, "delete"))
            \(unsent)
            \(isMirrored ? "DELETE FROM mirror_link WHERE oid = old.id;" : "")
            \(isMirrored && !table.timed.isEmpty ? "DELETE FROM mirror_edit WHERE oid = old.id;" : "")
            END
            """,
            """
            CREATE TRIGGER \("mirror_\(table.name)_identity".quoted) BEFORE UPDATE OF id ON \(name)
            WHEN old.id IS NOT new.id BEGIN
            SELECT RAISE(ABORT, 'The id of a mirrored object cannot change. Delete the object and insert another.');
            END
            """,
        ]
    }

    private func change(_ id: String, _ entity: String, _ kind: ChangeKind, names: String, kept: String = "NULL")
        -> String
    {
        """
        INSERT INTO mirror_change(txn, oid, entity, kind, names, kept)
        VALUES ((SELECT txn FROM mirror_local), \(id), \(entity), \(kind.rawValue), \(names), \(kept));
        """
    }

    /// Names are those of records, which a zone has once, whatever their type.
    private func takenName(_ entity: String) -> String {
        guard isMirrored else { return "" }
        return """
            SELECT RAISE(ABORT, 'An object of another entity has this name, or had it and is still to be deleted on the \
            relay. Give each object of a mirrored store a name of its own.')
            WHERE EXISTS (SELECT 1 FROM mirror_outbox WHERE oid = new.id AND entity <> \(entity))
            OR EXISTS (SELECT 1 FROM mirror_record WHERE oid = new.id AND entity <> \(entity));
            """
    }

    /// The last operation on a record wins; its place in the line stays.
    private func outbox(_ id: String, _ entity: String, _ operation: String) -> String {
        guard isMirrored else { return "" }
        return """
            INSERT INTO mirror_outbox(place, oid, entity, op, version)
            VALUES (last_insert_rowid(), \(id), \(entity), '\(operation)', last_insert_rowid())
            ON CONFLICT(oid) DO UPDATE SET op = excluded.op, version = excluded.version, held = NULL;
            """
    }

    /// What was never sent need not be deleted there; what is to move was, under another address.
    private var unsent: String {
        guard isMirrored else { return "" }
        return """
            DELETE FROM mirror_outbox WHERE oid = old.id AND isAttempted = 0
            AND NOT EXISTS (SELECT 1 FROM mirror_record WHERE oid = old.id AND tag IS NOT NULL)
            AND NOT EXISTS (SELECT 1 FROM mirror_move WHERE oid = old.id);
            """
    }

    private func droppedLinks(_ table: TableForm) -> String {
        table.columns.filter { $0.link != nil }.map { column in
            """
            DELETE FROM mirror_link WHERE oid = new.id AND col = \(column.name.literal)
            AND old.\(column.name.quoted) IS NOT new.\(column.name.quoted);
            """
        }.joined(separator: "\n")
    }

    /// Notes which properties were edited; when is written by whoever commits, or notices.
    private func editTimes(_ table: TableForm, isInsert: Bool) -> String {
        guard isMirrored else { return "" }
        return table.timed.map { position in
            let column = table.columns[position].name
            let condition = isInsert ? "true" : edited(table.columns[position])
            // No OR REPLACE: what the statement says that fires the trigger, as OR IGNORE, would stand in its place.
            return """
                INSERT INTO mirror_edit(oid, col, at) SELECT new.id, \(column.literal), NULL WHERE \(condition)
                ON CONFLICT(oid, col) DO UPDATE SET at = NULL;
                """
        }.joined(separator: "\n")
    }

    private func kept(_ table: TableForm) -> String { Self.keptValues(of: table, from: "old.") }

    /// What the history keeps of a deleted row, as an expression over the row's columns.
    static func keptValues(of table: TableForm, from row: String) -> String {
        let columns = table.columns.filter { $0.attribute?.preservesValueOnDeletion == true }
        guard !columns.isEmpty else { return "NULL" }
        // Bytes have no form in JSON: SQLite's own notation stands for them.
        let pairs = columns.map { column in
            let value = row + column.name.quoted
            return "\(column.name.literal), CASE typeof(\(value)) WHEN 'blob' THEN quote(\(value)) ELSE \(value) END"
        }
        return "json_object(\(pairs.joined(separator: ", ")))"
    }

    // MARK: Delete rules

    /// What the deletion of one of this table's rows does to others.
    private func deleteRules(_ table: TableForm) -> [String] {
        guard let entity = table.entity else { return [] }
        var statements: [String] = []
        for other in tables {
            for column in other.columns {
                guard let link = column.link, link.destination == entity.name else { continue }
                statements += onDeletion(of: entity, column, of: other)
            }
        }
        for relationship in entity.relationships where !relationship.isToMany && relationship.deleteRule == .cascade {
            statements.append(
                "DELETE FROM \(relationship.destination.quoted) WHERE id = old.\(relationship.name.quoted) AND \(Self.notImporting);"
            )
        }
        guard !statements.isEmpty else { return [] }
        return [
            """
            CREATE TRIGGER \("mirror_\(table.name)_rules".quoted) AFTER DELETE ON \(table.name.quoted) BEGIN
            \(statements.joined(separator: "\n"))
            END
            """
        ]
    }

    private func onDeletion(of entity: Entity, _ column: ColumnForm, of other: TableForm) -> [String] {
        let (table, name) = (other.name.quoted, column.name.quoted)
        let nullify = "UPDATE \(table) SET \(name) = NULL WHERE \(name) = old.id;"
        if case .pairs = other.kind { return ["DELETE FROM \(table) WHERE \(name) = old.id;"] }
        let back = column.link?.inverse.flatMap { inverse in entity.relationships.first { $0.name == inverse } }
        switch back?.deleteRule ?? .nullify {
        case .noAction: return []
        // What follows from a deletion elsewhere arrives from there; here the link alone goes.
        case .cascade: return ["DELETE FROM \(table) WHERE \(name) = old.id AND \(Self.notImporting);", nullify]
        case .nullify, .deny: return [nullify]
        }
    }
}
