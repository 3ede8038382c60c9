import Foundation
import Records
import RelayCore
import SQLiteStore
import TestSupport
import Testing

@testable import zonecast

/// A backup as a tar file, read by the system's own tar.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct BackupArchiveTests {
    private func withFolder<Value>(_ body: (String) throws -> Value) throws -> Value {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        return try body(folder)
    }

    /// Creates a backup with additional files.
    private func backup(in folder: String, with files: [String: Data] = [:]) throws -> Backup {
        _ = try AccountStore(folder: "\(folder)/data")
        let backup = try Backup.create(of: "\(folder)/data", in: "\(folder)/backups", now: Timestamp(milliseconds: 1))
        for (path, content) in files {
            let place = URL(fileURLWithPath: "\(backup.path)/\(path)")
            try FileManager.default.createDirectory(
                at: place.deletingLastPathComponent(),
                withIntermediateDirectories: true
            )
            try content.write(to: place)
        }
        return backup
    }

    /// Writes the whole archive to a file and returns its length.
    private func write(_ archive: BackupArchive, to path: String) throws -> Int64 {
        var (archive, bytes) = (archive, Data())
        while let piece = try archive.next() {
            switch piece {
            case .bytes(let part): bytes += part
            case .file(let path, let length):
                let content = try #require(FileManager.default.contents(atPath: path))
                #expect(content.count == Int(length))
                bytes += content
            }
        }
        try bytes.write(to: URL(fileURLWithPath: path))
        return Int64(bytes.count)
    }

    @Test func tarUnpacksAnArchiveToTheSameBackup() throws {
        try withFolder { folder in
            let files = [
                "containers/iCloud.org.example.notes/empty": Data(),
                "containers/a/just-a-block": Data(repeating: 7, count: 512),
                "containers/a/large": Data((0..<300_000).map { UInt8($0 % 251) }),
                "containers/\(String(repeating: "l", count: 120))/\(String(repeating: "n", count: 99))": Data([1]),
                "containers/\(String(repeating: "x", count: 120))/\(String(repeating: "y", count: 150))": Data([2, 3]),
                "containers/Grüße": Data([4]),
            ]
            let backup = try backup(in: folder, with: files)
            let archive = try BackupArchive(backup)
            #expect(archive.name == backup.name && archive.length % 512 == 0)
            #expect(try write(archive, to: "\(folder)/file.tar") == archive.length)
            try FileManager.default.createDirectory(atPath: "\(folder)/out", withIntermediateDirectories: true)
            let unpacking = try Tool.run("tar", ["-xf", "\(folder)/file.tar", "-C", "\(folder)/out"])
            #expect(unpacking.status == 0, "\(unpacking.output)")
            let unpacked = try Backup(at: "\(folder)/out/\(backup.name)")
            #expect(unpacked.verify() == [])
            for (path, content) in files {
                #expect(FileManager.default.contents(atPath: "\(unpacked.path)/\(path)") == content, "\(path)")
            }
            let facts = try FileManager.default.attributesOfItem(atPath: "\(unpacked.path)/relay.sqlite")
            #expect(facts[.posixPermissions] as? Int == 0o600)
        }
    }

    @Test func symbolicLinksAreLeftOutOfAnArchive() throws {
        try withFolder { folder in
            let backup = try backup(in: folder)
            let plain = try BackupArchive(backup).length
            try FileManager.default.createSymbolicLink(atPath: "\(backup.path)/out", withDestinationPath: "/etc")
            try FileManager.default.createSymbolicLink(
                atPath: "\(backup.path)/passwords",
                withDestinationPath: "/etc/passwd"
            )
            #expect(try BackupArchive(backup).length == plain)
        }
    }

    @Test func anArchiveFailsWhenItsBackupIsRemovedWhileItIsRead() throws {
        try withFolder { folder in
            let backup = try backup(in: folder, with: ["containers/a/one": Data([1]), "containers/a/two": Data([2])])
            var archive = try BackupArchive(backup)
            try FileManager.default.removeItem(atPath: backup.path)
            #expect(throws: BackupFailure.self) { while try archive.next() != nil {} }
        }
    }

    @Test func theResultOfAVerificationIsKeptUntilTheBackupIsDeleted() throws {
        try withFolder { folder in
            let backup = try backup(in: folder)
            #expect(backup.verdict == nil)
            #expect(backup.verify(now: Timestamp(milliseconds: 5)) == [])
            #expect(backup.verdict == BackupVerdict(at: 5, faults: 0))
            try Data([1]).write(to: URL(fileURLWithPath: "\(backup.path)/relay.sqlite"))
            #expect(backup.verify(now: Timestamp(milliseconds: 6)).count == 1)
            #expect(backup.verdict == BackupVerdict(at: 6, faults: 1))
            #expect(Backup.all(in: "\(folder)/backups").count == 1)
            _ = try Backup.create(of: "\(folder)/data", in: "\(folder)/backups", now: Timestamp(milliseconds: 99_000))
            Backup.keep(1, in: "\(folder)/backups", at: Timestamp(milliseconds: 99_000))
            let left = try FileManager.default.contentsOfDirectory(atPath: "\(folder)/backups")
            #expect(left.count == 1, "\(left)")
        }
    }

    @Test func aSecondBackupAtTheSameTimeIsRefused() throws {
        try withFolder { folder in
            let first = try backup(in: folder)
            // A leftover of a process that was killed during a backup.
            let broken = "\(folder)/backups/2026-01-01T000000Z.zonecastbak.partial"
            try FileManager.default.createDirectory(atPath: broken + "/containers", withIntermediateDirectories: true)
            let lock = open("\(folder)/backups", O_RDONLY | O_DIRECTORY)
            #expect(flock(lock, LOCK_EX) == 0)
            let refusal = #expect(throws: BackupFailure.self) { try backup(in: folder) }
            #expect(refusal?.description.contains("Another backup is being created in \(folder)/backups") == true)
            #expect(FileManager.default.fileExists(atPath: broken), "it may belong to the other process")
            close(lock)
            let second = try backup(in: folder)
            let left = try FileManager.default.contentsOfDirectory(atPath: "\(folder)/backups")
            #expect(Set(left) == [first.name, second.name])
        }
    }

    /// A backup in the current folder is named by its file name alone.
    @Test func aBackupInTheCurrentFolderIsFoundByItsName() throws {
        try withFolder { folder in
            let backup = try backup(in: folder)
            let now = Timestamp(milliseconds: 2)
            let here = "zonecast-\(UUID().uuidString).zonecastbak"
            try FileManager.default.moveItem(atPath: backup.path, toPath: here)
            defer { try? FileManager.default.removeItem(atPath: here) }
            #expect(try Backup.named(here, in: "\(folder)/backups", at: now).path == here)
            #expect(throws: BackupFailure.self) { try Backup.named(backup.name, in: "\(folder)/backups", at: now) }
        }
    }

    /// A backup may come from another person, and root restores it.
    @Test(arguments: ["../relay.sqlite", "/etc/passwd", "containers/../../x.sqlite", "./relay.sqlite", "a//b", ""])
    func aManifestWithAPathOutsideTheDataFolderIsRefused(path: String) throws {
        try withFolder { folder in
            let backup = try backup(in: folder)
            let manifest = "\(backup.path)/manifest.json"
            let text = try String(contentsOfFile: manifest, encoding: .utf8)
            try text.replacing(#""relay.sqlite""#, with: "\"\(path)\"").write(
                toFile: manifest,
                atomically: true,
                encoding: .utf8
            )
            let refusal = #expect(throws: BackupFailure.self) { try Backup(at: backup.path) }
            #expect(refusal?.description.contains("not a path in a data folder") == true, "\(refusal as Any)")
        }
    }

    /// The relay computes with these numbers when it reads its backup folder.
    @Test(arguments: [
        (#""made" : 1"#, #""made" : -9223372036854775808"#), (#""made" : 1"#, #""made" : 9223372036854775807"#),
        (#""records" : 0"#, #""records" : 9223372036854775807"#), (#""bytes" : "#, #""bytes" : 922337203685"#),
    ])
    func aManifestWithImplausibleNumbersIsRefused(number: String, other: String) throws {
        try withFolder { folder in
            let backup = try backup(in: folder)
            let manifest = "\(backup.path)/manifest.json"
            let text = try String(contentsOfFile: manifest, encoding: .utf8)
            #expect(text.contains(number))
            try text.replacing(number, with: other).write(toFile: manifest, atomically: true, encoding: .utf8)
            let refusal = #expect(throws: BackupFailure.self) { try Backup(at: backup.path) }
            #expect(refusal?.description.contains("its numbers are not plausible") == true, "\(refusal as Any)")
            #expect(Backup.all(in: "\(folder)/backups").isEmpty)
        }
    }

    /// Otherwise a backup could contain a record without its asset's file.
    @Test func unusedAssetsAreNotRemovedDuringABackup() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let stores = StoreFolder(folder: folder, draw: { 1 }) { _, _ in }
        defer { stores.close() }
        #expect(try await stores.removeUnusedAssets(before: Timestamp(milliseconds: 0)) == 0)
        let copying = open("\(folder)/assets.lock", O_RDWR)
        #expect(copying >= 0 && flock(copying, LOCK_SH) == 0)
        let refusal = await #expect(throws: RelayError.self) {
            try await stores.removeUnusedAssets(before: Timestamp(milliseconds: 0))
        }
        #expect(refusal?.code == .tryAgainLater)
        close(copying)
        #expect(try await stores.removeUnusedAssets(before: Timestamp(milliseconds: 0)) == 0)

        _ = try AccountStore(folder: folder)
        var steps = 0
        func step(_ path: String) {
            let clearing = open("\(folder)/assets.lock", O_RDWR)
            #expect(clearing >= 0 && flock(clearing, LOCK_EX | LOCK_NB) != 0)
            close(clearing)
            steps += 1
        }
        let now = Timestamp(milliseconds: 1)
        _ = try Backup.create(of: folder, in: "\(folder)/backups", now: now, step: step)
        #expect(steps > 0)
    }

    /// Otherwise every user would get a new identity and lose access to the existing zones.
    @Test func aFolderWithStoresButWithoutAccountsIsRefused() throws {
        try withFolder { folder in
            let data = "\(folder)/data"
            try FileManager.default.createDirectory(atPath: "\(data)/containers/a", withIntermediateDirectories: true)
            #expect(!AccountStore.isLost(in: data))
            try Data().write(to: URL(fileURLWithPath: "\(data)/containers/a/development.sqlite"))
            #expect(throws: DirectoryError.self) { try AccountStore(folder: data) }
            #expect(!FileManager.default.fileExists(atPath: "\(data)/relay.sqlite"))
            let finding = FolderChecks(folder: data, isThorough: false).storage()
            #expect(finding.grade == .problem && finding.next?.contains("backup restore") == true)
        }
    }

    @Test func backupsOfTheSameSecondAreOrderedByCreation() throws {
        try withFolder { folder in
            let first = try backup(in: folder)
            let names = try (2...11).map { number in
                let now = Timestamp(milliseconds: first.manifest.made + (number > 5 ? 5 : 0))
                return try Backup.create(of: "\(folder)/data", in: "\(folder)/backups", now: now).name
            }
            let now = Timestamp(milliseconds: first.manifest.made + 5)
            #expect(Backup.all(in: "\(folder)/backups").map(\.name) == [first.name] + names)
            #expect(try Backup.named("latest", in: "\(folder)/backups", at: now).name == names.last)
            Backup.keep(3, in: "\(folder)/backups", at: now)
            #expect(Backup.all(in: "\(folder)/backups").map(\.name) == names.suffix(3))
        }
    }

    @Test func theOldestBackupIsDeletedWhenTheDiskHasNoRoomForANewOne() throws {
        try withFolder { folder in
            let first = try backup(in: folder)
            let schedule = BackupSchedule(.daily, keep: 2, folder: "\(folder)/backups")
            func due(on number: Int64, free: @escaping (Int) -> UInt64) throws -> Backup? {
                let now = Timestamp(milliseconds: first.manifest.made + number * 86_400_000)
                return try schedule.makeDue(of: "\(folder)/data", at: now) { _ in
                    free(Backup.all(in: schedule.folder).count)
                }
            }
            let plenty = UInt64.max
            let second = try #require(try due(on: 1) { _ in plenty })
            #expect(try due(on: 1) { _ in plenty } == nil)
            let third = try #require(try due(on: 2) { $0 == 2 ? 0 : plenty })
            #expect(Backup.all(in: schedule.folder).map(\.name) == [second.name, third.name])
            // If deleting does not free enough space, one backup stays.
            #expect(throws: BackupFailure.self) { try due(on: 3) { _ in 0 } }
            #expect(Backup.all(in: schedule.folder).map(\.name) == [third.name])
        }
    }

    /// The clock was ten years ahead for some days, and then was corrected.
    @Test func backupsWithFutureDatesDoNotBlockNewOnesAndAreDeletedFirst() throws {
        try withFolder { folder in
            let place = "\(folder)/backups"
            _ = try backup(in: folder)
            func make(_ moment: Timestamp) throws -> String {
                try Backup.create(of: "\(folder)/data", in: place, now: moment).name
            }
            let schedule = BackupSchedule(.daily, keep: 2, folder: place)
            let now = Timestamp(milliseconds: 1_800_000_000_000)
            for day in 0..<3 { _ = try make(now + .seconds((3_650 + day) * 86_400)) }
            let wrong = now + .seconds(3_652 * 86_400)
            #expect(!schedule.isDue(at: wrong))
            Backup.keep(2, in: place, at: wrong)
            #expect(schedule.isDue(at: now))
            let first = try make(now)
            Backup.keep(2, in: place, at: now)
            #expect(!schedule.isDue(at: now + .seconds(60)))
            #expect(try Backup.named("latest", in: place, at: now).name == first)
            let tomorrow = now + .seconds(86_400)
            #expect(schedule.isDue(at: tomorrow))
            let second = try make(tomorrow)
            Backup.keep(2, in: place, at: tomorrow)
            #expect(Backup.all(in: place).map(\.name) == [first, second])
        }
    }
}
