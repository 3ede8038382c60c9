import Foundation
import GRDB
import Synchronization
import ZoneKit
import ZoneMirror

/// Mirrors with a relay: the first import, local saves, reads during an import, permission checks, and the delay
/// until a save is visible on another device.
struct MirrorRows: Sendable {
    static let count = 100_000

    var device: @Sendable (String) -> CKContainer
    /// The parts to measure, all if empty.
    var parts: Set<String>

    private func includes(_ part: String) -> Bool { parts.isEmpty || parts.contains(part) }

    func run() async throws {
        if includes("saves") { try await saves() }
        if includes("import") {
            let user = device("import")
            try await user.privateCloudDatabase.fillMirror(count: Self.count)
            try await initialImport(user)
        }
        if includes("export") { try await exports() }
        if includes("living") { try await living() }
        if includes("visible") { try await visible() }
    }

    // MARK: The first import

    private func initialImport(_ user: CKContainer) async throws {
        // A store with rows, for reads without an import.
        let quiet = try await BenchMirror(nil)
        try await quiet.container.loadStores()
        try await fillLocal(quiet, 1_000)
        let before = try await reads(quiet, while: { round in round < 3_000 })
        let mirror = try await BenchMirror(user)
        let isDone = Flag()
        let memoryBefore = memory().now
        // The import begins when the store is open.
        let start = ContinuousClock.now
        try await mirror.container.loadStores()
        let (memories, memoryFeed) = AsyncStream.makeStream(of: Int.self)
        async let watched = Self.track(mirror, from: start, memoryFeed, isDone)
        async let during = reads(mirror, while: { _ in !isDone.isSet })
        let seconds = try await watched
        let times = try await during
        var seen: [Int] = []
        for await value in memories { seen.append(value) }
        let rate = Double(Self.count) / seconds
        print("initial import of \(Self.count) objects: \(Int(rate))/s (target: 30000), ", terminator: "")
        print("memory \(memoryBefore) MB before, \(seen.map(String.init).joined(separator: " ")) MB by fifths")
        let (calm, busy) = (percentile(before, 99), percentile(times, 99))
        print(
            "main-actor fetch of 20 rows, p99: \(rounded(calm)) ms alone, \(rounded(busy)) ms during the import "
                + "(\(times.count) reads), medians \(rounded(percentile(before, 50))) and "
                + "\(rounded(percentile(times, 50))) ms"
        )
        try await permissions(mirror)
        await mirror.container.close()
        await quiet.container.close()
    }

    /// Waits for the rows and records the memory at each fifth of them.
    private static func track(
        _ mirror: BenchMirror,
        from start: ContinuousClock.Instant,
        _ memories: AsyncStream<Int>.Continuation,
        _ isDone: Flag
    ) async throws -> Double {
        var fifth = 1
        while true {
            let count = try mirror.count()
            if count >= Self.count * fifth / 5 {
                memories.yield(memory().now)
                fifth += 1
            }
            if fifth > 5 { break }
            // Polling the row count costs the import less than a notification for each object would.
            try await Task.sleep(for: .milliseconds(5))
        }
        let (seconds, attoseconds) = (ContinuousClock.now - start).components
        isDone.set()
        memories.finish()
        return Double(seconds) + Double(attoseconds) * 1e-18
    }

    /// Fetches on the main actor, as a view would; returns sorted milliseconds.
    @MainActor private func reads(_ mirror: BenchMirror, while goesOn: @Sendable (Int) -> Bool) async throws -> [Double]
    {
        var request = FetchRequest(MirrorNote.self)
        request.limit = 20
        let context = mirror.container.viewContext
        var times: [Double] = []
        while goesOn(times.count) {
            let start = ContinuousClock.now
            let found = try context.fetch(request)
            times.append(Double((ContinuousClock.now - start).components.attoseconds) * 1e-15)
            precondition(found.count <= 20)
            // A view reads at most once per frame; this is about ten times as often.
            try await Task.sleep(for: .milliseconds(1))
        }
        return times.sorted()
    }

    private func fillLocal(_ mirror: BenchMirror, _ count: Int) async throws {
        let context = mirror.container.newBackgroundContext()
        for number in 0..<count { try context.insert(MirrorNote(title: "Note number \(number)", count: number)) }
        try context.save()
    }

    private func permissions(_ mirror: BenchMirror) async throws {
        let context = mirror.container.newBackgroundContext()
        var request = FetchRequest(MirrorNote.self)
        request.limit = 2_000
        let ids = try context.fetch(request).map { try context.objectID(of: $0) }
        var times: [Double] = []
        for id in ids {
            let start = ContinuousClock.now
            let may = mirror.container.canUpdateRecord(for: id) && mirror.container.canDeleteRecord(for: id)
            times.append(Double((ContinuousClock.now - start).components.attoseconds) * 1e-15 / 2)
            precondition(may)
        }
        times.sort()
        print(
            "permission check at \(try mirror.count()) records: median \(rounded(percentile(times, 50))) ms, "
                + "99 % \(rounded(percentile(times, 99))) ms (target: 1)"
        )
    }

