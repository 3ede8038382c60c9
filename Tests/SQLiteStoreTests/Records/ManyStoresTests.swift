import Foundation
import Records
import RelayCore
import SQLiteStore
import Synchronization
import TestSupport
import Testing

/// More containers than may be open at once: clients do not notice that a store was closed meanwhile.
@Suite struct ManyStoresTests {
    private let user = UserID("_00000000000000000000000000000001")
    private var zone: ZoneID { ZoneID("Notes", owner: user) }

    /// A folder of which four stores may be open at a time; records the commits that its listener gets.
    private final class World: Sendable {
        let folder: String
        let homes: [ContainerEnvironment]
        let stores: StoreFolder
        /// The free bytes of the disk.
        let room = Mutex<UInt64>(1 << 40)
        let commits = Mutex<[(home: ContainerEnvironment, commit: Commit)]>([])

        init(containers: Int, maxOpen: Int = 4) {
            let place = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString)")
            folder = place.path
            homes = (0..<containers).compactMap { number in
                ContainerID("iCloud.many.\(number)").map { ContainerEnvironment($0, .development) }
            }
            let forwarder = Forwarder()
            stores = StoreFolder(
                folder: folder,
                draw: { UInt64.random(in: 1 ... .max) },
                maxOpen: maxOpen,
                onCommit: { home, commit in forwarder.report(home, commit) },
                freeBytes: { _ in forwarder.room }
            )
            forwarder.askForRoom { [weak self] in self?.room.withLock { $0 } }
            forwarder.listen { [weak self] home, commit in self?.commits.withLock { $0.append((home, commit)) } }
        }

        func reportedSubscriptions(of home: ContainerEnvironment) -> Int {
            commits.withLock { $0.filter { $0.home == home }.reduce(0) { $0 + $1.commit.subscriptions.count } }
        }

        func path(_ home: ContainerEnvironment) -> String {
            "\(folder)/containers/\(home.container.name)/development.sqlite"
        }

        /// Opens so many other stores that this one is closed.
        func closeStore(of home: ContainerEnvironment) throws {
            for other in homes where other != home { _ = try stores.store(of: other) }
        }

