import Foundation
import GRDB
import Records
import SyncCore

/// The application's tables and the triggers that record every change to them, whichever statement makes it.
///
/// The triggers use plain SQLite only, so that any program can write to the file.
struct EntityTables {
    let model: MirrorModel
    let tables: [TableLayout]
    /// Whether changes go to the outbox; a local-only store has no outbox.
    let isMirrored: Bool
    /// Whether several users share the file; each user's own changes are sent in that user's name.
    var isPublic = false
    let tracksHistory: Bool

    /// Creates missing tables and columns, and creates the triggers again.
    ///
    /// Returns the columns of existing tables whose values must be read again from the stored records.
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

    /// Creates missing tables and columns for a container that does not mirror the file.
    ///
    /// The mirroring container decides which changes are recorded. For tables that are new to the file, or that have
    /// gained columns, and of which this model knows all columns, this method creates the triggers.
    func createMissing(_ db: Database) throws {
        for table in tables {
            let missing = try complete(table, db)
            let all = Set(try db.columns(in: table.name).map(\.name))
            guard missing?.isEmpty != true, all.isSubset(of: table.columns.map(\.name) + ["id"]) else { continue }
            try dropTriggers(of: table, db)
            try createTriggers(of: table, db)
        }
    }

    /// Creates the table or its missing columns, and returns those columns; `nil` if the table did not exist.
    private func complete(_ table: TableLayout, _ db: Database) throws -> [ColumnLayout]? {
        var missing: [ColumnLayout]?
        if try db.tableExists(table.name) {
            let known = try db.columns(in: table.name)
            let columns = table.columns.filter { column in !known.contains { $0.name == column.name } }
            for column in columns {
                try db.execute(sql: "ALTER TABLE \(table.name.quoted) ADD COLUMN \(definition(column))")
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

    /// Replaces NULL by the default in columns that are no longer optional, as for a record that lacks the field.
    private func fillEmpty(_ table: TableLayout, _ db: Database) throws {
        for column in table.columns {
            guard let attribute = column.attribute, !attribute.isOptional, !attribute.defaultValue.isNull else {
                continue
            }
            let (name, value) = (column.name.quoted, Self.literal(attribute.defaultValue))
            try db.execute(sql: "UPDATE \(table.name.quoted) SET \(name) = \(value) WHERE \(name) IS NULL")
        }
    }

    /// SQL for a random UUID in Foundation's format.
    private static let newID = """
        upper(substr(hex(randomblob(4)),1,8)||'-'||substr(hex(randomblob(2)),1,4)||'-4'||substr(hex(randomblob(2)),2,3)\
        ||'-A'||substr(hex(randomblob(2)),2,3)||'-'||hex(randomblob(6)))
        """

    func definition(_ column: ColumnLayout) -> String {
        guard let attribute = column.attribute else { return "\(column.name.quoted) TEXT" }
        let type =
            switch attribute.type {
            case .string, .uuid, .uri, .undefined, .objectID: "TEXT"
            case .integer, .boolean: "INTEGER"
            case .double, .date: "REAL"
            case .data, .transformable: "BLOB"
            }
        let value = attribute.defaultValue
        // No column is `NOT NULL`: another model may make it optional, and SQLite cannot remove the constraint.
        return "\(column.name.quoted) \(type)\(value.isNull ? "" : " DEFAULT \(Self.literal(value))")"
    }

    static func literal(_ value: DatabaseValue) -> String {
        switch value.storage {
        case .null: "NULL"
        case .int64(let number): String(number)
        // SQL has no literal for infinity; a number out of range has the same effect.
        case .double(let number): number.isFinite ? "\(number)" : number < 0 ? "-9e999" : "9e999"
        case .string(let text): text.literal
        case .blob(let data): "x'" + data.map { String(format: "%02x", $0) }.joined() + "'"
        }
    }

    // MARK: Triggers

    private func dropTriggers(of table: TableLayout, _ db: Database) throws {
        let sql = """
            SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? AND name LIKE 'mirror\\_%' ESCAPE '\\'
            """
        for name in try String.fetchAll(db, sql: sql, arguments: [table.name]) {
            try db.execute(sql: "DROP TRIGGER \(name.quoted)")
        }
    }

    private func createTriggers(of table: TableLayout, _ db: Database) throws {
        // SQLite fires the trigger created last first. So a row's change is recorded before dependent actions that may
        // fail, and the replacement triggers run last.
        for sql in try replaceTriggers(table) + uniqueConflictTriggers(table, db) { try db.execute(sql: sql) }
        if isMirrored { for sql in linkTriggers(table) { try db.execute(sql: sql) } }
        for sql in oneToOneTriggers(table) { try db.execute(sql: sql) }
        if isMirrored || tracksHistory { for sql in changeTriggers(table) { try db.execute(sql: sql) } }
        if isPublic { for sql in ownershipTriggers(table) { try db.execute(sql: sql) } }
        for sql in deleteRules(table) + exactDates(table) { try db.execute(sql: sql) }
    }

    private func exactDates(_ table: TableLayout) -> [String] {
        guard !table.dates.isEmpty else { return [] }
        return [
            """
            CREATE TRIGGER \("mirror_\(table.name)_exact".quoted) AFTER DELETE ON \(table.name.quoted)
            WHEN NOT \(isReplaced("old.id", table)) BEGIN
            \(ExactDate.forgetting("old.id"))
            END
            """
        ]
    }

    static let notImporting = "(SELECT importing FROM mirror_local) = 0"

    private func changeTriggers(_ table: TableLayout) -> [String] {
        let name = table.name.quoted
        let text = table.name.literal
        let changed = table.columns.map(edited)
        let names = table.columns.map { "CASE WHEN \(edited($0)) THEN '\($0.name),' ELSE '' END" }
        let changedNames = names.isEmpty ? "''" : "rtrim(" + names.joined(separator: "||") + ", ',')"
        return [
            """
            CREATE TRIGGER \("mirror_\(table.name)_insert".quoted) AFTER INSERT ON \(name)
            WHEN \(Self.notImporting) AND NOT \(isReplaced("new.id", table)) BEGIN
            \(nameChecks(text))
            \(HistoryTable.recording("new.id", text, .insert, names: "NULL"))
            \(isMirrored ? RecordTable.queueing("new.id", text, .save) : "")
            \(editTimes(table, isInsert: true))
            END
            """,
            """
            CREATE TRIGGER \("mirror_\(table.name)_update".quoted) AFTER UPDATE ON \(name)
            WHEN \(Self.notImporting) AND (\(changed.isEmpty ? "0" : changed.joined(separator: " OR "))) BEGIN
            \(HistoryTable.recording("new.id", text, .update, names: changedNames))
            \(isMirrored ? RecordTable.queueing("new.id", text, .save) : "")
            \(droppedLinks(table))
            \(editTimes(table, isInsert: false))
            END
            """,
            """
            CREATE TRIGGER \("mirror_\(table.name)_delete".quoted) AFTER DELETE ON \(name)
            WHEN \(Self.notImporting) AND NOT \(isReplaced("old.id", table)) BEGIN
            \(HistoryTable.recording("old.id", text, .delete, names: "NULL", kept: kept(table)))
            \(isMirrored ? RecordTable.queueing("old.id", text, .delete) : "")
            \(isMirrored ? RecordTable.droppingUnsentDeletion : "")
            \(isMirrored ? UnresolvedLinks.forgetting("old.id") : "")
            \(isMirrored && !table.lastEditWinsColumns.isEmpty ? EditTimes.forgetting("old.id") : "")
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

    /// Rejects an id that cannot be a record name or that another entity uses.
    ///
    /// Record names are unique within a zone, whatever their type.
    private func nameChecks(_ entity: String) -> String {
        guard isMirrored else { return "" }
        return """
            SELECT RAISE(ABORT, 'The id of a mirrored object has 1 to 255 printable ASCII characters and is not \
            \(Share.zoneWideName). Give it another id.')
            WHERE length(new.id) NOT BETWEEN 1 AND 255 OR new.id GLOB '*[^ -~]*' OR new.id = \(Share.zoneWideName.literal);
            SELECT RAISE(ABORT, 'An object of another entity has this name, or had it and is not yet deleted on the \
            relay. Give each object of a mirrored store a unique name.')
            WHERE \(RecordTable.isIDOfOtherEntity(than: entity));
            """
    }

    private func droppedLinks(_ table: TableLayout) -> String {
        table.columns.filter { $0.link != nil }.map { column in
            UnresolvedLinks.forgetting(
                "new.id",
                "\nAND col = \(column.name.literal) AND old.\(column.name.quoted) IS NOT new.\(column.name.quoted)"
            )
        }.joined(separator: "\n")
    }

    /// Records which properties were edited; the committing or importing code sets the time later.
    private func editTimes(_ table: TableLayout, isInsert: Bool) -> String {
        guard isMirrored else { return "" }
        return table.lastEditWinsColumns.map { position in
            let column = table.columns[position].name
            let condition = isInsert ? "true" : edited(table.columns[position])
            return EditTimes.recording("new.id", column.literal, when: condition)
        }.joined(separator: "\n")
    }

    private func kept(_ table: TableLayout) -> String { HistoryTable.keptValues(of: table, from: "old.") }

    // MARK: Replacements

    /// Triggers that turn `REPLACE` of a row with the same id into an update, with `recursive_triggers` on or off.
    ///
    /// SQLite deletes the old row and inserts the new one. Before that, the first trigger updates the old row to the
    /// new values, so the update triggers record exactly what has changed. A row in `mirror_replaced` then disables
    /// the insert and delete triggers until the second trigger removes it.
    ///
    /// The triggers cannot read a statement's conflict policy, but their own statements inherit it. So the second
    /// insert into `mirror_replaced` succeeds only under `REPLACE`; an upsert does not inherit it.
    private func replaceTriggers(_ table: TableLayout) -> [String] {
        let (name, entity) = (table.name.quoted, table.name.literal)
        let row = "entity = \(entity) AND oid = new.id"
        let sets = table.columns.map { "\($0.name.quoted) = new.\($0.name.quoted)" }.joined(separator: ", ")
        let update = "UPDATE \(name) SET \(sets) WHERE id = new.id AND \(isReplaced("new.id", table));"
        return [
            """
            CREATE TRIGGER \("mirror_\(table.name)_replaced".quoted) AFTER INSERT ON \(name)
            WHEN \(Self.notImporting) AND EXISTS (SELECT 1 FROM mirror_replaced WHERE \(row)) BEGIN
            DELETE FROM mirror_replaced WHERE \(row);
            END
            """,
            """
            CREATE TRIGGER \("mirror_\(table.name)_replaces".quoted) BEFORE INSERT ON \(name)
            WHEN \(Self.notImporting) AND EXISTS (SELECT 1 FROM \(name) WHERE id = new.id) BEGIN
            INSERT INTO mirror_replaced(entity, oid, at) VALUES (\(entity), new.id, 0)
            ON CONFLICT(entity, oid) DO UPDATE SET at = 0;
            INSERT OR IGNORE INTO mirror_replaced(entity, oid, at) VALUES (\(entity), new.id, julianday('now'));
            DELETE FROM mirror_replaced WHERE \(row) AND at = 0;
            \(table.columns.isEmpty ? "" : update)
            END
            """,
        ]
    }

    /// Returns the condition that the statement firing a trigger replaces the row of this id by one of the same id.
    ///
    /// `julianday('now')` is constant during one statement. A row left by a statement that skipped the insert, as
    /// `RAISE(IGNORE)` in a trigger of the application does, therefore has no effect on later statements.
    private func isReplaced(_ id: String, _ table: TableLayout) -> String {
        """
        EXISTS (SELECT 1 FROM mirror_replaced
        WHERE entity = \(table.name.literal) AND oid = \(id) AND at = julianday('now'))
        """
    }

    /// Triggers that delete a row before `REPLACE` removes it because of the application's own unique index.
    private func uniqueConflictTriggers(_ table: TableLayout, _ db: Database) throws -> [String] {
        let name = table.name.quoted
        return try UniqueIndex.all(db, of: table).flatMap { index in
            let columns = index.columns.map {
                "\($0.name.quoted) = new.\($0.name.quoted) COLLATE \($0.collation.quoted)"
            }
            let other = columns.joined(separator: " AND ") + " AND id IS NOT new.id"
            // The application may drop its index at any time.
            let isThere = "EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = \(index.name.literal))"
            let (entity, row) = (
                table.name.literal, "entity = \(table.name.literal) AND oid = \(index.replacedID.literal)"
            )
            let updated = index.columns.map(\.name.quoted).joined(separator: ", ")
            return ["INSERT", "UPDATE OF \(updated)"].map { event in
                """
                CREATE TRIGGER \("mirror_\(table.name).\(index.name)_\(event.prefix(6).lowercased())".quoted)
                BEFORE \(event) ON \(name)
                WHEN \(Self.notImporting) AND EXISTS (SELECT 1 FROM \(name) WHERE \(other)) AND \(isThere) BEGIN
                INSERT INTO mirror_replaced(entity, oid, at) VALUES (\(entity), \(index.replacedID.literal), 0)
                ON CONFLICT(entity, oid) DO UPDATE SET at = 0;
                INSERT OR IGNORE INTO mirror_replaced(entity, oid, at)
                VALUES (\(entity), \(index.replacedID.literal), julianday('now'));
                DELETE FROM \(name) WHERE \(other) AND EXISTS (SELECT 1 FROM mirror_replaced WHERE \(row) AND at > 0);
                DELETE FROM mirror_replaced WHERE \(row);
                END
                """
            }
        }
    }

    // MARK: Delete rules

    /// Triggers that apply the delete rules when a row of this table is deleted.
    ///
    /// With `recursive_triggers` off, SQLite does not fire this trigger again for the deletions it causes. If a
    /// cascade can lead back to the table, the trigger therefore finds all rows to delete, on every level, and applies
    /// to them what their own triggers would do.
    private func deleteRules(_ table: TableLayout) -> [String] {
        guard let entity = table.entity else { return [] }
        let cascadeCycle = self.cascadeCycle(of: entity.name)
        let statements = cascadeCycle.isEmpty ? simpleRules(table, entity) : cyclicRules(table, entity, cascadeCycle)
        guard !statements.isEmpty else { return [] }
        return [
            """
            CREATE TRIGGER \("mirror_\(table.name)_rules".quoted) AFTER DELETE ON \(table.name.quoted)
            WHEN NOT \(isReplaced("old.id", table)) BEGIN
            \(statements.joined(separator: "\n"))
            END
            """
        ]
    }

    private func simpleRules(_ table: TableLayout, _ entity: Entity) -> [String] {
        let links = columns(to: entity).flatMap { onDeletion(of: entity, $0.column, of: $0.table, "= old.id") }
        return links
            + entity.cascades.map { link in
                let target = "id = old.\(link.name.quoted)"
                return "DELETE FROM \(link.destination.quoted) WHERE \(target) AND \(Self.notImporting);"
            }
    }

    private func cyclicRules(_ table: TableLayout, _ entity: Entity, _ cascadeCycle: [TableLayout]) -> [String] {
        let root = "(\((table.name + "/").literal) || old.id)"
        func gone(_ name: String) -> String {
            "IN (SELECT oid FROM mirror_gone WHERE root = \(root) AND entity = \(name.literal))"
        }
        let members = cascadeCycle.compactMap { member in member.entity.map { (member, $0) } }
        let names = Set(cascadeCycle.map(\.name))
        // All rows to delete, following cascades in both directions: from a to-many and from a to-one relationship.
        var steps = ["SELECT \(table.name.literal), old.id"]
        for link in entity.cascades where names.contains(link.destination) {
            let target = "SELECT \(link.destination.literal), old.\(link.name.quoted)"
            steps.append("\(target) WHERE old.\(link.name.quoted) IS NOT NULL AND \(Self.notImporting)")
        }
        var (rules, deletions): ([String], [String]) = ([], [])
        for (member, entity) in members {
            let isNext = "JOIN gone ON gone.entity = \(member.name.literal)"
            for (other, column) in columns(to: entity) {
                guard names.contains(other.name), rule(of: entity, for: column) == .cascade else {
                    rules += onDeletion(of: entity, column, of: other, gone(member.name))
                    continue
                }
                let lower = "SELECT \(other.name.literal), t.id FROM \(other.name.quoted) t \(isNext)"
                steps.append("\(lower) AND t.\(column.name.quoted) = gone.oid WHERE \(Self.notImporting)")
                if member.name == table.name { deletions.append(Self.nullify(column, of: other, "= old.id")) }
            }
            for link in entity.cascades {
                let (name, own) = (link.name.quoted, member.name.quoted)
                if names.contains(link.destination) {
                    let target =
                        "SELECT \(link.destination.literal), t.\(name) FROM \(own) t \(isNext) AND t.id = gone.oid"
                    steps.append("\(target) WHERE t.\(name) IS NOT NULL AND \(Self.notImporting)")
                } else {
                    let first = member.name == table.name ? "SELECT old.\(name) UNION ALL " : ""
                    let targets = "\(first)SELECT \(name) FROM \(own) WHERE id \(gone(member.name))"
                    let other = link.destination.quoted
                    rules.append("DELETE FROM \(other) WHERE id IN (\(targets)) AND \(Self.notImporting);")
                }
            }
            // Goes before the statements that set references to NULL. Those are for imports, which delete one row at a
            // time.
            deletions.insert(
                "DELETE FROM \(member.name.quoted) WHERE id \(gone(member.name)) AND \(Self.notImporting);",
                at: 0
            )
        }
        let forget = "DELETE FROM mirror_gone WHERE root = \(root);"
        let note = """
            INSERT INTO mirror_gone(root, entity, oid) SELECT \(root), entity, oid FROM (
            WITH RECURSIVE gone(entity, oid) AS (\(steps.joined(separator: "\nUNION "))) SELECT entity, oid FROM gone);
            """
        return [forget, note] + rules + deletions + [forget]
    }

    /// The tables on a cycle of cascades through an entity, including its own; empty if no cascade leads back to it.
    private func cascadeCycle(of name: String) -> [TableLayout] {
        let next = Dictionary(
            tables.compactMap { table in
                table.entity.map { entity in
                    let below = columns(to: entity).filter { rule(of: entity, for: $0.column) == .cascade }
                    return (table.name, Set(below.map(\.table.name) + entity.cascades.map(\.destination)))
                }
            }
        ) { first, _ in first }
        func reached(from start: String) -> Set<String> {
            var (found, open) = (Set<String>(), next[start] ?? [])
            while let name = open.popFirst() {
                if found.insert(name).inserted { open.formUnion(next[name] ?? []) }
            }
            return found
        }
        let all = reached(from: name)
        guard all.contains(name) else { return [] }
        return tables.filter { all.contains($0.name) && reached(from: $0.name).contains(name) }
    }

    /// The columns that refer to an entity.
    private func columns(to entity: Entity) -> [(table: TableLayout, column: ColumnLayout)] {
        tables.flatMap { table in
            table.columns.filter { $0.link?.destination == entity.name }.map { (table, $0) }
        }
    }

    /// The entity's delete rule for the objects that refer to it through a column.
    private func rule(of entity: Entity, for column: ColumnLayout) -> DeleteRule {
        let inverseLink = column.link?.inverse.flatMap { inverse in entity.relationships.first { $0.name == inverse } }
        return inverseLink?.deleteRule ?? .nullify
    }

    private static func nullify(_ column: ColumnLayout, of table: TableLayout, _ gone: String) -> String {
        let name = column.name.quoted
        return "UPDATE \(table.name.quoted) SET \(name) = NULL WHERE \(name) \(gone);"
    }

    private func onDeletion(of entity: Entity, _ column: ColumnLayout, of other: TableLayout, _ gone: String)
        -> [String]
    {
        let (table, name) = (other.name.quoted, column.name.quoted)
        if case .pairs = other.kind { return ["DELETE FROM \(table) WHERE \(name) \(gone);"] }
        switch rule(of: entity, for: column) {
        case .noAction: return []
        // The relay sends the deletions that follow from a deletion on another device, so only the reference is
        // cleared here.
        case .cascade:
            return [
                "DELETE FROM \(table) WHERE \(name) \(gone) AND \(Self.notImporting);",
                Self.nullify(column, of: other, gone),
            ]
        case .nullify, .deny: return [Self.nullify(column, of: other, gone)]
        }
    }
}

extension Entity {
    /// To-one relationships whose target is deleted with the object.
    fileprivate var cascades: [Relationship] {
        relationships.filter { !$0.isToMany && $0.deleteRule == .cascade }
    }
}

/// A unique index of the application over columns of the model.
///
/// Indexes over expressions and partial indexes are left out, because a trigger cannot look up their entries.
struct UniqueIndex: CustomStringConvertible {
    let name: String
    let columns: [(name: String, collation: String)]

    /// The index's entry in `mirror_replaced`; no object can have this id.
    var replacedID: String { "\u{1}\(name)" }

    var description: String { "\(name)(\(columns.map { "\($0.name) \($0.collation)" }.joined(separator: ", ")))" }

    static func all(_ db: Database, of table: TableLayout) throws -> [UniqueIndex] {
        let indexes = try String.fetchAll(
            db,
            sql: """
                SELECT name FROM pragma_index_list(?) WHERE "unique" = 1 AND origin <> 'pk' AND partial = 0 ORDER BY name
                """,
            arguments: [table.name]
        )
        return try indexes.compactMap { name in
            let sql = "SELECT name, coll FROM pragma_index_xinfo(?) WHERE key = 1 ORDER BY seqno"
            let keys = try Row.fetchAll(db, sql: sql, arguments: [name])
            let columns = keys.compactMap { key -> (name: String, collation: String)? in
                guard let column = key[0] as String?, table.index[column] != nil else { return nil }
                return (column, key[1] ?? "BINARY")
            }
            return columns.count == keys.count ? UniqueIndex(name: name, columns: columns) : nil
        }
    }
}

extension EntityTables {
    /// Triggers that keep both sides of a one-to-one relationship consistent, whichever side is written first.
    func oneToOneTriggers(_ table: TableLayout) -> [String] {
        table.columns.flatMap { column -> [String] in
            guard let link = column.link, let inverseLink = column.inverseLink else { return [] }
            let (other, there, here) = (link.destination.quoted, inverseLink.quoted, column.name.quoted)
            let (name, own) = ("mirror_\(table.name)_\(column.name)", table.name.quoted)
            let join = "UPDATE \(other) SET \(there) = new.id WHERE id = new.\(here) AND \(there) IS NOT new.id;"
            // With `recursive_triggers` off, this trigger does not fire for the rows of its own table that it updates
            // itself.
            let isOwnInverse = link.destination == table.name && inverseLink == column.name
            let part = "UPDATE \(own) SET \(here) = NULL WHERE \(here) = new.\(here) AND id <> new.id;"
            return [
                """
                CREATE TRIGGER \("\(name)_other".quoted) AFTER UPDATE OF \(here) ON \(own)
                WHEN old.\(here) IS NOT new.\(here) AND \(Self.notImporting) BEGIN
                UPDATE \(other) SET \(there) = NULL WHERE id = old.\(here) AND \(there) = new.id;
                \(isOwnInverse ? part : "")
                \(join)
                END
                """,
                """
                CREATE TRIGGER \("\(name)_joins".quoted) AFTER INSERT ON \(own)
                WHEN new.\(here) IS NOT NULL AND \(Self.notImporting) BEGIN
                \(join)
                END
                """,
                """
                CREATE TRIGGER \("\(name)_joined".quoted) AFTER INSERT ON \(own)
                WHEN new.\(here) IS NULL AND \(Self.notImporting)
                AND EXISTS (SELECT 1 FROM \(other) WHERE \(there) = new.id) BEGIN
                UPDATE \(own) SET \(here) = (SELECT id FROM \(other) WHERE \(there) = new.id LIMIT 1) WHERE id = new.id;
                END
                """,
            ]
        }
    }

    /// Triggers that resolve open links when their target object is inserted locally.
    ///
    /// The resolved link is not a change, so nothing is sent for it. One-to-one links are resolved when the other side
    /// is written, which sets both sides. `edited` recognizes the update because the open link still exists while the
    /// column is set. The triggers do not set the `importing` flag meanwhile: a failing statement may keep its partial
    /// effects (`OR FAIL`), and the flag would stay set.
    func linkTriggers(_ table: TableLayout) -> [String] {
        let shows = tables.flatMap { other in
            other.columns.filter { $0.link?.destination == table.name && $0.inverseLink == nil }.map { column in
                let (name, own) = (other.name, column.name)
                let open = "mirror_link WHERE target = new.id AND entity = \(name.literal) AND col = \(own.literal)"
                return """
                    UPDATE \(name.quoted) SET \(own.quoted) = new.id
                    WHERE \(own.quoted) IS NULL AND id IN (SELECT oid FROM \(open));
                    DELETE FROM \(open);
                    """
            }
        }
        guard !shows.isEmpty else { return [] }
        return [
            """
            CREATE TRIGGER \("mirror_\(table.name)_arrives".quoted) AFTER INSERT ON \(table.name.quoted)
            WHEN \(Self.notImporting) AND EXISTS (SELECT 1 FROM mirror_link WHERE target = new.id) BEGIN
            \(shows.joined(separator: "\n"))
            END
            """
        ]
    }

    /// Returns the trigger condition for a changed column; resolving an open link is not a change.
    func edited(_ column: ColumnLayout) -> String {
        let name = column.name.quoted
        let differs = "old.\(name) IS NOT new.\(name)"
        guard isMirrored, column.link != nil, column.inverseLink == nil else { return differs }
        let open = "oid = new.id AND col = \(column.name.literal) AND target = new.\(name)"
        return "(\(differs) AND NOT (old.\(name) IS NULL AND EXISTS (SELECT 1 FROM mirror_link WHERE \(open))))"
    }
}

extension EntityTables {
    /// Returns whether the file holds a public database shared by several users, for a container that does not mirror
    /// it.
    static func hasOwnershipTriggers(_ db: Database) throws -> Bool {
        let sql = """
            SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'mirror\\_%\\_owner' ESCAPE '\\')
            """
        return try Bool.fetchOne(db, sql: sql) ?? false
    }

    /// Triggers that reject changes to an object that has another user's unsent changes.
    ///
    /// Such a change would be sent in the other user's name. Contexts check this before they write; the triggers cover
    /// all other statements.
    func ownershipTriggers(_ table: TableLayout) -> [String] {
        ["UPDATE", "DELETE"].map { event in
            """
            CREATE TRIGGER \("mirror_\(table.name)_\(event.lowercased())_owner".quoted) BEFORE \(event) ON \(table.name.quoted)
            WHEN \(Self.notImporting)
            AND \(RecordTable.hasOtherUsersChange) BEGIN
            SELECT RAISE(ABORT, 'Another user has an unsent change to this object. It cannot be changed until that change is sent.');
            END
            """
        }
    }
}
