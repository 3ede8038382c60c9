import Foundation
import Records
import RelayCore
import RelaySystem
import StoreTesting
import Synchronization
import Testing
import Wire

/// The stores of all containers, as a relay serves them.
@Suite struct CatalogTests {
    private let place = TestStore.current.makeHome(.lasting)
    private let other = ContainerEnvironment.named("iCloud.org.example.other")
    private let production = ContainerEnvironment.named("iCloud.org.example.notes", .production)

    @Test("a store is there from its first use on") func firstUse() async throws {
        let stores = place.stores()
        defer { stores.close() }
        #expect(!stores.isThere(.test))
        #expect(try stores.existingStore(of: .test) == nil)
        #expect(try stores.survey(.test) { survey throws(RelayError) in try survey.totals() } == nil)
        #expect(!stores.isThere(.test), "asking creates none")
        try await stores.store(of: .test).makeZone()
        #expect(stores.isThere(.test) && !stores.isThere(other))
        #expect(try stores.existingStore(of: .test)?.zone() != nil)
    }

    @Test("containers and environments have stores of their own") func apart() async throws {
        let stores = place.stores()
        defer { stores.close() }
        for (number, home) in [.test, other, production].enumerated() {
            let store = try stores.store(of: home)
            try await store.makeZone()
            try await store.save(["n\(number)"])
        }
        for (number, home) in [.test, other, production].enumerated() {
            #expect(try stores.store(of: home).feed() == ["n\(number)"])
        }
    }

    @Test("commits are reported with the container and environment") func reports() async throws {
        let heard = Mutex<[ContainerEnvironment: Int]>([:])
        let stores = place.stores(
            TestStoreOptions(committed: { home, commit in
                heard.withLock { $0[home, default: 0] += commit.zones.count }
            })
        )
        defer { stores.close() }
        for home in [.test, other] { try await stores.store(of: home).makeZone() }
        try await stores.store(of: other).save(["a"])
        #expect(heard.withLock { $0 } == [.test: 1, other: 2])
    }

    @Test("a reopened store has all records, and continues with greater change numbers and valid tokens")
    func reopening() async throws {
        let first = place.stores()
        let (token, last) = try await {
            let store = try first.store(of: .test)
            try await store.makeZone()
            try await store.save(["a", "b"])
            let last = try await store.save(["a"])[0].change
            return (try store.page().token, last)
        }()
        first.close()

        let second = place.stores()
        defer { second.close() }
        let store = try second.store(of: .test)
        #expect(store.currentSchema.types["Note"] == .titled)
        #expect(try store.feed() == ["b", "a"])
        #expect(try store.page(since: token).names.isEmpty)
        let saved = try await store.save(["c"])[0]
        #expect(saved.change > last, "a change number was assigned twice")
        #expect(try store.page(since: token).names == ["c"])
        #expect(try place.upkeep.faults { _ in }.isEmpty)
    }

    @Test("subscriptions and shares last, and a reopened store reports its query subscriptions once")
    func reopenedDetails() async throws {
        let query = SubscribedQuery(recordType: "Note", json: Array("{}".utf8), firesOn: [.create])
        let subscription = Subscription(id: "watch", kind: .query(query))
        let first = place.stores()
        let version = try await {
            let store = try first.store(of: .test)
            try await store.makeZone()
            try await store.share(with: [.joined(.bob)])
            try await store.write(touching: .alice) { writer throws(RelayError) in
                try writer.put([subscription], of: .alice, in: .private)
            }
            return try store.look { try $0.subscriptionsVersion }
        }()
        first.close()

        let heard = Mutex<[CommittedSubscription]>([])
        let second = place.stores(
            TestStoreOptions(committed: { _, commit in heard.withLock { $0 += commit.subscriptions } })
        )
        defer { second.close() }
        let store = try second.store(of: .test)
        #expect(try store.zone(seenBy: .bob) != nil)
        #expect(try store.look { try $0.subscriptionsVersion } == version)
        #expect(try store.look { try $0.subscriptions(of: .alice, in: .private) } == [subscription])
        try await store.save(["a"])
        #expect(heard.withLock { $0 }.map(\.id) == ["watch"])
    }

