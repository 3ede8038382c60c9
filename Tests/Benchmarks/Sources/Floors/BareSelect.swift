package import Sockets

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
