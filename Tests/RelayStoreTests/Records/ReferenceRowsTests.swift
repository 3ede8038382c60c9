import Records
import RelayCore
import RelayStore
import Testing
import Wire

@Suite struct ReferenceRowsTests {
    private let zoneID = ZoneID("Notes", owner: UserID("_00000000000000000000000000000001"))

    private func found(_ target: String, in store: SQLiteStore) throws -> [StoredReference] {
        try store.read { reader throws(RelayError) in
            var found: [StoredReference] = []
            guard let zone = try reader.zone(zoneID) else { return [] }
            try reader.visitReferences(to: [target], in: zone) {
                found.append($0)
                return .next
            }
            return found
        }
    }

    @Test("a record's parent and its references with an action are entered, and no others")
    func references() async throws {
        let store = try SQLiteStore(.memory, draw: { 7 }, onCommit: { _ in })
        defer { store.close() }
        let expected = [
            StoredReference(.deleteSelf, to: "b", from: "a", field: "owner"), .parent("b", of: "a"),
        ]
        let id = zoneID
        let stamp = StoredRecord.Stamp(at: Timestamp(milliseconds: 1), by: id.owner, device: DeviceFingerprint(bits: 1))
        let entries = [
            FieldsJSON.Entry(name: "title", value: .string(#"not a reference: "action":"DELETE_SELF""#)),
            FieldsJSON.Entry(name: "plain", value: .reference(Reference(recordName: "b"))),
            FieldsJSON.Entry(name: "owner", value: .reference(Reference(recordName: "b", action: .deleteSelf))),
        ]
        try await store.write(touching: id.owner) { writer throws(RelayError) in
            let zone = try writer.makeZone(id, by: "phone")
            try writer.define(["Note": RecordType()])
            let record = StoredRecord(
                name: "a",
                type: "Note",
                change: writer.takeChangeNumber(),
                created: stamp,
                modified: stamp,
                parent: "b",
                fields: FieldsJSON.encode(entries)
            )
            try writer.put([record], replacing: [:], in: zone, by: "phone")
        }
        #expect(try found("b", in: store) == expected)
    }

    @Test("references are visited target by target, and the rest of a target or of all can be skipped")
    func severalTargets() async throws {
        let store = try SQLiteStore(.memory, draw: { 7 }, onCommit: { _ in })
        defer { store.close() }
        let id = zoneID
        let stamp = StoredRecord.Stamp(at: Timestamp(milliseconds: 1), by: id.owner, device: DeviceFingerprint(bits: 1))
        try await store.write(touching: id.owner) { writer throws(RelayError) in
            let zone = try writer.makeZone(id, by: "phone")
            try writer.define(["Note": RecordType()])
            let records = ["b", "c", "d"].flatMap { target in
                (0..<3).map { number in
                    StoredRecord(
                        name: "\(target)\(number)",
                        type: "Note",
                        change: writer.takeChangeNumber(),
                        created: stamp,
                        modified: stamp,
                        fields: FieldsJSON.encode([
                            .init(name: "of", value: .reference(Reference(recordName: target, action: .deleteSelf)))
                        ])
                    )
                }
            }
            try writer.put(records, replacing: [:], in: zone, by: "phone")
        }
        try store.read { reader throws(RelayError) in
            guard let zone = try reader.zone(id) else { throw .zoneNotFound }
            var visited: [String] = []
            try reader.visitReferences(to: ["c", "none", "b", "d"], in: zone) { reference in
                visited.append(reference.source)
                return reference.target == "c" ? .nextTarget : reference.source == "b1" ? .stop : .next
            }
            #expect(visited == ["c0", "b0", "b1"])
            let counts = try reader.countDeleteSelf(to: ["b", "none", "d"], in: zone, atMost: 2)
            #expect(counts["b"] == 2 && counts["d"] == 2 && counts["none"] ?? 0 == 0)
        }
    }
}
