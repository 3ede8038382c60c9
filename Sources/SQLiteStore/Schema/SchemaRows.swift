import GRDB
import Records
import RelayCore
import StoreKit

/// Reads and writes the schema in a container's file.
///
/// It is read when the file is opened and after another process has changed it, and written type by type.
enum SchemaRows {
    /// Returns the schema's version; cheap enough to be read in every commit.
    static func version(_ database: Database) throws -> Int {
        let statement = try SQL("SELECT value FROM fact WHERE name = 'schema'", in: database)
        defer { statement.reset() }
        return try statement.step() ? Int(statement.int(0)) : 0
    }

    static func write(version: Int, _ database: Database) throws {
        let statement = try SQL("INSERT OR REPLACE INTO fact (name, value) VALUES ('schema', ?)", in: database)
        statement.bind(1, Int64(version))
        try statement.run()
    }

    /// Returns the number of every type, including types that are no longer in the schema.
    static func typeNumbers(_ database: Database) throws -> [String: Int64] {
        var numbers: [String: Int64] = [:]
        for row in try Row.fetchAll(database, sql: "SELECT id, name FROM record_type") { numbers[row[1]] = row[0] }
        return numbers
    }

    static func read(_ database: Database) throws -> Schema {
        var schema = Schema(version: try version(database))
        for name in try String.fetchAll(database, sql: "SELECT name FROM record_type WHERE declared") {
            schema.types[name] = RecordType(grants: [:], systemIndexes: [:])
        }
        for row in try Row.fetchAll(
            database,
            sql: """
                SELECT t.name, f.name, f.tag, f.encrypted, f.indexes, f.number
                FROM record_field f JOIN record_type t ON t.id = f.type WHERE t.declared
                """
        ) {
            let field = RecordTypeRow(
                tag: row[2],
                isEncrypted: row[3],
                indexes: Indexes(rawValue: row[4]),
                number: row[5]
            )
            guard schema.addField(field, named: row[1], to: row[0]) else {
                throw StoreFailure.damaged("field type \(field.tag)")
            }
        }
        for row in try Row.fetchAll(
            database,
            sql: """
                SELECT t.name, g.role, g.rights FROM record_grant g JOIN record_type t ON t.id = g.type
                WHERE t.declared
                """
        ) {
            schema.types[row[0]]?.grants[Role(row[1])] = Rights(rawValue: row[2])
        }
        schema.roles = Set(try String.fetchAll(database, sql: "SELECT name FROM role").map { Role($0) })
        for row in try Row.fetchAll(database, sql: "SELECT user, role FROM role_member") {
            schema.members[UserID(row[0]), default: []].insert(Role(row[1]))
        }
        for row in try Row.fetchAll(
            database,
            sql: """
                SELECT t.name, f.name, f.tag, f.encrypted, f.number
                FROM retired_field f JOIN record_type t ON t.id = f.type
                """
        ) {
            let field = RecordTypeRow(tag: row[2], isEncrypted: row[3], number: row[4])
            schema.addRemovedField(field, named: row[1], of: row[0])
        }
        return schema
    }

    /// Replaces the file's schema `old` by `new`, with the next version.
    static func replace(_ old: Schema, by new: Schema, _ database: Database) throws {
        var numbers = try typeNumbers(database)
        for name in Set(old.types.keys).union(new.types.keys) where old.types[name] != new.types[name] {
            if numbers[name] == nil {
                try database.execute(
                    sql: "INSERT INTO record_type (name, declared) VALUES (?, 0)",
                    arguments: [name]
                )
                numbers[name] = database.lastInsertedRowID
            }
            guard let number = numbers[name] else { continue }
            try write(new.types[name], over: old.types[name], number: number, database)
        }
        try dropIndexes(numbers: numbers, from: old, to: new, database)
        try database.execute(sql: "DELETE FROM role; DELETE FROM role_member")
        for role in new.roles {
            try database.execute(sql: "INSERT INTO role (name) VALUES (?)", arguments: [role.name])
        }
        for (user, roles) in new.members {
            for role in roles {
                try database.execute(
                    sql: "INSERT INTO role_member (user, role) VALUES (?, ?)",
                    arguments: [user.recordName, role.name]
                )
            }
        }
        try write(version: old.version + 1, database)
    }

