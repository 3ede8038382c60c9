import Foundation
import GRDB
import Records
import RelayCore
import SQLiteStore
import StoreTesting
import TestSupport
import Testing

/// How indexes are built, updated and removed.
@Suite struct IndexLifeTests {
    private let title = Query(recordType: "Thing", filters: [.init(.own("title"), .equals, [.string("milk")])])

    private func things(_ numbers: Range<Int>, title: String) -> [(name: String, fields: [String: FieldValue]?)] {
        numbers.map { ("n\($0)", ["title": .string(title), "count": .int64(Int64($0))]) }
    }

    @Test func recordsWrittenWhileAnIndexIsBuiltAreIndexedOnce() async throws {
        let world = try QueryWorld()
        try await world.makeZone("A")
        for start in stride(from: 0, to: 6_000, by: 1_000) {
            try await world.put(things(start..<start + 1_000, title: "bread"), in: world.zones[0])
        }
        // Each query continues the building; between queries, everything changes.
        for round in 0..<6 {
            _ = try await world.firstPage(title, limit: 5)
            try await world.put(things(round * 900..<round * 900 + 40, title: "milk"), in: world.zones[0])
            try await world.put(things(6_000 + round..<6_001 + round, title: "milk"), in: world.zones[0])
            try await world.put([("n\(round * 900 + 7)", nil)], in: world.zones[0])
            #expect(try await world.answer(title, limit: 50).names == world.expectation(title))
        }
        let answer = try await world.answer(title, limit: 300)
        #expect(answer.names.count == 6 * 40)
        #expect(answer.examined <= answer.names.count + 1)
    }

    @Test func indexesSurviveReopeningAndAreRemovedWithTheirField() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("store.sqlite").path
        func entries() throws -> Int {
            try DatabaseQueue(path: path).read { try Int.fetchOne($0, sql: "SELECT count(*) FROM field_value") ?? -1 }
        }
        let file = try SQLiteStore.forQueries(.file(path: path))
        let first = QueryWorld(file)
        try await first.makeZone("A")
        try await first.put(things(0..<300, title: "milk"), in: first.zones[0])
        #expect(try await first.answer(title, limit: 200).examined <= 302)
        #expect(try entries() == 300)
        file.close()

        let again = try SQLiteStore.forQueries(.file(path: path))
        let second = QueryWorld(again)
        second.adopt(first)
        try await second.put([("n5", nil), ("n6", ["title": .string("bread")])], in: second.zones[0])
        #expect(try await second.answer(title, limit: 200).names == second.expectation(title))
        #expect(try entries() == 299)
        var type = QueryWorld.type
        type.fields["title"]?.indexes = []
        let changed = type
        try await second.store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            try writer.define(["Thing": changed])
        }
        // The entries are removed little by little when no write is waiting; writes meanwhile add none.
        for number in 0..<20 {
            try await second.put([("m\(number)", ["title": .string("milk")])], in: second.zones[0])
        }
        try await eventually("the dropped index's entries to be removed") { try entries() == 0 }
        again.close()
    }

    @Test func aDeletedZoneLeavesNoIndexEntries() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("store.sqlite").path
        let store = try SQLiteStore.forQueries(.file(path: path))
        let world = QueryWorld(store)
        for name in ["A", "B"] {
            try await world.makeZone(name)
            try await world.put(things(0..<50, title: "milk"), in: ZoneID(name, owner: world.user))
        }
        #expect(try await world.answer(title, limit: 200).names.count == 100)
        let gone = world.zones[0]
        try await world.store.write(touching: gone.owner) { writer throws(RelayError) in
            guard let zone = try writer.zone(gone) else { throw .zoneNotFound }
            try writer.deleteZone(zone, by: "phone")
        }
        for number in 0..<20 { try await world.put(things(number..<number + 1, title: "x"), in: world.zones[1]) }
        let file = try DatabaseQueue(path: path)
        func entries(_ zone: Int) throws -> Int? {
            try file.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM field_value WHERE zone = \(zone)") }
        }
        // Only these entries are removed, when no write is waiting.
        try await eventually("the deleted zone's entries to be removed") { try entries(2) == 0 }
        #expect(try entries(3) == 50)
        store.close()
    }
}
