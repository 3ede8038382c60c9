#if Postgres
    import Foundation
    import PostgresStore
    import Records
    import RelayCore
    import StoreKit
    import Synchronization
    import Testing
    import Wire

    /// The plans of the store's statements, made while all tables are empty, are still good when they are not.
    ///
    /// A connection keeps a plan until the server analyzes a table of it, which here it never does.
    @Suite(needsPostgres)
    struct PlanTests {
        private static let alice = UserID("_00000000000000000000000000000001")
        private static let bob = UserID("_00000000000000000000000000000002")
        private static let zone = ZoneID("Notes", owner: alice)
        private static let link = "link"
        private static let type = RecordType(fields: [
            "title": .init(.scalar(.string)), "count": .init(.scalar(.int64)), "note": .init(.scalar(.string)),
        ])

        private let address: PostgresAddress
        private let database: PostgresDatabase
        private let store: PostgresStore
        private let observer: PostgresConnection

        init() throws {
            address = try emptyDatabase()
            // One connection for each purpose, so that it is known which one has the plans.
            var limits = PostgresPool.Limits()
            (limits.reading, limits.writing, limits.brief) = (1, 1, 1)
            database = PostgresDatabase(address, cluster: "test", limits: limits)
            var tuning = QueryTuning()
            // Counts of entries end early, so that they do not hide what else is read.
            (tuning.recordsWithoutIndex, tuning.fewEntries, tuning.manyEntries) = (0, 50, 200)
            (tuning.longestRun, tuning.longestWait) = (.seconds(300), .seconds(300))
            let last = Atomic<UInt64>(0)
            store = try PostgresStore(
                .forTests,
                in: database,
                draw: { last.add(1, ordering: .relaxed).newValue },
                tuning: tuning
            )
            observer = try PostgresConnection(to: address)
        }

        // MARK: What the store does

        private func put(_ drafts: [StoredRecord]) async throws {
            try await store.write(touching: Self.alice) { writer throws(RelayError) in
                guard let zone = try writer.zone(Self.zone) else { throw .zoneNotFound }
                _ = try writer.idempotencyRecord("bulk5", by: Self.alice)
                let before = try writer.records(named: drafts.map(\.name), in: zone)
                let records = drafts.map { draft in
                    var record = draft
                    record.change = writer.takeChangeNumber()
                    return record
                }
                try writer.put(records, replacing: before, in: zone, by: "phone")
            }
        }

        private static func record(_ name: String, under parent: String? = nil, type: String = "Thing") -> StoredRecord
        {
            let stamp = StoredRecord.Stamp(
                at: Timestamp(milliseconds: 1),
                by: alice,
                device: DeviceFingerprint(bits: 1)
            )
            return StoredRecord(
                name: name,
                type: type,
                change: 0,
                created: stamp,
                modified: stamp,
                parent: parent,
                fields: FieldsJSON.encode([
                    .init(name: "count", value: .int64(1)), .init(name: "note", value: .string("n")),
                    .init(name: "title", value: .string("milk")),
                ])
            )
        }

        private func prepare() async throws {
            _ = try await store.write(touching: Self.alice) { writer throws(RelayError) in
                try writer.define(["Thing": Self.type])
                return try writer.makeZone(Self.zone, by: "phone")
            }
            try await put([Self.record("root"), Self.record("root/1", under: "root")])
            var share = Self.record("share", type: Share.recordType)
            share.shareReference = ShareReference(shortGUID: Self.link, record: "share")
            share.sharing = Share(
                root: "root",
                shortGUID: Self.link,
                participants: [
                    Share.Participant(id: "bob", permission: .readWrite, hasAccepted: true, user: Self.bob)
                ]
            )
            share.fields = Array("{}".utf8)
            try await put([share])
        }

        private func visible(to user: UserID?, _ reader: any StoreReader) throws(RelayError) -> Zone {
            let zone =
                if let user { try reader.zone(Self.zone, sharedWith: user) } else { try reader.zone(Self.zone) }
            guard let zone else { throw .zoneNotFound }
            return zone
        }

        private func query(_ query: Query) async throws -> Int {
            try await store.query { reader throws(RelayError) in
                guard let zone = try reader.zone(Self.zone) else { throw .zoneNotFound }
                return try reader.page(of: query, in: [zone], after: nil, limit: 5, bytes: .max).records.count
            }
        }

        /// What is measured, each under its name; all of it concerns a handful of records.
        private var operations: [(name: String, run: (_ number: Int) async throws -> Void)] {
            [
                ("a save in a shared hierarchy", { try await put([Self.record("root/s\($0)", under: "root/1")]) }),
                ("a save beside it", { try await put([Self.record("beside\($0)", under: "bulk1")]) }),
                (
                    "a record that joins a hierarchy, with what is below it",
                    { number in
                        let (above, below) = ("joins\(number)", "below\(number)")
                        try await put([Self.record(above), Self.record(below, under: above)])
                        try await put([Self.record(above, under: "root/1")])
                    }
                ),
                (
                    "a look-up of a share",
                    { _ in
                        let found = try store.read { reader throws(RelayError) in try reader.share(ofLink: Self.link) }
                        #expect(found?.record == "share")
                    }
                ),
                (
                    "a participant's records, feed and zones",
                    { _ in
                        let (records, feed, zones) = try store.read { reader throws(RelayError) in
                            let zone = try visible(to: Self.bob, reader)
                            let records = try reader.records(named: ["root", "root/1", "bulk5"], in: zone)
                            let zones = try reader.zones(sharedWith: Self.bob)
                            return (records.count, try Self.feed(of: zone, reader), zones.count)
                        }
                        #expect(records == 2 && feed > 0 && zones == 1)
                    }
                ),
                (
                    "the owner's records and feed",
                    { _ in
                        let (records, feed) = try store.read { reader throws(RelayError) in
                            let zone = try visible(to: nil, reader)
                            let light = try reader.records(named: ["root", "share"], in: zone, withFields: false)
                            let whole = try reader.records(named: ["root", "share"], in: zone)
                            return (light.count + whole.count, try Self.feed(of: zone, reader))
                        }
                        #expect(records == 4 && feed > 0)
                    }
                ),
                (
                    "references and uses of assets",
                    { _ in
                        try store.read { reader throws(RelayError) in
                            let zone = try visible(to: nil, reader)
                            guard let asset = AssetHash(Array(repeating: 1, count: AssetHash.byteCount)) else { return }
                            _ = try reader.countDeleteSelf(to: ["root", "bulk7"], in: zone, atMost: 5)
                            _ = try reader.assetUses(of: [asset], in: zone)
                            var count = 0
                            try reader.visitReferences(to: ["root/1"], in: zone) { _ in
                                count += 1
                                return count < 3 ? .next : .stop
                            }
                        }
                    }
                ),
                (
                    "what listeners have missed",
                    { _ in
                        let seen = try store.read { reader throws(RelayError) in
                            try reader.lastChanges(seenBy: [Self.alice, Self.bob])
                        }
                        #expect(seen.count > 1)
                    }
                ),
                (
                    "a query whose candidates are probed",
                    { _ in
                        let count = try await query(
                            Query(
                                recordType: "Thing",
                                filters: [
                                    .init(.own("title"), .equals, [.string("milk")]),
                                    .init(.own("count"), .equals, [.int64(1)]),
                                ]
                            )
                        )
                        #expect(count == 5)
                    }
                ),
                (
                    "a query in the order of an index",
                    { _ in
                        let query = Query(recordType: "Thing", sorts: [.init(.own("note"), ascending: false)])
                        let count = try await self.query(query)
                        #expect(count == 5)
                    }
                ),
            ]
        }

        private static func feed(of zone: Zone, _ reader: any StoreReader) throws(RelayError) -> Int {
            var count = 0
            try reader.visitRecords(
                in: zone,
                changes: 1...zone.lastChange,
                states: .all,
                backwards: true,
                limit: 5,
                rowsExceptFor: nil
            ) { _, _ in
                count += 1
                return true
            }
            return count
        }

        // MARK: Measuring

        private static let many = 5_000
        /// The store reads ahead, as far as 200 entries of an index and their records and probes.
        private static let mostAhead = 1_000

        /// Fills the zone and its tables as other records, shares and users would.
        private func fill() throws {
            let zone = "(SELECT id FROM zone WHERE name = '\(Self.zone.zoneName)')"
            let person = "(SELECT id FROM person WHERE name = '\(Self.alice.recordName)')"
            let numbers = "generate_series(1, \(Self.many)) AS n"
            for statement in [
                """
                INSERT INTO record SELECT r.zone, 'bulk' || n, n, r.type, false, 1, r.created_by, 1, 1, r.modified_by, 1,
                    'bulk' || n / 10, NULL, r.fields FROM record r, \(numbers) WHERE r.name = 'root'
                """,
                "INSERT INTO reference SELECT \(zone), 'bulk' || n / 10, 3, 'bulk' || n, '' FROM \(numbers)",
                "INSERT INTO reference SELECT \(zone), 'bulk' || n / 10, 1, 'bulk' || n, 'f' FROM \(numbers)",
                "INSERT INTO asset_use SELECT \(zone), decode(md5(n::text), 'hex'), 'bulk' || n, 1 FROM \(numbers)",
                "INSERT INTO person (home, name) SELECT home, 'bulk' || n FROM person, \(numbers) WHERE id = \(person)",
                """
                INSERT INTO zone (home, owner, name, identity, last_change)
                SELECT home, id, 'Z', id, 1 FROM person WHERE name LIKE 'bulk%'
                """,
                """
                INSERT INTO share (home, zone, name, root, guid, public_permission)
                SELECT home, zone, 'bulk' || n, 'bulk' || n, 'bulk' || n, 1 FROM share, \(numbers) WHERE name = 'share'
                """,
                "INSERT INTO share_entry SELECT id, root, zone, 1, 0 FROM share WHERE name LIKE 'bulk%'",
                """
                INSERT INTO participant SELECT s.id, 'p', 0, 1, 2, true, p.id, NULL, NULL, false, 1
                FROM share s JOIN person p ON p.name = s.name
                """,
                """
                INSERT INTO shared_zone SELECT z.owner, z.id, z.id, 1, false FROM zone z WHERE z.name = 'Z'
                """,
                """
                INSERT INTO field_value SELECT v.field, v.zone, v.value, 'bulk' || n
                FROM field_value v, \(numbers) WHERE v.name = 'root'
                """,
                "INSERT INTO done_write SELECT \(person), \(person), 'bulk' || n, 1, '', n FROM \(numbers)",
            ] {
                try observer.query(statement)
            }
            try observer.query("SELECT pg_stat_force_next_flush()")
        }

        /// Returns how many rows have been read of each table, through any of its indexes or whole.
        private func reads() throws -> [String: Int64] {
            // What each connection has counted so far.
            for purpose in PostgresConnection.Purpose.allCases {
                try database.pool.use(purpose) { connection throws(PostgresError) in
                    _ = try connection.query("SELECT pg_stat_force_next_flush()")
                }
            }
            let rows = try observer.query(
                """
                SELECT t.relname::text, t.seq_tup_read + coalesce((
                    SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid), 0)::bigint
                FROM pg_stat_user_tables t
                """
            )
            return Dictionary(rows.map { ($0.text(0), $0.int(1)) }) { $1 }
        }

        @Test("statements that were planned in an empty database read the rows that they need, not the zone")
        func reading() async throws {
            try await prepare()
            // More often than a connection makes new plans.
            for operation in operations { for number in 0..<6 { try await operation.run(number) } }
            try fill()
            for operation in operations {
                let before = try reads()
                try await operation.run(100)
                for (table, count) in try reads() {
                    let read = count - (before[table] ?? 0)
                    #expect(read < Self.mostAhead, "\(operation.name) reads \(read) rows of \(table)")
                }
            }
        }

        @Test(
            "an index is built by reading each record a few times, by statements that were planned in an empty database"
        )
        func building() async throws {
            try await prepare()
            let titles = Query(recordType: "Thing", filters: [.init(.own("title"), .equals, [.string("milk")])])
            _ = try await query(titles)
            try fill()
            let before = try reads()
            let counts = Query(recordType: "Thing", filters: [.init(.own("count"), .equals, [.int64(1)])])
            #expect(try await query(counts) == 5)
            for (table, count) in try reads() {
                #expect(count - (before[table] ?? 0) < Self.many * 4, "\(table)")
            }
        }
    }
#endif
