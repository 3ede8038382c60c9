import Foundation
import Records
import RelayCore
import SQLiteStore
import TestSupport
import Testing

/// Preallocation and checkpoints of the log, as seen in the files.
@Suite struct WriteAheadLogTests {
    private let user = UserID("_00000000000000000000000000000001")
    private let zone = ZoneID("Notes", owner: UserID("_00000000000000000000000000000001"))

    /// Creates a temporary folder, which is removed with the test.
    private func withFolder<Result>(_ body: (URL) async throws -> Result) async throws -> Result {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        return try await body(folder)
    }

    private func open(_ folder: URL) throws -> SQLiteStore {
        try SQLiteStore(.file(path: folder.appendingPathComponent("store.sqlite").path), draw: { 7 })
    }

    private func begin(_ store: SQLiteStore) async throws {
        let zone = zone
        try await store.write(touching: zone.owner) { writer throws(RelayError) in
            try writer.define(["Note": RecordType()])
            _ = try writer.makeZone(zone, by: "phone")
        }
    }

    private func save(_ names: some Sequence<Int> & Sendable, bytes: Int = 10, in store: SQLiteStore) async throws {
        let (id, user) = (zone, user)
        try await store.write(touching: id.owner) { writer throws(RelayError) in
            guard let zone = try writer.zone(id) else { throw .zoneNotFound }
            let stamp = StoredRecord.Stamp(at: Timestamp(milliseconds: 1), by: user, device: DeviceFingerprint(bits: 1))
            let text = String(repeating: "x", count: bytes)
            let records = names.map {
                StoredRecord(
                    name: "n\($0)",
                    type: "Note",
                    change: writer.takeChangeNumber(),
                    created: stamp,
                    modified: stamp,
                    fields: Array(#"{"a":{"value":"\#(text)","type":"STRING"}}"#.utf8)
                )
            }
            try writer.put(records, replacing: [:], in: zone, by: "phone")
        }
    }

    private func size(_ name: String, in folder: URL) throws -> Int {
        try FileManager.default.attributesOfItem(atPath: folder.appendingPathComponent(name).path)[.size] as? Int ?? 0
    }

    /// Returns the number of restarts of the log, from its header, which only SQLite writes.
    private func restarts(ofLogIn folder: URL) throws -> Data {
        let log = try FileHandle(forReadingFrom: folder.appendingPathComponent("store.sqlite-wal"))
        defer { try? log.close() }
        try log.seek(toOffset: 12)
        return try log.read(upToCount: 4) ?? Data()
    }

    @Test func aPreallocatedLogIsReadCompletely() async throws {
        try await withFolder { folder in
            let store = try open(folder)
            try await begin(store)
            for name in 1...50 { try await save(name...name, in: store) }
            #expect(try size("store.sqlite-wal", in: folder) > 1 << 20, "zeros follow the log's last frame")

            // The files as a power failure would leave them, without a clean close.
            let copy = folder.appendingPathComponent("copy")
            try FileManager.default.createDirectory(at: copy, withIntermediateDirectories: true)
            for name in ["store.sqlite", "store.sqlite-wal"] {
                try FileManager.default.copyItem(
                    at: folder.appendingPathComponent(name),
                    to: copy.appendingPathComponent(name)
                )
            }
            let again = try open(copy)
            #expect(try again.integrityReport() == "ok")
            let id = zone
            let found = try again.read { reader throws(RelayError) in
                guard let zone = try reader.zone(id) else { throw .zoneNotFound }
                return try reader.records(named: (1...51).map { "n\($0)" }, in: zone).count
            }
            #expect(found == 50)
            // New frames must not be mixed up with bytes behind the former end.
            try await save(51...60, in: again)
            again.close()
            let third = try open(copy)
            #expect(try third.integrityReport() == "ok")
            third.close()
            store.close()
        }
    }

    @Test func aFullLogIsCheckpointedAndRestarts() async throws {
        try await withFolder { folder in
            let store = try open(folder)
            try await begin(store)
            try await save(1...45, bytes: 800_000, in: store)
            // Most of the log is copied in parallel to the following commits, and the rest between two commits.
            var name = 46
            let first = try restarts(ofLogIn: folder)
            try await eventually("the log to restart") {
                try await save(name...name, in: store)
                name += 1
                return try restarts(ofLogIn: folder) != first
            }
            #expect(try size("store.sqlite", in: folder) > 32 << 20)
            let full = try size("store.sqlite-wal", in: folder)
            // Twice as much as a log that only grows would hold.
            let more = 1_000_000..<1_000_045
            for name in more { try await save(name...name, bytes: 800_000, in: store) }
            let grown = try size("store.sqlite-wal", in: folder)
            #expect(grown < full + full / 2, "the log is overwritten from its beginning")
            store.close()
            let again = try open(folder)
            #expect(try again.integrityReport() == "ok")
            let (id, last) = (zone, name)
            let found = try again.read { reader throws(RelayError) in
                guard let zone = try reader.zone(id) else { throw .zoneNotFound }
                return try reader.records(named: (1..<last).map { "n\($0)" }, in: zone).count
            }
            #expect(found == name - 1)
            again.close()
        }
    }

    @Test func aStoreMayBeClosedDuringACheckpoint() async throws {
        try await withFolder { folder in
            let store = try open(folder)
            try await begin(store)
            try await save(1...45, bytes: 800_000, in: store)
            store.close()
            let again = try open(folder)
            #expect(try again.integrityReport() == "ok")
            again.close()
        }
    }
}
