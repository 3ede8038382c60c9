import GRDB
import Records
import RelayCore
import SQLiteStore
import StoreKit
import Testing

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

@Suite struct StoreNamesTests {
    private func user(_ number: Int64) -> UserID { UserID("_\(number)") }

    /// Each reader takes the known names, learns one and merges it back; an older reader merges late.
    @Test func namesLearnedByReadersOfAnyAgeAreMerged() {
        var known = StoreNames()
        known.add(type: "Note", number: 1)
        var old = known
        for number in Int64(1)...2_000 {
            var reader = known
            reader.add(user: user(number), number: number)
            known.merge(reader)
        }
        old.add(user: user(7), number: 7)
        old.add(user: user(2_001), number: 2_001)
        old.add(type: "List", number: 2)
        known.merge(old)
        // Names that two readers learned are stored once.
        #expect(known.count == 2_001 + 2)
        for number in Int64(1)...2_001 {
            #expect(known.user(number) == user(number))
            #expect(known.number(of: user(number)) == number)
        }
        #expect(known.type(1) == "Note" && known.number(ofType: "List") == 2)
        #expect(known.user(2_002) == nil && known.number(of: user(2_002)) == nil && known.type(3) == nil)
        #expect(old.user(1_000) == nil)
    }
}
