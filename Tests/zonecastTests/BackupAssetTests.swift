import Foundation
import TestSupport
import Testing

/// Backups and commands when the files of assets are damaged or missing.
extension BackupTests {
    private struct Made: Decodable {
        var backup: String, assets: Int, missingAssets: Int, damagedAssets: Int, rescuedAssets: Int
    }
    private struct Looked: Decodable { var faults: [String], missing: [String] }
    private struct Checked: Decodable { var damaged: [String], missing: [String], copies: [String: String] }
    private struct Diagnosed: Decodable {
        struct Check: Decodable { var check: String, grade: String, found: String }
        var checks: [Check]
    }
    private struct Listed: Decodable { var backups: [Row] }

    /// Saves a record with an asset and returns the asset's file.
    private func fill() throws -> URL {
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        try makeZone(on: connection)
        try save(["with file"], fields: upload("a picture", on: connection), on: connection)
        #expect(relay.stop().status == 0)
        return try #require(assetFile(in: folder.path))
    }

    private func assetFile(in folder: String) -> URL? {
        let files = FileManager.default.enumerator(
            at: URL(fileURLWithPath: folder + "/containers"),
            includingPropertiesForKeys: nil
        )
        return files?.compactMap { $0 as? URL }.first { $0.lastPathComponent.count == 40 }
    }

    private func damage(_ file: URL) throws {
        let handle = try FileHandle(forUpdating: file)
        try handle.write(contentsOf: Data("XX".utf8))
        try handle.close()
    }

    private func node(_ file: URL) throws -> Int {
        try #require(try FileManager.default.attributesOfItem(atPath: file.path)[.systemFileNumber] as? Int)
    }

    private func verifyAssets() throws -> Command {
        let home = ["--container", "iCloud.org.example.backup", "--data", folder.path, "--json"]
        return try Command.run(["assets", "verify"] + home)
    }

    @Test func aDamagedLiveAssetIsReplacedFromAnEarlierBackup() throws {
        let live = try fill()
        let first = try backup("create").json(Made.self)
        let kept = try #require(assetFile(in: first.backup))
        #expect(try node(kept) != node(live), "the backup has a copy, not a link to the live file")
        try damage(live)
        #expect(try backup("verify", "latest").status == 0)

        let next = try backup("create")
        #expect(next.status == 1, "the command reports the damage in the data folder")
        let made = try next.json(Made.self)
        #expect(made.assets == 1 && made.rescuedAssets == 1 && made.missingAssets + made.damagedAssets == 0)
        #expect(try node(try #require(assetFile(in: made.backup))) == node(kept), "both are hard links")
        #expect(try backup("verify", "latest").status == 0, "the backup has the undamaged copy")

        let checked = try verifyAssets()
        let found = try checked.json(Checked.self)
        #expect(checked.status == 1 && found.damaged == [live.lastPathComponent])
        #expect(found.copies[live.lastPathComponent].map { FileManager.default.fileExists(atPath: $0) } == true)
        let diagnosis = try Command.run(["doctor", "--data", folder.path, "--json"]).json(Diagnosed.self)
        #expect(diagnosis.checks.contains { $0.check == "backup" && $0.grade == "problem" }, "\(diagnosis)")

        #expect(try backup("restore", "latest").status == 0)
        let restored = try #require(assetFile(in: folder.path))
        #expect(try node(restored) != node(kept) && Data(contentsOf: restored) == Data("a picture".utf8))
    }

    @Test func assetsWithoutAnUndamagedCopyAreReportedAndTheLastGoodBackupIsKept() throws {
        let live = try fill()
        let content = try Data(contentsOf: live)
        let good = try backup("create").json(Made.self)
        // The backup's copy is missing too, and this backup was never verified.
        try FileManager.default.removeItem(at: try #require(assetFile(in: good.backup)))
        try FileManager.default.removeItem(at: live)
        let gone = try backup("create")
        #expect(gone.status == 1)
        #expect(try gone.json(Made.self).missingAssets == 1)
        let looked = try backup("verify", "latest")
        #expect(try looked.status == 1 && looked.json(Looked.self).missing == [live.lastPathComponent])
        #expect(try verifyAssets().json(Checked.self).copies.isEmpty)

        try Data("no picture".utf8).write(to: live)
        #expect(try backup("create").json(Made.self).damagedAssets == 1)
        #expect(try backup("verify", "latest").status == 1)
        #expect(try backup("restore", "latest").status == 0, "a backup with damaged assets can still be restored")
        let place = live.deletingLastPathComponent()
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
        try content.write(to: live)
        #expect(try backup("create").status == 0)
        #expect(try backup("list").json(Listed.self).backups.count == 4)
    }
}