        deinit {
            stores.close()
            try? FileManager.default.removeItem(atPath: folder)
        }
    }

    private func begin(_ world: World, _ home: ContainerEnvironment) async throws {
        let zone = zone
        try await world.stores.store(of: home).write(touching: zone.owner) { writer throws(RelayError) in
            try writer.define(["Note": RecordType()])
            _ = try writer.makeZone(zone, by: "phone")
        }
    }

    /// Saves a record and returns its change number.
    @discardableResult
    private func save(_ name: String, in store: any Store) async throws -> UInt64 {
        let stamp = StoredRecord.Stamp(at: Timestamp(milliseconds: 1), by: user, device: DeviceFingerprint(bits: 1))
        let id = zone
        return try await store.write(touching: id.owner) { writer throws(RelayError) in
            guard let zone = try writer.zone(id) else { throw .zoneNotFound }
            let number = writer.takeChangeNumber()
            let record = StoredRecord(
                name: name,
                type: "Note",
                change: number,
                created: stamp,
                modified: stamp,
                fields: Array("{}".utf8)
            )
            try writer.put([record], replacing: writer.records(named: [name], in: zone), in: zone, by: "phone")
            return number
        }
    }

    /// Returns the names and the token of a page since a token.
    private func page(_ store: any Store, since token: String? = nil) throws -> ([String], String) {
        let database = DatabaseAddress(scope: .private, caller: Caller(.user(user), deviceID: ""))
        return try store.read { reader throws(RelayError) in
            var names: [String] = []
            let page = try ZoneChanges(zone: zone, of: database, token: token, limit: 1_000)
                .read(from: reader, epochs: store.epochs(of: user)) { names.append($0.name) }
            return (names, page.token.encoded)
        }
    }

    /// Copying a log takes two flushes; a stopping relay does not wait for all stores.
    @Test func logsThatCannotBeCopiedInTimeAreKept() async throws {
        let world = World(containers: 2)
        for home in world.homes {
            try await begin(world, home)
            try await save("milk", in: world.stores.store(of: home))
        }
        world.stores.close(patience: .zero)
        let logs = world.homes.map { world.path($0) + "-wal" }
        #expect(logs.allSatisfy { WALCheck.size(of: $0) ?? 0 > 0 })
        let again = StoreFolder(folder: world.folder, draw: { UInt64.random(in: 1 ... .max) })
        for home in world.homes {
            #expect(try page(again.store(of: home)).0 == ["milk"])
        }
        again.close()
        #expect(logs.allSatisfy { WALCheck.size(of: $0) ?? 0 == 0 })
    }

    @Test func placesReturnTheSameDoorBeforeTheStoreIsOpen() throws {
        let home = try #require(World(containers: 1).homes.first)
        var places = StoreRegistry()
        let (first, second) = (places.lock(of: home), places.lock(of: home))
        #expect(first === second)
        let (isUsed, hasAssets) = (!places.usedHomes.isEmpty, !places.homesWithAssets.isEmpty)
        #expect(!isUsed && !hasAssets, "no store was opened")
    }

    @Test func moreContainersThanMayBeOpenAreServedWithValidTokens() async throws {
        let world = World(containers: 12)
        var tokens: [String] = []
        var numbers: [UInt64] = []
        for home in world.homes {
            try await begin(world, home)
            numbers.append(try await save("first", in: world.stores.store(of: home)))
            tokens.append(try page(world.stores.store(of: home)).1)
            #expect(world.stores.counts.open <= 4)
        }
        #expect(world.stores.counts.closed >= 8)
        let epochs = try world.homes.map { try world.stores.store(of: $0).epochs(of: user) }
        for round in 0..<3 {
            for (index, home) in world.homes.enumerated() {
                let number = try await save("round-\(round)", in: world.stores.store(of: home))
                #expect(number > numbers[index], "change numbers only grow")
                numbers[index] = number
                let (names, token) = try page(world.stores.store(of: home), since: tokens[index])
                #expect(names == ["round-\(round)"])
                tokens[index] = token
            }
        }
        #expect(world.stores.counts.open <= 4)
        // The epoch of a store does not change within a process.
        #expect(try world.homes.map { try world.stores.store(of: $0).epochs(of: user) } == epochs)
        for home in world.homes {
            let names = try page(world.stores.store(of: home)).0
            #expect(names == ["first", "round-0", "round-1", "round-2"])
        }
    }

    /// Two stores on one file would assign the same change numbers and set up the file at once.
    @Test func concurrentFirstRequestsGetTheSameStore() throws {
        let world = World(containers: 20, maxOpen: 40)
        for home in world.homes {
            let found = Mutex<[any Store]>([])
            let refusals = Mutex<[String]>([])
            DispatchQueue.concurrentPerform(iterations: 8) { _ in
                do {
                    let store = try world.stores.store(of: home)
                    found.withLock { $0.append(store) }
                } catch {
                    refusals.withLock { $0.append("\(error)") }
                }
            }
            #expect(refusals.withLock { $0 } == [])
            let stores = found.withLock { $0 }
            #expect(Set(stores.map { ObjectIdentifier($0 as AnyObject) }).count == 1)
        }
        #expect(world.stores.counts.open == world.homes.count)
    }

    @Test func theLeastRecentlyUsedStoreIsClosedAndCheckpointed() async throws {
        let world = World(containers: 5)
        for home in world.homes.prefix(4) { try await begin(world, home) }
        _ = try world.stores.store(of: world.homes[0])
        _ = try world.stores.store(of: world.homes[4])
        let logs = world.homes.map { WALCheck.size(of: world.path($0) + "-wal") ?? 0 > 0 }
        #expect(logs == [true, false, true, true, true])
    }

    @Test func storeInUseIsNotClosed() async throws {
        let world = World(containers: 8)
        let inUse = try world.homes.map { try world.stores.store(of: $0) }
        #expect(world.stores.counts.open == 8)
        for (home, store) in zip(world.homes, inUse) {
            try await begin(world, home)
            try await save("a", in: store)
        }
        #expect(world.stores.counts.closed == 0)
        #expect(try inUse.map { try page($0).0 } == Array(repeating: ["a"], count: 8))
    }

    /// Known subscriptions are not reported again, and the store still knows the types that they watch.
    @Test func subscriptionsOfAReopenedStoreAreReportedOnceAndKeepWorking() async throws {
        let world = World(containers: 6)
        let home = world.homes[0]
        try await begin(world, home)
        let query = SubscribedQuery(
            recordType: "Note",
            json: Array(#"{"recordType":"Note"}"#.utf8),
            zone: nil,
            firesOn: [.create],
            firesOnce: false
        )
        let user = user
        try await world.stores.store(of: home).write(touching: user) { writer throws(RelayError) in
            try writer.put([Subscription(id: "watch", kind: .query(query))], of: user, in: .private)
        }
        #expect(world.reportedSubscriptions(of: home) == 1)
        try world.closeStore(of: home)
        try await save("a", in: world.stores.store(of: home))
        #expect(world.reportedSubscriptions(of: home) == 1)
        let names = world.commits.withLock { $0.last { $0.home == home }?.commit.records.map(\.after.name) }
        #expect(names == ["a"], "its changes still reach the subscribers")
    }

    /// Replaced as by `cp` while the store is closed: the file has another history then.
    @Test func aFileRestoredWhileClosedStartsANewEpoch() async throws {
        let world = World(containers: 6)
        let home = world.homes[0]
        try await begin(world, home)
        let early = try page(world.stores.store(of: home)).1
        try world.closeStore(of: home)
        let kept = try Data(contentsOf: URL(fileURLWithPath: world.path(home)))
        try await save("lost", in: world.stores.store(of: home))
        let late = try page(world.stores.store(of: home)).1
        try world.closeStore(of: home)
        try kept.write(to: URL(fileURLWithPath: world.path(home)))

        let store = try world.stores.store(of: home)
        #expect(throws: RelayError.changeTokenExpired) { try page(store, since: late) }
        try await save("new", in: store)
        #expect(throws: RelayError.changeTokenExpired) { try page(store, since: late) }
        #expect(try page(store, since: early).0 == ["new"])
    }

    @Test func uploadsAndAssetRemovalWorkWhileTheStoreIsClosed() async throws {
        let world = World(containers: 6)
        let home = world.homes[0]
        let intake = try world.stores.assets(of: home).begin()
        try intake.take(Array("content".utf8))
        try world.closeStore(of: home)
        let hash = try intake.finish().hash
        #expect(try world.stores.assets(of: home).file(of: hash) != nil)
        try world.closeStore(of: home)
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        #expect(try await world.stores.removeUnusedAssets(before: Timestamp(milliseconds: now - 3_600_000)) == 0)
        #expect(try await world.stores.removeUnusedAssets(before: Timestamp(milliseconds: now + 3_600_000)) == 1)
        // Without unused assets no store is opened.
        let closed = try await closedAfterALook(world, now)
        #expect(try await closedAfterALook(world, now) == closed)
    }

    private func closedAfterALook(_ world: World, _ now: Int64) async throws -> Int {
        #expect(try await world.stores.removeUnusedAssets(before: Timestamp(milliseconds: now + 3_600_000)) == 0)
        return world.stores.counts.closed
    }

    /// Reopening a store needs disk space.
    ///
    /// While the disk is full, open stores stay open so that reading works.
    @Test func noStoreIsClosedOnFullDisk() async throws {
        let world = World(containers: 8)
        for home in world.homes.prefix(4) { try await begin(world, home) }
        world.room.withLock { $0 = 1 << 20 }
        for home in world.homes { _ = try world.stores.store(of: home) }
        #expect(world.stores.counts.open == 8 && world.stores.counts.closed == 0)
        #expect(try world.homes.prefix(4).map { try page(world.stores.store(of: $0)).0 } == [[], [], [], []])
        world.room.withLock { $0 = 1 << 30 }
        _ = try world.stores.sqliteStore(of: #require(ContainerID("iCloud.many.8").map { .init($0, .development) }))
        #expect(world.stores.counts.open == 4)
    }

    // MARK: Stores of commands

    @Test func aStoreIsHeldWhenItsRequestsAreDone() async throws {
        let world = World(containers: 1)
        let home = world.homes[0]
        try await begin(world, home)
        let request = Mutex<(any Store)?>(try world.stores.store(of: home))
        let hold = Task { try await world.stores.hold(home) }
        while (try? world.stores.store(of: home)) != nil { await Task.yield() }
        if let store = request.withLock({ $0 }) { try await save("late", in: store) }
        request.withLock { $0 = nil }
        try await hold.value
        world.stores.release(home)
        #expect(try page(world.stores.store(of: home)).0 == ["late"])
    }

    @Test func aStoreIsServedAgainIfARequestDoesNotEnd() async throws {
        let world = World(containers: 1)
        try await begin(world, world.homes[0])
        let request = try world.stores.store(of: world.homes[0])
        await #expect(throws: RelayError.self) { try await world.stores.hold(world.homes[0], patience: .zero) }
        #expect(try world.stores.store(of: world.homes[0]) as AnyObject === request as AnyObject)
        try await save("milk", in: request)
    }

    /// A store in memory would be lost.
    @Test func storesInMemoryAreNotClosed() async throws {
        let stores = StoreFolder(folder: nil, draw: { UInt64.random(in: 1 ... .max) }, maxOpen: 1)
        for number in 0..<3 {
            _ = try stores.store(of: ContainerEnvironment(try #require(ContainerID("iCloud.a.\(number)")), .production))
        }
        #expect(stores.counts.open == 3 && stores.counts.closed == 0)
    }
}

/// Passes commits and questions on to a world that is set later.
private final class Forwarder: Sendable {
    private let listener = Mutex<(@Sendable (ContainerEnvironment, Commit) -> Void)?>(nil)

    private let asked = Mutex<(@Sendable () -> UInt64?)?>(nil)

    func askForRoom(_ body: @escaping @Sendable () -> UInt64?) { asked.withLock { $0 = body } }

    var room: UInt64? { asked.withLock { $0 }?() }

    func listen(_ body: @escaping @Sendable (ContainerEnvironment, Commit) -> Void) { listener.withLock { $0 = body } }

    func report(_ home: ContainerEnvironment, _ commit: Commit) { listener.withLock { $0 }?(home, commit) }
}
