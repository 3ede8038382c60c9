import Records
import RelayCore
import StoreTesting
import Testing
import Wire

/// The feed of a zone: its records in the order of their latest changes.
@Suite struct FeedTests {
    private let store: any Store

    init() async throws {
        store = try TestStore.current.makeHome().store()
        try await store.makeZone()
    }

    @Test("a record is in the feed once, at its latest change") func onceEach() async throws {
        let first = try await store.save(["a", "b", "c"])
        try await store.save(["a"])
        try await store.put([.deleted("b")])
        #expect(try store.feed() == ["c", "a", "-b"])
        #expect(try store.feed(after: first[2].change) == ["a", "-b"])
        #expect(try store.feed(after: store.zone()?.lastChange ?? 0).isEmpty)
    }

    @Test("the feed can be read backwards, in parts, and without tombstones") func directions() async throws {
        try await store.save(["a", "b", "c", "d"])
        try await store.put([.deleted("b"), .deleted("none")])
        #expect(try store.feed() == ["a", "c", "d", "-b", "-none"])
        #expect(try store.feed(backwards: true) == ["-none", "-b", "d", "c", "a"])
        #expect(try store.feed(limit: 2) == ["a", "c"])
        #expect(try store.feed(backwards: true, limit: 3) == ["-none", "-b", "d"])
        #expect(try store.feed(states: .living) == ["a", "c", "d"])
        #expect(try store.feed(states: .living, limit: 2) == ["a", "c"])
    }

    @Test("only changes in the range are visited, and the visit ends when the visitor says so") func ranges()
        async throws
    {
        let changes = try await store.save(["a", "b", "c", "d"]).map(\.change)
        let zone = try #require(try store.zone())
        func visited(
            _ range: ClosedRange<UInt64>,
            backwards: Bool = false,
            limit: Int = 9,
            most: Int = 9
        ) throws -> [UInt64] {
            try store.look { reader throws in
                var seen: [UInt64] = []
                try reader.visitRecords(
                    in: zone,
                    changes: range,
                    states: .all,
                    backwards: backwards,
                    limit: limit,
                    rowsExceptFor: nil
                ) { record, position in
                    #expect(record.change == position)
                    seen.append(position)
                    return seen.count < most
                }
                return seen
            }
        }
        #expect(try visited(changes[1]...changes[2]) == [changes[1], changes[2]])
        #expect(try visited(changes[1]...changes[2], backwards: true) == [changes[2], changes[1]])
        #expect(try visited(1...changes[3], most: 1) == [changes[0]])
        #expect(try visited(1...changes[3], backwards: true, most: 2) == [changes[3], changes[2]])
        // In a range of many changes, for which a store may need several statements.
        let last = try await store.save((0..<200).map { "n\($0)" })[199].change
        for most in [1, 20, 40] {
            #expect(try visited(1...last, limit: 90, most: most).count == most)
            #expect(try visited(1...last, backwards: true, limit: 90, most: most).count == most)
        }
    }

    @Test("records passed as rows are equal to whole records; other types, shares and tombstones stay whole")
    func rows() async throws {
        try await store.write(touching: .alice) { writer throws(RelayError) in
            try writer.define(["Whole": RecordType()])
        }
        var other = Draft("other")
        other.type = "Whole"
        try await store.put([.init("a", title: "milk", parent: "p"), other, .init("gone")])
        try await store.put([.deleted("gone")])
        try await store.share(with: [.joined(.bob)])
        let zone = try #require(try store.zone())
        let whole = try store.records(["a"])["a"]
        try store.look { reader throws in
            var wholes: [String] = []
            try reader.visitRecords(
                in: zone,
                changes: 1...zone.lastChange,
                states: .all,
                backwards: false,
                limit: 9,
                rowsExceptFor: ["Whole"]
            ) { record, _ in
                switch record {
                case .whole(let record): wholes.append(record.name)
                case .lent(let row):
                    #expect(String(decoding: row.pointee.name, as: UTF8.self) == "a" && row.pointee.type == "Note")
                    #expect(Array(row.pointee.fields) == whole?.fields && row.pointee.change == whole?.change)
                    #expect(row.pointee.parent.map { String(decoding: $0, as: UTF8.self) } == "p")
                    #expect(row.pointee.created == whole?.created.at && row.pointee.modified == whole?.modified.at)
                    #expect(row.pointee.authors.creator == .alice && row.pointee.authors.modifyingDevice.bits == 1)
                }
                return true
            }
            // A store may pass all records as whole ones.
            #expect(wholes.filter { $0 != "a" } == ["other", "gone", Share.zoneWideName])
        }
    }

