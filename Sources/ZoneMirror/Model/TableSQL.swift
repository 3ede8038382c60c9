import Foundation
import GRDB

/// A table's SQL statements, with the id first and then the columns in their order.
struct TableSQL: Hashable, Sendable {
    /// Has no condition.
    let select: String
    let selectOne: String
    let insert: String
    let insertOrIgnore: String
    let update: String
    let delete: String

    init(_ name: String, _ columns: [ColumnLayout]) {
        let table = name.quoted
        let names = (["id"] + columns.map(\.name)).map(\.quoted).joined(separator: ", ")
        let marks = Array(repeating: "?", count: columns.count + 1).joined(separator: ", ")
        let values = ["id"] + columns.map { $0.isDate ? ExactDate.select($0.name, of: name) : $0.name.quoted }
        select = "SELECT \(values.joined(separator: ", ")) FROM \(table)"
        selectOne = select + " WHERE id = ?"
        insert = "INSERT INTO \(table)(\(names)) VALUES (\(marks))"
        insertOrIgnore = "INSERT OR IGNORE INTO \(table)(\(names)) VALUES (\(marks))"
        let sets = columns.map { "\($0.name.quoted) = ?" }.joined(separator: ", ")
        update = columns.isEmpty ? "" : "UPDATE \(table) SET \(sets) WHERE id = ?"
        delete = "DELETE FROM \(table) WHERE id = ?"
    }
}

extension Statement {
    /// Executes with exactly as many values as the statement has parameters, without checking that; observers are
    /// notified.
    func run(_ values: [DatabaseValue]) throws {
        // Bound directly: GRDB would copy each value into a boxed one first.
        setUncheckedArguments([])
        let bound = BoundStatement(self)
        for (position, value) in values.enumerated() { bound.bind(Int32(position) + 1, value) }
        try execute()
    }
}

extension TableLayout {
    /// Returns a row's values without the id; `nil` if there is no such row.
    func row(_ db: Database, _ oid: String) throws -> [DatabaseValue]? {
        let statement = try BoundStatement(db, sql.selectOne)
        statement.bind(1, oid)
        return try statement.first { row in
            (0..<Int32(columns.count)).map { row.value($0 + 1) }
        }
    }

    /// Returns the column values of a row selected by `sql.select`.
    func values(_ row: Row) -> [DatabaseValue] {
        var values: [DatabaseValue] = []
        values.reserveCapacity(columns.count)
        for position in columns.indices { values.append(row[position + 1]) }
        return values
    }

    func insert(_ db: Database, _ oid: String, _ row: [DatabaseValue]) throws {
        try db.cachedStatement(sql: sql.insert).run([oid.databaseValue] + inSQL(row))
        try keepExactDates(of: row, oid, db)
    }

    /// Inserts a row; returns `false` if there is one of this id already.
    func insertIfNew(_ db: Database, _ oid: String, _ row: [DatabaseValue]) throws -> Bool {
        let statement = try db.cachedStatement(sql: sql.insertOrIgnore)
        try statement.run([oid.databaseValue] + inSQL(row))
        guard db.changesCount > 0 else { return false }
        try keepExactDates(of: row, oid, db)
        return true
    }

    func update(_ db: Database, _ oid: String, _ row: [DatabaseValue]) throws {
        guard !columns.isEmpty else { return }
        if !dates.isEmpty {
            let forget = "DELETE FROM mirror_exact WHERE oid = ?"
            try db.cachedStatement(sql: forget).run([oid.databaseValue])
        }
        try db.cachedStatement(sql: sql.update).run(inSQL(row) + [oid.databaseValue])
        try keepExactDates(of: row, oid, db)
    }

    /// Changes dates whose new value is equal in its column, so that the triggers record a change.
    func touchDates(_ db: Database, _ oid: String, from old: [DatabaseValue], to new: [DatabaseValue]) throws {
        let (before, after) = (inSQL(old), inSQL(new))
        for position in dates where old[position] != new[position] && before[position] == after[position] {
            let column = columns[position].name.quoted
            try db.execute(sql: "UPDATE \(name.quoted) SET \(column) = \(column) + 1 WHERE id = ?", arguments: [oid])
        }
    }

    /// Returns a row as plain SQL sees it.
    func inSQL(_ row: [DatabaseValue]) -> [DatabaseValue] {
        guard dates.contains(where: { ExactDate.isFiner(row[$0]) }) else { return row }
        var row = row
        for position in dates { row[position] = ExactDate.inSQL(row[position]) }
        return row
    }

    /// Stores the exact dates of a row whose columns cannot hold them.
    func keepExactDates(of row: [DatabaseValue], _ oid: String, _ db: Database) throws {
        for position in dates where ExactDate.isFiner(row[position]) {
            let sql = """
                INSERT INTO mirror_exact(oid, col, seconds, exact) VALUES (?, ?, ?, ?)
                ON CONFLICT(oid, col) DO UPDATE SET seconds = excluded.seconds, exact = excluded.exact
                """
            try db.cachedStatement(sql: sql).run([
                oid.databaseValue, columns[position].name.databaseValue, ExactDate.inSQL(row[position]), row[position],
            ])
        }
    }

    func delete(_ db: Database, _ oid: String) throws {
        try db.cachedStatement(sql: sql.delete).execute(arguments: [oid])
    }
}

/// Stores dates in rows without loss of precision.
///
/// A column stores the seconds since 1970, while a `Date` has the seconds since 2001, which can be more precise. In
/// that case the column has the nearest number, and `mirror_exact` has the exact value. Rows in memory have the
/// seconds since 2001 as a text that begins with "@". An entry of `mirror_exact` is valid only while the column has
/// the number it belongs to, so plain SQL need not know of it.
enum ExactDate {
    /// Returns the statement of a trigger that forgets an object's dates.
    static func forgetting(_ id: String) -> String { "DELETE FROM mirror_exact WHERE oid = \(id);" }

    /// Returns a date's value in memory, which is the same for equal dates.
    static func value(_ date: Date) -> DatabaseValue {
        let seconds = date.timeIntervalSince1970
        let milliseconds = (seconds * 1000).rounded() / 1000
        for candidate in [milliseconds, seconds] where Date(timeIntervalSince1970: candidate) == date {
            return candidate.databaseValue
        }
        return "@\(date.timeIntervalSinceReferenceDate)".databaseValue
    }

    /// Returns the date of a column's value; `nil` if it is not a date.
    static func date(_ value: DatabaseValue) -> Date? {
        if case .string(let text) = value.storage {
            guard text.hasPrefix("@") else { return nil }
            return Double(text.dropFirst()).map { Date(timeIntervalSinceReferenceDate: $0) }
        }
        return Double.fromDatabaseValue(value).map { Date(timeIntervalSince1970: $0) }
    }

    /// Returns whether a date is more precise than its column.
    static func isFiner(_ value: DatabaseValue) -> Bool {
        guard case .string = value.storage else { return false }
        return date(value) != nil
    }

    /// Returns the value to store in a date's column.
    static func inSQL(_ value: DatabaseValue) -> DatabaseValue {
        isFiner(value) ? date(value)?.timeIntervalSince1970.databaseValue ?? value : value
    }

    /// Returns the SQL expression that reads a date column exactly.
    static func select(_ column: String, of table: String) -> String {
        let (name, own) = ("\(table.quoted).\(column.quoted)", "oid = \(table.quoted).id AND col = \(column.literal)")
        return "coalesce((SELECT exact FROM mirror_exact WHERE \(own) AND seconds = \(name)), \(name))"
    }
}

extension ColumnLayout {
    var isDate: Bool { attribute?.type == .date }
}
