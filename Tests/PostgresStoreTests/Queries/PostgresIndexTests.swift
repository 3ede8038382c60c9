#if Postgres
    import PostgresStore
    import Records
    import RelayCore
    import StoreKit
    import Synchronization
    import Testing
    import Wire

    /// Indexes that several relays share.
    @Suite(needsPostgres)
    struct PostgresIndexTests {
        private let address: PostgresAddress
        private let first: PostgresStore
        private let second: PostgresStore
        private let user = UserID("_00000000000000000000000000000001")
        private let query = Query(recordType: "Thing", filters: [.init(.own("title"), .equals, [.string("milk")])])
        private let type = RecordType(fields: ["title": .init(.scalar(.string)), "count": .init(.scalar(.int64))])

        init() throws {
            let (address, draws) = (try emptyDatabase(), Draws())
            self.address = address
            func store() throws -> PostgresStore {
                var tuning = QueryTuning()
                tuning.recordsWithoutIndex = 0
                (tuning.fewEntries, tuning.manyEntries) = (2, 5)
                (tuning.longestRun, tuning.longestWait) = (.seconds(300), .seconds(300))
                let database = PostgresDatabase(address, cluster: "test")
                return try PostgresStore(.forTests, in: database, draw: { draws.next }, tuning: tuning)
            }
            first = try store()
            second = try store()
        }

        private final class Draws: Sendable {
            private let last = Atomic<UInt64>(0)
            var next: UInt64 { last.add(1, ordering: .relaxed).newValue }
        }

        private func makeZone(_ name: String, of owner: UserID? = nil) async throws -> ZoneID {
            let (id, type) = (ZoneID(name, owner: owner ?? user), type)
            return try await first.write(touching: id.owner) { writer throws(RelayError) in
                if try writer.schema.types["Thing"] == nil { try writer.define(["Thing": type]) }
                return try writer.makeZone(id, by: "phone").id
            }
        }

        private func put(
            _ names: some Sequence<String> & Sendable,
            _ title: String,
            in id: ZoneID,
            by store: PostgresStore
        ) async throws {
            let fields = FieldsJSON.encode([.init(name: "title", value: .string(title))])
            let names = Array(names)
            try await store.write(touching: id.owner) { writer throws(RelayError) in
                guard let zone = try writer.zone(id) else { throw .zoneNotFound }
                let before = try writer.records(named: names, in: zone)
                let stamp = StoredRecord.Stamp(
                    at: Timestamp(milliseconds: 1),
                    by: id.owner,
                    device: DeviceFingerprint(bits: 1)
                )
                let records = names.map { name in
                    StoredRecord(
                        name: name,
                        type: "Thing",
                        change: writer.takeChangeNumber(),
                        created: stamp,
                        modified: stamp,
                        fields: fields
                    )
                }
                try writer.put(records, replacing: before, in: zone, by: "phone")
            }
        }

        private func found(in ids: [ZoneID], by store: PostgresStore) async throws -> [String] {
            let query = query
            return try await store.query { reader throws(RelayError) in
                var zones: [Zone] = []
                for id in ids { if let zone = try reader.zone(id) { zones.append(zone) } }
                return try reader.page(of: query, in: zones, after: nil, limit: 10_000, bytes: .max)
                    .records.map(\.record.name)
            }
        }

        private let wanted: Set<WantedIndex> = [WantedIndex(recordType: "Thing", target: .value(.own("title")))]

        private func count(_ table: String) throws -> Int64 {
            try PostgresConnection(to: address).query("SELECT count(*) FROM \(table)").first?.int(0) ?? 0
        }

        @Test("a relay keeps the index that another one has made") func shared() async throws {
            let zone = try await makeZone("A")
            try await put((0..<20).map { "a\($0)" }, "milk", in: zone, by: first)
            #expect(try await found(in: [zone], by: first).count == 20)
            try await put(["a0", "a1"], "bread", in: zone, by: second)
            try await put(["new"], "milk", in: zone, by: second)
            let names = try await found(in: [zone], by: first)
            #expect(names.count == 19 && names.contains("new") && !names.contains("a0"))
            #expect(try await found(in: [zone], by: second) == names)
        }

        @Test("an index is built over the zones of all users, in portions that end within a zone") func portions()
            async throws
        {
            var zones: [ZoneID] = []
            for number in 0..<70 { zones.append(try await makeZone("Z", of: UserID("_user\(number)"))) }
            for zone in zones { try await put(["one"], "milk", in: zone, by: first) }
            let large = zones[40]
            for start in stride(from: 0, to: 5_000, by: 1_000) {
                try await put(
                    (start..<start + 1_000).map { "n\($0)" },
                    start == 3_000 ? "milk" : "x",
                    in: large,
                    by: first
                )
            }
            // Two relays take turns.
            while try await !first.build(wanted, limit: 700) { if try await second.build(wanted, limit: 300) { break } }
            #expect(try await found(in: [large], by: second).count == 1_001)
            #expect(try await found(in: zones, by: first).count == 70 + 1_000)
            #expect(try count("field_index") == 1)
            #expect(try count("field_value") == 70 + 5_000)
        }

        @Test("records that change while an index is built are found as they are") func changes() async throws {
            let zone = try await makeZone("A")
            for start in stride(from: 0, to: 6_000, by: 1_000) {
                try await put((start..<start + 1_000).map { "n\($0)" }, "x", in: zone, by: first)
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { while try await !first.build(wanted, limit: 100) {} }
                group.addTask {
                    for number in 0..<40 { try await put(["n\(number * 149)"], "milk", in: zone, by: second) }
                }
                try await group.waitForAll()
            }
            #expect(try await Set(found(in: [zone], by: first)) == Set((0..<40).map { "n\($0 * 149)" }))
            #expect(try count("field_value") == 6_000)
        }

        @Test("an index that the schema no longer wants is dropped for all relays, and its entries go") func dropped()
            async throws
        {
            let zone = try await makeZone("A")
            try await put((0..<20).map { "a\($0)" }, "milk", in: zone, by: first)
            #expect(try await found(in: [zone], by: first).count == 20)
            var other = type
            other.fields["title"]?.indexes = []
            let definition = other
            try await second.write(touching: user) { writer throws(RelayError) in
                try writer.define(["Thing": definition])
            }
            try await put(["a0"], "milk", in: zone, by: first)
            while try count("field_value") > 0 { await Task.yield() }
        }

        @Test("pages of a long result cost few round trips") func roundTrips() async throws {
            let zone = try await makeZone("A")
            try await put((0..<400).map { "a\($0 + 1_000)" }, "milk", in: zone, by: first)
            _ = try await found(in: [zone], by: first)
            let (query, first) = (query, first)
            let trips = try first.read { reader throws(RelayError) in
                guard let zone = try reader.zone(zone), let reader = reader as? PostgresReader else {
                    throw .zoneNotFound
                }
                let before = reader.transaction.connection.roundTrips
                let page = try reader.page(of: query, in: [zone], after: nil, limit: 200, bytes: .max)
                return page.records.count == 200 ? reader.transaction.connection.roundTrips - before : .max
            }
            #expect(trips <= 9)
        }

        @Test("a query for any of many values costs few round trips") func manyValues() async throws {
            let zone = try await makeZone("A")
            for number in 0..<60 { try await put(["a\(number)", "b\(number)"], "t\(number)", in: zone, by: first) }
            while try await !first.build(wanted, limit: 1_000) {}
            let values = (0..<100).map { FieldValue.string("t\($0)") }
            let query = Query(recordType: "Thing", filters: [.init(.own("title"), .in, values)])
            let trips = try first.read { reader throws(RelayError) in
                guard let zone = try reader.zone(zone), let reader = reader as? PostgresReader else {
                    throw .zoneNotFound
                }
                let before = reader.transaction.connection.roundTrips
                let page = try reader.page(of: query, in: [zone], after: nil, limit: 200, bytes: .max)
                return page.records.count == 120 ? reader.transaction.connection.roundTrips - before : .max
            }
            #expect(trips <= 12)
        }
    }
#endif
