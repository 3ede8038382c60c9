import Records
import RelayCore
import StoreTesting
import Testing
import Wire

/// Queries as `StoreReader.page` answers them.
@Suite struct QueryTests {
    private let title = Query(recordType: "Thing", filters: [.init(.own("title"), .equals, [.string("milk")])])

    /// Every query uses indexes, if the store has any.
    private func world() throws -> QueryWorld {
        var options = TestStoreOptions()
        options.options.tuning = .indexesOnly
        return QueryWorld(try TestStore.current.makeHome().store(options))
    }

    private func things(_ numbers: Range<Int>, title: String) -> [(name: String, fields: [String: FieldValue]?)] {
        numbers.map { ("n\($0)", ["title": .string(title), "count": .int64(Int64($0))]) }
    }

    /// A rewritten record moves behind the part that the building still has to read, even if its value is the same.
    @Test("records that are rewritten with the same value while an index is built are found") func rewritten()
        async throws
    {
        let world = try world()
        try await world.makeZone("A")
        for start in stride(from: 0, to: 6_000, by: 1_000) {
            let title = start == 5_000 ? "milk" : "bread"
            try await world.put(things(start..<start + 1_000, title: title), in: world.zones[0])
        }
        _ = try await world.firstPage(title, limit: 5)
        try await world.put(things(5_900..<5_950, title: "milk"), in: world.zones[0])
        let names = try await world.answer(title, limit: 300).names
        #expect(try names.count == 1_000 && names == world.expectation(title))
    }

    /// Words of all fields have their own index, which no field's name can collide with.
    @Test("a field may have the name words") func words() async throws {
        let world = try world()
        try await world.makeZone("A")
        let rows = (0..<300).map { number in
            ("n\(number)", ["words": FieldValue.string(number % 3 == 0 ? "milk" : "bread and butter")])
        }
        try await world.put(rows, in: world.zones[0])
        let byField = Query(recordType: "Thing", filters: [.init(.own("words"), .equals, [.string("milk")])])
        let search = Query(
            recordType: "Thing",
            filters: [.init(.anySearchable, .containsAllTokens, [.string("butter")])]
        )
        for _ in 0..<2 {
            for (query, count) in [(byField, 100), (search, 200)] {
                let names = try await world.answer(query, limit: 200).names
                #expect(try names.count == count && names == world.expectation(query))
            }
        }
    }

