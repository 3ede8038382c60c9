import Records
import RelayCore
import RelayStore
import Testing

@Suite struct SubscriptionRowsTests {
    private let user = UserID("_00000000000000000000000000000001")
    private let other = UserID("_00000000000000000000000000000002")

    @Test func aUsersSubscriptionsAreReadTogetherAndByDatabase() async throws {
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
        try await store.write { writer throws(RelayError) in
            try writer.put([watch], of: user, in: .public)
            try writer.put([zone, all], of: user, in: .private)
            try writer.put([all], of: user, in: .shared)
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
