import Foundation
import GRDB
import Records
import RelayCore
import SQLiteStore
import Synchronization
import TestSupport
import Testing

@Suite struct SQLiteStoreTests {
    private let user = UserID("_00000000000000000000000000000001")

    /// Creates a path for a store in a temporary folder, which is removed with the test.
    private func withFile<Result>(_ body: (String) async throws -> Result) async throws -> Result {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        return try await body(folder.appendingPathComponent("store.sqlite").path)
    }

    private func open(_ path: String, seed: UInt64 = 7) throws -> SQLiteStore {
        let drawn = Mutex(seed)
        return try SQLiteStore(
            .file(path: path),
            draw: {
                drawn.withLock {
                    $0 += 1
                    return $0
                }
            }
        )
    }

    private func makeZone(_ name: String, in store: SQLiteStore) async throws -> Zone {
        let id = ZoneID(name, owner: user)
        return try await store.write(touching: id.owner) { writer throws(RelayError) in
            try writer.makeZone(id, by: "phone")
        }
    }

    private func save(_ names: [String], in id: ZoneID, of store: SQLiteStore) async throws {
        let stamp = StoredRecord.Stamp(at: Timestamp(milliseconds: 1), by: user, device: DeviceFingerprint(bits: 1))
        try await store.write(touching: id.owner) { writer throws(RelayError) in
            guard let zone = try writer.zone(id) else { throw .zoneNotFound }
            let before = try writer.records(named: names, in: zone)
            if try writer.schema.types["Note"] == nil { try writer.define(["Note": RecordType()]) }
            let records = names.map {
                StoredRecord(
                    name: $0,
                    type: "Note",
                    change: writer.takeChangeNumber(),
                    created: stamp,
                    modified: stamp,
                    fields: Array("{}".utf8)
                )
            }
            try writer.put(records, replacing: before, in: zone, by: "phone")
        }
    }

    private func feed(_ store: SQLiteStore, _ id: ZoneID, after: UInt64 = 0) throws -> [String] {
        try store.read { reader throws(RelayError) in
            guard let zone = try reader.zone(id), zone.lastChange > after else { return [] }
            var names: [String] = []
            try reader.visitRecords(
                in: zone,
                changes: after + 1...zone.lastChange,
                backwards: false,
                limit: 100_000
            ) { record, _ in names.append(record.name) }
            return names
        }
    }

    /// Returns the names and the token of a page since a token.
    private func page(_ store: SQLiteStore, _ id: ZoneID, since token: String? = nil) throws -> ([String], String) {
        let database = DatabaseAddress(scope: .private, caller: Caller(.user(user), deviceID: ""))
        return try store.read { reader throws(RelayError) in
            var names: [String] = []
            let page = try ZoneChanges(zone: id, of: database, token: token, limit: 1_000)
                .read(from: reader, epochs: store.epochs) { names.append($0.name) }
            return (names, page.token.encoded)
        }
    }

    /// Restored as by `cp` over the file, or by a snapshot of the machine's disk: the store is not told.
    @Test func aRestoredFileExpiresTheTokensAndTagsOfItsLostFuture() async throws {
        try await withFile { path in
            let first = try open(path, seed: 100)
            let zone = try await makeZone("Notes", in: first).id
            try await save(["a"], in: zone, of: first)
            let early = try page(first, zone).1
            first.close()
            let kept = try Data(contentsOf: URL(fileURLWithPath: path))

            let second = try open(path, seed: 200)
            for number in 0..<30 { try await save(["lost-\(number)"], in: zone, of: second) }
            let (lost, late) = try page(second, zone, since: early)
            #expect(lost.count == 30, "a token of an earlier process is valid")
            let tags = try second.read { reader throws(RelayError) in
                guard let zone = try reader.zone(zone) else { throw .zoneNotFound }
                return Set(try reader.records(named: lost, in: zone).values.map(\.changeTag))
            }
            second.close()
            #expect(FileManager.default.contents(atPath: path + "-wal") == Data())
            try kept.write(to: URL(fileURLWithPath: path))

            let third = try open(path, seed: 300)
            #expect(throws: RelayError.changeTokenExpired) { try page(third, zone, since: late) }
            for number in 0..<60 { try await save(["new-\(number)"], in: zone, of: third) }
            #expect(throws: RelayError.changeTokenExpired) { try page(third, zone, since: late) }
            let (new, latest) = try page(third, zone, since: early)
            #expect(new.count == 60)
            third.close()

            let fourth = try open(path, seed: 400)
            #expect(try page(fourth, zone, since: latest).0.isEmpty)
            let given = try fourth.read { reader throws(RelayError) in
                guard let zone = try reader.zone(zone) else { throw .zoneNotFound }
                return Set(try reader.records(named: new, in: zone).values.map(\.changeTag))
            }
            #expect(tags.count == 30 && tags.isDisjoint(with: given))
            fourth.close()
        }
    }

