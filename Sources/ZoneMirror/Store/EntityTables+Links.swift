extension EntityTables {
    /// Keeps the other side of a one-to-one link in step, whichever of the two is written first.
    func oneToOne(_ table: TableForm) -> [String] {
        table.columns.flatMap { column -> [String] in
            guard let link = column.link, let back = column.back else { return [] }
            let (other, there, here) = (link.destination.quoted, back.quoted, column.name.quoted)
            let (name, own) = ("mirror_\(table.name)_\(column.name)", table.name.quoted)
            let join = "UPDATE \(other) SET \(there) = new.id WHERE id = new.\(here) AND \(there) IS NOT new.id;"
            // With `recursive_triggers` off, this trigger does not run for the rows of its own table that it updates.
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

    /// An object made here may be what records of the relay lead to: those links are shown from now on, and nothing is to be
    /// sent for that.
    ///
    /// Those of one to one wait until it leads back, which is written with both ends. A link counts as open until it is shown:
    /// by that `edited` knows the showing. Nothing is switched off meanwhile, since a statement that fails in the middle may
    /// leave what it has done (`OR FAIL`), and so would leave that off.
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

    /// Whether a statement has changed a column, in a trigger; an open link that is shown is no change.
    func edited(_ column: ColumnForm) -> String {
        let name = column.name.quoted
        let differs = "old.\(name) IS NOT new.\(name)"
        guard isMirrored, column.link != nil, column.back == nil else { return differs }
        let open = "oid = new.id AND col = \(column.name.literal) AND target = new.\(name)"
        return "(\(differs) AND NOT (old.\(name) IS NULL AND EXISTS (SELECT 1 FROM mirror_link WHERE \(open))))"
    }
}
