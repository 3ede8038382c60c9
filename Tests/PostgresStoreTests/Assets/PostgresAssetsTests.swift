#if Postgres
    import Foundation
    import PostgresStore
    import Records
    import RelayCore
    import RelaySystem
    import StoreKit
    import Synchronization
    import TestSupport
    import Testing
    import Wire

    /// Assets in the database, and the caches of two relays.
    @Suite(needsPostgres)
    final class PostgresAssetsTests {
        private let folder = ScratchFolder()
        private let database: PostgresDatabase
        private let home: HomeRow
        private let draws = Draws()

        private final class Draws: Sendable {
            private let last = Atomic<UInt64>(0)
            var next: UInt64 { last.add(1, ordering: .relaxed).newValue }
        }

        init() throws {
            database = PostgresDatabase(try emptyDatabase(), cluster: "test")
            let draws = draws
            home = try database.pool.use(.brief) { connection throws(PostgresError) in
                try HomeRow.ensure(.forTests, draw: { draws.next }, connection)
            }
        }

        private func cache(_ relay: String, limit: Int64 = 1 << 30) -> AssetCache {
            AssetCache(folder: "\(folder.path)/\(relay)", limit: limit) { [draws] in draws.next }
        }

        private func assets(_ relay: String = "a", _ cache: AssetCache? = nil) -> PostgresAssets {
            PostgresAssets(database.pool, home: home.number, cache: cache ?? self.cache(relay)) { [draws] in draws.next
            }
        }

        /// Bytes that no other seed has.
        private func content(_ count: Int, _ seed: UInt8 = 1) -> [UInt8] {
            (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) &+ seed }
        }

        @discardableResult
        private func store(_ content: [UInt8], in assets: PostgresAssets) throws -> AssetHash {
            let upload = try assets.begin()
            for start in stride(from: 0, to: content.count, by: 700_001) {
                try upload.take(Array(content[start..<min(start + 700_001, content.count)]))
                upload.rest()
            }
            return try upload.finish().hash
        }

        private func count(_ table: String) throws -> Int64 {
            try database.pool.use(.brief) { connection throws(PostgresError) in
                try connection.query("SELECT count(*) FROM \(table)").first?.int(0) ?? 0
            }
        }

        private func bytes(_ hash: AssetHash, in assets: PostgresAssets) throws -> [UInt8]? {
            try assets.file(of: hash).flatMap { FileManager.default.contents(atPath: $0.path) }.map { Array($0) }
        }

        /// An interrupted upload is noted in the background.
        private func waitForKeptUpload(in assets: PostgresAssets) throws {
            while try assets.receivedSize(of: "key") == 0 {}
        }

        private let later = Timestamp(milliseconds: 4_102_444_800_000)
        private let earlier = Timestamp(milliseconds: 0)

        @Test("what one relay stores, another one serves") func download() async throws {
            let content = content(2_500_000)
            let hash = try store(content, in: assets("a"))
            let other = assets("b")
            #expect(try other.size(of: hash) == 2_500_000)
            #expect(try bytes(hash, in: other) == content)
            #expect(try count("asset_chunk") == 3)
            let file = try #require(try other.file(of: hash))
            #expect(try await other.isSound(file, of: hash))
        }

        @Test("a large asset arrives while it is read, and is a file afterwards") func largeDownload() throws {
            let content = content(5_500_000)
            let hash = try store(content, in: assets("a"))
            // One cache, as a relay has.
            let other = assets("b", cache("b"))
            guard case .arriving(let asset) = try other.content(of: hash) else {
                Issue.record("it is not fetched")
                return
            }
            var read: [UInt8] = []
            while read.count < content.count {
                let bytes = try asset.bytes(at: Int64(read.count), most: 300_000)
                read += bytes
                guard bytes.isEmpty else { continue }
                let hasMore = DispatchSemaphore(value: 0)
                asset.whenArrived(at: Int64(read.count)) { hasMore.signal() }
                hasMore.wait()
            }
            #expect(read == content)
            guard case .file(let file) = try other.content(of: hash) else {
                Issue.record("it is fetched again")
                return
            }
            #expect(file.size == 5_500_000)
            // A small one is a file at once.
            let small = try store(Array(content.prefix(1_000)), in: assets("a"))
            guard case .file = try other.content(of: small) else {
                Issue.record("a small asset is not a file")
                return
            }
        }

        @Test("equal content is stored once") func twice() throws {
            for content in [content(3_000_000), content(10), []] {
                let first = try store(content, in: assets("a"))
                let chunks = try count("asset_chunk")
                #expect(try store(content, in: assets("b")) == first)
                #expect(try count("asset_chunk") == chunks)
                #expect(try bytes(first, in: assets("c")) == content)
            }
            #expect(try count("asset_upload") == 0)
        }

        @Test("the cache may be deleted at any time") func deletedCache() async throws {
            let assets = assets()
            let hash = try store(content(1_000), in: assets)
            for _ in 0..<2 {
                #expect(try bytes(hash, in: assets) == content(1_000))
                try FileManager.default.removeItem(atPath: folder.path)
            }
        }

        @Test("a file of the cache that has changed is fetched again") func damagedCache() async throws {
            let assets = assets()
            let hash = try store(content(1_000), in: assets)
            let file = try #require(try assets.file(of: hash))
            try Data(content(1_000, 7)).write(to: URL(fileURLWithPath: file.path))
            #expect(try await assets.isSound(file, of: hash))
            #expect(try bytes(hash, in: assets) == content(1_000))
        }

        @Test("content that is damaged in the database is not served") func damagedDatabase() async throws {
            let hash = try store(content(1_000), in: assets("a"))
            try database.pool.use(.writing) { connection throws(PostgresError) in
                _ = try connection.query("UPDATE asset_chunk SET bytes = $1", .bytes(content(1_000, 7)))
            }
            #expect(try assets("b").file(of: hash) == nil)
        }

        @Test("the cache removes what was used longest ago") func limit() throws {
            let cache = cache("a", limit: 5_000)
            let assets = assets("a", cache)
            let hashes = try (1...9).map { try store(content(1_000, $0), in: assets) }
            for (age, hash) in hashes.enumerated() {
                let file = try #require(try assets.file(of: hash))
                let date = Date(timeIntervalSince1970: 1_000_000 + Double(age))
                try? FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: file.path)
            }
            cache.trim()
            let files = FileManager.default.enumerator(atPath: folder.path + "/a")?.compactMap { $0 as? String } ?? []
            let kept = Set(files.filter { $0.count > 40 }.map { String($0.suffix(40)) })
            #expect(kept.count <= 5 && kept.isSubset(of: hashes.suffix(5).map(\.hex)))
            #expect(try bytes(hashes[0], in: assets) == content(1_000, 1))
        }

        @Test("an upload that one relay has begun is finished by another, once") func resumed() throws {
            let content = content(2_300_000)
            let first = try assets("a").begin()
            try first.take(Array(content[..<1_500_000]))
            first.rest(keepingAs: "key")
            let other = assets("b")
            try waitForKeptUpload(in: other)
            #expect(try other.receivedSize(of: "key") == 1_500_000 && other.receivedSize(of: "none") == 0)
            #expect(try other.resume("key", at: 7) == nil)
            let second = try #require(try other.resume("key", at: 1_500_000))
            #expect(try other.resume("key", at: 1_500_000) == nil, "it is taken")
            // Two pieces, so that one has to be written.
            #expect(throws: RelayError.self) {
                try first.take(self.content(1 << 20))
                try first.take(self.content(1 << 20))
            }
            #expect(throws: RelayError.self) { _ = try first.finish() }
            try second.take(Array(content[1_500_000...]))
            let (hash, size) = try second.finish()
            #expect(size == 2_300_000)
            #expect(try bytes(hash, in: assets("c")) == content)
            #expect(try count("asset_upload") == 0 && count("asset") == 1)
        }

        @Test("an upload that nobody finishes is removed when it is old") func abandoned() throws {
            let upload = try assets("a").begin()
            try upload.take(content(1_500_000))
            upload.rest(keepingAs: "key")
            try waitForKeptUpload(in: assets("a"))
            #expect(try count("asset_upload") == 1 && count("asset_chunk") == 2)
            #expect(try assets("b").removeUnused(before: earlier) == 0)
            #expect(try count("asset_upload") == 1)
            #expect(try assets("b").removeUnused(before: later) == 0)
            #expect(try count("asset_upload") == 0 && count("asset_chunk") == 0)
            #expect(throws: RelayError.self) { _ = try upload.finish() }
        }

        @Test("a receipt's renewal keeps an unused asset") func renewal() throws {
            let hash = try store(content(10), in: assets())
            try database.pool.use(.writing) { connection throws(PostgresError) in
                _ = try connection.query("UPDATE asset SET touched_at = to_timestamp(1)")
            }
            let limit = Timestamp(milliseconds: 1_000_000)
            assets().renew(hash)
            #expect(try assets().removeUnused(before: limit) == 0 && assets().size(of: hash) == 10)
        }

        /// The order of the locks decides who comes first; both outcomes are right, and a used asset that is gone is not.
        @Test("an asset that a write begins to use is not removed") func useDuringRemoval() throws {
            let (used, unused) = (try store(content(10, 1), in: assets()), try store(content(10, 2), in: assets()))
            let zone: Int64 = home.publicZone
            let connection = try database.pool.take(.writing)
            defer { database.pool.put(back: connection, .writing) }
            _ = try connection.begin(PostgresPipeline())
            let transaction = PostgresTransaction(on: connection, of: home)
            let rows = PostgresSharingRows(transaction)
            let unknown = try #require(AssetHash(Array(repeating: 9, count: AssetHash.byteCount)))
            #expect(try rows.lockStored(among: [used, unknown]) == [used])
            #expect(try assets().removeUnused(before: later) == 1, "one is locked")
            try rows.insert([.init(hash: used, name: "record", size: 10)], in: zone)
            _ = try transaction.query("SELECT 1")
            try connection.commit()
            #expect(try assets().removeUnused(before: later) == 0)
            #expect(try assets().size(of: used) == 10 && assets().size(of: unused) == nil)
        }

        @Test("an asset saved while unused ones are removed is there, or the save knows that it is not")
        func race() async throws {
            let (draws, later, alice) = (draws, later, UserID("_00000000000000000000000000000001"))
            let store = try PostgresStore(.forTests, in: database, draw: { draws.next })
            try await store.write(touching: alice) { writer throws(RelayError) in
                try writer.define(["Photo": RecordType(fields: ["file": .init(.scalar(.asset))])])
                _ = try writer.makeZone(ZoneID("Z", owner: alice), by: "")
            }
            let (assets, other, executor) = (assets("a"), assets("b"), BlockingExecutor(name: "test", threads: 1))
            let isOver = Flag()
            async let removals = withTaskExecutorPreference(executor) {
                var count = 0
                while !isOver.isSet { count += try other.removeUnused(before: later) }
                return count
            }
            var kept: [AssetHash] = []
            for number in UInt8(0)..<80 {
                let hash = try self.store(content(100, number), in: assets)
                let isSaved = try await store.write(touching: alice) { writer throws(RelayError) in
                    guard let zone = try writer.zone(ZoneID("Z", owner: alice)) else { throw .zoneNotFound }
                    guard writer.storedAssets(among: [hash]) == [hash] else { return false }
                    let stamp = StoredRecord.Stamp(at: later, by: alice, device: DeviceFingerprint(bits: 1))
                    let value = FieldValue.asset(Asset(fileChecksum: hash.checksum, size: 100))
                    let record = StoredRecord(
                        name: "photo \(number)",
                        type: "Photo",
                        change: writer.takeChangeNumber(),
                        created: stamp,
                        modified: stamp,
                        fields: FieldsJSON.encode([.init(name: "file", value: value)])
                    )
                    try writer.put([record], replacing: [:], in: zone, by: "")
                    return true
                }
                if isSaved { kept.append(hash) }
            }
            isOver.set()
            let removed = try await removals
            for hash in kept { #expect(try bytes(hash, in: other)?.count == 100) }
            #expect(try count("asset") == kept.count)
            #expect(kept.count + removed >= 80)
        }

        // MARK: Uploads that no record uses yet

        private let alice = UserID("_alice")
        private let start = Timestamp(milliseconds: 1_800_000_000_000)

        /// Reserves and keeps an upload of one hour.
        private func keep(_ hash: AssetHash, _ size: Int64, _ uploads: any SharedUploads) throws {
            let end = start + .seconds(3_600)
            let number = try #require(try uploads.reserve(size, of: nil, for: alice, until: end, at: start))
            try uploads.keep(number, as: hash, of: alice, until: end, at: start)
        }

        @Test("several relays count the uploads of an owner together") func sharedUploads() throws {
            let relays = try ["a", "b"].map { try #require(assets($0).uploads) }
            let (one, two) = (try #require(AssetHash(content(20, 1))), try #require(AssetHash(content(20, 2))))
            try keep(one, 600, relays[0])
            #expect(try relays[1].bytes(of: alice, at: start) == 600)
            #expect(try relays[1].holds(one, of: alice, at: start))
            #expect(try !relays[1].holds(two, of: alice, at: start))
            #expect(try relays[1].bytes(of: UserID("_bob"), at: start) == 0)
            // The same content again counts once.
            try keep(one, 600, relays[1])
            #expect(try relays[0].bytes(of: alice, at: start) == 600)
            let end = start + .seconds(900)
            #expect(try relays[1].reserve(401, of: 1_000, for: alice, until: end, at: start) == nil)
            let number = try #require(try relays[1].reserve(400, of: 1_000, for: alice, until: end, at: start))
            #expect(try relays[0].reserve(1, of: 1_000, for: alice, until: end, at: start) == nil)
            relays[1].release(number)
            while try relays[0].bytes(of: alice, at: start) != 600 {}
            try relays[1].remove([one, two], of: alice)
            #expect(try relays[0].bytes(of: alice, at: start) == 0)
            #expect(try !relays[0].holds(one, of: alice, at: start))
        }

        @Test("an upload counts until its receipt expires, also one of a clock that was ahead") func expiry() throws {
            let uploads = try #require(assets().uploads)
            let hash = try #require(AssetHash(content(20)))
            try keep(hash, 600, uploads)
            #expect(try uploads.bytes(of: alice, at: start + .seconds(3_599)) == 600)
            #expect(try uploads.bytes(of: alice, at: start + .seconds(3_600)) == 0)
            #expect(try !uploads.holds(hash, of: alice, at: start + .seconds(3_600)))
            let earlier = start + .seconds(-365 * 86_400)
            #expect(try uploads.bytes(of: alice, at: earlier) == 600)
            #expect(try uploads.bytes(of: alice, at: earlier + .seconds(3_600)) == 0)
            #expect(try count("asset_pending") == 1)
            _ = try assets().removeUnused(before: start)
            #expect(try count("asset_pending") == 0)
        }

        @Test("relays that reserve at once do not exceed the room") func concurrentReservations() async throws {
            let relays = try ["a", "b"].map { try #require(assets($0).uploads) }
            let (alice, start) = (alice, start)
            let taken = try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<16 {
                    group.addTask {
                        let end = start + .seconds(900)
                        return try relays[number % 2].reserve(300, of: 1_000, for: alice, until: end, at: start) != nil
                    }
                }
                return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
            }
            #expect(taken == 3)
        }

        private final class Flag: Sendable {
            private let value = Atomic(false)
            var isSet: Bool { value.load(ordering: .relaxed) }
            func set() { value.store(true, ordering: .relaxed) }
        }
    }
#endif