    /// Drops the indexes that `new` does not want; the relay removes their entries after its next write.
    private static func dropIndexes(
        numbers: [String: Int64],
        from old: Schema,
        to new: Schema,
        _ database: Database
    ) throws {
        for (name, type) in numbers {
            let rows = try Row.fetchAll(
                database,
                sql: "SELECT id, target FROM field_index WHERE type = ? AND dropped = 0",
                arguments: [type]
            )
            for row in rows
            where !IndexTarget(text: row[1]).survives(from: old.types[name], to: new.types[name]) {
                let index: Int64 = row[0]
                try database.execute(sql: "UPDATE field_index SET dropped = 1 WHERE id = ?", arguments: [index])
            }
        }
    }

    // MARK: Types

    /// Changes the rows of a type from `old` to `new`; `nil` is a type that is not in the schema.
    static func write(_ new: RecordType?, over old: RecordType?, number: Int64, _ database: Database) throws {
        if (new == nil) != (old == nil) {
            let statement = try SQL("UPDATE record_type SET declared = ? WHERE id = ?", in: database)
            statement.bind(1, new != nil)
            statement.bind(2, number)
            try statement.run()
        }
        let (old, new) = (old.map(RecordTypeRow.rows) ?? [:], new.map(RecordTypeRow.rows) ?? [:])
        for (name, row) in new where old[name] != row { try write(row, name: name, number: number, database) }
        for (name, row) in old where new[name] == nil {
            try remove(name: name, isGrant: row.rights != nil, number: number, database)
        }
    }

    /// Stores the definition of a removed field: see `Schema.removedFields`.
    private static func retire(name: String, number: Int64, _ database: Database) throws {
        let statement = try SQL(
            """
            INSERT OR REPLACE INTO retired_field (type, name, tag, encrypted, number)
            SELECT type, name, tag, encrypted, number FROM record_field WHERE type = ? AND name = ?
            """,
            in: database
        )
        statement.bind(1, number)
        statement.bind(2, name)
        try statement.run()
    }

    private static func write(_ row: RecordTypeRow, name: String, number: Int64, _ database: Database) throws {
        let statement: SQL
        if let rights = row.rights {
            statement = try SQL(
                "INSERT OR REPLACE INTO record_grant (type, role, rights) VALUES (?, ?, ?)",
                in: database
            )
            statement.bind(2, String(name.dropFirst()))
            statement.bind(3, Int64(rights.rawValue))
        } else {
            statement = try SQL(
                """
                INSERT OR REPLACE INTO record_field (type, name, tag, encrypted, indexes, number)
                VALUES (?, ?, ?, ?, ?, ?)
                """,
                in: database
            )
            statement.bind(2, name)
            statement.bind(3, row.tag)
            statement.bind(4, row.isEncrypted)
            statement.bind(5, Int64(row.indexes.rawValue))
            statement.bind(6, Int64(row.number))
        }
        statement.bind(1, number)
        try statement.run()
    }

    private static func remove(name: String, isGrant: Bool, number: Int64, _ database: Database) throws {
        if !isGrant, Query.SystemField(rawValue: name) == nil { try retire(name: name, number: number, database) }
        let statement = try SQL(
            isGrant
                ? "DELETE FROM record_grant WHERE type = ? AND role = ?"
                : "DELETE FROM record_field WHERE type = ? AND name = ?",
            in: database
        )
        statement.bind(1, number)
        statement.bind(2, isGrant ? String(name.dropFirst()) : name)
        try statement.run()
    }
}

extension SQLiteWriter {
    func ensureNumber(ofType name: String) throws -> Int64 {
        if let latestType, latestType.name == name { return latestType.number }
        let number = try names.number(ofType: name) ?? makeNumber(ofType: name)
        latestType = (name, number)
        return number
    }

    private func makeNumber(ofType name: String) throws -> Int64 {
        let statement = try SQL("INSERT INTO record_type (name, declared) VALUES (?, 0)", in: database)
        statement.bind(1, name)
        try statement.run()
        names.add(type: name, number: database.lastInsertedRowID)
        return database.lastInsertedRowID
    }

    func define(_ types: [String: RecordType]) throws(RelayError) {
        try attempt {
            let old = cache.schema
            for (name, type) in types {
                try SchemaRows.write(
                    type,
                    over: old.types[name],
                    number: try ensureNumber(ofType: name),
                    database
                )
                cache.schema.types[name] = type
            }
            try dropIndexes(from: old, to: cache.schema)
            cache.schema.version += 1
            try SchemaRows.write(version: cache.schema.version, database)
        }
    }

    /// Adopts the schema in the file, which a command may have changed since the last commit.
    func noticeSchema() throws {
        guard try SchemaRows.version(database) != cache.schema.version else { return }
        cache.schema = try SchemaRows.read(database)
        for (name, number) in try SchemaRows.typeNumbers(database) { names.add(type: name, number: number) }
        cache.indexes = nil
        hasDroppedIndexes = true
    }
}
