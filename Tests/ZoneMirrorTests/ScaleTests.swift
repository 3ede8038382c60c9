import Foundation
import GRDB
import Records
import RelayAPI
import RelayCore
import Synchronization
import TestSupport
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Costs that must not grow with deleted records or with the size of an import: counted here, timed in
/// `Tests/Benchmarks`.
@Suite(.timeLimit(.minutes(15))) struct ScaleTests {
    let relay: TestRelay
    static let home = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")

    init() throws { relay = try TestRelay() }

    /// All but one of 100,000 records are deleted.
    @Test func aFirstFetchCostsOnlyLiveRecords() async throws {
        let phone = relay.device(of: "alice", named: "phone")
        try await phone.privateDatabase.save(CKRecordZone(zoneID: Self.home))
        let owner = UserID(try await phone.container.userRecordID().recordName)
        try await relay.enter(100_000, of: owner) { $0 != 50_000 }
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        laptop.device.network.forgetOperations()
        try await laptop.container.fetchChanges()
        #expect(try laptop.titles == ["n50000": "x"])
        // The cost is proportional to live records: no tombstone is sent, and a response skips 10,000 of them.
        let imports = try await laptop.container.events(of: laptop.store).filter { $0.kind == .import }
        #expect(imports.map(\.done) == [1])
        #expect(imports.allSatisfy { $0.bytes > 0 && $0.bytes < 10_000 })
        #expect(laptop.device.network.operations.filter { $0.hasSuffix("changes/zone") }.count <= 14)
        let kept = try await laptop.container.database(of: laptop.store)?.read { db in
            try Int.fetchOne(db, sql: "SELECT count(*) FROM mirror_record")
        }
        #expect(kept == 1)
    }

    /// During an import of 100,000 objects, main actor reads stay fast, see complete objects, and see rows before the
    /// import ends.
    @Test func mainActorReadsStayFastDuringALargeImport() async throws {
        let phone = relay.device(of: "alice", named: "phone")
        try await phone.privateDatabase.save(CKRecordZone(zoneID: Self.home))
        let owner = UserID(try await phone.container.userRecordID().recordName)
        try await relay.enter(100_000, of: owner) { _ in false }
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        let isDone = Mutex(false)
        // Some objects are committed long before that request, which waits until a read has seen them.
        let seen = Gate()
        laptop.device.network.fail(request: 200, of: "changes/zone", by: .meanwhile { await seen.wait() })
        async let arrival: Void = {
            try await laptop.container.fetchChanges()
            isDone.withLock { $0 = true }
        }()
        let (times, counts) = try await Self.reads(laptop, seen) { isDone.withLock { $0 } }
        seen.open()
        try await arrival
        #expect(try laptop.context().count(FetchRequest(Note.self)) == 100_000)
        #expect(counts.contains { $0 > 0 && $0 < 100_000 })
        #expect(laptop.device.network.operations.count { $0.hasSuffix("changes/zone") } > 200, "the gate was not used")
        // The same reads without an import: a view's read takes milliseconds, a page's transaction a hundred times as
        // long.
        let calm = try await Self.reads(laptop, seen) { false }.times
        let (busy, quiet) = (times[times.count * 99 / 100], calm[calm.count * 99 / 100])
        #expect(busy < max(quiet * 20, 0.05), "p99 \(quiet) s without, \(busy) s during the import")
    }

    /// Permission and share queries are answered from the file by a few index lookups, in far less than a millisecond
    /// of CPU time with 100,000 records.
    @Test func permissionChecksAreCheap() async throws {
        let world = try await SharingWorld()
        let link = try await world.share(publicly: true)
        let bob = world.bob
        try await bob.container.acceptShareInvitations(from: [link], into: bob.others)
        try await bob.container.database(of: bob.others)?.write { db in
            try db.execute(sql: "UPDATE mirror_local SET importing = 1")
            try db.execute(
                sql: """
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
                    INSERT INTO mirror_record(zone, name, oid, entity, type, tag, created, creator, modified, modifier, fields)
                    SELECT (SELECT zone FROM mirror_record LIMIT 1), 'm' || i, 'm' || i, 'Memo', 'CD_Memo', 'x', 1, '_u',
                        1, '_u', x'7b7d'
                    FROM n
                    """
            )
            try db.execute(sql: "UPDATE mirror_local SET importing = 0")
        }
        let objects = (0..<500).map { number in
            ObjectID(store: bob.others, entity: "Memo", name: RecordName("m\(number * 199 + 1)"))
        }
        for object in objects.prefix(10) { #expect(bob.container.canUpdateRecord(for: object)) }
        bob.device.network.forgetOperations()
        let start = Self.processorTime()
        for object in objects {
            _ = bob.container.canUpdateRecord(for: object)
            _ = bob.container.canDeleteRecord(for: object)
            _ = bob.container.canModifyManagedObjects(in: bob.others)
        }
        let each = (Self.processorTime() - start) / 1_500
        #expect(each < 0.001, "\(each * 1_000) ms of this thread for each check")
        #expect(bob.device.network.operations.isEmpty)
        #expect(try await bob.container.fetchShares(matching: Array(objects.prefix(50))).count == 50)
    }

    /// The CPU seconds of this thread.
    private static func processorTime() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    /// Returns the sorted CPU times of a view's reads, and the numbers of objects that they saw.
    ///
    /// Makes at least 300 reads, and more until `isOver` or all objects are visible, for at most 600 s. Opens the gate
    /// once some of the objects are visible.
    @MainActor private static func reads(
        _ mirror: Mirrored,
        _ seen: Gate,
        until isOver: @Sendable () -> Bool
    ) async throws -> (times: [Double], counts: Set<Int>) {
        var (times, counts): ([Double], Set<Int>) = ([], [])
        var request = FetchRequest(Note.self)
        request.limit = 50
        let end = ContinuousClock.now + .seconds(600)
        repeat {
            var found: [Note] = []
            times.append(try threadCPUTime { found = try mirror.container.viewContext.fetch(request) })
            #expect(found.allSatisfy { $0.title == "x" })
            if times.count % 10 == 1 {
                let count = try mirror.container.viewContext.count(FetchRequest(Note.self))
                counts.insert(count)
                if count > 0, count < 100_000 { seen.open() }
            }
            await Task.yield()
        } while times.count < 300 || (ContinuousClock.now < end && !isOver() && counts.max() ?? 0 < 100_000)
        return (times.sorted(), counts)
    }

    /// The relay reports the number of records, so that progress has a total.
    @Test func anImportReportsItsTotal() async throws {
        let database = relay.device(of: "alice", named: "phone").privateDatabase
        try await database.save(CKRecordZone(zoneID: Self.home))
        try await inBatches(2_000) { numbers in
            _ = try await database.modifyRecords(saving: numbers.map { Self.note("n\($0)") }, deleting: [])
        }
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        let events = laptop.container.events
        try await laptop.container.fetchChanges()
        await laptop.container.close()
        var progress: [MirrorEvent] = []
        for await event in events where event.kind == .import { progress.append(event) }
        let running = progress.filter { $0.ended == nil }
        #expect(!running.isEmpty)
        #expect(running.allSatisfy { $0.total == 2_000 && $0.done < 2_000 })
        #expect(progress.map(\.done) == progress.map(\.done).sorted())
        #expect(progress.last?.done == 2_000 && progress.last?.ended != nil)
    }

    private static func note(_ name: String) -> CKRecord {
        let record = CKRecord(recordType: "CD_Note", recordID: CKRecord.ID(recordName: name, zoneID: home))
        record["CD_entityName"] = "Note"
        record["CD_title"] = "x"
        return record
    }

    private func inBatches(
        _ count: Int,
        _ work: @escaping @Sendable (Range<Int>) async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for start in stride(from: 0, to: count, by: 200) {
                if start >= 800 { try await group.next() }
                group.addTask { try await work(start..<min(start + 200, count)) }
            }
            try await group.waitForAll()
        }
    }
}

