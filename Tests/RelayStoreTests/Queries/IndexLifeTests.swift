import Foundation
import GRDB
import Records
import RelayCore
import RelayStore
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

    /// A rewritten record moves behind the part that the building still has to read, even if its value is the same.
    @Test func recordsRewrittenWithTheSameValueWhileAnIndexIsBuiltAreIndexed() async throws {
        let world = try QueryWorld()
        try await world.makeZone("A")
        for start in stride(from: 0, to: 6_000, by: 1_000) {
            let title = start == 5_000 ? "milk" : "bread"
            try await world.put(things(start..<start + 1_000, title: title), in: world.zones[0])
        }
        _ = try await world.firstPage(title, limit: 5)
        try await world.put(things(5_900..<5_950, title: "milk"), in: world.zones[0])
        let names = try await world.answer(title, limit: 300).names
        #expect(try names.count == 1_000 && names == world.expectation(title))
    }

    /// Words of all fields have their own index, which no field's name can collide with.
    @Test func aFieldMayHaveTheNameWords() async throws {
        let world = try QueryWorld()
        try await world.makeZone("A")
        let rows = (0..<300).map { number in
            ("n\(number)", ["words": FieldValue.string(number % 3 == 0 ? "milk" : "bread and butter")])
        }
        try await world.put(rows, in: world.zones[0])
        let byField = Query(recordType: "Thing", filters: [.init(.own("words"), .equals, [.string("milk")])])
        let search = Query(
            recordType: "Thing",
            filters: [.init(.anySearchable, .containsAllTokens, [.string("butter")])]
        )
        for _ in 0..<2 {
            for (query, count) in [(byField, 100), (search, 200)] {
                let names = try await world.answer(query, limit: 200).names
                #expect(try names.count == count && names == world.expectation(query))
            }
        }
    }

    /// The record type of shares is in no schema, but can be queried.
    @Test func sharesAreFoundThroughIndexes() async throws {
        let world = try QueryWorld()
        try await world.makeZone("A")
        try await world.put((0..<50).map { ("s\($0)", [:]) }, in: world.zones[0], type: Share.recordType)
        var query = Query(recordType: Share.recordType)
        query.filters = [.init(.modified, .greaterThanOrEquals, [.timestamp(Timestamp(milliseconds: 0))])]
        query.sorts = [.init(.modified, ascending: false)]
        for _ in 0..<2 { #expect(try await world.answer(query, limit: 20).names.count == 50) }
        try await world.put([("s50", [:]), ("s0", nil)], in: world.zones[0], type: Share.recordType)
        #expect(try await world.answer(query, limit: 20).names.count == 50)
    }

    @Test func pagesOfLargeRecordsAreSmall() async throws {
        let world = try QueryWorld()
        try await world.makeZone("A")
        let text = FieldValue.string(String(repeating: "x", count: 1_000))
        try await world.put(
            (0..<40).map { ("n\($0)", ["note": text, "count": .int64(Int64($0))]) },
            in: world.zones[0]
        )
        var query = Query(recordType: "Thing")
        query.sorts = [Query.Sort(.own("count"), ascending: false)]
        for bytes in [0, 1, 3_500, 20_000, 100_000] {
            world.bytes = bytes
            #expect(try await world.answer(query, limit: 30).names == world.expectation(query))
            let page = try await world.firstPage(query, limit: 30).names.count
            #expect(page >= 1 && page <= max(1, bytes / 1_000) && (bytes < 100_000 || page == 30))
        }
    }

    @Test func concurrentQueriesBuildAnIndexTogether() async throws {
        let world = try QueryWorld()
        try await world.makeZone("A")
        for start in stride(from: 0, to: 5_000, by: 1_000) {
            try await world.put(things(start..<start + 1_000, title: start == 3_000 ? "milk" : "x"), in: world.zones[0])
        }
        let (store, zone, title) = (world.store, world.zones[0], title)
        let counts = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    try await store.query { reader throws(RelayError) in
                        guard let zone = try reader.zone(zone) else { throw .zoneNotFound }
                        return try reader.page(of: title, in: [zone], after: nil, limit: 2_000, bytes: .max).records
                            .count
                    }
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(counts == Array(repeating: 1_000, count: 8))
    }

    @Test func indexesSurviveReopeningAndAreRemovedWithTheirField() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("store.sqlite").path
        func entries() throws -> Int {
            try DatabaseQueue(path: path).read { try Int.fetchOne($0, sql: "SELECT count(*) FROM field_value") ?? -1 }
        }
        let first = try QueryWorld(.file(path: path))
        try await first.makeZone("A")
        try await first.put(things(0..<300, title: "milk"), in: first.zones[0])
        #expect(try await first.answer(title, limit: 200).examined <= 302)
        #expect(try entries() == 300)
        first.store.close()

        let second = try QueryWorld(.file(path: path))
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
        second.store.close()
    }

    @Test func aDeletedZoneLeavesNoIndexEntries() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("store.sqlite").path
        let world = try QueryWorld(.file(path: path))
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
        world.store.close()
    }
}
