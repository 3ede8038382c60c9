#if Postgres
    import Foundation
    import Records
    import RelayCore
    import StoreKit
    import Synchronization
    import TestSupport
    import Testing

    @testable import PostgresStore

    /// Assets whose contents are objects of other storage.
    @Suite(needsPostgres)
    final class StoredObjectsTests {
        /// Storage in memory.
        private final class Objects: AssetObjects {
            let contents = Mutex<[String: Data]>([:])
            let isDown = Atomic(false)
            /// Called before an object is stored.
            let onPut = Mutex<(@Sendable () -> Void)?>(nil)

            var place: String { "memory" }

            private func check() throws(RelayError) {
                guard !isDown.load(ordering: .relaxed) else {
                    throw RelayError(.tryAgainLater, "down", retryAfter: .seconds(1))
                }
            }

            func put(file path: String, size: Int64, as name: String) throws(RelayError) {
                onPut.withLock { $0.take() }?()
                try check()
                contents.withLock { $0[name] = FileManager.default.contents(atPath: path) }
            }

            func get(_ name: String, to path: String) throws(RelayError) -> Bool {
                try check()
                guard let data = contents.withLock({ $0[name] }) else { return false }
                return FileManager.default.createFile(atPath: path, contents: data)
            }

            func delete(_ name: String) throws(RelayError) {
                try check()
                contents.withLock { $0[name] = nil }
            }

            func probe() -> String? { isDown.load(ordering: .relaxed) ? "down" : nil }
        }

        private let folder = ScratchFolder()
        private let database: PostgresDatabase
        private let home: HomeRow
        private let objects = Objects()

        init() throws {
            database = PostgresDatabase(try emptyDatabase(), cluster: "test")
            home = try database.pool.use(.brief) { connection throws(PostgresError) in
                try HomeRow.ensure(.forTests, draw: { UInt64.random(in: 1 ... .max) }, connection)
            }
        }

        private func assets(_ relay: String) -> PostgresAssets {
            let draw = { @Sendable in UInt64.random(in: 1 ... .max) }
            let cache = AssetCache(folder: "\(folder.path)/\(relay)", draw: draw)
            return PostgresAssets(database.pool, home: home.number, cache: cache, objects: objects, draw: draw)
        }

        @discardableResult
        private func store(_ text: String, in assets: PostgresAssets) throws -> AssetHash {
            try Self.store(text, in: assets)
        }

        private static func store(_ text: String, in assets: PostgresAssets) throws -> AssetHash {
            try store(Array(text.utf8), in: assets)
        }

        private static func store(_ content: [UInt8], in assets: PostgresAssets) throws -> AssetHash {
            let upload = try assets.begin()
            try upload.take(content)
            return try upload.finish().hash
        }

        private func garbage() throws -> Int64 {
            try database.pool.use(.brief) { connection throws(PostgresError) in
                try connection.query("SELECT count(*) FROM asset_garbage").first?.int(0) ?? 0
            }
        }

        private let later = Timestamp(milliseconds: 9_000_000_000_000)

        @Test("an asset that one relay stores is served by another, and equal content is stored once") func shared()
            throws
        {
            let (first, second) = (assets("a"), assets("b"))
            let hash = try store("a picture", in: first)
            #expect(try store("a picture", in: second) == hash)
            #expect(objects.contents.withLock { $0.count } == 1)
            let file = try #require(try second.file(of: hash))
            #expect(FileManager.default.contents(atPath: file.path) == Data("a picture".utf8))
            let third = try #require(try assets("c").file(of: hash))
            #expect(FileManager.default.contents(atPath: third.path) == Data("a picture".utf8))
            #expect(try garbage() == 0)
            let pieces = try database.pool.use(.brief) { connection throws(PostgresError) in
                try connection.query("SELECT count(*) FROM asset_chunk").first?.int(0)
            }
            #expect(pieces == 0)
        }

        private func count(_ table: String) throws -> Int64? {
            try database.pool.use(.brief) { connection throws(PostgresError) in
                try connection.query("SELECT count(*) FROM \(table)").first?.int(0)
            }
        }

        @Test("an upload that is interrupted at one relay continues at another, and leaves no rows") func interrupted()
            async throws
        {
            let (first, second) = (assets("a"), assets("b"))
            let content = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
            let expected = try Self.store(content, in: assets("c"))
            try database.pool.use(.writing) { connection throws(PostgresError) in
                _ = try connection.query("DELETE FROM asset")
            }
            var begun: (any AssetUpload)? = try first.begin()
            try begun?.take(Array(content[..<2_500_000]))
            begun?.rest(keepingAs: "key")
            while try first.receivedSize(of: "key") != 2_500_000 { await Task.yield() }
            #expect(try second.resume("other", at: 2_500_000) == nil)
            #expect(try second.resume("key", at: 7) == nil)
            var resumed = try second.resume("key", at: 2_500_000)
            try resumed?.take(Array(content[2_500_000..<2_700_000]))
            // Back to the first relay, which takes what the second one has.
            resumed?.rest(keepingAs: "key")
            while try first.receivedSize(of: "key") != 2_700_000 { await Task.yield() }
            begun = try first.resume("key", at: 2_700_000)
            resumed = nil
            try begun?.take(Array(content[2_700_000...]))
            let end = try #require(try begun?.finish())
            #expect(end.hash == expected && end.size == 3_000_000)
            begun = nil
            let file = try #require(try second.file(of: expected))
            #expect(FileManager.default.contents(atPath: file.path) == Data(content))
            while try count("asset_upload") != 0 || count("asset_chunk") != 0 { await Task.yield() }
        }

        @Test("content that is uploaded while it is removed as unused stays") func race() throws {
            let (first, second) = (assets("a"), assets("b"))
            let hash = try store("a picture", in: first)
            // The sweep of another relay runs between the look for the asset and the storing of the new object.
            try database.pool.use(.writing) { connection throws(PostgresError) in
                _ = try connection.query("DELETE FROM asset")
                _ = try connection.query("INSERT INTO asset_garbage (content) VALUES (1) ON CONFLICT DO NOTHING")
            }
            objects.onPut.withLock {
                $0 = { [later, objects, database] in
                    _ = try? first.removeUnused(before: later)
                    _ = try? StoredObjects(objects, database.pool).removeGarbage(olderThan: .seconds(3_600))
                }
            }
            #expect(try store("a picture", in: second) == hash)
            try StoredObjects(objects, database.pool).removeGarbage(olderThan: .zero)
            let file = try #require(try assets("c").file(of: hash))
            #expect(FileManager.default.contents(atPath: file.path) == Data("a picture".utf8))
            #expect(try garbage() == 0)
            #expect(objects.contents.withLock { $0.count } == 1)
        }

        @Test("two uploads of the same content at once leave one object") func twins() throws {
            let (first, second) = (assets("a"), assets("b"))
            objects.onPut.withLock { $0 = { _ = try? Self.store("twin", in: second) } }
            let hash = try store("twin", in: first)
            #expect(objects.contents.withLock { $0.count } == 1)
            #expect(try assets("c").file(of: hash) != nil)
            #expect(try garbage() == 0)
        }

        @Test("an unused asset goes at once, and its object after the time of grace") func removal() throws {
            let relay = assets("a")
            try store("unused", in: relay)
            #expect(try relay.removeUnused(before: later) == 1)
            #expect(objects.contents.withLock { $0.count } == 1, "another relay may be reading it")
            let stored = StoredObjects(objects, database.pool)
            #expect(try stored.removeGarbage() == 0)
            #expect(try stored.removeGarbage(olderThan: .zero) == 1)
            #expect(objects.contents.withLock { $0.isEmpty })
            #expect(try garbage() == 0)
        }

        @Test("an upload that took longer than the grace fails, and loses nothing else") func lateUpload() throws {
            let relay = assets("a")
            objects.onPut.withLock {
                $0 = { [objects, database] in
                    _ = try? StoredObjects(objects, database.pool).removeGarbage(olderThan: .zero)
                }
            }
            #expect(throws: RelayError.self) { try store("late", in: relay) }
            let hash = try store("late", in: relay)
            #expect(try assets("b").file(of: hash) != nil)
        }

        @Test("while the storage is down, uploads and downloads are refused for a while, and nothing is lost")
        func down() throws {
            let relay = assets("a")
            let hash = try store("kept", in: relay)
            objects.isDown.store(true, ordering: .relaxed)
            #expect(throws: RelayError.self) { try store("new", in: relay) }
            #expect(throws: RelayError.self) { try assets("b").file(of: hash) }
            #expect(try relay.file(of: hash) != nil, "the cache still has it")
            #expect(try relay.size(of: hash) == 4)
            objects.isDown.store(false, ordering: .relaxed)
            #expect(try assets("b").file(of: hash) != nil)
            #expect(try garbage() == 1, "of the upload that failed")
            #expect(try StoredObjects(objects, database.pool).removeGarbage(olderThan: .zero) == 1)
        }

        @Test("an object whose content is not the asset's is not served") func damage() throws {
            let hash = try store("right", in: assets("a"))
            objects.contents.withLock { contents in for name in contents.keys { contents[name] = Data("wrong".utf8) } }
            #expect(try assets("b").file(of: hash) == nil)
        }

        @Test("a relay that was not told of the storage says so") func untold() throws {
            let hash = try store("there", in: assets("a"))
            let draw = { @Sendable in UInt64.random(in: 1 ... .max) }
            let other = PostgresAssets(
                database.pool,
                home: home.number,
                cache: AssetCache(folder: "\(folder.path)/d", draw: draw),
                draw: draw
            )
            let failure = #expect(throws: RelayError.self) { try other.file(of: hash) }
            #expect(failure?.reason.contains("asset-storage") == true)
        }
    }
#endif