    @Test("a write after closing fails, with advice to try again") func closed() async throws {
        let stores = place.stores()
        let store = try stores.store(of: .test)
        try await store.makeZone()
        stores.close()
        let refusal = await #expect(throws: RelayError.self) {
            try await store.makeZone(ZoneID("Late", owner: .alice))
        }
        #expect(refusal?.code == .tryAgainLater && refusal?.retryAfter != nil)
    }

    @Test("no write waits when all are answered") func waitingWrites() async throws {
        let stores = place.stores()
        defer { stores.close() }
        let store = try stores.store(of: .test)
        try await store.makeZone()
        #expect(stores.waitingWrites == 0 && stores.counts.closed == 0)
        stores.makeRoom()
        #expect(try store.feed().isEmpty)
    }

    @Test("writers across more containers than may be open lose nothing") func manyContainers() async throws {
        var options = TestStoreOptions()
        options.options.mostOpen = 3
        let stores = place.stores(options)
        defer { stores.close() }
        let homes = (0..<10).map { ContainerEnvironment.named("iCloud.many.\($0)") }
        for home in homes { try await stores.store(of: home).makeZone() }
        try await withThrowingTaskGroup { tasks in
            for writer in 0..<8 {
                tasks.addTask {
                    for turn in 0..<25 {
                        let home = homes[(writer * 7 + turn * 3) % homes.count]
                        try await stores.store(of: home).save(["\(writer)-\(turn)"])
                    }
                }
            }
            try await tasks.waitForAll()
        }
        var names: [String] = []
        for home in homes { names += try stores.store(of: home).feed() }
        #expect(names.count == 200 && Set(names).count == 200)
    }

    @Test("where no executor is needed, reads run at once on the caller's thread") func readsInPlace() throws {
        let stores = place.stores()
        defer { stores.close() }
        guard stores.executor == nil else { return }
        let store = try stores.store(of: .test)
        let caller = ObjectIdentifier(Thread.current)
        let reader = try store.read { reader throws(RelayError) in
            _ = try reader.zone(.common)
            return ObjectIdentifier(Thread.current)
        }
        #expect(reader == caller)
    }

    @Test("a held store refuses requests, and the others go on") func held() async throws {
        let stores = place.stores()
        defer { stores.close() }
        for home in [.test, other] {
            try await stores.store(of: home).makeZone()
            try await stores.store(of: home).save(["milk"])
        }
        let token = try stores.store(of: .test).page().token
        let refuses = Counter()
        try await stores.hold(.test, patience: .seconds(30), whenRefusing: { refuses.add() })
        #expect(refuses.count == 1)
        #expect(throws: RelayError.storeIsHeld) { _ = try stores.store(of: .test) }
        try await stores.store(of: other).save(["bread"])
        // Scheduled work skips it; a refusal would be thrown.
        #expect(try await stores.removeUnusedAssets(before: Timestamp(milliseconds: .max)) == 0)
        #expect(try await stores.forgetTombstones(before: Timestamp(milliseconds: 0)) == 0)
        stores.release(.test)
        #expect(try stores.store(of: .test).page(since: token).names == [], "tokens stay valid")
        try await stores.store(of: .test).save(["eggs"])
        #expect(try stores.store(of: .test).page(since: token).names == ["eggs"])
    }
}

/// Assets: uploads, files and the removal of those that no record uses.
@Suite struct AssetTests {
    private let place = TestStore.current.makeHome(.lasting)
    private let stores: any ServedStores

    init() { stores = place.stores() }

    private func upload(_ pieces: [[UInt8]]) throws -> (hash: AssetHash, size: Int64) {
        let upload = try stores.assets(of: .test).begin()
        for piece in pieces {
            try upload.take(piece)
            upload.rest()
        }
        return try upload.finish()
    }

    private func file(_ hash: AssetHash) throws -> AssetFile? { try stores.assets(of: .test).file(of: hash) }

