import Records
import Testing
import Wire

@Suite struct FieldsMergeTests {
    private func text(_ numbers: some Sequence<Int>, _ value: Int64) -> FieldsText {
        var writer = FieldsWriter(reserving: 1024)
        for number in numbers { writer.add(.init(name: "f\(number)", value: .int64(value))) }
        return writer.finish()
    }

    /// Works for any order of the fields.
    ///
    /// With a linear search, so many would take a debug build 15 seconds.
    @Test func manyFieldsKeepTheirPositions() throws {
        let count = 20_000
        let merged = try FieldsJSON.merge(
            text((1...count).reversed(), 2),
            clearing: ["f0"],
            into: text(0..<count, 1).bytes
        )
        let entries = try FieldsJSON.decode(merged)
        #expect(entries.map(\.name) == (1...count).map { "f\($0)" })
        #expect(entries.allSatisfy { $0.value == .int64(2) })
    }

    @Test func otherFieldsAreKeptAndNewOnesAreAppended() throws {
        let merged = try FieldsJSON.merge(text([7, 1, 6], 2), clearing: [], into: text(0...2, 1).bytes)
        let entries = try FieldsJSON.decode(merged)
        #expect(entries.map(\.name) == ["f0", "f1", "f2", "f7", "f6"])
        #expect(entries.map(\.value) == [1, 2, 1, 2, 2].map { .int64($0) })
    }
}
