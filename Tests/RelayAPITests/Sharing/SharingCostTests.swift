import Dispatch
import GRDB
import Records
import RelayCore
import SQLiteStore
import StoreTesting
import Synchronization
import Testing
import Wire

/// The cost of sharing in statements: none per record of a page, and none per participant of a save.
@Suite(.enabled(if: TestStore.current == .sqlite, "counts the statements of SQLite")) struct SharingCostTests {
    typealias World = ShareWorld

    private final class Counter: Sendable {
        private let count = Mutex(0)
        var value: Int { count.withLock { $0 } }
        func add() { count.withLock { $0 += 1 } }
    }

    /// The store commits inline and cleans up right after the commit that causes it.
    ///
    /// On a thread of its own the clean-up could run at any time, on the connection whose statements are counted.
    private func world() throws -> World {
        let line = DispatchQueue(label: "commits of a test")
        return try World(scheduler: { line.async(execute: $0) })
    }

    private func store(_ world: World) throws -> any Store {
        let container = try #require(ContainerID(world.world.container))
        return try world.world.stores.store(of: ContainerEnvironment(container, .development))
    }

    /// Returns the number of statements that read one page of a zone's feed.
    private func pageCost(
        _ world: World,
        as user: String,
        _ scope: DatabaseScope,
        limit: Int,
        since token: String? = nil
    ) async throws -> Int {
        let caller = UserID(try await world.name(of: user))
        let zone = ZoneID("Notes", owner: UserID(try await world.name(of: "alice")))
        let database = DatabaseAddress(scope: scope, caller: Caller(.user(caller), deviceID: "phone"))
        let store = try store(world)
        return try store.read { reader throws(RelayError) in
            let counter = Counter()
            let connection = (reader as? SQLiteReader)?.database
            connection?.trace(options: .statement) { _ in counter.add() }
            defer { connection?.trace() }
            var records = 0
            let page = ZoneChanges(zone: zone, of: database, token: token, limit: limit)
            _ = try page.read(from: reader, epochs: store.epochs(of: zone.owner)) { _ in records += 1 }
            #expect(records == limit)
            return counter.value
        }
    }

    @Test(arguments: [false, true]) func theCostOfAPageIsIndependentOfItsSize(_ isHierarchy: Bool) async throws {
        let world = try world()
        try await world.makeZone(notes: ["root"])
        try await world.modify((0..<150).map { HierarchyShareTests.child("n\($0)", of: "root") }).checked()
        let people = [World.participant(World.bob)]
        let share = try await world.one(
            isHierarchy ? World.share(name: "share", root: "root", with: people) : World.share(with: people)
        )
        try await world.accept(share, as: World.bob)
        let owners = try await pageCost(world, as: "alice", .private, limit: 100)
        let small = try await pageCost(world, as: World.bob, .shared, limit: 5)
        let large = try await pageCost(world, as: World.bob, .shared, limit: 100)
        #expect(small == large)
        #expect(large <= owners + 4, "\(large) statements, the owner's page \(owners)")
    }

    /// For records that entered the hierarchy with an ancestor, the change number differs from the position in the
    /// feed.
    @Test(arguments: [1, 2]) func recordsThatEnteredWithAnAncestorCostNoLookup(_ shares: Int) async throws {
        let world = try world()
        try await world.makeZone(notes: ["root", "second", "branch"])
        try await world.modify((0..<120).map { HierarchyShareTests.child("n\($0)", of: "branch") }).checked()
        for root in ["root", "second"].prefix(shares) {
            let people = [World.participant(World.bob)]
            try await world.accept(
                try await world.one(World.share(name: "of-\(root)", root: root, with: people)),
                as: World.bob
            )
        }
        try await world.one(HierarchyShareTests.child("branch", of: "root"))
        let small = try await pageCost(world, as: World.bob, .shared, limit: 5)
        let large = try await pageCost(world, as: World.bob, .shared, limit: 100)
        #expect(small == large, "\(small) statements for 5 records, \(large) for 100")
        // Records that left again cost no more.
        let token = try await world.changes().text("syncToken")
        try await world.one(HierarchyShareTests.child("branch", of: nil))
        let gone = try await pageCost(world, as: World.bob, .shared, limit: 100, since: token)
        #expect(gone <= large)
    }

    /// Returns the number of statements that the writer runs for one request.
    private func saveCost(_ world: World, zone: String) async throws -> Int {
        let counter = Counter()
        let store = try store(world)
        try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            (writer as? SQLiteWriter)?.database.trace(options: .statement) { _ in counter.add() }
        }
        let before = counter.value
        try await world.modify((0..<20).map { World.save("n\($0)") }, zone: zone).checked()
        let cost = counter.value - before
        try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            (writer as? SQLiteWriter)?.database.trace()
        }
        return cost
    }

    @Test func theCostOfASaveIsIndependentOfParticipants() async throws {
        let world = try world()
        try await world.makeZone("Alone")
        try await world.makeZone()
        let people = (0..<99).map { "p\($0)@example.org" }
        let share = try await world.one(World.share(with: people.map { World.participant($0) }))
        for user in people { try await world.accept(share, as: user) }
        // A first save fills the caches.
        for zone in ["Alone", "Notes"] { _ = try await saveCost(world, zone: zone) }
        let alone = try await saveCost(world, zone: "Alone")
        let shared = try await saveCost(world, zone: "Notes")
        #expect(alone > 20)
        #expect(shared <= alone + 2, "\(shared) statements, unshared \(alone)")
    }

    /// Finding the recipients of changed records costs one statement in a zone with hierarchies, and none in others.
    @Test(arguments: [true, false]) func subscriptionsInASharedZoneCostNothingPerRecord(_ isHierarchy: Bool)
        async throws
    {
        let world = try world()
        try await world.makeZone(notes: ["root"])
        // The records are saved without moving them.
        try await world.modify((0..<20).map { HierarchyShareTests.child("n\($0)", of: "root") }).checked()
        let people = [World.participant(World.bob), World.participant(World.carol)]
        let share = try await world.one(
            isHierarchy ? World.share(name: "share", root: "root", with: people) : World.share(with: people)
        )
        for user in [World.bob, World.carol] { try await world.accept(share, as: user) }
        _ = try await saveCost(world, zone: "Notes")
        let unwatched = try await saveCost(world, zone: "Notes")
        for user in [World.bob, World.carol] { try await world.world.subscribe("all", in: "shared", as: user) }
        let watched = try await saveCost(world, zone: "Notes")
        #expect(watched == unwatched + (isHierarchy ? 1 : 0), "\(watched) statements, unwatched \(unwatched)")
    }

    /// Returns how often one request asks the writer for the children of a record.
    private func traversals(_ world: World, _ operations: [String]) async throws -> (answer: Answer, count: Int) {
        let counter = Counter()
        let store = try store(world)
        try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            (writer as? SQLiteWriter)?.database.trace(options: .statement) { event in
                guard case .statement(let statement) = event else { return }
                if statement.sql.hasSuffix("FROM reference WHERE zone = ? AND target = ? AND kind = 3") {
                    counter.add()
                }
            }
        }
        let answer = try await world.modify(operations, atomic: false)
        try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            (writer as? SQLiteWriter)?.database.trace()
        }
        return (answer, counter.value)
    }

    /// A branch that is moved below a shared root record by record is traversed once, whether the move is allowed or
    /// not.
    @Test(arguments: [false, true]) func aMovedBranchIsTraversedOnce(_ holdsAShare: Bool) async throws {
        let world = try world()
        let length = 20
        try await world.makeZone(notes: ["root", "c0"])
        try await world.modify((1..<length).map { HierarchyShareTests.child("c\($0)", of: "c\($0 - 1)") }).checked()
        try await world.modify((0..<60).map { HierarchyShareTests.child("n\($0)", of: "c\(length - 1)") }).checked()
        try await world.one(World.share(name: "of root", root: "root"))
        if holdsAShare { try await world.one(World.share(name: "of n30", root: "n30")) }
        let (answer, count) = try await traversals(
            world,
            (0..<length).map { HierarchyShareTests.child("c\($0)", of: "root") }
        )
        let codes = try answer.items("records").map { $0.text("ckErrorCode") }
        #expect(codes.allSatisfy { $0 == (holdsAShare ? "ALREADY_SHARED" : nil) })
        // One traversal looks for shares and one moves the descendants; and each moved record is checked for a cycle.
        #expect(count <= 2 * (length + 60) + length, "\(count)")
    }
}
