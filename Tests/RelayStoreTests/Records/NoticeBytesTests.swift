import Records
import RelayCore
import RelayStore
import Synchronization
import Testing
import Wire

/// The records that a commit keeps for its listeners.
@Suite struct NoticeBytesTests {
    private let zone = ZoneID("Notes", owner: UserID("_00000000000000000000000000000001"))

    private func record(_ name: String, bytes: Int, change: UInt64, isDeleted: Bool = false) -> StoredRecord {
        let stamp = StoredRecord.Stamp(
            at: Timestamp(milliseconds: 1),
            by: zone.owner,
            device: DeviceFingerprint(bits: 1)
        )
        let title = FieldsJSON.Entry(name: "title", value: .string(String(repeating: "x", count: bytes)))
        return StoredRecord(
            name: name,
            type: "Note",
            change: change,
            created: stamp,
            modified: stamp,
            fields: isDeleted ? FieldsJSON.empty : FieldsJSON.encode([title]),
            isDeleted: isDeleted
        )
    }

    /// Deletions of subscribed records are reported with their former contents, but not with gigabytes of them.
    @Test func formerContentsOfDeletedRecordsAreLimited() async throws {
        let heard = Mutex<[CommittedRecord]>([])
        let store = try SQLiteStore(.memory, draw: { 7 }) { commit in heard.withLock { $0 = commit.records } }
        let (id, names) = (zone, (0..<70).map { "n\($0)" })
        let query = SubscribedQuery(recordType: "Note", json: Array("{}".utf8), firesOn: [.delete])
        try await store.write(touching: id.owner) { writer throws(RelayError) in
            try writer.define(["Note": RecordType()])
            let zone = try writer.makeZone(id, by: "phone")
            let records = names.map { record($0, bytes: 1 << 20, change: writer.takeChangeNumber()) }
            try writer.put(records, replacing: [:], in: zone, by: "phone")
            try writer.put([Subscription(id: "watch", kind: .query(query))], of: id.owner, in: .private)
        }
        try await store.write(touching: id.owner) { writer throws(RelayError) in
            guard let zone = try writer.zone(id) else { throw .zoneNotFound }
            let before = try writer.records(named: names, in: zone)
            let gone = names.map { record($0, bytes: 0, change: writer.takeChangeNumber(), isDeleted: true) }
            try writer.put(gone, replacing: before, in: zone, by: "phone")
        }
        let told = heard.withLock { $0 }
        #expect(told.map(\.after.name) == names)
        #expect(told.allSatisfy { $0.before?.isDeleted == false })
        let bytes = told.map { $0.before?.fields.count ?? 0 }
        #expect(bytes.prefix(60).allSatisfy { $0 > 1 << 20 })
        #expect(bytes.reduce(0, +) <= 65 << 20)
    }
}
