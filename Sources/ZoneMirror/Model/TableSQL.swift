import GRDB

/// A table's statements: the id first, then the columns in their order.
struct TableSQL: Hashable, Sendable {
    /// Without a condition.
    let select: String
    let selectOne: String
    let insert: String
    let insertOrIgnore: String
    let update: String
    let delete: String

    init(_ name: String, _ columns: [String]) {
        let table = name.quoted
        let names = (["id"] + columns).map(\.quoted).joined(separator: ", ")
        let marks = Array(repeating: "?", count: columns.count + 1).joined(separator: ", ")
        select = "SELECT \(names) FROM \(table)"
        selectOne = select + " WHERE id = ?"
        insert = "INSERT INTO \(table)(\(names)) VALUES (\(marks))"
        insertOrIgnore = "INSERT OR IGNORE INTO \(table)(\(names)) VALUES (\(marks))"
        let sets = columns.map { "\($0.quoted) = ?" }.joined(separator: ", ")
        update = columns.isEmpty ? "" : "UPDATE \(table) SET \(sets) WHERE id = ?"
        delete = "DELETE FROM \(table) WHERE id = ?"
    }
}

extension Statement {
    /// Executes with exactly as many values as the statement has marks, which nobody counts again; observers are told.
    func run(_ values: [DatabaseValue]) throws {
        // Bound by hand: GRDB takes values of all kinds, and makes a copy of each first.
        setUncheckedArguments([])
        let bound = BoundStatement(self)
        for (position, value) in values.enumerated() { bound.bind(Int32(position) + 1, value) }
        try execute()
    }
}

extension TableForm {
    /// A row's values, the id left out; `nil` where there is no such row.
    func row(_ db: Database, _ oid: String) throws -> [DatabaseValue]? {
        let statement = try BoundStatement(db, sql.selectOne)
        statement.bind(1, oid)
        return try statement.first { row in
            (0..<Int32(columns.count)).map { row.value($0 + 1) }
        }
    }

    /// The columns of a row that `sql.select` gave.
    func values(_ row: Row) -> [DatabaseValue] {
        var values: [DatabaseValue] = []
        values.reserveCapacity(columns.count)
        for position in columns.indices { values.append(row[position + 1]) }
        return values
    }

    func insert(_ db: Database, _ oid: String, _ row: [DatabaseValue]) throws {
        try db.cachedStatement(sql: sql.insert).run([oid.databaseValue] + row)
    }

    /// `false` where there is a row of that id already.
    func insertIfNew(_ db: Database, _ oid: String, _ row: [DatabaseValue]) throws -> Bool {
        let statement = try db.cachedStatement(sql: sql.insertOrIgnore)
        try statement.run([oid.databaseValue] + row)
        return db.changesCount > 0
    }

    func update(_ db: Database, _ oid: String, _ row: [DatabaseValue]) throws {
        guard !columns.isEmpty else { return }
        try db.cachedStatement(sql: sql.update).run(row + [oid.databaseValue])
    }

    func delete(_ db: Database, _ oid: String) throws {
        try db.cachedStatement(sql: sql.delete).execute(arguments: [oid])
    }
}
