import ChildProcesses
import Foundation
import GRDB
import TestSupport
import Testing

/// `zonecast backup` while a relay runs and writes, and what devices see after a restore.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct BackupTests {
    let folder = ScratchFolder()

    struct Row: Decodable {
        var backup: String
        var zones: Int
        var records: Int
        var assets: Int
        var missingAssets: Int
        var bytes: Int
    }

    private struct Verified: Decodable {
        var backup: Row
        var faults: [String]
    }

    struct Record: Decodable {
        var recordName: String
        var recordChangeTag: String?
    }

    private struct Page: Decodable {
        var records: [Record]?
        var syncToken: String?
        var ckErrorCode: String?
    }

    private struct Feed: Decodable { var zones: [Page] }

    private func path(_ operation: String) -> String {
        "/database/1/iCloud.org.example.backup/development/private/\(operation)?ckWebAuthToken=dev-alice"
    }

    func backup(_ arguments: String...) throws -> Command {
        try Command.run(["backup"] + arguments + ["--data", folder.path, "--json"])
    }

    func makeZone(on connection: HTTPConnection) throws {
        let body = #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Notes"}}}]}"#
        #expect(try connection.send("POST", path("zones/modify"), body: body).status == 200)
    }

    @discardableResult
    func save(_ names: [String], fields: String = "{}", on connection: HTTPConnection) throws -> [Record] {
        let operations = names.map {
            #"{"operationType":"forceReplace","record":{"recordName":"\#($0)","recordType":"Note","fields":\#(fields)}}"#
        }
        let body = #"{"zoneID":{"zoneName":"Notes"},"operations":[\#(operations.joined(separator: ","))]}"#
        let answer = try connection.send("POST", path("records/modify"), body: body)
        #expect(answer.status == 200, "\(String(decoding: answer.body, as: UTF8.self))")
        return try answer.json(Page.self).records ?? []
    }

    private func feed(since token: String? = nil, on connection: HTTPConnection) throws -> Page {
        let since = token.map { #","syncToken":"\#($0)""# } ?? ""
        let body = #"{"zones":[{"zoneID":{"zoneName":"Notes"},"resultsLimit":200\#(since)}]}"#
        let answer = try connection.send("POST", path("changes/zone"), body: body)
        return try #require(try answer.json(Feed.self).zones.first)
    }

    func upload(_ content: String, on connection: HTTPConnection) throws -> String {
        struct Tokens: Decodable {
            struct Token: Decodable { var url: String }
            var tokens: [Token]
        }
        struct Uploaded: Decodable {
            struct File: Decodable {
                var fileChecksum: String
                var receipt: String
                var size: Int
            }
            var singleFile: File
        }
        let wish = #"{"tokens":[{"recordType":"Note","recordName":"with file","fieldName":"file"}]}"#
        let tokens = try connection.send("POST", path("assets/upload"), body: wish).json(Tokens.self)
        let address = try #require(tokens.tokens.first.flatMap { URLComponents(string: $0.url) })
        let target = address.percentEncodedPath + (address.percentEncodedQuery.map { "?\($0)" } ?? "")
        let file = try connection.send("POST", target, body: content).json(Uploaded.self).singleFile
        let value = #"{"fileChecksum":"\#(file.fileChecksum)","size":\#(file.size),"receipt":"\#(file.receipt)"}"#
        return #"{"file":{"type":"ASSETID","value":\#(value)}}"#
    }

    @Test func aBackupOfARunningRelayIsRestored() throws {
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        try makeZone(on: connection)
        try save((0..<50).map { "n\($0)" }, on: connection)
        try save(["with file"], fields: upload("a picture", on: connection), on: connection)
        let early = try #require(try feed(on: connection).syncToken)

        let made = try backup("create").json(Row.self)
        // The zones include the public default zone and alice's default zone; the records include her user record.
        #expect(made.zones == 3 && made.records == 52 && made.assets == 1 && made.missingAssets == 0)
        #expect(try backup("verify", "latest").json(Verified.self).faults.isEmpty)

        let lost = try save(["n1", "after"], on: connection)
        // The running relay pauses, and continues on the same port.
        let restored = try backup("restore", "latest")
        #expect(restored.status == 0, "\(restored.errors)")
        #expect(restored.errors.contains("pauses for this command"))
        let device = try relay.reconnect()
        let page = try feed(on: device)
        #expect(page.records?.count == 51)
        #expect(page.records?.contains { $0.recordName == "after" } == false)
        #expect(
            try feed(since: early, on: device).ckErrorCode == "CHANGE_TOKEN_EXPIRED",
            "the relay tells devices to fetch everything again"
        )
        let changes = try Command.run([
            "record", "changes", "--zone", "Notes", "--since", early, "--json", "--container",
            "iCloud.org.example.backup",
            "--web-token", "dev-alice", "--url", "http://127.0.0.1:\(relay.port)",
        ])
        #expect(changes.status == 1 && changes.output.contains(#""code":"CHANGE_TOKEN_EXPIRED""#), "\(changes.output)")
        #expect(changes.errors.contains("without --since"))
        let tags = Set(lost.compactMap(\.recordChangeTag))
        let fresh = try save(["n2", "n3", "n4"], on: device).compactMap(\.recordChangeTag)
        #expect(tags.isDisjoint(with: fresh), "no change tag is issued twice")
        #expect(relay.stop().status == 0)
    }

    @Test(.enabled(if: S3Server.isInstalled, "\(S3Server.notInstalled)"))
    func aCopyAwayFromTheMachineRestoresALostFolder() throws {
        let server = try S3Server()
        let remote = "s3://backups/relay"
        func run(_ arguments: String...) throws -> Command {
            try Command.run(
                ["backup"] + arguments + ["--remote", remote, "--data", folder.path, "--json"],
                environment: server.environment
            )
        }
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        try makeZone(on: connection)
        try save((0..<50).map { "n\($0)" }, on: connection)
        try save(["with file"], fields: upload("a picture", on: connection), on: connection)
        let scheduled = try run("schedule", "daily")
        #expect(scheduled.status == 0 && scheduled.output.contains(remote), "\(scheduled.errors)")
        let made = try run("create")
        #expect(made.status == 0, "\(made.errors)")
        #expect(relay.stop().status == 0)
        #expect(try run("verify").json(Verified.self).faults.isEmpty)

        try FileManager.default.removeItem(atPath: folder.path)
        struct Listed: Decodable { var backups: [Row] }
        #expect(try run("list").json(Listed.self).backups.map(\.records) == [52])
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let restored = try run("restore", "latest")
        #expect(restored.status == 0, "\(restored.errors)")
        let later = try RelayProcess(folder: folder.path)
        #expect(try feed(on: later.connect()).records?.count == 51)
        #expect(later.stop().status == 0)
    }

    @Test func storageThatCannotBeUsedIsNamed() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let arguments = ["backup", "list", "--data", folder.path, "--remote"]
        let noKeys = try Command.run(arguments + ["s3://backups/relay"], environment: ["AWS_ACCESS_KEY_ID": ""])
        #expect(noKeys.status == 1 && noKeys.errors.contains("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"))
        let noAddress = try Command.run(arguments + ["backups/relay"])
        #expect(noAddress.status == 1 && noAddress.errors.contains("Write s3://BUCKET/PREFIX"))
    }

    @Test func theSizeOfABackupIncludesItsAssets() throws {
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        try makeZone(on: connection)
        let before = try backup("create").json(Row.self).bytes
        let picture = String(repeating: "p", count: 2_000_000)
        try save(["with file"], fields: upload(picture, on: connection), on: connection)
        let made = try backup("create").json(Row.self)
        #expect(relay.stop().status == 0)
        #expect(made.bytes - before >= 2_000_000 && made.bytes - before < 3_000_000, "\(before), \(made.bytes)")
    }

    @Test func damageToEachKindOfFileIsFound() throws {
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        try makeZone(on: connection)
        try save(["with file"], fields: upload("a picture", on: connection), on: connection)
        let made = try backup("create").json(Row.self)
        #expect(relay.stop().status == 0)

        let files = try #require(FileManager.default.enumerator(atPath: made.backup)).compactMap { $0 as? String }
        for file in files where file.hasSuffix(".sqlite") || file.contains(".assets/") {
            let path = "\(made.backup)/\(file)"
            guard let content = FileManager.default.contents(atPath: path), !content.isEmpty else { continue }
            // The asset is a hard link to the live file: replace it, do not overwrite it.
            try FileManager.default.removeItem(atPath: path)
            var damaged = content
            damaged[damaged.count / 2] ^= 0xFF
            try damaged.write(to: URL(fileURLWithPath: path))
            let found = try backup("verify", "latest")
            #expect(found.status == 1, "\(file)")
            #expect(try found.json(Verified.self).faults.count == 1, "\(file)")
            #expect(try backup("restore", "latest").status == 1, "\(file)")
            try content.write(to: URL(fileURLWithPath: path))
        }
        #expect(try backup("verify", "latest").status == 0)
    }

    @Test func unfinishedBackupsAreNotCountedAndSchedulesAreValidated() throws {
        #expect(
            try Command.run(["container", "create", "iCloud.org.example.backup", "--data", folder.path]).status == 0
        )
        #expect(try backup("verify", "latest").status == 1, "there is none")
        for _ in 0..<3 { #expect(try backup("create").status == 0) }
        try FileManager.default.createDirectory(
            atPath: "\(folder.path)/backups/2020-01-01T000000Z.zonecastbak.partial",
            withIntermediateDirectories: true
        )
        struct List: Decodable { var backups: [Row] }
        #expect(try backup("list").json(List.self).backups.count == 3)
        #expect(try backup("schedule", "daily", "--keep", "2").status == 0)
        #expect(try backup("schedule").output.contains(#""interval":"daily","keep":2"#))
        #expect(try backup("schedule", "sometimes").status == 2)
        #expect(try backup("schedule", "off").output.contains(#""schedule":null"#))
    }

    @Test func theNumberOfKeptBackupsCanBeChanged() throws {
        #expect(
            try Command.run(["container", "create", "iCloud.org.example.backup", "--data", folder.path]).status == 0
        )
        let none = try backup("schedule", "--keep", "5")
        #expect(none.status == 1 && none.errors.contains("backup schedule daily --keep 5"), "\(none.errors)")
        #expect(try backup("schedule", "weekly").output.contains(#""interval":"weekly","keep":7"#))
        #expect(try backup("schedule", "--keep", "5").output.contains(#""interval":"weekly","keep":5"#))
        for number in ["0", "999999999999"] { #expect(try backup("schedule", "--keep", number).status == 2) }
        #expect(try backup("schedule").output.contains(#""interval":"weekly","keep":5"#))
    }

    @Test func aDamagedScheduleIsReportedByCommandDoctorAndRelay() throws {
        #expect(
            try Command.run(["container", "create", "iCloud.org.example.backup", "--data", folder.path]).status == 0
        )
        #expect(try backup("schedule", "daily").status == 0)
        let file = folder.path + "/backups/schedule.json"
        try Data("{".utf8).write(to: URL(fileURLWithPath: file))
        let shown = try backup("schedule")
        #expect(shown.status == 1 && shown.errors.contains("schedule.json"), "\(shown.errors)")
        let seen = try Command.run(["doctor", "--quick", "--data", folder.path]).output
        #expect(seen.contains("no scheduled backup is created"), "\(seen)")
        let log = folder.path + ".log"
        defer { unlink(log) }
        let relay = try RelayProcess(folder: folder.path, log: log)
        #expect(relay.stop().status == 0)
        let told = try String(contentsOfFile: log, encoding: .utf8)
        #expect(told.contains("schedule.json") && told.contains("it is not a schedule"), "\(told)")
        #expect(try backup("schedule", "daily").status == 0)
    }

    @Test func aPathThatIsNoBackupIsNamedInTheError() throws {
        let verified = try backup("verify", "/etc/passwd")
        #expect(verified.status == 1 && verified.errors.contains("/etc/passwd"), "\(verified.errors)")
    }

    /// Whether a backup omits this path: locks, SQLite's files beside its databases, marks, unfinished uploads, and the
    /// other backups with their schedule, which names a path of this machine.
    private static func isOmitted(_ path: String) -> Bool {
        ["relay.lock", "store.request", "assets.lock", "backups"].contains(path) || path.hasPrefix("backups/")
            || path.hasPrefix("stores-here")
            || [".sqlite-wal", ".sqlite-shm", ".assets/incoming"].contains(where: path.hasSuffix)
    }

    @Test func aBackupContainsTheWholeFolderAndRestoresItElsewhere() throws {
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        try makeZone(on: connection)
        try save(["with file"], fields: upload("a picture", on: connection), on: connection)
        for change in [
            ["disk", "--limit", "3e9"], ["slow-requests", "--limit", "default"], ["backup-age", "--mute", "48h"],
        ] {
            _ = try Command.run(["alert", "edit"] + change + ["--data", folder.path])
        }
        // The relay then makes no scheduled backup of its own, however long this test takes.
        #expect(try backup("create").status == 0)
        #expect(try backup("schedule", "daily").status == 0)
        let made = try backup("create").json(Row.self)
        #expect(try backup("verify", "latest").status == 0)

        let kept = Set(try #require(FileManager.default.enumerator(atPath: made.backup)).compactMap { $0 as? String })
        for case let path as String in try #require(FileManager.default.enumerator(atPath: folder.path)) {
            #expect(kept.contains(path) || Self.isOmitted(path), "\(path) is in no backup")
        }
        #expect(relay.stop().status == 0)

        let elsewhere = ScratchFolder()
        let restored = try Command.run(["backup", "restore", made.backup, "--data", elsewhere.path])
        #expect(restored.status == 0, "\(restored.errors)")
        #expect(restored.output.contains("zonecast backup schedule daily"), "\(restored.output)")
        func alerts(_ folder: String) throws -> String {
            try Command.run(["alert", "list", "--json", "--data", folder]).output
        }
        #expect(try alerts(elsewhere.path).contains(#""limit":3000000000"#))
        #expect(try alerts(elsewhere.path) == alerts(folder.path))

        // The verification compares this file with the manifest, like all others.
        try Data("{}".utf8).write(to: URL(fileURLWithPath: "\(made.backup)/alerts.json"))
        let found = try backup("verify", "latest")
        #expect(found.status == 1, "\(found.output)")
        #expect(found.output.contains("alerts.json was changed after it was written"), "\(found.output)")
    }

    @Test func aFolderWithoutRelayDataIsReported() throws {
        let answer = try backup("create")
        #expect(answer.status == 1)
        #expect(answer.errors.contains("There is no relay data in \(folder.path)"))
    }
}

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
        return try Command.run(["asset", "verify"] + home)
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

