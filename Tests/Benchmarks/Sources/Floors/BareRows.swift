package import Sockets

/// The relay's rows, written directly to SQLite: a table with the record's name as its key and the record's JSON in one
/// column.
package final class BareRows {
    package static let table = """
        CREATE TABLE record (zone INTEGER NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (zone, name))
        """

    private let database: SQLite
    private let insert: SQLite.Statement
    private var next = 1

    package init(path: String) throws(LoadError) {
        database = try SQLite(path: path)
        try database.execute(Self.table)
        insert = try database.prepare("INSERT INTO record VALUES (1, ?, ?)")
    }

    /// Commits rows of `body` one by one for this time; returns commits per second.
    package func commitOneByOne(_ body: [UInt8], seconds: Double) throws -> Double {
        let start = Monotonic.nanoseconds
        var done = 0
        while Monotonic.seconds(since: start) < seconds {
            try add(body)
            done += 1
        }
        return Double(done) / Monotonic.seconds(since: start)
    }

    /// Commits rows with these bodies in one transaction.
    package func add(_ bodies: [[UInt8]]) throws {
        try database.execute("BEGIN IMMEDIATE")
        for body in bodies { try add(body) }
        try database.execute("COMMIT")
    }

    /// Commits one row.
    package func add(_ body: [UInt8]) throws {
        let name = Array("record-\(String(next, radix: 16))".utf8)
        next += 1
        try name.withUnsafeBytes { name in
            try body.withUnsafeBytes { body in
                insert.bind(name, at: 1)
                insert.bind(body, at: 2)
                _ = try insert.step()
                insert.reset()
            }
        }
    }
}
