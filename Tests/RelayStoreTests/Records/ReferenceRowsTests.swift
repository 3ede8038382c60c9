import Foundation
import GRDB
import Records
import RelayCore
import RelayStore
import Testing
import Wire

@Suite struct ReferenceRowsTests {
    private let zoneID = ZoneID("Notes", owner: UserID("_00000000000000000000000000000001"))

    private func open(_ path: String) throws -> SQLiteStore {
        try SQLiteStore(.file(path: path), draw: { 7 }, onCommit: { _ in })
    }

    private func found(_ target: String, in store: SQLiteStore) throws -> [StoredReference] {
        try store.read { reader throws(RelayError) in
            var found: [StoredReference] = []
            guard let zone = try reader.zone(zoneID) else { return [] }
            try reader.visitReferences(to: target, in: zone) {
                found.append($0)
                return true
            }
            return found
        }
    }

    /// Opening a file from before the table existed fills the table.
    @Test func openingAnOlderFileFillsTheReferenceTable() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("store.sqlite").path
        let expected = [
            StoredReference(.deleteSelf, to: "b", from: "a", field: "owner"), .parent("b", of: "a"),
        ]
        try await makeOlderFile(path)
        let store = try open(path)
        defer { store.close() }
        #expect(try found("b", in: store) == expected)
    }

    private func makeOlderFile(_ path: String) async throws {
        do {
            let store = try open(path)
            let id = zoneID
            let stamp = StoredRecord.Stamp(at: Timestamp(milliseconds: 1), by: id.owner, device: DeviceMark(bits: 1))
            let entries = [
                FieldsJSON.Entry(name: "title", value: .string(#"not a reference: "action":"DELETE_SELF""#)),
                FieldsJSON.Entry(name: "plain", value: .reference(Reference(recordName: "b"))),
                FieldsJSON.Entry(name: "owner", value: .reference(Reference(recordName: "b", action: .deleteSelf))),
            ]
            try await store.write { writer throws(RelayError) in
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
            #expect(try found("b", in: store).count == 2)
            // Waits for the store's thread, which might otherwise close the file later.
            store.close()
        }
        let queue = try DatabaseQueue(path: CheckedVFS.address(of: path))
        try await queue.write {
            try $0.execute(sql: "DROP TABLE reference; DELETE FROM grdb_migrations WHERE identifier = '8 references'")
        }
        try queue.close()
    }
}
