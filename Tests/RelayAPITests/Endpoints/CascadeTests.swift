import Dispatch
import GRDB
import Records
import RelayCore
import SQLiteStore
import StoreTesting
import Synchronization
import Testing
import Wire

/// DELETE_SELF cascades: how many records are in memory at a time, and how often they are looked up.
@Suite struct CascadeTests {
    typealias World = ShareWorld

    private func world(limits: Limits = Limits()) async throws -> World {
        // Commits inline, so that nothing else runs on the connection whose statements are counted.
        let line = DispatchQueue(label: "commits of a test")
        let world = try World(limits: limits, scheduler: { line.async(execute: $0) })
        try await world.makeZone(notes: [])
        return world
    }

    private func save(_ name: String, _ references: (action: String, target: String)...) -> String {
        let fields = references.map {
            #""\#($0.action)":{"value":{"recordName":"\#($0.target)","action":"\#($0.action)"},"type":"REFERENCE"}"#
        }
        return #"{"operationType":"forceReplace","record":{"recordName":"\#(name)","recordType":"Note","#
            + #""fields":{\#(fields.joined(separator: ","))}}}"#
    }

    private func names(_ world: World) async throws -> [String] {
        try World.names(try await world.changes(as: "alice", limit: 200, in: "private"))
    }

    private func codes(_ answer: Answer) throws -> [String?] {
        try answer.items("records").map { $0.text("serverErrorCode") }
    }