    // MARK: Exports

    /// Many new objects sent to the relay, beside as many records saved without a mirror.
    private func exports() async throws {
        let count = 20_000
        let mirror = try await BenchMirror(device("export"))
        try await mirror.container.loadStores()
        try await mirror.settle()
        try await fillLocal(mirror, count)
        let ours = try await ClientBenchmarks.time {
            // Poll seldom: counting reads each pending row.
            while try await mirror.container.pendingExportCount(mirror.store) > 0 {
                try await Task.sleep(for: .milliseconds(50))
            }
        }
        let bare = try await ClientBenchmarks.time {
            try await device("bare").privateCloudDatabase.fillMirror(count: count, atATime: 1)
        }
        let (mine, floor) = (Double(count) / ours, Double(count) / bare)
        print(
            "export of \(count) objects: \(Int(mine))/s, records saved one request after the other: \(Int(floor))/s, "
                + "ratio \(rounded(mine / floor))"
        )
        await mirror.container.close()
    }

    // MARK: Deleted records

    /// The first import of a record whose zone has many tombstones, beside that of a record that was always alone.
    private func living() async throws {
        let (crowded, alone) = (device("crowded").privateCloudDatabase, device("alone").privateCloudDatabase)
        try await crowded.fillMirror(count: Self.count)
        let home = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
        var (names, token, moreComing): ([CKRecord.ID], CKServerChangeToken?, Bool) = ([], nil, true)
        while moreComing {
            let page = try await crowded.recordZoneChanges(inZoneWith: home, since: token, desiredKeys: [])
            names += page.modificationResultsByID.keys
            (token, moreComing) = (page.changeToken, page.moreComing)
        }
        for start in stride(from: 1, to: names.count, by: 200) {
            let part = Array(names[start..<min(start + 200, names.count)])
            _ = try await crowded.modifyRecords(saving: [], deleting: part)
        }
        try await alone.fillMirror(count: 1)
        var times: [Double] = []
        for user in ["crowded", "alone"] {
            let mirror = try await BenchMirror(device(user))
            try await mirror.container.loadStores()
            times.append(
                try await ClientBenchmarks.time {
                    while try mirror.count() < 1 { try await Task.sleep(for: .milliseconds(1)) }
                } * 1000
            )
            await mirror.container.close()
        }
        print(
            "initial import of 1 object left of \(names.count): \(rounded(times[0])) ms, of 1 always alone: "
                + "\(rounded(times[1])) ms"
        )
    }

    // MARK: Local saves

    private func saves() async throws {
        let mirror = try await BenchMirror(device("save"))
        try await mirror.container.loadStores()
        // The save is measured, not the export after it.
        let plain = try PlainRows()
        for (label, rows, rounds) in [("1 row", 1, 1_000), ("100 rows", 100, 100), ("10000 rows", 10_000, 5)] {
            var (ours, floor): ([Double], [Double]) = ([], [])
            for round in 0..<rounds {
                let context = mirror.container.newBackgroundContext()
                for row in 0..<rows { try context.insert(MirrorNote(title: "Note \(round) \(row)", count: row)) }
                try await mirror.settle()
                try await Task.sleep(for: .milliseconds(2))
                ours.append(try await ClientBenchmarks.time { try context.save() })
                // Both sides run after a pause, so that both have cold caches.
                try await Task.sleep(for: .milliseconds(2))
                floor.append(try await ClientBenchmarks.time { try plain.insert(round, rows) })
            }
            let (a, b) = (percentile(ours.sorted(), 50) * 1000, percentile(floor.sorted(), 50) * 1000)
            print(
                "local save of \(label): \(rounded(a)) ms, plain GRDB \(rounded(b)) ms, "
                    + "ratio \(rounded(a / b)) (target: under 2)"
            )
        }
        await mirror.container.close()
    }

    // MARK: Visibility on another device

    private func visible() async throws {
        let (first, second) = (try await BenchMirror(device("see")), try await BenchMirror(device("see")))
        for mirror in [first, second] { try await mirror.container.loadStores() }
        let context = first.container.newBackgroundContext()
        try context.insert(MirrorNote(id: "one", title: "warm up"))
        try context.save()
        let reader = second.container.newBackgroundContext()
        var changes = reader.objects(MirrorNote.self).makeAsyncIterator()
        func seen(_ title: String) async throws {
            while let notes = await changes.next() { if notes.first?.title == title { return } }
        }
        try await seen("warm up")
        var times: [Double] = []
        for round in 0..<200 {
            try await Task.sleep(for: .milliseconds(100))
            times.append(
                try await ClientBenchmarks.time {
                    try context.edit(MirrorNote.self, "one") { $0.title = "round \(round)" }
                    try context.save()
                    try await seen("round \(round)")
                } * 1000
            )
        }
        times.sort()
        print(
            "a save on one mirror seen on another: median \(rounded(percentile(times, 50))) ms, "
                + "99 % \(rounded(percentile(times, 99))) ms (target: under 30 at the median)"
        )
        for mirror in [first, second] { await mirror.container.close() }
    }
}

