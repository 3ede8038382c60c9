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

/// A minimal change feed: rows by change number, read in pages and copied into a response.
package final class BareFeed {
    private let page: SQLite.Statement

    /// Creates the feed's file with `count` rows of `bodySize` bytes of JSON.
    package static func make(path: String, count: Int, bodySize: Int) throws(LoadError) {
        let database = try SQLite(path: path)
        try database.execute("CREATE TABLE feed (change INTEGER PRIMARY KEY, body TEXT NOT NULL)")
        let text = String(repeating: "x", count: max(1, bodySize - 8))
        try database.execute(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count))
            INSERT INTO feed SELECT i, '{"x":"\(text)"}' FROM n
            """
        )
    }

    package init(path: String) throws(LoadError) {
        page = try SQLite(path: path).prepare("SELECT change, body FROM feed WHERE change > ? ORDER BY change LIMIT ?")
    }

    /// Appends `{"records":[…],"syncToken":"N"}` with the rows after `change`.
    package func append(after change: Int, limit: Int, to bytes: inout [UInt8]) throws(LoadError) {
        page.bind(change, at: 1)
        page.bind(limit, at: 2)
        var last = change
        bytes.append(contentsOf: #"{"records":["#.utf8)
        while try page.step() {
            if last != change { bytes.append(UInt8(ascii: ",")) }
            last = page.number(0)
            bytes.append(contentsOf: page.bytes(1))
        }
        page.reset()
        bytes.append(contentsOf: #"],"syncToken":"\#(last)"}"#.utf8)
    }
}

/// A minimal lookup of one row of a big table through an index.
package final class BareSelect {
    private let count: Int
    private let select: SQLite.Statement

    /// Creates the table: `count` rows of 200 bytes with a number each, and an index on the number.
    package init(path: String, count: Int) throws(LoadError) {
        self.count = count
        let database = try SQLite(path: path)
        try database.execute(
            """
            CREATE TABLE row (id INTEGER PRIMARY KEY, number INTEGER NOT NULL, body TEXT NOT NULL);
            WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < \(count - 1))
            INSERT INTO row (number, body) SELECT i, '\(String(repeating: "x", count: 200))' FROM n;
            CREATE INDEX row_by_number ON row (number);
            """
        )
        select = try database.prepare("SELECT body FROM row WHERE number = ? ORDER BY number LIMIT 10")
    }

    /// Returns the average time of a lookup, each for another number.
    package func microseconds(times: Int) throws(LoadError) -> Double {
        let start = Monotonic.nanoseconds
        var bytes = 0
        for turn in 0..<times {
            select.bind((turn &* 7_919_113) % count, at: 1)
            while try select.step() { bytes += select.bytes(0).count }
            select.reset()
        }
        guard bytes == times * 200 else { throw .peer("The bare table gave \(bytes) bytes.") }
        return Monotonic.seconds(since: start) / Double(times) * 1e6
    }
}
