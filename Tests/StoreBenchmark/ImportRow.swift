#if Postgres
    import Foundation
    import PostgresStore
    import Records
    import RelayCore
    import SQLiteStore
    import StoreKit

    /// Measures the import of a folder into a database, and what the database then takes on its disk.
    struct ImportRow {
        let address: PostgresAddress
        let records: Int
        let owners: Int

        private static let recordsAtOnce = 2_000

        func run() async throws {
            let folder = NSTemporaryDirectory() + "zonecast-import-\(UUID().uuidString)"
            defer { try? FileManager.default.removeItem(atPath: folder) }
            guard let container = ContainerID("iCloud.org.example.import") else { preconditionFailure("a good name") }
            let home = ContainerEnvironment(container, .development)
            let filled = try await time { try await fill(folder, home) }
            print("\(records) records of \(owners) owners written to SQLite in \(Self.text(filled)) s")
            let connection = try PostgresConnection(to: address)
            try PostgresLayout(cluster: "bench").prepare(connection)
            let move = StoreMove(
                MovedTable.ofHome,
                from: try SQLiteMoveSource(home, in: folder),
                to: try PostgresMoveSink(home, on: connection)
            )
            let copied = try await time { try move.copy() }
            print("copied in \(Self.text(copied)) s: \(Int(Double(records) / copied)) records/s")
            let related = try await time { try move.catchUp() }
            print("references, uses of assets and small tables: \(Self.text(related)) s")
            let compared = try await time { try move.catchUp(comparing: .all) }
            print("every table compared in \(Self.text(compared)) s")
            let store = StoreFolder(folder: folder, draw: { UInt64.random(in: 1 ... .max) })
            try await write(1_000, to: store.store(of: home), turn: 1_000_000)
            store.close(patience: .seconds(1))
            let refused = try await time {
                try move.catchUp(comparing: .changes)
                try move.finish()
            }
            print("with writes refused, after 1,000 more records: \(Self.text(refused)) s")
            try connection.query("ANALYZE")
            let sizes = try connection.query(
                """
                SELECT relname::text, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r'
                AND relnamespace = 'public'::regnamespace AND pg_total_relation_size(oid) > 100000 ORDER BY 2 DESC
                """
            )
            for row in sizes {
                let (bytes, name) = (row.int(1), row.text(0))
                print("\(name): \(bytes) bytes, \(bytes / Int64(records)) a record, \(bytes / Int64(owners)) an owner")
            }
        }

        private static func text(_ seconds: Double) -> String { String(format: "%.2f", seconds) }

        private func time(_ body: () async throws -> Void) async throws -> Double {
            let start = ContinuousClock.now
            try await body()
            return (ContinuousClock.now - start) / .seconds(1)
        }

        private func fill(_ folder: String, _ home: ContainerEnvironment) async throws {
            let stores = StoreFolder(folder: folder, draw: { UInt64.random(in: 1 ... .max) })
            let store = try stores.store(of: home)
            for owner in 0..<owners {
                let user = UserID("_owner\(owner)")
                _ = try await store.write(touching: user) { writer throws(RelayError) in
                    try writer.makeZone(ZoneID("Notes", owner: user), by: "phone")
                }
            }
            var written = 0
            while written < records {
                try await write(min(Self.recordsAtOnce, records - written), to: store, turn: written)
                written += Self.recordsAtOnce
            }
            stores.close(patience: .seconds(10))
        }

        private func write(_ count: Int, to store: any Store, turn: Int) async throws {
            let owner = UserID("_owner\(turn / Self.recordsAtOnce % owners)")
            _ = try await store.write(touching: owner) { writer throws(RelayError) in
                guard let zone = try writer.zone(ZoneID("Notes", owner: owner)) else { throw .zoneNotFound }
                let new = (0..<count).map {
                    StoredRecord(name: UUID().uuidString + "\($0)", by: owner, writer.takeChangeNumber())
                }
                try writer.put(new, replacing: [:], in: zone, by: "phone")
            }
        }
    }
#endif
