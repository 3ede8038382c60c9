#if Postgres
    import ChildProcesses
    import Foundation
    import PostgresStore
    import Records
    import RelayCore
    import StoreKit

    /// What it costs that owners are on several databases: the feed of a shared database, and a move.
    ///
    /// All databases are on one server, so that only the relay's part differs.
    enum ShardFigures {
        private static let visitor = UserID("_visitor")

        static func measure() async throws {
            let server = try PostgresServer(settings: ["max_wal_size=4GB"])
            for count in [1, 4] { try await feed(server, shards: count) }
            for records in [1_000, 100_000] { try await move(server, records: records) }
        }

        private static func open(_ server: PostgresServer, _ count: Int) throws -> (PostgresShards, any Store) {
            guard let container = ContainerID("iCloud.org.example.bench") else { preconditionFailure("a good name") }
            let home = ContainerEnvironment(container, .development)
            let database = PostgresDatabase(try PostgresAddress(server.makeDatabase()), cluster: "bench")
            let shards = PostgresShards(control: database)
            let options = StoreOptions(draw: { UInt64.random(in: 1 ... .max) })
            guard count > 1 else { return (shards, try PostgresStore(home, in: database, draw: options.draw)) }
            for _ in 1..<count { _ = try PostgresClusterShards(shards).add(server.makeDatabase(), room: nil) }
            return (shards, try shards.store(of: home, options))
        }

        private static func place(on number: Int, of shards: PostgresShards) throws {
            let admin = PostgresClusterShards(shards)
            for other in shards.all.map(\.number) {
                try admin.set(other, takesOwners: other == number, room: nil)
            }
            try shards.readLoads()
        }

        /// The feed of a user to whom 16 owners share a zone each.
        private static func feed(_ server: PostgresServer, shards count: Int) async throws {
            let (shards, store) = try open(server, count)
            for number in 0..<16 {
                if count > 1 { try place(on: number % count + 1, of: shards) }
                let owner = UserID("_owner\(number)")
                let id = ZoneID("Notes", owner: owner)
                try await store.write(touching: owner) { writer throws(RelayError) in
                    let zone = try writer.makeZone(id, by: "phone")
                    var record = StoredRecord(name: Share.zoneWideName, by: owner, writer.takeChangeNumber())
                    record.type = Share.recordType
                    record.shareReference = ShareReference(shortGUID: "link\(number)", record: record.name)
                    record.sharing = Share(
                        root: nil,
                        shortGUID: "link\(number)",
                        participants: [
                            Share.Participant(id: "1", permission: .readWrite, hasAccepted: true, user: visitor)
                        ]
                    )
                    try writer.put([record], replacing: [:], in: zone, by: "phone")
                }
            }
            let database = DatabaseAddress(scope: .shared, caller: Caller(.user(visitor), deviceID: ""))
            func page(_ token: String?) throws -> DatabaseChanges.Page {
                try store.read { reader throws(RelayError) in
                    try DatabaseChanges(database: database, token: token, limit: 100)
                        .read(from: reader, epochs: store.epochs(of:))
                }
            }
            let first = try page(nil)
            precondition(first.zones.count == 16)
            let token = first.token.encoded
            for _ in 0..<200 { _ = try page(token) }
            var times: [Duration] = []
            for _ in 0..<2_000 {
                let start = ContinuousClock.now
                _ = try page(token)
                times.append(ContinuousClock.now - start)
            }
            times.sort()
            print(
                "shared feed over \(count) databases, 16 owners: p50 \(milliseconds(times[1_000])), p99 \(milliseconds(times[1_980]))"
            )
        }

        private static func milliseconds(_ time: Duration) -> String {
            String(format: "%.2f ms", time / .milliseconds(1))
        }

        /// A move of one owner, to whom a client writes meanwhile.
        private static func move(_ server: PostgresServer, records count: Int) async throws {
            let (shards, store) = try open(server, 2)
            guard let container = ContainerID("iCloud.org.example.bench") else { return }
            try place(on: 1, of: shards)
            let owner = UserID("_owner")
            let id = ZoneID("Notes", owner: owner)
            _ = try await store.write(touching: owner) { writer throws(RelayError) in
                try writer.makeZone(id, by: "phone")
            }
            for start in stride(from: 0, to: count, by: 1_000) {
                try await save((start..<start + 1_000).map { "r\($0)" }, id, store)
            }
            let writer = Task {
                var (longest, latest, number) = (Duration.zero, ContinuousClock.now, 0)
                while !Task.isCancelled {
                    number += 1
                    do {
                        try await save(["new \(number)"], id, store)
                        longest = max(longest, ContinuousClock.now - latest)
                        latest = .now
                    } catch {
                        try? await Task.sleep(for: .milliseconds(5))
                    }
                }
                return (longest, number)
            }
            let start = ContinuousClock.now
            let summary = try PostgresClusterShards(shards).move(
                owner,
                in: ContainerEnvironment(container, .development),
                to: 2
            ) { _ in }
            let time = ContinuousClock.now - start
            writer.cancel()
            let (longest, writes) = await writer.value
            print(
                "move of \(count) records under \(writes) writes: \(milliseconds(time)), \(summary.rows) rows, refused for \(milliseconds(summary.refused)), longest pause of a client \(milliseconds(longest))"
            )
        }

        private static func save(_ names: [String], _ id: ZoneID, _ store: any Store) async throws {
            try await store.write(touching: id.owner, prefetch: Prefetch([id: names])) { writer throws(RelayError) in
                guard let zone = try writer.zone(id) else { throw .zoneNotFound }
                let before = try writer.records(named: names, in: zone)
                let records = names.map { StoredRecord(name: $0, by: id.owner, writer.takeChangeNumber()) }
                try writer.put(records, replacing: before, in: zone, by: "phone")
            }
        }
    }
#endif
