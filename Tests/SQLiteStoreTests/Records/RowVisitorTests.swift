import GRDB
import SQLiteStore
import Testing

@Suite struct RowVisitorTests {
    private struct Failure: Error {}

    /// Runs `body` with a table of the numbers 1 to 9 and a statement that visits the odd ones.
    private func withNumbers(_ body: (RowVisitor, () throws -> RowVisitor.Statement) throws -> Void) throws {
        try DatabaseQueue().inDatabase { database in
            try database.execute(
                sql: """
                    CREATE TABLE number (id INTEGER PRIMARY KEY, word TEXT, bytes BLOB);
                    INSERT INTO number SELECT value, 'n' || value, NULL FROM json_each('[1,2,3,4,5,6,7,8,9]');
                    UPDATE number SET bytes = x'0102' WHERE id = 3
                    """
            )
            let visitor = try RowVisitor(database, columns: 3)
            let text = "SELECT 1 FROM number WHERE CASE WHEN id % 2 THEN visit(id, word, bytes) END ORDER BY id"
            try body(visitor) { try RowVisitor.Statement(text, in: database) }
        }
    }

    @Test("rows are visited in order, until one ends the scan")
    func order() throws {
        try withNumbers { visitor, statement in
            var seen: [String] = []
            try visitor.visit(statement()) { row in
                seen.append("\(row.int(0)) \(row.text(1)) \(row.isNull(2)) \(row.blob(2))")
                return row.int(0) < 5
            }
            #expect(seen == ["1 n1 true []", "3 n3 false [1, 2]", "5 n5 true []"])
        }
    }

    @Test("an error ends the scan, and the statement can be used again")
    func failure() throws {
        try withNumbers { visitor, statement in
            var seen: [Int64] = []
            #expect(throws: Failure.self) {
                try visitor.visit(statement()) { row in
                    seen.append(row.int(0))
                    if row.int(0) == 3 { throw Failure() }
                    return true
                }
            }
            try visitor.visit(statement()) { row in
                seen.append(row.int(0))
                return true
            }
            #expect(seen == [1, 3, 1, 3, 5, 7, 9])
        }
    }
}