extension TestRelay {
    /// Stores notes in the mirrors' zone with old timestamps; for those that are gone, only a tombstone.
    fileprivate func enter(_ count: Int, of owner: UserID, isGone: @escaping @Sendable (Int) -> Bool) async throws {
        let container = try #require(ContainerID(TestRelay.containerIdentifier))
        let store = try #require(try relay?.stores.store(of: ContainerEnvironment(container, .development)))
        let stamp = StoredRecord.Stamp(at: Timestamp(milliseconds: 1), by: owner, device: DeviceFingerprint(bits: 1))
        let fields = Array(
            #"{"CD_entityName":{"value":"Note","type":"STRING"},"CD_title":{"value":"x","type":"STRING"}}"#.utf8
        )
        for start in stride(from: 0, to: count, by: 10_000) {
            try await store.write(touching: owner) { writer throws(RelayError) in
                let id = ZoneID("com.apple.coredata.cloudkit.zone", owner: owner)
                guard let zone = try writer.zone(id) else { throw .zoneNotFound }
                if start == 0 { try writer.define(["CD_Note": RecordType()]) }
                let records = (start..<min(start + 10_000, count)).map { number in
                    StoredRecord(
                        name: "n\(number)",
                        type: "CD_Note",
                        change: writer.takeChangeNumber(),
                        created: stamp,
                        modified: stamp,
                        fields: isGone(number) ? Array("{}".utf8) : fields,
                        isDeleted: isGone(number)
                    )
                }
                try writer.put(records, replacing: [:], in: zone, by: "long ago")
            }
        }
    }
}