    @Test func commitsAreFlushedBeforeTheyAreAcknowledged() async throws {
        try await withFile { path in
            let store = try open(path)
            #expect(try store.synchronousLevel() == 2)
            store.close()
        }
    }

    @Test func aFeedReadsItsIndexWithoutSorting() async throws {
        try await withFile { path in
            let store = try open(path)
            defer { store.close() }
            for statement in SQLiteStore.feedStatements {
                let plan = try await DatabaseQueue(path: path).read { database in
                    try String.fetchAll(
                        database,
                        sql: "EXPLAIN QUERY PLAN " + statement,
                        arguments: [1, 2, 3, 4],
                        adapter: RangeRowAdapter(3..<4)
                    )
                }
                #expect(plan.contains { $0.contains("live_by_run") }, "\(plan)")
                #expect(!plan.contains { $0.contains("TEMP B-TREE") || $0.contains("SCAN r") }, "\(plan)")
            }
        }
    }

    @Test func theRecordsOfADeletedZoneAreRemovedFromTheFile() async throws {
        try await withFile { path in
            let store = try open(path)
            let zone = try await makeZone("Notes", in: store)
            try await save((0..<2_500).map { "n\($0)" }, in: zone.id, of: store)
            try await store.write(touching: zone.id.owner) { writer throws(RelayError) in
                guard let zone = try writer.zone(zone.id) else { throw .zoneNotFound }
                try writer.deleteZone(zone, by: "phone")
            }
            #expect(try feed(store, zone.id).isEmpty)
            store.close()  // Closing finishes the running step; the next start removes the rest.
            let again = try open(path)
            let file = try DatabaseQueue(path: path)
            func rest() throws -> Int? {
                try file.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM record") }
            }
            try await eventually("the records to be gone") { try rest() == 0 }
            again.close()
        }
    }
}

/// Files that no relay has written, as a backup may contain them.
@Suite struct CraftedFileTests {
    @Test(arguments: [Int64.min, -1, .max, .max - 1])
    func anInvalidChangeNumberIsDamage(stamp: Int64) async throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString).sqlite")
            .path
        defer { for rest in ["", "-wal", "-shm"] { unlink(path + rest) } }
        let store = try SQLiteStore(.file(path: path), draw: { 7 })
        let id = ZoneID("Notes", owner: UserID("_00000000000000000000000000000001"))
        try await store.write(touching: id.owner) { writer throws(RelayError) in
            _ = try writer.makeZone(id, by: "phone")
        }
        try store.connections.write { try $0.execute(sql: "UPDATE zone_stamp SET last_change = ?", arguments: [stamp]) }
        store.close()
        #expect(throws: DatabaseError.self) { try SQLiteStore(.file(path: path), draw: { 8 }) }
    }
}

@Suite struct StoreFailureTests {
    /// SQLite returns the second code if there is no space for the log's index.
    @Test(arguments: [ResultCode.SQLITE_FULL, .SQLITE_IOERR_SHMSIZE]) func aFullDiskIsReported(_ code: ResultCode) {
        let told = StoreFailure.relayError(for: DatabaseError(resultCode: code))
        #expect(told.code == .tryAgainLater)
        #expect(told.reason == "The relay's disk is full.")
    }
}
