import GRDB
import Records
import RelayCore
import RelayStore
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

@Suite struct SubscriptionRowsTests {
    private let user = UserID("_00000000000000000000000000000001")
    private let other = UserID("_00000000000000000000000000000002")

    @Test func subscriptionsAreReadPerUserAndPerDatabase() async throws {
        let store = try SQLiteStore(.memory, draw: { 7 }, onCommit: { _ in })
        let (user, other) = (user, other)
        let query = SubscribedQuery(
            recordType: "Note",
            json: Array("{}".utf8),
            zone: nil,
            firesOn: [.create],
            firesOnce: true
        )
        let watch = Subscription(id: "watch", kind: .query(query), notificationInfo: Array("{}".utf8))
        let all = Subscription(id: "all", kind: .database)
        let zone = Subscription(id: "b", kind: .zone(ZoneID("one")), recordType: "Note")
        try await store.write(touching: user) { writer throws(RelayError) in
            try writer.put([watch], of: user, in: .public)
            try writer.put([zone, all], of: user, in: .private)
            try writer.put([all], of: user, in: .shared)
        }
        try await store.write(touching: other) { writer throws(RelayError) in
            try writer.put([zone], of: other, in: .private)
        }
        try store.read { reader throws(RelayError) in
            let together = try reader.subscriptions(of: user)
            #expect(together.map(\.scope) == [.public, .private, .private, .shared])
            #expect(together.map(\.subscription) == [watch, all, zone, all])
            for scope in DatabaseScope.allCases {
                let alone = try reader.subscriptions(of: user, in: scope)
                #expect(alone == together.filter { $0.scope == scope }.map(\.subscription))
            }
            #expect(try reader.subscriptions(of: UserID("_nobody")).isEmpty)
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