    /// Returns the statements that the writer runs for one request.
    private func statements(_ world: World, of operations: [String]) async throws -> (answer: Answer, texts: [String]) {
        let texts = Texts()
        let container = try #require(ContainerID(world.world.container))
        let store = try world.world.stores.store(of: ContainerEnvironment(container, .development))
        try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            (writer as? SQLiteWriter)?.database.trace(options: .statement) { event in
                if case .statement(let statement) = event { texts.add(statement.sql) }
            }
        }
        let answer = try await world.modify(operations, atomic: false)
        try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            (writer as? SQLiteWriter)?.database.trace()
        }
        return (answer, texts.all)
    }

    private final class Texts: Sendable {
        private let texts = Mutex<[String]>([])
        var all: [String] { texts.withLock { $0 } }
        func add(_ text: String) { texts.withLock { $0.append(text) } }
    }

    private static func isLookUp(_ text: String) -> Bool { text.hasSuffix("FROM record r WHERE zone = ? AND name = ?") }
    private static func isVisit(_ text: String) -> Bool { text.hasPrefix("SELECT kind, source, field FROM reference") }

    @Test(.enabled(if: TestStore.current == .sqlite, "counts the statements of SQLite"))
    func aCascadeReadsItsRecordsInSmallBatches() async throws {
        let world = try await world()
        try await world.modify([save("root")] + (0..<100).map { save("n\($0)", ("DELETE_SELF", "root")) }).checked()
        let (answer, texts) = try await statements(world, of: [World.delete("root")])
        #expect(try codes(answer) == [nil])
        #expect(try await names(world).isEmpty)
        let isDeletion = { (text: String) in text.hasPrefix("UPDATE record SET") }
        #expect(texts.count(where: isDeletion) == 101)
        let first = try #require(texts.firstIndex(where: isDeletion))
        let parts = texts[first...].split(omittingEmptySubsequences: false, whereSeparator: isDeletion)
        let read = parts.map { $0.count(where: Self.isLookUp) }
        #expect(read.reduce(0, +) >= 100 - 32)
        #expect(read.max() ?? 0 <= 32)
    }

    /// Saves a chain in which each record blocks the deletion of the one before it; `last`, which stays, blocks the
    /// end.
    private func chain(_ world: World, of length: Int, followers: Int, staying: Bool = true) async throws {
        let chain = [save("a0")] + (1..<length).map { save("a\($0)", ("VALIDATE", "a\($0 - 1)")) }
        try await world.modify(chain).checked()
        try await world.modify((0..<followers).map { save("n\($0)", ("DELETE_SELF", "a0")) }).checked()
        if staying { try await world.one(save("last", ("VALIDATE", "a\(length - 1)"))) }
    }

    @Test func deletionsThatBlockEachOtherAreDecidedOnce() async throws {
        let world = try await world()
        try await chain(world, of: 30, followers: 60)
        let (answer, texts) = try await statements(world, of: (0..<30).map { World.delete("a\($0)") })
        #expect(try codes(answer).allSatisfy { $0 == "VALIDATING_REFERENCE_ERROR" })
        #expect(try await names(world).count == 91)
        // One visit for each record to delete and a second one for each blocked record; and all of it again, because
        // blocked deletions free no quota.
        #expect(texts.count(where: Self.isVisit) <= 2 * (2 * 30 + 60))
        try await world.modify((0..<30).map { World.delete("a\($0)") } + [World.delete("last")]).checked()
        #expect(try await names(world).isEmpty)
    }

    /// A refused deletion leaves records that block others in turn, unless another deletion removes them anyway.
    @Test func onlyRecordsThatStayBlockADeletion() async throws {
        let world = try await world()
        try await world.modify([
            save("a"), save("holder", ("VALIDATE", "a")), save("b"), save("c"),
            save("left", ("DELETE_SELF", "a"), ("VALIDATE", "b")),
            save("taken", ("DELETE_SELF", "a"), ("VALIDATE", "c")), save("d"),
        ]).checked()
        let list = #"[{"recordName":"a","action":"DELETE_SELF"},{"recordName":"d","action":"DELETE_SELF"}]"#
        try await world.one(
            #"{"operationType":"forceUpdate","record":{"recordName":"taken","recordType":"Note","#
                + #""fields":{"of":{"value":\#(list),"type":"REFERENCE_LIST"},"DELETE_SELF":{"value":null}}}}"#
        )
        let answer = try await world.modify(["a", "b", "c", "d"].map(World.delete), atomic: false)
        let error = "VALIDATING_REFERENCE_ERROR"
        #expect(try codes(answer) == [error, error, nil, nil])
        #expect(try await names(world).sorted() == ["a", "b", "holder", "left"])
    }

    @Test func aWriteThatVisitsTooManyReferencesIsRefused() async throws {
        var limits = Limits()
        limits.referencesPerWrite = 100
        let world = try await world(limits: limits)
        try await world.modify([save("root")] + (0..<60).map { save("n\($0)", ("DELETE_SELF", "root")) }).checked()
        let refused = try await world.modify([World.delete("root")], atomic: false)
        #expect(refused.json.text("ckErrorCode") == "LIMIT_EXCEEDED")
        #expect(try await names(world).count == 61)
        try await world.modify((0..<20).map { World.delete("n\($0)") }).checked()
        try await world.one(World.delete("root"))
        #expect(try await names(world).isEmpty)
    }

    /// All rounds count together.
    ///
    /// Here each refusal keeps a record that causes the next round.
    @Test func aWriteThatNeedsTooManyRoundsIsRefused() async throws {
        var limits = Limits()
        limits.referencesPerWrite = 500
        let world = try await world(limits: limits)
        let count = 30
        try await world.modify((0..<count).map { save("a\($0)") }).checked()
        try await world.modify(
            (1..<count).map { save("n\($0)", ("DELETE_SELF", "a\($0)"), ("VALIDATE", "a\($0 - 1)")) }
        ).checked()
        try await world.one(save("last", ("VALIDATE", "a\(count - 1)")))
        let answer = try await world.modify((0..<count).map { World.delete("a\($0)") }, atomic: false)
        #expect(answer.json.text("ckErrorCode") == "LIMIT_EXCEEDED")
        let few = try await world.modify((0..<8).map { World.delete("a\($0)") }, atomic: false)
        #expect(try codes(few).allSatisfy { $0 == "VALIDATING_REFERENCE_ERROR" })
    }

    // MARK: Shares

    @Test func aRefusedSaveKeepsBlockingItsTarget() async throws {
        let world = try await world()
        try await world.modify([
            save("root"), save("target"), save("above"), save("a", ("VALIDATE", "target")),
            HierarchyShareTests.child("b", of: "above", "create"),
        ]).checked()
        for root in ["root", "a", "b"] { try await world.one(World.share(name: "of-\(root)", root: root)) }
        let update =
            #"{"operationType":"forceUpdate","record":{"recordName":"a","recordType":"Note","#
            + #""parent":{"recordName":"root"},"fields":{"VALIDATE":{"value":null}}}}"#
        let answer = try await world.modify([update, World.delete("target")], atomic: false)
        #expect(try answer.items("records").first?.text("ckErrorCode") == "ALREADY_SHARED")
        #expect(try codes(answer).last == "VALIDATING_REFERENCE_ERROR")
        #expect(try await world.record("target").text("serverErrorCode") == nil)
        // A parent blocks in the same way.
        let move = try await world.modify(
            [HierarchyShareTests.child("b", of: "root"), World.delete("above")],
            atomic: false
        )
        #expect(try move.items("records").first?.text("ckErrorCode") == "ALREADY_SHARED")
        #expect(try codes(move).last == "VALIDATING_REFERENCE_ERROR")
        #expect(try await world.record("above").text("serverErrorCode") == nil)
    }

    @Test func aShareIsDeletedWhenACascadeDeletesItsRoot() async throws {
        let world = try await world()
        try await world.modify([save("root"), save("c", ("DELETE_SELF", "root"))]).checked()
        let share = try await world.one(
            World.share(name: "share", root: "c", with: [World.participant(World.bob)])
        )
        try await world.accept(share, as: World.bob)
        try await world.one(World.delete("root"))
        #expect(try await names(world).isEmpty)
        #expect(try await world.record("share").text("serverErrorCode") == "NOT_FOUND")
        #expect(try await world.changes().text("serverErrorCode") == "ZONE_NOT_FOUND")
    }

    @Test func aRecordThatACascadeDeletesCannotBeShared() async throws {
        let world = try await world()
        try await world.modify([save("root"), save("c", ("DELETE_SELF", "root"))]).checked()
        let answer = try await world.modify(
            [World.share(name: "share", root: "c"), World.delete("root")],
            atomic: false
        )
        #expect(try codes(answer) == ["NOT_FOUND", nil])
        #expect(try await world.record("share").text("serverErrorCode") == "NOT_FOUND")
    }
}
