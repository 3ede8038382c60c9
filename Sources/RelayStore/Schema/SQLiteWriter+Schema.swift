import GRDB
import Records
import RelayCore

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
            let old = memory.schema
            for (name, type) in types {
                try SchemaRows.write(
                    type,
                    over: old.types[name],
                    number: try ensureNumber(ofType: name),
                    database
                )
                memory.schema.types[name] = type
            }
            try dropIndexes(from: old, to: memory.schema)
            memory.schema.version += 1
            try SchemaRows.write(version: memory.schema.version, database)
        }
    }

    /// Adopts the schema in the file, which a command may have changed since the last commit.
    func noticeSchema() throws {
        guard try SchemaRows.version(database) != memory.schema.version else { return }
        memory.schema = try SchemaRows.read(database)
        for (name, number) in try SchemaRows.typeNumbers(database) { names.add(type: name, number: number) }
        memory.indexes = nil
        hasDroppedIndexes = true
    }
}
