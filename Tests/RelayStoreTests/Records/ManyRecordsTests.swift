import Records
import RelayCore
import RelayStore
import Testing

/// Writes of many records, whose new records are inserted several at once.
@Suite struct ManyRecordsTests {
    private let zone = ZoneID("Notes", owner: UserID("_00000000000000000000000000000001"))
    private let store: SQLiteStore

    init() async throws {
        store = try SQLiteStore(.memory, draw: { 7 })
        let zone = zone
        try await store.write(touching: zone.owner) { writer throws(RelayError) in
            try writer.define(["Note": RecordType()])
            _ = try writer.makeZone(zone, by: "phone")
        }
    }

    private func save(_ records: [(name: String, text: String)], passesExisting: Bool = true) async throws {
        let id = zone
        try await store.write(touching: id.owner) { writer throws(RelayError) in
            guard let zone = try writer.zone(id) else { throw .zoneNotFound }
            let stamp = StoredRecord.Stamp(
                at: Timestamp(milliseconds: 1),
                by: id.owner,
                device: DeviceFingerprint(bits: 1)
            )
            let before = passesExisting ? try writer.records(named: records.map(\.name), in: zone) : [:]
            let stored = records.map { name, text in
                StoredRecord(
                    name: name,
                    type: "Note",
                    change: writer.takeChangeNumber(),
                    created: stamp,
                    modified: stamp,
                    parent: name.hasSuffix("5") ? "a parent" : nil,
                    fields: Array(text.utf8),
                    isDeleted: text.isEmpty
                )
            }
            try writer.put(stored, replacing: before, in: zone, by: "phone")
        }
    }

    private func names(_ count: Int) -> [(name: String, text: String)] {
        (0..<count).map { ("record \($0)", #"{"a":"\#(String(repeating: "x", count: $0))"}"#) }
    }

    private func seen() throws -> [String: String] {
        let rows = try store.content().rows
        return Dictionary(uniqueKeysWithValues: rows.map { ($0.name, String(decoding: $0.fields, as: UTF8.self)) })
    }

    @Test(arguments: [1, 9, 10, 11, 20, 25, 113]) func allRecordsAreSaved(count: Int) async throws {
        let records = names(count)
        try await save(records)
        #expect(try seen() == Dictionary(uniqueKeysWithValues: records.map { ($0.name, $0.text) }))
        #expect(try store.content().rows.map(\.change).sorted() == store.content().rows.map(\.change))
    }

    @Test func changesAndDeletionsBetweenNewRecordsAreSaved() async throws {
        try await save([("old", "{}"), ("gone", "{}")])
        var records = names(40)
        records.insert(("gone", ""), at: 27)
        records.insert(("old", #"{"a":"new"}"#), at: 13)
        try await save(records)
        #expect(try seen() == Dictionary(uniqueKeysWithValues: records.map { ($0.name, $0.text) }))
    }

    @Test func ifOneInsertFailsNoRecordIsSaved() async throws {
        try await save([("record 17", "{}")])
        await #expect(throws: RelayError.self) { try await save(names(40), passesExisting: false) }
        #expect(try seen() == ["record 17": "{}"])
        try await save(names(40))
        #expect(try seen().count == 40)
    }
}
