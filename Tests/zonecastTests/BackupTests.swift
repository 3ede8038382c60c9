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
        #expect(try backup("restore", "latest").status == 5, "a relay runs on the folder")
        #expect(relay.stop().status == 0)
        let restored = try backup("restore", "latest")
        #expect(restored.status == 0, "\(restored.errors)")

        let again = try RelayProcess(folder: folder.path)
        let device = try again.connect()
        let page = try feed(on: device)
        #expect(page.records?.count == 51)
        #expect(page.records?.contains { $0.recordName == "after" } == false)
        #expect(
            try feed(since: early, on: device).ckErrorCode == "CHANGE_TOKEN_EXPIRED",
            "the relay tells devices to fetch everything again"
        )
        let changes = try Command.run([
            "records", "changes", "--zone", "Notes", "--since", early, "--json", "--container",
            "iCloud.org.example.backup",
            "--web-token", "dev-alice", "--url", "http://127.0.0.1:\(again.port)",
        ])
        #expect(changes.status == 1 && changes.output.contains(#""code":"CHANGE_TOKEN_EXPIRED""#), "\(changes.output)")
        #expect(changes.errors.contains("without --since"))
        let tags = Set(lost.compactMap(\.recordChangeTag))
        let fresh = try save(["n2", "n3", "n4"], on: device).compactMap(\.recordChangeTag)
        #expect(tags.isDisjoint(with: fresh), "no change tag is issued twice")
        #expect(again.stop().status == 0)
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
        ["relay.lock", "assets.lock", "backups"].contains(path) || path.hasPrefix("backups/")
            || path.hasPrefix("stores-here")
            || [".sqlite-wal", ".sqlite-shm", ".assets/incoming"].contains(where: path.hasSuffix)
    }

    @Test func aBackupContainsTheWholeFolderAndRestoresItElsewhere() throws {
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        try makeZone(on: connection)
        try save(["with file"], fields: upload("a picture", on: connection), on: connection)
        for change in [
            ["limit", "disk", "3e9"], ["limit", "slow-requests"], ["mute", "backup-age", "--hours", "48"],
        ] {
            _ = try Command.run(["alerts"] + change + ["--data", folder.path])
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
            try Command.run(["alerts", "show", "--json", "--data", folder]).output
        }
        #expect(try alerts(elsewhere.path).contains(#""limit":3000000000"#))
        #expect(try alerts(elsewhere.path) == alerts(folder.path))

        // The verification compares this file with the manifest, like all others.
        try Data("{}".utf8).write(to: URL(fileURLWithPath: "\(made.backup)/alerts.json"))
        let found = try backup("verify", "latest")
        #expect(found.status == 1 && found.output.contains("alerts.json is not as it was written"), "\(found.output)")
    }

    @Test func aFolderWithoutRelayDataIsReported() throws {
        let answer = try backup("create")
        #expect(answer.status == 1)
        #expect(answer.errors.contains("There is no relay data in \(folder.path)"))
    }
}