    @Test("feeds of two zones that are written in turn are complete and in order") func manyChanges() async throws {
        let other = ZoneID("B", owner: .alice)
        try await store.makeZone(other)
        var expected: [String] = []
        for round in 0..<6 {
            let names = (0..<700).map { "r\(round)-\($0)" }
            try await store.save(names)
            try await store.save(names, in: other)
            expected += names
        }
        #expect(try store.feed() == expected)
        #expect(try store.feed(other) == expected)
    }

    private struct Seen: Equatable {
        var name: String
        var position: UInt64
        var isDeleted = false
    }

    private func changes(
        from start: UInt64,
        _ states: FeedFilter = .all,
        limit: Int,
        asRows: Bool
    ) throws -> [Seen] {
        let zone = try #require(try store.zone())
        guard zone.lastChange >= start else { return [] }
        return try store.look { reader throws in
            var seen: [Seen] = []
            try reader.visitRecords(
                in: zone,
                changes: start...zone.lastChange,
                states: states,
                backwards: false,
                limit: limit,
                rowsExceptFor: asRows ? [] : nil
            ) { record, position in
                switch record {
                case .lent(let row):
                    seen.append(Seen(name: String(decoding: row.pointee.name, as: UTF8.self), position: position))
                case .whole(let whole):
                    seen.append(Seen(name: whole.name, position: position, isDeleted: whole.isDeleted))
                }
                return true
            }
            return seen
        }
    }

