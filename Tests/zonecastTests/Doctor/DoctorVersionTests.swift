import Foundation
import GRDB
import RelayStore
import TestSupport
import Testing

/// Folders of other versions of the program: the doctor reads them and changes nothing.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct DoctorVersionTests {
    private let folder = ScratchFolder()

    private func doctor(_ arguments: String...) throws -> DoctorTests.Diagnosis {
        let command = ["doctor", "--json", "--timeout", "120", "--data", folder.path] + arguments
        return try Command.run(command, environment: ["ZONECAST_LISTEN": "127.0.0.1:0"])
            .json(DoctorTests.Diagnosis.self)
    }

    /// Creates a folder whose accounts have another layout than this version's, which is returned.
    private func makeAccounts(version: Int) throws -> Int {
        #expect(try Command.run(["container", "create", "iCloud.a.b", "--data", folder.path]).status == 0)
        let queue = try DatabaseQueue(path: CheckedVFS.address(of: folder.path + "/relay.sqlite"))
        defer { try? queue.close() }
        return try queue.write { database in
            defer { #expect(throws: Never.self) { try database.execute(sql: "PRAGMA user_version = \(version)") } }
            return try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        }
    }

    private var file: Data? { FileManager.default.contents(atPath: folder.path + "/relay.sqlite") }

    @Test("every command refuses an older folder with the same sentence, and leaves it as it is")
    func anOlderFolder() throws {
        let first = try makeAccounts(version: 12)
        let sentence =
            "its layout 12 is older than \(first), the first of a released zonecast: export its data with the build that wrote it, or start with a new data folder"
        let before = try #require(file)
        for flags in [[], ["--quick"]] {
            let diagnosis = try flags.isEmpty ? doctor() : doctor("--quick")
            let found = try #require(diagnosis["storage"])
            #expect(found.grade == "problem" && diagnosis.problems == 1, "\(diagnosis.checks)")
            #expect(found.found == "\(folder.path)/relay.sqlite cannot be opened: \(sentence)")
        }
        for command in [
            ["serve", "--listen", "127.0.0.1:0"], ["user", "list"], ["storage", "info"], ["backup", "create"],
            ["storage", "copy", "--to", "\(folder.path).copy"],
        ] {
            let run = try Command.run(command + ["--data", folder.path])
            #expect(run.status == 1 && run.errors.contains("relay.sqlite"), "\(command): \(run.errors)")
            #expect(run.errors.contains(" \(sentence)."), "\(command): \(run.errors)")
        }
        #expect(file == before)
    }

    @Test func aNewerLayoutIsReportedWithItsVersion() throws {
        let knows = try makeAccounts(version: 99)
        let before = try #require(file)
        let diagnosis = try doctor()
        let found = try #require(diagnosis["storage"])
        #expect(found.grade == "problem" && diagnosis.problems == 1, "\(diagnosis.checks)")
        let start = "\(folder.path) was written by a newer zonecast: relay.sqlite has layout 99, "
        #expect(found.found.hasPrefix(start))
        #expect(found.found.hasSuffix("knows \(knows)") && found.next?.hasPrefix("install the newer version") == true)
        let serve = try Command.run(["serve", "--data", folder.path, "--listen", "127.0.0.1:0"])
        #expect(serve.status == 1 && serve.errors.contains("a newer zonecast wrote it"), "\(serve.errors)")
        #expect(file == before)
    }
}