    private var later: Timestamp { TimeSource.system.now() + .seconds(3_600) }
    private var earlier: Timestamp { TimeSource.system.now() + .seconds(-3_600) }

    @Test("an upload is stored under the first 20 bytes of its SHA-256, whatever its pieces") func uploads()
        async throws
    {
        for pieces in [[[97, 98, 99]], [[97], [], [98, 99]]] as [[[UInt8]]] {
            let (hash, size) = try upload(pieces)
            #expect(hash.hex == "ba7816bf8f01cfea414140de5dae2223b00361a3" && size == 3)
        }
        let abc = try upload([[97, 98, 99]]).hash
        let file = try #require(try file(abc))
        #expect(file.size == 3 && FileManager.default.contents(atPath: file.path) == Data("abc".utf8))
        #expect(try await stores.assets(of: .test).isSound(file, of: abc))
        #expect(try self.file(upload([]).hash)?.size == 0)
    }

    @Test("an upload that is released before its end leaves nothing") func abandoned() throws {
        let hash = try upload([[1, 2, 3]]).hash
        func begin() throws { try stores.assets(of: .test).begin().take([9, 9, 9]) }
        try begin()
        let unknown = try #require(AssetHash(Array(repeating: 9, count: AssetHash.byteCount)))
        #expect(try file(unknown) == nil && file(hash) != nil)
        let files = FileManager.default.enumerator(atPath: place.folder)?.compactMap { $0 as? String } ?? []
        let contents = files.map { FileManager.default.contents(atPath: "\(place.folder)/\($0)") }
        #expect(!contents.contains(Data([9, 9, 9])))
        stores.removeBrokenUploads()
        #expect(try file(hash) != nil)
    }

    @Test("the assets of two environments are apart") func environments() throws {
        let hash = try upload([[1]]).hash
        #expect(try stores.assets(of: .named("iCloud.org.example.notes", .production)).file(of: hash) == nil)
    }

    @Test("assets that no record uses are removed when they are old enough") func removal() async throws {
        let (used, unused) = (try upload([[1]]).hash, try upload([[2]]).hash)
        let store = try stores.store(of: .test)
        try await store.makeZone()
        try await store.write(touching: .alice) { writer throws(RelayError) in
            try writer.define(["Photo": RecordType(fields: ["file": .init(.scalar(.asset))])])
            #expect(writer.storedAssets(among: [used, unused]) == [used, unused])
        }
        var photo = Draft("photo")
        photo.type = "Photo"
        photo.fields["file"] = .asset(Asset(fileChecksum: used.checksum, size: 1))
        try await store.put([photo])
        #expect(try await stores.removeUnusedAssets(of: .test, before: earlier) == 0)
        #expect(try await stores.removeUnusedAssets(of: .test, before: later) == 1)
        #expect(try file(used) != nil && file(unused) == nil)
        try await store.write(touching: .alice) { writer throws(RelayError) in
            #expect(writer.storedAssets(among: [used, unused]) == [used])
        }
        try await store.put([.deleted("photo")])
        #expect(try await stores.removeUnusedAssets(before: later) == 1)
        #expect(try file(used) == nil)
    }

    @Test("an asset that was renewed is as young as a new one") func renewal() async throws {
        let hash = try upload([[1]]).hash
        let path = try #require(try file(hash)).path
        let old = Date(timeIntervalSince1970: 1_000_000)
        try FileManager.default.setAttributes([.modificationDate: old], ofItemAtPath: path)
        try stores.assets(of: .test).renew(hash)
        _ = try stores.store(of: .test)
        #expect(try await stores.removeUnusedAssets(of: .test, before: earlier) == 0)
        #expect(try file(hash) != nil)
    }

    @Test("an asset that is uploaded again after its removal is there") func again() async throws {
        _ = try stores.store(of: .test)
        for number in UInt8(0)..<3 {
            let hash = try upload([[number]]).hash
            #expect(try await stores.removeUnusedAssets(of: .test, before: later) >= 1)
            #expect(try upload([[number]]).hash == hash)
            #expect(try file(hash) != nil)
        }
    }
}
