import GRDB
import Testing

@testable import RelayStore

@Suite struct AliasIndexTests {
    /// A participant may use thousands of names in one request, and each is looked up in both directions.
    @Test func aNameIsFoundByIndexInBothDirections() throws {
        let queue = try DatabaseQueue()
        try queue.inDatabase { try StoreLayout.file.migrate($0) }
        for column in ["shown", "kept"] as [StaticString] {
            let plan = try queue.read { database in
                try String.fetchAll(
                    database,
                    sql: "EXPLAIN QUERY PLAN " + SQLiteWriter.sharesWithAlias(column),
                    arguments: [1, "name"],
                    adapter: RangeRowAdapter(3..<4)
                )
            }
            #expect(plan.contains { $0.contains("(share=? AND \(column)=?)") }, "\(plan)")
        }
    }
}
