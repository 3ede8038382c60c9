#if Postgres
    import Foundation
    import PostgresStore
    import Records
    import RelayCore
    import SQLiteStore
    import StoreKit
    import TestSupport
    import Testing

    /// Moves of a container between a file and a database, and of an owner between databases.
    @Suite(needsPostgres, .serialized)
    final class MoveTests {
        private let folder = ScratchFolder()

        private func sqlite(_ name: String = "data") throws -> SQLiteStore {
            try SQLiteStore(.file(path: path(name)), draw: { UInt64.random(in: 1 ... .max) })
        }

        private func path(_ name: String) throws -> String {
            let parent = "\(folder.path)/\(name)/containers/\(ContainerEnvironment.forTests.container.name)"
            try FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
            return "\(parent)/development.sqlite"
        }

        private func postgres(_ address: PostgresAddress) throws -> PostgresStore {
            try PostgresStore(
                .forTests,
                in: PostgresDatabase(address, cluster: "test"),
                draw: { UInt64.random(in: 1 ... .max) }
            )
        }

        private func prepared() throws -> PostgresAddress {
            let address = try emptyDatabase()
            try PostgresLayout(cluster: "test").prepare(PostgresConnection(to: address))
            return address
        }

        private func importing(
            _ address: PostgresAddress,
            step: @escaping (MoveStep) throws -> Void = { _ in }
        ) throws -> StoreMove {
            StoreMove(
                MovedTable.ofHome,
                from: try SQLiteMoveSource(.forTests, in: "\(folder.path)/data"),
                to: try PostgresMoveSink(.forTests, on: PostgresConnection(to: address)),
                recordsAtOnce: 10,
                step: step
            )
        }

        private func exporting(_ address: PostgresAddress) throws -> StoreMove {
            let connection = try PostgresConnection(to: address)
            let home = try #require(try HomeRow.find(.forTests, connection))
            return StoreMove(
                MovedTable.ofHome,
                from: PostgresMoveSource(home, .home, on: connection),
                to: try SQLiteMoveSink(.forTests, in: "\(folder.path)/back")
            )
        }

        @Test("a container goes from a file to a database and back, and devices go on with their tokens")
        func thereAndBack() async throws {
            let old = MoveWorld(store: try sqlite())
            try await old.fill()
            let (first, known) = try old.news()
            let address = try prepared()
            let there = try importing(address)
            try there.copy()
            try await old.change()
            try there.catchUp(comparing: .all)
            try await old.put([MoveWorld.Draft("late")])
            try there.catchUp(comparing: .changes)
            try there.finish()
            try there.catchUp(comparing: .all)
            let changed = try old.news(since: known)
            #expect(!changed.lines.isEmpty && changed.lines.count < first.count)

            let new = MoveWorld(store: try postgres(address))
            #expect(try new.news(since: known).lines == changed.lines)
            #expect(try new.news().lines == old.news().lines)
            #expect(try new.rest() == old.rest())
            for key in ["key", "second", "none"] {
                #expect(try await new.outcome(key) == old.outcome(key))
            }
            // Tokens of the file, after writes to the database.
            let before = try old.news(since: changed.tokens).tokens
            try await new.put([MoveWorld.Draft("later")])
            #expect(try new.news(since: before).lines.filter { $0.contains("later") }.count == 2)

            let back = try exporting(address)
            try back.copy()
            try await new.put([MoveWorld.Draft("last"), .deleted("note 9")])
            try await new.put([.deleted("public 7")], in: MoveWorld.common)
            try back.catchUp(comparing: .all)
            try back.finish()
            try back.catchUp(comparing: .all)
            let again = MoveWorld(store: try sqlite("back"))
            #expect(try again.news(since: known).lines == new.news(since: known).lines)
            #expect(try again.news(since: before).lines == new.news(since: before).lines)
            #expect(try again.rest() == new.rest())
            #expect(try await again.outcome("key") == old.outcome("key"))
            let latest = try new.news().tokens
            try await again.put([MoveWorld.Draft("end")])
            #expect(try again.news(since: latest).lines.filter { $0.contains("end") }.count == 2)
        }

        @Test("owners of several databases come into one folder, and devices go on with their tokens")
        func severalDatabases() async throws {
            let cluster = try ShardedCluster(3)
            for (user, shard) in [(MoveWorld.alice, 2), (MoveWorld.bob, 3), (MoveWorld.carol, 1)] {
                try await cluster.makeZone("Start", of: user, on: shard)
            }
            let old = MoveWorld(store: cluster.first)
            try await old.fill()
            // Their numbers are those of their former shard.
            _ = try cluster.move(MoveWorld.bob, to: 2)
            try await cluster.first.save(["dear diary"], in: MoveWorld.diary, key: "own")
            let (first, known) = try old.news()
            let database = try PostgresMove(
                PostgresCluster(PostgresAddress(cluster.urls[0]), folder: nil, creates: false),
                hasRelays: true,
                draw: { UInt64.random(in: 1 ... .max) }
            )
            try database.openShards()
            #expect(throws: MoveFailure.self) { try cluster.move(MoveWorld.carol, to: 3) }
            let move = StoreMove(
                MovedTable.ofHome,
                from: try database.source(of: .forTests),
                to: try SQLiteMoveSink(.forTests, in: "\(folder.path)/back")
            )
            try move.copy()
            try await old.change()
            try move.catchUp(comparing: .all)
            try await old.put([MoveWorld.Draft("last"), .deleted("note 9")])
            try await old.put([.deleted("public 7")], in: MoveWorld.common)
            try await old.put([MoveWorld.Draft("dear")], in: MoveWorld.diary, by: MoveWorld.bob)
            try database.refuseWrites()
            try move.catchUp(comparing: .changes)
            try move.finish()
            try move.catchUp(comparing: .all)
            let new = MoveWorld(store: try sqlite("back"))
            let changed = try old.news(since: known)
            #expect(!changed.lines.isEmpty && changed.lines.count < first.count)
            #expect(try new.news(since: known).lines.sorted() == changed.lines.sorted())
            #expect(try new.news().lines.sorted() == old.news().lines.sorted())
            #expect(try new.rest() == old.rest())
            let latest = try old.news().tokens
            let outcome = try await new.store.write(touching: MoveWorld.bob) { writer throws(RelayError) in
                try writer.idempotencyRecord("own", by: MoveWorld.bob)
            }
            #expect(outcome?.fingerprint == 7)
            try await new.put([MoveWorld.Draft("end")])
            #expect(try new.news(since: latest).lines.filter { $0.contains("end") }.count == 2)
        }

        @Test("an import that ends at any step, and begins again, comes to the same") func interruption() async throws {
            struct Interruption: Error {}
            let old = MoveWorld(store: try sqlite())
            try await old.fill()
            let known = try old.news().tokens
            let address = try prepared()
            var number = 0
            while true {
                var left = number
                do {
                    let move = try importing(address) { _ in
                        if left == 0 { throw Interruption() }
                        left -= 1
                    }
                    try move.copy()
                    try move.catchUp(comparing: .all)
                    try move.catchUp(comparing: .changes)
                    try move.finish()
                    break
                } catch is Interruption {
                    number += 1
                    try await old.put([MoveWorld.Draft("note \(number)"), .deleted("note \(number + 10)")])
                    try await old.put([.deleted("public \(number)")], in: MoveWorld.common)
                }
            }
            #expect(number >= 7)
            let new = MoveWorld(store: try postgres(address))
            #expect(try new.news(since: known).lines == old.news(since: known).lines)
            #expect(try new.rest() == old.rest())
        }

        @Test(
            "a difference between source and copy is found",
            arguments: [
                ("record", "UPDATE record SET fields = fields || '\\x20' WHERE name = 'note 8'"),
                ("reference", "UPDATE reference SET target = 'x' WHERE kind = 1"),
                ("assetUse", "UPDATE asset_use SET size = size + 1"),
                ("shareEntry", "UPDATE share_entry SET change = change + 1 WHERE name = 'child'"),
                ("participant", "UPDATE participant SET permission = 0 WHERE place = 0"),
                ("zone", "UPDATE zone SET record_bytes = record_bytes + 1 WHERE name = 'Diary'"),
            ]
        )
        func differences(table: String, damage: String) async throws {
            let old = MoveWorld(store: try sqlite())
            try await old.fill()
            let address = try prepared()
            let move = try importing(address)
            try move.copy()
            try move.catchUp(comparing: .all)
            try PostgresConnection(to: address).query(damage)
            let failure = #expect(throws: MoveFailure.self) { try move.catchUp(comparing: .all) }
            #expect(failure?.code == .different && failure?.description.contains(table) == true)
        }

        @Test("a device that comes after the import gets what was written since") func laterChanges() async throws {
            #expect(try await MoveTests.servesLaterChanges())
        }

        #if DEBUG
            @Test("a move that does not continue the numbers hides later changes from devices") func plantedFault()
                async
            {
                await #expect(processExitsWith: .success) {
                    PostgresFault.plant(.moveWithoutNumbers)
                    exit(try await MoveTests.servesLaterChanges() ? EXIT_FAILURE : EXIT_SUCCESS)
                }
            }
        #endif

        private static func servesLaterChanges() async throws -> Bool {
            let test = MoveTests()
            let old = MoveWorld(store: try test.sqlite())
            try await old.fill()
            let known = try old.news().tokens
            let address = try test.prepared()
            let move = try test.importing(address)
            try move.copy()
            try move.catchUp(comparing: .all)
            try move.finish()
            let new = MoveWorld(store: try test.postgres(address))
            try await new.put([MoveWorld.Draft("later")])
            let lines = (try? new.news(since: known).lines) ?? []
            return lines.contains { $0.contains("later") }
        }
    }
#endif
