extension EntityTables {
    /// Triggers that keep both sides of a one-to-one relationship consistent, whichever side is written first.
    func oneToOne(_ table: TableForm) -> [String] {
        table.columns.flatMap { column -> [String] in
            guard let link = column.link, let back = column.back else { return [] }
            let (other, there, here) = (link.destination.quoted, back.quoted, column.name.quoted)
            let (name, own) = ("mirror_\(table.name)_\(column.name)", table.name.quoted)
            let join = "UPDATE \(other) SET \(there) = new.id WHERE id = new.\(here) AND \(there) IS NOT new.id;"
            // With `recursive_triggers` off, this trigger does not fire for the rows of its own table that it updates
            // itself.
            let isOwnInverse = link.destination == table.name && back == column.name
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
    func arrivals(_ table: TableForm) -> [String] {
        let shows = tables.flatMap { other in
            other.columns.filter { $0.link?.destination == table.name && $0.back == nil }.map { column in
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
    func edited(_ column: ColumnForm) -> String {
        let name = column.name.quoted
        let differs = "old.\(name) IS NOT new.\(name)"
        guard isMirrored, column.link != nil, column.back == nil else { return differs }
        let open = "oid = new.id AND col = \(column.name.literal) AND target = new.\(name)"
        return "(\(differs) AND NOT (old.\(name) IS NULL AND EXISTS (SELECT 1 FROM mirror_link WHERE \(open))))"
    }
}
