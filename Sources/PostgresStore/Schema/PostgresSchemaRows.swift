#if Postgres
    package import Records
    import RelayCore
    import StoreKit
    import Synchronization

    /// Reads and writes the schema of a container in one environment.
    ///
    /// A transaction that writes it holds the lock of the schema exclusively: see `HomeRow.schemaLock`.
    package struct PostgresSchemaRows {
        private let transaction: PostgresTransaction
        private var home: Int64 { transaction.home.number }

        package init(_ transaction: PostgresTransaction) { self.transaction = transaction }

        /// How often this process has changed a schema beside its stores, so that they read the new one at once.
        package static var changes: UInt64 { changeCount.load(ordering: .acquiring) }
        private static let changeCount = Atomic<UInt64>(0)

        /// Must be called after such a change is committed.
        package static func noteChange() { changeCount.add(1, ordering: .releasing) }

        package func read() throws(PostgresError) -> Schema {
            var reads = PostgresPipeline()
            reads.add("SELECT schema_version FROM home WHERE id = $1", .int(home))
            reads.add("SELECT name FROM record_type WHERE home = $1 AND declared", .int(home))
            reads.add(
                """
                SELECT t.name, f.name, f.tag, f.encrypted, f.indexes, f.number
                FROM record_type t JOIN record_field f ON f.type = t.id WHERE t.home = $1 AND t.declared
                """,
                .int(home)
            )
            reads.add(
                """
                SELECT t.name, g.role, g.rights
                FROM record_type t JOIN record_grant g ON g.type = t.id WHERE t.home = $1 AND t.declared
                """,
                .int(home)
            )
            reads.add("SELECT name FROM role WHERE home = $1", .int(home))
            reads.add("SELECT person, role FROM role_member WHERE home = $1", .int(home))
            reads.add(
                """
                SELECT t.name, f.name, f.tag, f.encrypted, f.number
                FROM record_type t JOIN retired_field f ON f.type = t.id WHERE t.home = $1
                """,
                .int(home)
            )
            let rows = try transaction.run(reads)
            var schema = Schema(version: Int(rows[0].first?.int(0) ?? 0))
            for row in rows[1] { schema.types[row.text(0)] = RecordType(grants: [:], systemIndexes: [:]) }
            for row in rows[2] {
                let field = RecordTypeRow(
                    tag: row.text(2),
                    isEncrypted: row.bool(3),
                    indexes: Indexes(rawValue: Int(row.int(4))),
                    number: Int(row.int(5))
                )
                guard schema.addField(field, named: row.text(1), to: row.text(0)) else {
                    throw PostgresError(.damaged, "A field has the type \(field.tag).")
                }
            }
            for row in rows[3] {
                schema.types[row.text(0)]?.grants[Role(row.text(1))] = Rights(rawValue: Int(row.int(2)))
            }
            schema.roles = Set(rows[4].map { Role($0.text(0)) })
            for row in rows[5] { schema.members[UserID(row.text(0)), default: []].insert(Role(row.text(1))) }
            for row in rows[6] {
                let field = RecordTypeRow(tag: row.text(2), isEncrypted: row.bool(3), number: Int(row.int(4)))
                schema.addRemovedField(field, named: row.text(1), of: row.text(0))
            }
            return schema
        }

        /// Replaces the schema `old` by `new`, with the next version.
        package func replace(_ old: Schema, by new: Schema) throws(PostgresError) {
            for name in Set(old.types.keys).union(new.types.keys).sorted() where old.types[name] != new.types[name] {
                write(new.types[name], over: old.types[name], number: try transaction.ensureNumber(ofType: name))
            }
            try dropIndexes(from: old, to: new)
            transaction.later("DELETE FROM role WHERE home = $1", .int(home))
            transaction.later("DELETE FROM role_member WHERE home = $1", .int(home))
            for role in new.roles {
                transaction.later("INSERT INTO role (home, name) VALUES ($1, $2)", .int(home), .text(role.name))
            }
            for (user, roles) in new.members {
                for role in roles {
                    transaction.later(
                        "INSERT INTO role_member (home, person, role) VALUES ($1, $2, $3)",
                        .int(home),
                        .text(user.recordName),
                        .text(role.name)
                    )
                }
            }
            write(version: old.version + 1)
        }

        func write(version: Int) {
            transaction.later("UPDATE home SET schema_version = $2 WHERE id = $1", .int(home), .int(Int64(version)))
        }

        // MARK: Types

        /// Changes the rows of a type from `old` to `new`; `nil` is a type that is not in the schema.
        func write(_ new: RecordType?, over old: RecordType?, number: Int64) {
            if (new == nil) != (old == nil) {
                transaction.later("UPDATE record_type SET declared = $2 WHERE id = $1", .int(number), .bool(new != nil))
            }
            let (old, new) = (old.map(RecordTypeRow.rows) ?? [:], new.map(RecordTypeRow.rows) ?? [:])
            for (name, row) in new where old[name] != row { write(row, name: name, number: number) }
            for (name, row) in old where new[name] == nil {
                remove(name: name, isGrant: row.rights != nil, number: number)
            }
        }

        private func write(_ row: RecordTypeRow, name: String, number: Int64) {
            if let rights = row.rights {
                return transaction.later(
                    """
                    INSERT INTO record_grant (type, role, rights) VALUES ($1, $2, $3)
                    ON CONFLICT (type, role) DO UPDATE SET rights = excluded.rights
                    """,
                    .int(number),
                    .text(String(name.dropFirst())),
                    .int(Int64(rights.rawValue))
                )
            }
            transaction.later(
                """
                INSERT INTO record_field (type, name, tag, encrypted, indexes, number) VALUES ($1, $2, $3, $4, $5, $6)
                ON CONFLICT (type, name) DO UPDATE SET tag = excluded.tag, encrypted = excluded.encrypted,
                    indexes = excluded.indexes, number = excluded.number
                """,
                .int(number),
                .text(name),
                .text(row.tag),
                .bool(row.isEncrypted),
                .int(Int64(row.indexes.rawValue)),
                .int(Int64(row.number))
            )
        }

        private func remove(name: String, isGrant: Bool, number: Int64) {
            guard !isGrant else {
                return transaction.later(
                    "DELETE FROM record_grant WHERE type = $1 AND role = $2",
                    .int(number),
                    .text(String(name.dropFirst()))
                )
            }
            if Query.SystemField(rawValue: name) == nil {
                // See `Schema.removedFields`.
                transaction.later(
                    """
                    INSERT INTO retired_field (type, name, tag, encrypted, number)
                    SELECT type, name, tag, encrypted, number FROM record_field WHERE type = $1 AND name = $2
                    ON CONFLICT (type, name) DO UPDATE SET tag = excluded.tag, encrypted = excluded.encrypted,
                        number = excluded.number
                    """,
                    .int(number),
                    .text(name)
                )
            }
            transaction.later(
                "DELETE FROM record_field WHERE type = $1 AND name = $2",
                .int(number),
                .text(name)
            )
        }

        /// Drops the indexes that the new schema does not want; a relay removes their entries later.
        ///
        /// - Returns: whether there are any.
        @discardableResult
        func dropIndexes(from old: Schema, to new: Schema) throws(PostgresError) -> Bool {
            try PostgresIndexes.drop(from: old, to: new, in: transaction)
        }
    }
#endif
