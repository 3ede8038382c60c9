import Foundation
import GRDB
import Records
import RelayCore
import Testing
import Wire

@testable import RelayStore

/// Files that no relay has written, as a backup may contain them.
@Suite struct CraftedFileTests {
    @Test(arguments: [Int64.min, -1, .max, .max - 1])
    func anInvalidChangeNumberIsDamage(stamp: Int64) async throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString).sqlite")
            .path
        defer { for rest in ["", "-wal", "-shm"] { unlink(path + rest) } }
        let store = try SQLiteStore(.file(path: path), draw: { 7 })
        let id = ZoneID("Notes", owner: UserID("_00000000000000000000000000000001"))
        try await store.write { writer throws(RelayError) in _ = try writer.makeZone(id, by: "phone") }
        try store.connections.write { try $0.execute(sql: "UPDATE zone_stamp SET last_change = ?", arguments: [stamp]) }
        store.close()
        #expect(throws: DatabaseError.self) { try SQLiteStore(.file(path: path), draw: { 8 }) }
    }

    /// Fields that are not needed are not read.
    @Test func recordsAreReadWithoutFieldsOnRequest() async throws {
        let store = try SQLiteStore(.memory, draw: { 7 })
        let user = UserID("_00000000000000000000000000000001")
        let id = ZoneID("Notes", owner: user)
        let stamp = StoredRecord.Stamp(at: Timestamp(milliseconds: 1), by: user, device: DeviceMark(bits: 1))
        let fields = FieldsJSON.encode([FieldsJSON.Entry(name: "title", value: .string("x"))])
        try await store.write { writer throws(RelayError) in
            try writer.define(["Note": RecordType()])
            let zone = try writer.makeZone(id, by: "phone")
            let change = writer.takeChangeNumber()
            let record = StoredRecord(
                name: "a",
                type: "Note",
                change: change,
                created: stamp,
                modified: stamp,
                fields: fields
            )
            try writer.put([record], replacing: [:], in: zone, by: "phone")
        }
        let (whole, light) = try store.read { reader throws(RelayError) in
            guard let zone = try reader.zone(id) else { throw .zoneNotFound }
            return (
                try reader.records(named: ["a"], in: zone)["a"],
                try reader.records(named: ["a"], in: zone, withFields: false)["a"]
            )
        }
        #expect(whole?.fields == fields && light?.fields == FieldsJSON.empty)
        #expect(light?.change == whole?.change && light?.created == stamp)
        store.close()
    }
}
