import Dispatch
import GRDB
import Records
import RelayCore
import SQLiteStore
import StoreTesting
import Synchronization
import Testing
import Wire

/// The statements that a save costs in a zone with shared hierarchies: see Costs.md, "Statements of a save".
@Suite(.enabled(if: TestStore.current == .sqlite, "counts the statements of SQLite")) struct HierarchyCostTests {
    typealias World = ShareWorld

    /// The statements of one request.
    struct Cost: Sendable {
        var reads = 0
        var writes = 0
        var all: Int { reads + writes }
    }

    /// A zone with a shared list of `depth` levels, one record in each, and a record outside of it.
    private func world(depth: Int = 1) async throws -> World {
        let line = DispatchQueue(label: "commits of a test")
        let world = try World(scheduler: { line.async(execute: $0) })
        try await world.makeZone(notes: ["l0", "alone"])
        for level in 1..<max(depth, 2) {
            try await world.one(HierarchyShareTests.child("l\(level)", of: "l\(level - 1)"))
        }
        let share = try await world.one(
            World.share(name: "share", root: "l0", with: [World.participant(World.bob, "READ_WRITE")])
        )
        try await world.accept(share, as: World.bob)
        // Fills the caches.
        try await world.modify([HierarchyShareTests.child("first", of: "l0"), World.save("plain")]).checked()
        return world
    }

    /// Returns the statements of a request that saves these records, without the limits of the transaction.
    private func cost(_ world: World, _ operations: [String], zone: String = "Notes") async throws -> Cost {
        let container = try #require(ContainerID(world.world.container))
        let store = try world.world.stores.store(of: ContainerEnvironment(container, .development))
        let counted = Mutex(Cost())
        let id = try await world.zoneID(zone)
        let body = #"{"zoneID":\#(id),"atomic":true,"operations":[\#(operations.joined(separator: ","))]}"#
        try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            (writer as? SQLiteWriter)?.database.trace(options: .statement) { event in
                guard case .statement(let statement) = event else { return }
                counted.withLock { cost in
                    switch statement.sql.prefix(6) {
                    case "SELECT", "WITH R": cost.reads += 1
                    case "INSERT", "UPDATE", "DELETE": cost.writes += 1
                    default: break
                    }
                }
            }
        }
        try await world.world.ask("private/records/modify", as: "alice", body).checked()
        let cost = counted.withLock { $0 }
        try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            (writer as? SQLiteWriter)?.database.trace()
        }
        return cost
    }

    private static func note(_ name: String, of parent: String, references: Int) -> String {
        let fields = (0..<references).map {
            #""r\#($0)":{"value":{"recordName":"l0","action":"DELETE_SELF"},"type":"REFERENCE"}"#
        }
        return #"{"operationType":"create","record":{"recordName":"\#(name)","recordType":"Note","#
            + #""fields":{\#(fields.joined(separator: ","))},"parent":{"recordName":"\#(parent)"}}}"#
    }

    @Test("a save in a hierarchy costs the same at any depth", arguments: [1, 3, 10])
    func depth(_ depth: Int) async throws {
        let world = try await world(depth: depth)
        let last = "l\(depth - 1)"
        let new = try await cost(world, [HierarchyShareTests.child("n", of: last)])
        let changed = try await cost(world, [HierarchyShareTests.child("n", of: last)])
        #expect(new.reads == 5 && new.writes == 5, "\(new)")
        #expect(changed.reads == 5 && changed.writes == 4, "\(changed)")
    }

    @Test("the reads of a save are independent of the number of its records")
    func batches() async throws {
        let world = try await world()
        let one = try await cost(world, [HierarchyShareTests.child("c", of: "l0")])
        let children = (0..<100).map { HierarchyShareTests.child("c\($0)", of: "l0") }
        let new = try await cost(world, children)
        let changed = try await cost(world, children)
        let chain = try await cost(
            world,
            (0..<10).map { HierarchyShareTests.child("d\($0)", of: $0 == 0 ? "l0" : "d\($0 - 1)") }
        )
        // Each record is found by a statement of its own.
        #expect(new.reads == one.reads + 99)
        #expect(changed.reads <= one.reads + 99)
        #expect(chain.reads <= one.reads + 18, "\(chain)")
    }

    @Test("a branch that moves costs a read for each level")
    func branches() async throws {
        let world = try await world()
        try await world.modify((0..<100).map { HierarchyShareTests.child("b\($0)", of: "alone") }).checked()
        let enters = try await cost(world, [HierarchyShareTests.child("alone", of: "l0")])
        let leaves = try await cost(world, [HierarchyShareTests.child("alone", of: nil)])
        let shared = try await cost(world, [World.share(name: "second", root: "alone")])
        #expect(enters.reads <= 14 && enters.writes <= 106, "\(enters)")
        #expect(leaves.reads <= 14 && leaves.writes <= 106, "\(leaves)")
        #expect(shared.reads <= 14 && shared.writes <= 110, "\(shared)")
    }

    @Test("references cost a write each")
    func references() async throws {
        let world = try await world()
        try await world.makeZone("Alone", notes: ["l0"])
        let shared = try await cost(world, [Self.note("five", of: "l0", references: 5)])
        let alone = try await cost(world, [Self.note("five", of: "l0", references: 5)], zone: "Alone")
        let plain = try await cost(world, [World.save("p")], zone: "Alone")
        #expect(shared.all <= 22, "\(shared)")
        #expect(alone.writes == plain.writes + 6)
        #expect(plain.all == 3)
    }
}
