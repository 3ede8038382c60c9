import Records
import Testing
import Wire

/// Compares reading single fields of stored bytes with decoding all of them.
@Suite struct StoredFieldsTests {
    private static let entries: [FieldsJSON.Entry] = [
        .init(name: "text", value: .string("a \"quoted\" \\ brace } and { and \\\" again")),
        .init(name: "tail", value: .string("ends with a backslash \\")),
        .init(name: "number", value: .int64(-7)),
        .init(name: "place", value: .location(Location(latitude: 1, longitude: 2))),
        .init(name: "list", value: .list(.string, ["}", "{\"", "\\"].map { .string($0) })),
        .init(name: "link", value: .reference(Reference(recordName: "r", zone: ZoneID("Z\"}", owner: UserID("_u"))))),
        .init(name: "links", value: .list(.reference, [.reference(Reference(recordName: "x"))])),
        .init(name: "empty", value: .list(.int64, [])),
        .init(name: "secret", value: .string("s"), isEncrypted: true),
        .init(name: "textual", value: .string("not text")),
        .init(name: "bytes", value: .bytes([0, 255])),
    ]

    @Test func fieldsAreFoundAloneAndTogether() throws {
        let bytes = FieldsJSON.encode(Self.entries)
        let all = Dictionary(uniqueKeysWithValues: Self.entries.map { ($0.name, $0.value) })
        for entry in Self.entries {
            #expect(try FieldsJSON.values(of: [entry.name], in: bytes) == [entry.name: entry.value])
            #expect(try FieldsJSON.value(of: entry.name, in: bytes) == entry.value)
        }
        #expect(try FieldsJSON.values(of: Set(all.keys), in: bytes) == all)
        #expect(try FieldsJSON.values(of: ["none", "tex"], in: bytes).isEmpty)
        #expect(try FieldsJSON.values(of: ["none"], in: FieldsJSON.empty).isEmpty)
        for name in ["none", "tex", ""] { #expect(try FieldsJSON.value(of: name, in: bytes) == nil) }
        #expect(try FieldsJSON.value(of: "none", in: FieldsJSON.empty) == nil)
    }

    /// Odd and even numbers of backslashes before a quote, at the end of a text and inside it.
    @Test(arguments: 0..<6) func escapedQuotesDoNotEndAText(_ count: Int) throws {
        let slashes = String(repeating: "\\", count: count)
        let entries = ["", "\"", "\"}", "\",\"type\""].enumerated().map { index, end in
            FieldsJSON.Entry(name: "f\(index)", value: .string("a" + slashes + end))
        }
        let bytes = FieldsJSON.encode(entries + [.init(name: "last", value: .int64(1))])
        for entry in entries { #expect(try FieldsJSON.value(of: entry.name, in: bytes) == entry.value) }
        #expect(try FieldsJSON.value(of: "last", in: bytes) == .int64(1))
    }

    @Test(arguments: [
        "", "{", #"{"a":{"value":1,"type":"INT64"}"#, #"{"a":1}"#, "[]", #"{"a":{"value":1,"type":"NONE"}}"#,
    ])
    func damagedBytesAreReported(_ text: String) {
        #expect(throws: JSONError.self) { try FieldsJSON.values(of: ["a"], in: Array(text.utf8)) }
        #expect(throws: JSONError.self) { try FieldsJSON.values(of: ["a", "b"], in: Array(text.utf8)) }
    }

    @Test func readingAFieldStopsAfterIt() throws {
        let cut = Array(#"{"a":{"value":1,"type":"INT64"},"b":{"value""#.utf8)
        #expect(try FieldsJSON.value(of: "a", in: cut) == .int64(1))
        #expect(throws: JSONError.self) { try FieldsJSON.value(of: "b", in: cut) }
        #expect(throws: JSONError.self) { try FieldsJSON.value(of: "c", in: cut) }
        #expect(throws: JSONError.self) { try FieldsJSON.value(of: "a", in: Array(#"{"a":{"value":1}}"#.utf8)) }
    }
}

@Suite struct FieldsMergeTests {
    private func text(_ numbers: some Sequence<Int>, _ value: Int64) -> EncodedFields {
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