    /// A store may read a feed differently if its zone has most of the changes than if it has few.
    @Test("feeds are the same for any distribution of changes among zones", arguments: [UInt64](1...6))
    func distributions(seed: UInt64) async throws {
        let other = ZoneID("B", owner: .alice)
        try await store.makeZone(other)
        var dice = Dice(state: seed)
        for step in 0..<40 {
            let names = (0...dice.below(90)).map { "r\(step)-\($0)" }
            switch dice.below(4) {
            case 0: for name in names { try await store.save([name], in: dice.below(4) == 0 ? .notes : other) }
            case 1: try await store.save(names, in: other)
            case 2: try await store.put(names.map { .deleted($0) })
            default: try await store.save(names)
            }
        }
        for asRows in [true, false] {
            let all = try changes(from: 1, limit: 100_000, asRows: asRows)
            #expect(all.contains { $0.isDeleted } && all.contains { !$0.isDeleted })
            for limit in [1, 31, 32, 33, 64, 100, 200] {
                for _ in 0..<12 {
                    let start = UInt64(1 + dice.below(Int(all.last?.position ?? 1)))
                    let rest = all.filter { $0.position >= start }
                    let found = try changes(from: start, limit: limit, asRows: asRows)
                    #expect(found == Array(rest.prefix(limit)), "seed \(seed), \(limit) from \(start)")
                    let living = try changes(from: start, .living, limit: limit, asRows: asRows)
                    #expect(
                        living == Array(rest.filter { !$0.isDeleted }.prefix(limit)),
                        "seed \(seed), \(limit) living from \(start)"
                    )
                }
            }
        }
    }

    @Test("live records after a change are counted up to a limit") func counts() async throws {
        let changes = try await store.save(["a", "b", "c", "d"]).map(\.change)
        try await store.put([.deleted("d")])
        try await store.share("a", with: [.joined(.bob)])
        let (zone, view) = (try #require(try store.zone()), try #require(try store.zone(seenBy: .bob)))
        try store.look { reader throws in
            #expect(try reader.countLive(in: zone, after: 0, atMost: 10) == 4, "the share is a record too")
            #expect(try reader.countLive(in: zone, after: changes[0], atMost: 3) == 3)
            #expect(try reader.countLive(in: zone, after: 0, atMost: 3) == nil)
            #expect(try reader.countLive(in: zone, after: zone.lastChange, atMost: 3) == 0)
            #expect(try reader.countLive(in: view, after: 0, atMost: 10) == nil, "the caller sees a part of the zone")
        }
    }

    @Test("a token that a page returns continues after its last record") func tokens() async throws {
        try await store.save(["a", "b"])
        let (names, token) = try store.page()
        #expect(names == ["a", "b"])
        #expect(try store.page(since: token).names.isEmpty)
        try await store.save(["b", "c"])
        #expect(try store.page(since: token).names == ["b", "c"])
        try await store.deleteZone(.notes)
        #expect(throws: RelayError.self) { try store.page(since: token) }
        try await store.makeZone()
        let refusal = #expect(throws: RelayError.self) { try store.page(since: token) }
        #expect(refusal?.fineCode == .changeTokenExpired && refusal?.formerZone == .deleted)
    }

    // MARK: Forgotten tombstones

    private func withCatalog(_ body: (any ServedStores, any Store) async throws -> Void) async throws {
        let stores = TestStore.current.makeHome().stores()
        defer { stores.close() }
        let store = try stores.store(of: .test)
        try await store.makeZone()
        try await body(stores, store)
    }

    private func horizon(of store: any Store, seenBy user: UserID? = nil) throws -> UInt64 {
        let zone = try #require(try store.zone(seenBy: user))
        return try store.look { try $0.horizon(of: zone) }
    }

    @Test("old tombstones are forgotten, and the horizon is the newest of them") func horizon() async throws {
        try await withCatalog { stores, store in
            try await store.save(["a", "b", "c"], at: 10)
            let deleted = try await store.put([.deleted("a", at: 20), .deleted("b", at: 20)])
            try await store.save(["d"], at: 30)
            try await store.put([.deleted("c", at: 40)])
            #expect(try horizon(of: store) == 0)
            #expect(try await stores.forgetTombstones(before: Timestamp(milliseconds: 20)) == 0)
            #expect(try store.feed() == ["-a", "-b", "d", "-c"])
            #expect(try await stores.forgetTombstones(before: Timestamp(milliseconds: 30)) == 2)
            #expect(try store.feed() == ["d", "-c"] && horizon(of: store) == deleted[1].change)
            #expect(try await stores.forgetTombstones(before: Timestamp(milliseconds: 30)) == 0)
        }
    }

    @Test("a participant's horizon is the newest forgotten tombstone of their view") func viewHorizon() async throws {
        try await withCatalog { stores, store in
            try await store.put([Draft("root"), Draft("leaf", parent: "root"), Draft("other")])
            try await store.share("root", with: [.joined(.bob)])
            let other = try await store.put([.deleted("other", at: 20)])[0].change
            try await store.save(["later"], at: 30)
            #expect(try await stores.forgetTombstones(before: Timestamp(milliseconds: 25)) == 1)
            #expect(try horizon(of: store) == other && horizon(of: store, seenBy: .bob) == 0)
            let leaf = try await store.put([.deleted("leaf", at: 40)])[0].change
            try await store.save(["last"], at: 50)
            #expect(try await stores.forgetTombstones(before: Timestamp(milliseconds: 45)) >= 1)
            #expect(try horizon(of: store) == leaf && horizon(of: store, seenBy: .bob) == leaf)
        }
    }

    @Test("tokens from before the horizon expire, and newer ones stay valid") func expiredTokens() async throws {
        try await withCatalog { stores, store in
            try await store.save(["a", "b"], at: 10)
            let early = try store.page().token
            try await store.put([.deleted("a", at: 20)])
            let late = try store.page().token
            try await store.save(["c"], at: 30)
            #expect(try await stores.forgetTombstones(before: Timestamp(milliseconds: 25)) == 1)
            #expect(throws: RelayError.changeTokenExpired) { try store.page(since: early) }
            #expect(try store.page(since: late).names == ["c"])
            #expect(try store.page().names == ["b", "c"])
        }
    }

    @Test("a forgotten record may be created again, also after the zone's other tombstones") func forgottenNames()
        async throws
    {
        try await withCatalog { stores, store in
            try await store.save(["a"], at: 10)
            try await store.put([.deleted("a", at: 20), .deleted("b", at: 20)])
            #expect(try await stores.forgetTombstones(before: Timestamp(milliseconds: 21)) >= 1)
            #expect(try store.records(["a"]).isEmpty)
            try await store.save(["a"], at: 30)
            #expect(try store.records(["a"])["a"]?.created.at == Timestamp(milliseconds: 30))
        }
    }
}