    /// The record type of shares is in no schema, but can be queried.
    @Test("shares are found by queries") func shares() async throws {
        let world = try world()
        try await world.makeZone("A")
        try await world.put((0..<50).map { ("s\($0)", [:]) }, in: world.zones[0], type: Share.recordType)
        var query = Query(recordType: Share.recordType)
        query.filters = [.init(.modified, .greaterThanOrEquals, [.timestamp(Timestamp(milliseconds: 0))])]
        query.sorts = [.init(.modified, ascending: false)]
        for _ in 0..<2 { #expect(try await world.answer(query, limit: 20).names.count == 50) }
        try await world.put([("s50", [:]), ("s0", nil)], in: world.zones[0], type: Share.recordType)
        #expect(try await world.answer(query, limit: 20).names.count == 50)
    }

    @Test("pages of large records are small, but have one record") func largeRecords() async throws {
        let world = try world()
        try await world.makeZone("A")
        let text = FieldValue.string(String(repeating: "x", count: 1_000))
        try await world.put(
            (0..<40).map { ("n\($0)", ["note": text, "count": .int64(Int64($0))]) },
            in: world.zones[0]
        )
        var query = Query(recordType: "Thing")
        query.sorts = [Query.Sort(.own("count"), ascending: false)]
        for bytes in [0, 1, 3_500, 20_000, 100_000] {
            world.bytes = bytes
            #expect(try await world.answer(query, limit: 30).names == world.expectation(query))
            let page = try await world.firstPage(query, limit: 30).names.count
            #expect(page >= 1 && page <= max(1, bytes / 1_000) && (bytes < 100_000 || page == 30))
        }
    }

    @Test("concurrent queries that need the same index are all answered") func concurrent() async throws {
        let world = try world()
        try await world.makeZone("A")
        for start in stride(from: 0, to: 5_000, by: 1_000) {
            try await world.put(things(start..<start + 1_000, title: start == 3_000 ? "milk" : "x"), in: world.zones[0])
        }
        let (store, zone, title) = (world.store, world.zones[0], title)
        let counts = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    try await store.query { reader throws(RelayError) in
                        guard let zone = try reader.zone(zone) else { throw .zoneNotFound }
                        return try reader.page(of: title, in: [zone], after: nil, limit: 2_000, bytes: .max).records
                            .count
                    }
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(counts == Array(repeating: 1_000, count: 8))
    }

    @Test("a page is in the query's order over all zones, and the next one continues after it") func pages()
        async throws
    {
        let world = try world()
        for name in ["A", "B"] { try await world.makeZone(name) }
        for (place, zone) in world.zones.enumerated() {
            try await world.put(
                (0..<10).map { ("\(zone.zoneName)\($0)", ["count": .int64(Int64($0 * 2 + place))]) },
                in: zone
            )
        }
        let query = Query(recordType: "Thing", sorts: [.init(.own("count"), ascending: false)])
        for limit in [1, 3, 20, 21] {
            let names = try await world.answer(query, limit: limit).names
            #expect(names.map(\.recordName) == (0..<10).reversed().flatMap { ["B\($0)", "A\($0)"] })
        }
    }

    @Test("a query over no zones, and one for a type that does not exist, find nothing") func nothing() async throws {
        let world = try world()
        try await world.makeZone("A")
        try await world.put(things(0..<3, title: "milk"), in: world.zones[0])
        #expect(try await world.answer(title, in: []).names.isEmpty)
        #expect(try await world.answer(Query(recordType: "Nothing")).names.isEmpty)
        #expect(try await world.answer(title).names.count == 3)
    }

    @Test("values are found whatever characters they contain") func characters() async throws {
        let world = try world()
        try await world.makeZone("A")
        let texts = ["a\u{0}b", "a", "", "\u{FFFF}", "'; DROP TABLE record; --", "%", "_", "\\", "\u{1F34E}"]
        try await world.put(
            texts.enumerated().map { ("n\($0)", ["title": .string($1)]) },
            in: world.zones[0]
        )
        for (number, text) in texts.enumerated() {
            for comparator in [Query.Comparator.equals, .beginsWith] {
                let query = Query(
                    recordType: "Thing",
                    filters: [.init(.own("title"), comparator, [.string(text)])]
                )
                let names = try await world.answer(query).names
                #expect(names == (try world.expectation(query)), "\(number) \(comparator)")
                #expect(names.contains { $0.recordName == "n\(number)" })
            }
        }
    }

    @Test("a deleted record, and a deleted zone's records, are not found") func deletions() async throws {
        let world = try world()
        for name in ["A", "B"] { try await world.makeZone(name) }
        for zone in world.zones { try await world.put(things(0..<4, title: "milk"), in: zone) }
        #expect(try await world.answer(title).names.count == 8)
        try await world.put([("n2", nil)], in: world.zones[0])
        #expect(try await world.answer(title).names == world.expectation(title))
        try await world.store.deleteZone(world.zones[0])
        #expect(try await world.answer(title).names.map(\.zone) == Array(repeating: world.zones[1], count: 4))
    }

    @Test("a participant's query finds only the records that are shared with them") func views() async throws {
        let store = try TestStore.current.makeHome().store()
        try await store.write(touching: .alice) { writer throws(RelayError) in try writer.define(["Note": .titled]) }
        try await store.makeZone()
        try await store.put(
            [
                .init("root", title: "milk"), .init("leaf", title: "milk", parent: "root"),
                .init("other", title: "milk"),
            ],
            in: .notes
        )
        try await store.share("root", with: [.joined(.bob)], in: .notes)
        let query = Query(recordType: "Note", filters: [.init(.own("title"), .equals, [.string("milk")])])
        let found = try await store.query { reader throws(RelayError) in
            guard let zone = try reader.zone(.notes, sharedWith: .bob) else { throw .zoneNotFound }
            return try reader.page(of: query, in: [zone], after: nil, limit: 10, bytes: .max).records.map(\.record.name)
        }
        #expect(found == ["leaf", "root"])
    }
}
