import Records
import RelayCore
import StoreTesting
import Testing
import Wire

/// The console's overview of a store.
@Suite struct SurveyTests {
    private let stores: any ServedStores
    private let store: any Store

    init() async throws {
        stores = TestStore.current.makeHome().stores(tuning: .indexesOnly)
        store = try stores.store(of: .test)
        try await store.makeZone()
        try await store.makeZone(ZoneID("Plans", owner: .bob))
    }

    private func survey<Result>(_ body: (any StoreSurvey) throws -> Result) throws -> Result {
        var result: Swift.Result<Result, any Error>?
        try stores.survey(.test) { survey throws(RelayError) in result = .init(catching: { try body(survey) }) }
        return try #require(result).get()
    }

    @Test("totals count what there is") func totals() async throws {
        try await store.makeZone(ZoneID(ZoneID.defaultName, owner: .alice))
        try await store.put([Draft("a", title: "milk")])
        try await store.save(["b"], in: .common)
        try await store.share(with: [.joined(.bob)])
        try await store.write(touching: .alice) { writer throws(RelayError) in
            try writer.put([Subscription(id: "all", kind: .database)], of: .alice, in: .private)
        }
        let gone = ZoneID("Gone", owner: .alice)
        try await store.makeZone(gone)
        try await store.deleteZone(gone)
        let totals = try survey { try $0.totals() }
        #expect(totals.users == 1 && totals.shares == 1 && totals.subscriptions == 1)
        // The public database's zone is one of them.
        #expect(totals.zones == 4)
        let (own, common) = try store.look { (try $0.storageUse(of: .alice), try $0.storageUse(of: Zone.publicOwner)) }
        #expect(totals.publicUse == common && totals.use.records == own.records + common.records)
    }

    @Test("zones are listed by their latest change, page by page, and found by words") func zones() async throws {
        for name in ["A", "B", "C"] { try await store.makeZone(ZoneID(name, owner: .alice)) }
        try await store.put([Draft("x"), Draft("y"), .deleted("z")])
        func names(_ words: String, before change: UInt64 = UInt64(Int64.max), limit: Int = 9) throws -> [SurveyedZone]
        {
            try survey { try $0.zones(with: words, before: change, limit: limit) }
        }
        // The numbers of owners on different databases cannot be compared.
        let own = try names("").filter { $0.id.owner == .alice }
        #expect(own.map(\.id.zoneName) == ["Notes", "C", "B", "A"] && own.map(\.records) == [2, 0, 0, 0])
        #expect(own[0].modified == Timestamp(milliseconds: 1) && own[0].sharing == .nothing)
        if !TestStore.current.spreadsOwners {
            let first = try names("", limit: 2)
            #expect(first.map(\.id.zoneName) == ["Notes", "C"])
            #expect(try names("", before: first[1].lastChange, limit: 2).map(\.id.zoneName) == ["B", "A"])
        }
        #expect(try names("PLAN").map(\.id) == [ZoneID("Plans", owner: .bob)])
        #expect(try names(UserID.bob.recordName).map(\.id.zoneName) == ["Plans"])
        #expect(try names("%").isEmpty)
        let zone = try survey { try $0.zone(.notes) }
        #expect(try zone == store.zone())
    }

    @Test("the tail of a zone is its newest entries, tombstones included") func tail() async throws {
        try await store.save(["a", "b", "c"])
        try await store.put([.deleted("a")])
        let zone = try #require(try store.zone())
        #expect(try survey { try $0.tail(of: zone, limit: 2) }.map(\.name) == ["a", "c"])
        #expect(try survey { try $0.tail(of: zone, limit: 9) }.map(\.isDeleted) == [true, false, false])
    }

    @Test("public records are counted by type, up to a bound") func publicCounts() async throws {
        try await store.save(["a", "b", "c"], in: .common)
        try await store.put([.deleted("c")], in: .common)
        #expect(try survey { try $0.publicCounts(upTo: 9) }["Note"] == 2)
        #expect(try survey { try $0.publicCounts(upTo: 1) }["Note"] ?? 0 >= 1)
    }

    @Test("shares are listed newest first with their participants, or one by its number") func shares() async throws {
        try await store.put([Draft("root")])
        try await store.share("root", with: [.joined(.bob)])
        try await store.share(with: [.joined(.carol), .joined(.alice, .readWrite)], in: ZoneID("Plans", owner: .bob))
        let newest = try survey { try $0.shares(limit: 9, id: nil) }
        // The shares of owners on different databases have no order in time.
        let shares =
            TestStore.current.spreadsOwners ? newest.sorted { $0.zone.zoneName > $1.zone.zoneName } : newest
        #expect(shares.map(\.zone.zoneName) == ["Plans", "Notes"] && shares.map(\.isZoneWide) == [true, false])
        #expect(shares[0].participants.map(\.user) == [.carol, .alice] && shares[1].recordName == "share of root")
        #expect(try survey { try $0.shares(limit: 1, id: nil) }.map(\.id) == [newest[0].id])
        #expect(try survey { try $0.shares(limit: 9, id: shares[1].id) }.map(\.zone) == [.notes])
        #expect(try survey { try $0.shares(limit: 9, id: .max) }.isEmpty)
    }

    @Test("subscriptions are listed by user") func subscriptions() async throws {
        for user in [UserID.bob, .alice] {
            try await store.write(touching: user) { writer throws(RelayError) in
                try writer.put([Subscription(id: "all", kind: .database)], of: user, in: .private)
            }
        }
        let listed = try survey { try $0.subscriptions(limit: 9) }
        #expect(listed.map(\.user) == [.alice, .bob] && listed.map(\.subscription.id) == ["all", "all"])
        #expect(try survey { try $0.subscriptions(limit: 1) }.map(\.user) == [.alice])
    }

    @Test("indexes that queries have created are listed by type and target") func indexes() async throws {
        #expect(try survey { try $0.indexes(upTo: 9) }.isEmpty)
        try await store.put((0..<5).map { Draft("n\($0)", title: "milk") })
        let query = Query(recordType: "Note", filters: [.init(.own("title"), .equals, [.string("milk")])])
        for _ in 0..<3 {
            _ = try await store.query { reader throws(RelayError) in
                guard let zone = try reader.zone(.notes) else { throw .zoneNotFound }
                return try reader.page(of: query, in: [zone], after: nil, limit: 9, bytes: .max).records.count
            }
        }
        // A store may need none.
        for index in try survey({ try $0.indexes(upTo: 9) }) {
            #expect(index.recordType == "Note" && index.target.contains("title") && index.entries <= 10)
        }
    }
}
