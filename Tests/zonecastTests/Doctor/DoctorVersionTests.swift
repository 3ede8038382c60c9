import Foundation
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

    private func makeAccounts(version: Int) throws {
        try FileManager.default.createDirectory(
            atPath: folder.path,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        try EarlierLayout.makeAccounts(folder.path, version: version)
    }

    private var file: Data? { FileManager.default.contents(atPath: folder.path + "/relay.sqlite") }

    @Test(arguments: [[], ["--quick"]]) func anEarlierLayoutIsReportedAndNotMigrated(_ flags: [String]) throws {
        try makeAccounts(version: EarlierLayout.accountVersions - 2)
        let before = try #require(file)
        let diagnosis = try flags.isEmpty ? doctor() : doctor("--quick")
        let found = try #require(diagnosis["version"], "\(diagnosis.checks)")
        #expect(found.grade == "advice" && found.found.contains("an earlier layout"), "\(found)")
        #expect(found.found.contains("2 steps") && found.next?.contains("storage migrate --data ") == true, "\(found)")
        #expect(diagnosis["storage"]?.grade == "good", "\(diagnosis.checks)")
        #expect(file == before)
        // The migration makes a backup first.
        #expect(try Command.run(["storage", "migrate", "--data", folder.path]).status == 0)
        #expect(try doctor()["version"] == nil)
    }

    @Test func aNewerLayoutIsReportedWithItsVersion() throws {
        try makeAccounts(version: EarlierLayout.accountVersions + 3)
        let before = try #require(file)
        let diagnosis = try doctor()
        let (has, knows) = (EarlierLayout.accountVersions + 3, EarlierLayout.accountVersions)
        let found = try #require(diagnosis["storage"])
        #expect(found.grade == "problem" && diagnosis.problems == 1, "\(diagnosis.checks)")
        let start = "\(folder.path) was written by a newer zonecast: relay.sqlite has layout \(has), "
        #expect(found.found.hasPrefix(start))
        #expect(found.found.hasSuffix("knows \(knows)") && found.next?.hasPrefix("install the newer version") == true)
        let serve = try Command.run(["serve", "--data", folder.path, "--listen", "127.0.0.1:0"])
        #expect(serve.status == 1 && serve.errors.contains("a newer zonecast wrote it"), "\(serve.errors)")
        #expect(file == before)
    }
}
