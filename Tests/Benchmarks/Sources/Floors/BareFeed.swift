package import Sockets

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
