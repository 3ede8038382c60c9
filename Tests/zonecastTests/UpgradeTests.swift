import Foundation
import GRDB
import RelayCore
import SQLiteStore
import TestSupport
import Testing

@testable import zonecast

/// `zonecast upgrade check` on folders of this version, of earlier and of later ones.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct UpgradeTests {
    private let folder = ScratchFolder()
    private static let container = "iCloud.org.example.notes"

    private struct Answer: Decodable {
        struct File: Decodable, Equatable { var path: String, layout: Int?, newLayout: Int?, fault: String? }
        var version: String, folder: String, canUse: Bool, hasBackup: Bool, backup: String, files: [File]
    }

    private var store: String { "containers/\(Self.container)/development.sqlite" }

    /// Makes a data folder with one store.
    private func makeFolder() throws {
        let schema = "DEFINE SCHEMA\n\n    RECORD TYPE Note (\n        title STRING\n    );\n"
        let home = [Self.container, "--data", folder.path]
        let created = try Command.run(["container", "create"] + home)
        try #require(created.status == 0, "\(created.errors)")
        let imported = try Command.run(["schema", "import", "--file", "-", "--container"] + home, input: schema)
        try #require(imported.status == 0, "\(imported.errors)")
        try #require(FileManager.default.fileExists(atPath: "\(folder.path)/\(store)"))
    }

    private func set(version: Int, of path: String) throws {
        let queue = try DatabaseQueue(path: CheckedVFS.address(of: "\(folder.path)/\(path)"))
        try queue.write { try $0.execute(sql: "PRAGMA user_version = \(version)") }
        try queue.close()
    }

    private func bytes(_ path: String) -> Data? { FileManager.default.contents(atPath: "\(folder.path)/\(path)") }

    @Test("a folder of this version can be used, and nothing is migrated") func current() throws {
        try makeFolder()
        let run = try Command.run(["upgrade", "check", folder.path])
        #expect(run.status == 0, "\(run.errors)")
        #expect(run.output.contains("relay.sqlite") && run.output.contains(store), "\(run.output)")
        #expect(run.output.contains("can use \(folder.path); nothing will be migrated."), "\(run.output)")
        #expect(run.output.contains("none yet"), "it names the missing backup: \(run.output)")
        let answer = try Command.run(["upgrade", "check", "--json", "--data", folder.path]).json(Answer.self)
        #expect(answer.canUse && !answer.hasBackup && answer.version == Zonecast.version)
        #expect(answer.files.map(\.path) == ["relay.sqlite", store])
        #expect(answer.files.allSatisfy { $0.layout == $0.newLayout && $0.fault == nil })
    }

    @Test("a recent backup is found") func backup() throws {
        try makeFolder()
        #expect(try Command.run(["backup", "create", "--data", folder.path]).status == 0)
        let answer = try Command.run(["upgrade", "check", folder.path, "--json"]).json(Answer.self)
        #expect(answer.hasBackup && answer.backup.contains("the newest is"), "\(answer.backup)")
    }

    @Test("a file that this version cannot open is named, and stays as it is", arguments: [12, 99])
    func otherVersions(version: Int) throws {
        try makeFolder()
        try set(version: version, of: store)
        let before = bytes(store)
        let run = try Command.run(["upgrade", "check", folder.path])
        #expect(run.status == 1 && run.errors.contains("cannot use \(folder.path). \(store): "), "\(run.errors)")
        #expect(run.errors.contains(version == 99 ? "a newer zonecast wrote it" : "older than"), "\(run.errors)")
        #expect(run.errors.hasSuffix("Nothing was changed.\n"))
        #expect(bytes(store) == before)
        let answer = try Command.run(["upgrade", "check", folder.path, "--json"])
        let decoded = try #require(answer.output.split(separator: "\n").first)
        #expect(try JSONDecoder().decode(Answer.self, from: Data(decoded.utf8)).files.last?.layout == version)
    }

    @Test("a damaged store is a reason not to upgrade") func damage() throws {
        try makeFolder()
        try Data(repeating: 0x61, count: 8_192).write(to: URL(fileURLWithPath: "\(folder.path)/\(store)"))
        let run = try Command.run(["upgrade", "check", folder.path])
        #expect(run.status == 1 && run.errors.contains(store), "\(run.errors)")
    }

    @Test("a folder without data, or one that is named twice, is refused") func wrongUsage() throws {
        let none = try Command.run(["upgrade", "check", folder.path])
        #expect(none.status == 1 && none.errors.contains("There is no relay data in \(folder.path)"), "\(none.errors)")
        #expect(try Command.run(["upgrade", "check", "a", "--data", "b"]).status == 2)
    }

    /// This version has no migrations yet, so the words are tested without a folder.
    @Test("a migration is announced with its versions") func migration() {
        let old = UpgradeCheck.File(path: "relay.sqlite", layout: 13, newLayout: 15)
        #expect(old.steps == 2)
        #expect(UpgradeCheck.File(path: "relay.sqlite", layout: 0, newLayout: 15).steps == 0)
        #expect(UpgradeCheck.File(path: "relay.sqlite", layout: 99, newLayout: 15, fault: "newer").steps == 0)
    }
}