/// Backups that cannot be used.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct UnusableBackupTests {
    private let folder = ScratchFolder()

    private func backup(_ arguments: String...) throws -> Command {
        try Command.run(["backup"] + arguments + ["--data", folder.path])
    }

    /// `latest` must not silently fall back to an older backup when the newest cannot be read.
    @Test func aBackupWithADamagedManifestIsReported() throws {
        struct List: Decodable {
            struct Row: Decodable { var backup: String }
            var backups: [Row], unusable: [Row]
        }
        #expect(try Command.run(["container", "create", "iCloud.a.b", "--data", folder.path]).status == 0)
        let made = try (0..<2).map { _ in try backup("create", "--json").json(List.Row.self).backup }
        let manifest = "\(made[1])/manifest.json"
        try Data("{".utf8).write(to: URL(fileURLWithPath: manifest))
        let list = try backup("list", "--json").json(List.self)
        #expect(list.backups.map(\.backup) == [made[0]])
        #expect(list.unusable.map(\.backup) == [(made[1] as NSString).lastPathComponent])
        let reason = "\(manifest) cannot be used: it is damaged."
        #expect(try backup("list").output.hasSuffix("fault    \(reason)\n"))
        for verb in ["verify", "restore"] {
            let run = try backup(verb, "latest")
            let told = "zonecast: \(reason) It is the newest. Name another: zonecast backup list --data "
            #expect(run.status == 1 && run.errors.hasPrefix(told), "\(run.errors)")
        }
        let doctor = try Command.run(["doctor", "--quick", "--data", folder.path]).output
        #expect(doctor.contains("the newest is unusable: \(reason)"), "\(doctor)")
        // A backup with a date in the future, made while the clock was ahead, is not the newest.
        let ahead = (made[1] as NSString).deletingLastPathComponent + "/2999-01-01T000000Z.zonecastbak"
        try FileManager.default.copyItem(atPath: made[1], toPath: ahead)
        // An older backup without a manifest is reported by `list` only.
        #expect(try backup("create").status == 0)
        try FileManager.default.removeItem(atPath: manifest)
        #expect(try backup("list").output.contains("\(manifest) cannot be used: No such file or directory."))
        #expect(try backup("verify", "latest").status == 0)
    }
}
