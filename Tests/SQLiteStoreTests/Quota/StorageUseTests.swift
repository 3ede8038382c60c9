import Foundation
import GRDB
import Records
import RelayCore
import SQLiteStore
import Testing

/// Compares the store's usage totals with a count of its rows.
@Suite struct StorageUseTests {
    private let alice = UserID("_00000000000000000000000000000001")
    private let bob = UserID("_00000000000000000000000000000002")

    private func withFile<Result>(_ body: (String) async throws -> Result) async throws -> Result {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        return try await body(folder.appendingPathComponent("store.sqlite").path)
    }

    private func open(_ path: String) throws -> SQLiteStore {
        try SQLiteStore(.file(path: path), draw: { UInt64.random(in: 1 ... .max) })
    }

    private func asset(_ number: UInt8) -> String {
        AssetHash(Array(repeating: number, count: AssetHash.byteCount))?.checksum ?? ""
    }

    /// Returns a record's fields with some text and these assets, each of 100 times its number in bytes.
    private func fields(_ text: Int, _ assets: [UInt8]) -> [UInt8] {
        let list = assets.map { #"{"fileChecksum":"\#(asset($0))","size":\#(Int($0) * 100)}"# }.joined(separator: ",")
        let text = String(repeating: "x", count: text)
        return Array(
            #"{"text":{"value":"\#(text)","type":"STRING"},"files":{"value":[\#(list)],"type":"ASSETID_LIST"}}"#.utf8
        )
    }

    private func save(_ store: SQLiteStore, _ zone: ZoneID, _ changes: [(name: String, fields: [UInt8]?)]) async throws
    {
        let alice = alice
        try await store.write(touching: zone.owner) { writer throws(RelayError) in
            if try writer.schema.types["Photo"] == nil {
                try writer.define([
                    "Photo": RecordType(fields: ["files": .init(.list(.asset)), "text": .init(.scalar(.string))])
                ])
            }
            let zone = if let zone = try writer.zone(zone) { zone } else { try writer.makeZone(zone, by: "") }
            let before = try writer.records(named: changes.map(\.name), in: zone)
            let stamp = StoredRecord.Stamp(
                at: Timestamp(milliseconds: 1),
                by: alice,
                device: DeviceFingerprint(bits: 1)
            )
            let records = changes.map { change in
                StoredRecord(
                    name: change.name,
                    type: "Photo",
                    change: writer.takeChangeNumber(),
                    created: stamp,
                    modified: stamp,
                    fields: change.fields ?? Array("{}".utf8),
                    isDeleted: change.fields == nil
                )
            }
            try writer.put(records, replacing: before, in: zone, by: "")
        }
    }

    private func use(_ store: SQLiteStore, of owner: UserID) async throws -> StorageUse {
        let read = try store.read { reader throws(RelayError) in try reader.storageUse(of: owner) }
        let written = try await store.write(touching: owner) { writer throws(RelayError) in
            try writer.storageUse(of: owner)
        }
        #expect(read == written)
        return read
    }

    /// Adds up the rows.
    private func count(_ path: String, of owner: UserID) throws -> StorageUse {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try queue.read { database in
            let zones = "SELECT id FROM zone WHERE deleted = 0 AND owner = (SELECT id FROM user WHERE name = ?)"
            let records = try Int64.fetchOne(
                database,
                sql: """
                    SELECT coalesce(sum(100 + length(CAST(name AS BLOB)) + length(fields)), 0)
                    FROM record WHERE deleted = 0 AND zone IN (\(zones))
                    """,
                arguments: [owner.recordName]
            )
            let assets = try Int64.fetchOne(
                database,
                sql: """
                    SELECT coalesce(sum(size), 0)
                    FROM (SELECT DISTINCT zone, hash, size FROM asset_use WHERE zone IN (\(zones)))
                    """,
                arguments: [owner.recordName]
            )
            return StorageUse(records: records ?? -1, assets: assets ?? -1)
        }
    }

    @Test(arguments: 0..<4 as Range<UInt64>) func totalsAreCorrectAfterRandomWrites(_ seed: UInt64) async throws {
        var random = SplitMix(state: seed + 1)
        try await withFile { path in
            let store = try open(path)
            defer { store.close() }
            let zones = [
                ZoneID(ZoneID.defaultName, owner: Zone.publicOwner), ZoneID("A", owner: alice),
                ZoneID("B", owner: alice), ZoneID("A", owner: bob),
            ]
            for step in 0..<120 {
                let zone = zones[Int(random.next() % UInt64(zones.count))]
                if step % 23 == 22, zone.owner != Zone.publicOwner {
                    try await store.write(touching: zone.owner) { writer throws(RelayError) in
                        if let zone = try writer.zone(zone) { try writer.deleteZone(zone, by: "") }
                    }
                    continue
                }
                let names = Set((0..<4).map { _ in "r\(random.next() % 12)" })
                let changes = names.sorted().map { name -> (name: String, fields: [UInt8]?) in
                    guard random.next() % 4 > 0 else { return (name, nil) }
                    let assets = Set((0..<random.next() % 3).map { _ in UInt8(1 + random.next() % 6) })
                    return (name, fields(Int(random.next() % 300), assets.sorted()))
                }
                try await save(store, zone, changes)
            }
            for owner in [Zone.publicOwner, alice, bob] {
                #expect(try await use(store, of: owner) == count(path, of: owner), "seed \(seed)")
            }
        }
    }

    @Test func aFailedWriteDoesNotChangeTheTotals() async throws {
        try await withFile { path in
            let store = try open(path)
            defer { store.close() }
            let zone = ZoneID("A", owner: alice)
            try await save(store, zone, [("a", fields(10, [1]))])
            let before = try await use(store, of: alice)
            // A second zone of the same name violates an index, so SQLite fails and with it the commit.
            await #expect(throws: RelayError.self) {
                try await store.write(touching: zone.owner) { writer throws(RelayError) in
                    guard let zone = try writer.zone(zone) else { throw .zoneNotFound }
                    let stamp = StoredRecord.Stamp(
                        at: Timestamp(milliseconds: 1),
                        by: zone.id.owner,
                        device: DeviceFingerprint(bits: 1)
                    )
                    let record = StoredRecord(
                        name: "b",
                        type: "Photo",
                        change: writer.takeChangeNumber(),
                        created: stamp,
                        modified: stamp,
                        fields: Array("{}".utf8)
                    )
                    try writer.put([record], replacing: [:], in: zone, by: "")
                    _ = try writer.makeZone(zone.id, by: "")
                }
            }
            #expect(try await use(store, of: alice) == before)
            #expect(try count(path, of: alice) == before)
        }
    }
}

/// Reproducible random numbers (SplitMix64).
private struct SplitMix {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
