import Foundation
import GRDB
import Records
import RelayCore
import RelayStore
import Synchronization
import TestSupport
import Testing
import Wire

@Suite struct SQLiteStoreTests {
    private let user = UserID("_00000000000000000000000000000001")

    /// Creates a path for a store in a temporary folder, which is removed with the test.
    private func withFile<Result>(_ body: (String) async throws -> Result) async throws -> Result {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        return try await body(folder.appendingPathComponent("store.sqlite").path)
    }

    private func open(_ path: String, seed: UInt64 = 7, onCommit: @escaping @Sendable (Commit) -> Void = { _ in })
        throws -> SQLiteStore
    {
        let drawn = Mutex(seed)
        return try SQLiteStore(
            .file(path: path),
            draw: {
                drawn.withLock {
                    $0 += 1
                    return $0
                }
            },
            onCommit: onCommit
        )
    }

    private func makeZone(_ name: String, in store: SQLiteStore) async throws -> Zone {
        let id = ZoneID(name, owner: user)
        return try await store.write(touching: id.owner) { writer throws(RelayError) in
            try writer.makeZone(id, by: "phone")
        }
    }

    private func save(
        _ names: [String],
        in id: ZoneID,
        of store: SQLiteStore,
        deleted isDeleted: Bool = false
    ) async throws {
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
                    fields: Array("{}".utf8),
                    isDeleted: isDeleted
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

    @Test func aWriteAfterClosingFails() async throws {
        try await withFile { path in
            let store = try open(path)
            _ = try await makeZone("Notes", in: store)
            store.close()
            await #expect(throws: RelayError.self) { try await makeZone("Late", in: store) }
        }
    }

    @Test func reopeningKeepsAllRecords() async throws {
        try await withFile { path in
            let first = try open(path)
            let zone = try await makeZone("Notes", in: first)
            try await save(["a", "b"], in: zone.id, of: first)
            try await save(["a"], in: zone.id, of: first)
            let epoch = first.epochs.current
            first.close()

            let second = try open(path)
            #expect(second.epochs.current == epoch)
            #expect(second.currentSchema.types["Note"] == RecordType())
            #expect(try feed(second, zone.id) == ["b", "a"])
            let before = try second.read { reader throws(RelayError) in try reader.zone(zone.id)?.lastChange } ?? 0
            try await save(["c"], in: zone.id, of: second)
            let after = try second.read { reader throws(RelayError) in try reader.zone(zone.id)?.lastChange } ?? 0
            #expect(after > before, "a change number was assigned twice")
            #expect(try second.integrityReport() == "ok")
            second.close()
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

    @Test func feedsAreCorrectAcrossManyRuns() async throws {
        try await withFile { path in
            let store = try open(path)
            defer { store.close() }
            let (a, b) = (try await makeZone("A", in: store), try await makeZone("B", in: store))
            var expected: [String] = []
            for round in 0..<6 {
                let names = (0..<700).map { "r\(round)-\($0)" }
                try await save(names, in: a.id, of: store)
                try await save(names, in: b.id, of: store)
                expected += names
            }
            #expect(try feed(store, a.id) == expected)
            #expect(try feed(store, b.id) == expected)
        }
    }

    /// A feed is read differently if its zone has most of the changes than if it has few; the results must be the same.
    @Test(arguments: [UInt64](1...6)) func feedsAreTheSameForAnyDistributionOfChanges(seed: UInt64) async throws {
        let drawn = Mutex(UInt64(7))
        let store = try SQLiteStore(
            .memory,
            draw: {
                drawn.withLock {
                    $0 += 1
                    return $0
                }
            }
        )
        let (a, b) = (try await makeZone("A", in: store), try await makeZone("B", in: store))
        var dice = Dice(state: seed)
        for step in 0..<40 {
            let names = (0...dice.below(90)).map { "r\(step)-\($0)" }
            switch dice.below(4) {
            case 0: for name in names { try await save([name], in: dice.below(4) == 0 ? a.id : b.id, of: store) }
            case 1: try await save(names, in: b.id, of: store)
            case 2: try await save(names, in: a.id, of: store, deleted: true)
            default: try await save(names, in: a.id, of: store)
            }
        }
        for isPlain in [true, false] {
            let all = try changes(store, a.id, from: 1, limit: 100_000, isPlain: isPlain)
            #expect(all.contains { $0.isDeleted } && all.contains { !$0.isDeleted })
            for limit in [1, 31, 32, 33, 64, 100, 200] {
                for _ in 0..<12 {
                    let start = UInt64(1 + dice.below(Int(all.last?.position ?? 1)))
                    let rest = all.filter { $0.position >= start }
                    let found = try changes(store, a.id, from: start, limit: limit, isPlain: isPlain)
                    #expect(found == Array(rest.prefix(limit)), "seed \(seed), \(limit) from \(start)")
                    let living = try changes(store, a.id, from: start, .living, limit: limit, isPlain: isPlain)
                    #expect(
                        living == Array(rest.filter { !$0.isDeleted }.prefix(limit)),
                        "seed \(seed), \(limit) living from \(start)"
                    )
                }
            }
        }
    }

    private struct Seen: Equatable {
        var name: String
        var position: UInt64
        var isDeleted = false
    }

    private func changes(
        _ store: SQLiteStore,
        _ id: ZoneID,
        from start: UInt64,
        _ states: FeedFilter = .all,
        limit: Int,
        isPlain: Bool
    ) throws -> [Seen] {
        try store.read { reader throws(RelayError) in
            guard let zone = try reader.zone(id), zone.lastChange >= start else { return [] }
            var seen: [Seen] = []
            try reader.visitRecords(
                in: zone,
                changes: start...zone.lastChange,
                states: states,
                backwards: false,
                limit: limit,
                rowsExceptFor: isPlain ? [] : nil
            ) { record, position in
                switch record {
                case .lent(let row):
                    seen.append(Seen(name: String(decoding: row.pointee.name, as: UTF8.self), position: position))
                case .whole(let whole):
                    seen.append(Seen(name: whole.name, position: position, isDeleted: whole.isDeleted))
                }
                return true
            }
            return seen
        }
    }

    @Test func writesInOneCommitAreReportedTogether() async throws {
        try await withFile { path in
            let heard = Mutex<[[CommittedChange]]>([])
            let store = try open(path, onCommit: { commit in heard.withLock { $0.append(commit.zones) } })
            defer { store.close() }
            let zone = try await makeZone("Notes", in: store)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<50 { group.addTask { try await self.save(["n\(writer)"], in: zone.id, of: store) } }
                try await group.waitForAll()
            }
            let commits = heard.withLock { $0 }
            // Each commit has one entry for the zone, and the last token is that of the zone's last change.
            #expect(commits.allSatisfy { $0.count == 1 })
            let last = try store.read { reader throws(RelayError) in try reader.zone(zone.id)?.lastChange }
            #expect(commits.last?.last?.token?.position == last)
            #expect(try feed(store, zone.id).count == 50)
        }
    }

    @Test func aZoneDeletedAndRecreatedInOneCommitIsReportedOnce() async throws {
        try await withFile { path in
            let heard = Mutex<[[CommittedChange]]>([])
            let store = try open(path, onCommit: { commit in heard.withLock { $0.append(commit.zones) } })
            defer { store.close() }
            let old = try await makeZone("Notes", in: store)
            let new = try await store.write(touching: old.id.owner) { writer throws(RelayError) in
                try writer.deleteZone(old, by: "phone")
                return try writer.makeZone(old.id, by: "phone")
            }
            let changes = try #require(heard.withLock { $0.last })
            #expect(changes.map(\.zone) == [old.id])
            #expect(changes.first?.token?.log == new.identity && changes.first?.token?.position == new.lastChange)
            #expect(try store.read { reader throws(RelayError) in try reader.zone(old.id) } == new)
        }
    }

    @Test func aRefusedWriteChangesNothing() async throws {
        try await withFile { path in
            let store = try open(path)
            defer { store.close() }
            let zone = try await makeZone("Notes", in: store)
            await #expect(throws: RelayError.zoneNotFound) {
                try await save(["x"], in: ZoneID("Nowhere", owner: user), of: store)
            }
            try await save(["y"], in: zone.id, of: store)
            #expect(try feed(store, zone.id) == ["y"])
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

    /// Fields that are not needed are not read.
    @Test func recordsAreReadWithoutFieldsOnRequest() async throws {
        let store = try SQLiteStore(.memory, draw: { 7 })
        let user = UserID("_00000000000000000000000000000001")
        let id = ZoneID("Notes", owner: user)
        let stamp = StoredRecord.Stamp(at: Timestamp(milliseconds: 1), by: user, device: DeviceFingerprint(bits: 1))
        let fields = FieldsJSON.encode([FieldsJSON.Entry(name: "title", value: .string("x"))])
        try await store.write(touching: id.owner) { writer throws(RelayError) in
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

@Suite struct StoreFailureTests {
    /// SQLite returns the second code if there is no space for the log's index.
    @Test(arguments: [ResultCode.SQLITE_FULL, .SQLITE_IOERR_SHMSIZE]) func aFullDiskIsReported(_ code: ResultCode) {
        let told = StoreFailure.relayError(for: DatabaseError(resultCode: code))
        #expect(told.code == .tryAgainLater)
        #expect(told.reason == "The relay's disk is full.")
    }
}
