import Foundation
import GRDB
import ZoneKit
import ZoneMirror

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