/// A flag that one task sets and others read.
private final class Flag: Sendable {
    private let state = Mutex(false)
    var isSet: Bool { state.withLock { $0 } }
    func set() { state.withLock { $0 = true } }
}

/// The same rows in a plain GRDB database.
private final class PlainRows {
    private struct PlainNote: Codable, PersistableRecord {
        static let databaseTableName = "MirrorNote"
        var id: String
        var title: String
        var count: Int
        var at: Date?
        var done: Bool
    }

    private let pool: DatabasePool
    private let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("kit-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        pool = try DatabasePool(path: folder.appendingPathComponent("plain.sqlite").path)
        try pool.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE MirrorNote(id TEXT PRIMARY KEY NOT NULL, title TEXT NOT NULL, count INTEGER NOT NULL,
                        at REAL, done INTEGER NOT NULL)
                    """
            )
        }
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    func insert(_ round: Int, _ rows: Int) throws {
        let notes = (0..<rows).map { row in
            PlainNote(id: UUID().uuidString, title: "Note \(round) \(row)", count: row, at: nil, done: false)
        }
        try pool.write { db in for note in notes { try note.insert(db) } }
    }
}

/// A typical note: a text, a number, a date and a flag.
struct MirrorNote: SyncedRecord {
    var id = RecordName()
    var title = ""
    var count = 0
    var at: Date?
    var done = false
}

/// A device's mirror in a temporary folder, deleted with the object.
final class BenchMirror: Sendable {
    let container: MirroredContainer
    let store: StoreID
    let file: URL
    private let folder: URL

    /// Opens a mirror of a device's private database, or a local store without a device.
    init(_ device: CKContainer?) async throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("kit-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        file = folder.appendingPathComponent("notes.sqlite")
        let cloud = device.map { CloudOptions(container: $0) }
        let description = StoreDescription(url: file, cloud: cloud)
        container = MirroredContainer(model: MirrorModel(MirrorNote.self), stores: [description])
        store = container.store(at: file)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    /// The number of rows, cheap to read but valid only if none was deleted.
    func count() throws -> Int {
        try container.database(of: store)?.read { try Int.fetchOne($0, sql: "SELECT max(rowid) FROM MirrorNote") } ?? 0
    }

    /// Waits until everything is sent, so that the next measurement has the file to itself.
    func settle() async throws {
        while try await container.pendingExportCount(store) > 0 { try await Task.sleep(for: .milliseconds(2)) }
    }
}

extension CKDatabase {
    /// Saves notes in the form in which a mirror would save them.
    func fillMirror(count: Int, atATime limit: Int = 4) async throws {
        let zone = CKRecordZone(zoneName: "com.apple.coredata.cloudkit.zone")
        try await save(zone)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for start in stride(from: 0, to: count, by: 200) {
                if start >= 200 * limit { try await group.next() }
                group.addTask {
                    let records = (start..<min(start + 200, count)).map { Self.mirrorNote($0, in: zone.zoneID) }
                    let results = try await self.modifyRecords(saving: records, deleting: [], savePolicy: .allKeys)
                    for result in results.saveResults.values { _ = try result.get() }
                }
            }
            try await group.waitForAll()
        }
    }

    private static func mirrorNote(_ number: Int, in zone: CKRecordZone.ID) -> CKRecord {
        let record = CKRecord(recordType: "CD_MirrorNote", recordID: .init(recordName: UUID().uuidString, zoneID: zone))
        record["CD_entityName"] = "MirrorNote"
        record["CD_title"] = "Note number \(number)"
        record["CD_count"] = number
        record["CD_at"] = Date(timeIntervalSince1970: Double(number))
        record["CD_done"] = number % 2
        return record
    }
}

/// The process's memory in MB, now and at its peak; 0 on systems other than Linux.
func memory() -> (now: Int, peak: Int) {
    guard let status = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8) else { return (0, 0) }
    func value(_ name: String) -> Int {
        let line = status.split(separator: "\n").first { $0.hasPrefix(name) } ?? ""
        return (line.split(separator: " ").compactMap { Int($0) }.first ?? 0) / 1024
    }
    return (value("VmRSS"), value("VmHWM"))
}

/// The value below which this percentage of a sorted list lies.
func percentile(_ sorted: [Double], _ percent: Int) -> Double {
    sorted.isEmpty ? 0 : sorted[min(sorted.count - 1, sorted.count * percent / 100)]
}

/// Rounds to two decimal places.
func rounded(_ value: Double) -> Double { (value * 100).rounded() / 100 }
