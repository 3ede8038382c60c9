import DiskTrials
import Foundation
import GRDB
import Records
import RelayCore
import SQLiteStore
import Testing

/// A commit writes its pages to the log in a few large writes.
///
/// If one of them fails, the remaining pages must never be written.
@Suite(.timeLimit(.minutes(5))) struct BufferedFrameTests {
    private let folder: DiskFolder
    private let zone = ZoneID("Notes", owner: UserID("_00000000000000000000000000000001"))

    init() throws { folder = try DiskFolder() }

    private func save(_ names: [String], in store: SQLiteStore) async throws {
        let (id, text) = (zone, String(repeating: "x", count: 1_500))
        try await store.write(touching: id.owner) { writer throws(RelayError) in
            if try writer.zone(id) == nil { _ = try writer.makeZone(id, by: "phone") }
            guard let zone = try writer.zone(id) else { throw .zoneNotFound }
            if try writer.schema.types["Note"] == nil { try writer.define(["Note": RecordType()]) }
            let stamp = StoredRecord.Stamp(
                at: Timestamp(milliseconds: 1),
                by: id.owner,
                device: DeviceFingerprint(bits: 1)
            )
            let records = names.map {
                StoredRecord(
                    name: $0,
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

    @Test func aCommitOfAnotherProcessAfterAFailedWriteIsKept() async throws {
        let disk = FaultyDisk(folder: folder.path)
        defer { disk.detach() }
        let path = folder.path + "/store.sqlite"
        let store = try SQLiteStore(.file(path: path), draw: { 7 })
        try await save(["first"], in: store)
        // Commands use the same timeout: the store may hold the lock for a while after it has answered.
        var patient = Configuration()
        patient.busyMode = .timeout(120)
        let other = try DatabaseQueue(path: CheckedVFS.address(of: path), configuration: patient)
        var saved: Set = ["first"]
        var number = 0
        while true {
            number += 1
            disk.arm(.init([.write], number: number, .isFull))
            // Twice as many pages as one write takes.
            let names = (0..<150).map { "\(number)-\($0)" }
            let result = await Result { try await save(names, in: store) }
            guard disk.disarm() else {
                saved.formUnion(names)
                break
            }
            #expect(throws: RelayError.self) { try result.get() }
            try await other.write { [number] in
                try $0.execute(sql: "INSERT OR REPLACE INTO fact VALUES ('other', ?)", arguments: [number])
            }
            try await save(["after \(number)"], in: store)
            saved.insert("after \(number)")
            #expect(
                try await other.read { try Int.fetchOne($0, sql: "SELECT value FROM fact WHERE name = 'other'") }
                    == number
            )
        }
        #expect(number > 3, "the commit was one write")
        for _ in 0..<2 {
            let seen = try await other.read { try Set(String.fetchAll($0, sql: "SELECT name FROM record")) }
            #expect(seen == saved)
            #expect(try store.content().rows.count == saved.count)
            #expect(try await other.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok")
            try await save(["last"].filter { !saved.contains($0) }, in: store)
            saved.insert("last")
        }
        try other.close()
        store.close()
        let again = try SQLiteStore(.file(path: path), draw: { 7 })
        #expect(try Set(again.content().rows.map(\.name)) == saved)
        again.close()
    }
}

extension Result where Failure == any Error {
    fileprivate init(_ body: () async throws -> Success) async {
        do { self = .success(try await body()) } catch { self = .failure(error) }
    }
}
