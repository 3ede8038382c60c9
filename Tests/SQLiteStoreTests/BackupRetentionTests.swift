import Foundation
import Records
import RelayCore
import SQLiteStore
import Testing

/// Rotation of backups.
@Suite struct BackupRetentionTests {
    private let folder = NSTemporaryDirectory() + "zonecast-keep-\(UUID().uuidString)"

    /// Creates a backup as far as the rotation reads it: a manifest.
    private func make(_ moment: Int, missing: Int = 0) throws {
        let path = "\(folder)/\(moment).zonecastbak"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        let text = #"{"format":1,"made":\#(moment),"files":[],"settings":[],"missingAssets":\#(missing)}"#
        try Data(text.utf8).write(to: URL(fileURLWithPath: path + "/manifest.json"))
    }

    private var left: [Int64] { Backup.all(in: folder).map(\.manifest.made) }

    @Test func theLastCompleteBackupIsKeptBesideIncompleteOnes() throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        for moment in 1...3 { try make(moment) }
        for moment in 4...6 { try make(moment, missing: 1) }
        let now = Timestamp(milliseconds: 100)
        #expect(Backup.keep(2, in: folder, at: now) == 3)
        #expect(left == [3, 5, 6])
        try make(7)
        #expect(Backup.keep(2, in: folder, at: now) == 2)
        #expect(left == [6, 7])
    }

    @Test func aBackupWithAKnownFaultIsNotTheOnlyOneKept() throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        for moment in 1...2 { try make(moment) }
        let verdict = try JSONEncoder().encode(BackupVerdict(at: 50, faults: 1))
        try verdict.write(to: URL(fileURLWithPath: "\(folder)/2.zonecastbak.verdict"))
        #expect(Backup.keep(1, in: folder, at: Timestamp(milliseconds: 100)) == 0)
        #expect(left == [1, 2])
    }
}
