import Foundation
import GRDB
import Synchronization
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// What must not grow with what is gone, or with what arrives: counted here, timed in `Tests/KitBenchmarks`.
@Suite(.timeLimit(.minutes(5))) struct ScaleTests {
    let relay: TestRelay
    static let home = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")

    init() throws { relay = try TestRelay() }

    /// 20,000 records come and go; one stays.
    @Test func oneAliveAmongThousandsDeleted() async throws {
        let phone = relay.device(of: "alice", named: "phone")
        let database = phone.privateDatabase
        try await database.save(CKRecordZone(zoneID: Self.home))
        try await inBatches(20_000) { numbers in
            let records = numbers.map { Self.note("n\($0)") }
            let saved = try await database.modifyRecords(saving: records, deleting: [], savePolicy: .allKeys)
            #expect(saved.saveResults.count == numbers.count)
            let gone = numbers.filter { $0 != 10_000 }.map { CKRecord.ID(recordName: "n\($0)", zoneID: Self.home) }
            _ = try await database.modifyRecords(saving: [], deleting: gone)
        }
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        laptop.device.network.forgetOperations()
        try await laptop.container.fetchChanges()
        #expect(try laptop.titles == ["n10000": "x"])
        // In proportion to the living: one page of one record, and nothing kept of the others.
        #expect(laptop.device.network.operations.filter { $0.hasSuffix("changes/zone") }.count <= 4)
        let kept = try await laptop.container.database(of: laptop.store)?.read { db in
            try Int.fetchOne(db, sql: "SELECT count(*) FROM mirror_record")
        }
        #expect(kept == 1)
    }

    /// While 20,000 objects arrive, a view goes on reading whole objects, and rows show before all are there.
    @Test func readersGoOnDuringAnImport() async throws {
        let phone = relay.device(of: "alice", named: "phone")
        let database = phone.privateDatabase
        try await database.save(CKRecordZone(zoneID: Self.home))
        try await inBatches(20_000) { numbers in
            _ = try await database.modifyRecords(saving: numbers.map { Self.note("n\($0)") }, deleting: [])
        }
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        let isDone = Mutex(false)
        async let arrival: Void = {
            try await laptop.container.fetchChanges()
            isDone.withLock { $0 = true }
        }()
        var (counts, request) = (Set<Int>(), FetchRequest(Note.self))
        request.limit = 50
        while !isDone.withLock({ $0 }) {
            #expect(try laptop.context().fetch(request).allSatisfy { $0.title == "x" })
            counts.insert(try laptop.context().count(FetchRequest(Note.self)))
            await Task.yield()
        }
        try await arrival
        #expect(try laptop.context().count(FetchRequest(Note.self)) == 20_000)
        #expect(counts.contains { $0 > 0 && $0 < 20_000 })
    }

    /// The relay says how much there is, so that progress has an end that one can see.
    @Test func anImportTellsHowMuchThereIs() async throws {
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
