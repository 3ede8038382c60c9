import Foundation
import GRDB
import RelayCore
import TestSupport
import Testing

@testable import zonecast

/// Unexpected files, owners and paths in a data folder.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct UnexpectedFileTests {
    private let folder = ScratchFolder()

    private func makeStore() throws {
        let relay = try RelayProcess(folder: folder.path)
        try Path.makeZones(["Notes"], on: relay)
        try #require(relay.stop().status == 0)
    }

    private func storage() throws -> DoctorTests.Diagnosis.Check {
        let run = try Command.run(
            ["doctor", "--json", "--timeout", "120", "--data", folder.path],
            environment: ["ZONECAST_LISTEN": "127.0.0.1:0"]
        )
        return try #require(try run.json(DoctorTests.Diagnosis.self)["storage"])
    }

    @Test func filesOfOtherProgramsBesideTheContainersAreIgnored() throws {
        try makeStore()
        let containers = "\(folder.path)/containers"
        let copy = ScratchFolder()
        for name in [".DS_Store", "README"] {
            try Data("not the relay's".utf8).write(to: URL(fileURLWithPath: "\(containers)/\(name)"))
        }
        let found = "\(containers)/lost+found"
        try FileManager.default.createDirectory(atPath: found, withIntermediateDirectories: false)
        try Data().write(to: URL(fileURLWithPath: "\(found)/old.sqlite"))
        for command in [
            ["backup", "create"], ["backup", "verify", "latest"], ["storage", "compact", "--dry-run"],
            ["storage", "copy", "--to", "\(copy.path)"],
        ] {
            let run = try Command.run(command + ["--data", folder.path])
            #expect(run.status == 0, "\(command): \(run.errors)")
        }
        #expect(try storage().grade == "good")
    }

    /// A relay must not start with new accounts on existing records.
    @Test func missingAccountsAreReportedBesideFilesOfOtherPrograms() throws {
        try makeStore()
        try Data("not the relay's".utf8).write(to: URL(fileURLWithPath: "\(folder.path)/containers/README"))
        for end in ["", "-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: "\(folder.path)/relay.sqlite\(end)")
        }
        let serve = try Command.run(["serve", "--data", folder.path, "--listen", "127.0.0.1:0"])
        #expect(serve.status == 1, "\(serve.errors)")
        #expect(try storage().found.hasPrefix("\(folder.path)/relay.sqlite is missing or empty"))
    }

    /// A wrong folder is not backed up, and another program's file stays unchanged.
    @Test(arguments: ["letter", "relay"]) func aDatabaseOfAnotherProgramIsRefusedAndKept(table: String) throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let path = "\(folder.path)/relay.sqlite"
        let queue = try DatabaseQueue(path: path)
        try queue.write { try $0.execute(sql: "CREATE TABLE \(table) (a); INSERT INTO \(table) VALUES (1)") }
        try queue.close()
        let before = FileManager.default.contents(atPath: path)
        let found = try storage()
        #expect(found.found == "\(path) is not a relay's file: another program created it", "\(found)")
        #expect(found.next?.hasPrefix("name the relay's folder with --data; ") == true, "\(found)")
        for command in [
            ["backup", "create"], ["storage", "copy", "--to", "\(folder.path).copy"], ["user", "list"],
            ["serve", "--listen", "127.0.0.1:0"],
        ] {
            let run = try Command.run(command + ["--data", folder.path])
            let words = "is not a relay's file: another program created it"
            #expect(run.status == 1 && run.errors.contains(words), "\(run)")
        }
        #expect(FileManager.default.contents(atPath: path) == before)
    }

    @Test(.enabled(if: geteuid() == 0 && Tool.isInstalled("chown"), "only root can give files away"))
    func aFileOfRootInTheFolderOfAnotherUserIsReported() throws {
        try makeStore()
        let store = "\(folder.path)/containers/\(Path.container)/development.sqlite"
        for path in [store, "\(folder.path)/relay.sqlite"] {
            try #require(try Tool.run("chown", ["-R", "65534:65534", folder.path]).status == 0)
            #expect(try storage().grade == "good")
            try #require(try Tool.run("chown", ["root:root", path]).status == 0)
            let found = try storage()
            #expect(found.grade == "problem")
            #expect(found.found.hasPrefix("\(path) belongs to root, so a relay that runs as "), "\(found)")
            let next = try #require(found.next)
            #expect(next.hasPrefix("sudo chown -R ") && next.hasSuffix(": \(folder.path)"), "\(next)")
        }
    }

    /// An unreadable container is reported, not left out of a backup.
    @Test(.enabled(if: geteuid() == 0 && Tool.isInstalled("chown"), "only root can give files away"))
    func aContainerOfRootInTheFolderOfAnotherUserIsReported() throws {
        try makeStore()
        let place = "\(folder.path)/containers/\(Path.container)"
        try #require(try Tool.run("chown", ["-R", "65534:65534", folder.path]).status == 0)
        try #require(try Tool.run("chown", ["root:root", place]).status == 0)
        #expect(try storage().found.hasPrefix("\(place) belongs to root"))
        for command in [["backup", "create"], ["storage", "compact"]] {
            let run = try Command.run(command + ["--data", folder.path])
            #expect(run.status == 1 && run.errors == "zonecast: \(place) cannot be used: Permission denied.\n")
        }
    }

    /// Root might start the relay by hand to see why its service does not start.
    @Test(.enabled(if: geteuid() == 0 && Tool.isInstalled("chown"), "only root can give files away"))
    func rootDoesNotServeTheFolderOfAnotherUser() throws {
        #expect(try Command.run(["container", "create", "iCloud.a.b", "--data", folder.path]).status == 0)
        try #require(try Tool.run("chown", ["-R", "65534:65534", folder.path]).status == 0)
        let serve = try Command.run(["serve", "--data", folder.path, "--listen", "127.0.0.1:0"])
        #expect(serve.status == 4, "\(serve.errors)")
        let way = "zonecast serve --data \(folder.path)\n"
        #expect(serve.errors.contains("Start the relay as that user: sudo -u ") && serve.errors.hasSuffix(way))
        #expect(try Tool.run("find", [folder.path, "!", "-uid", "65534"]).output == "")
        // A folder that root has served before is served again: better a relay than none.
        try Data().write(to: URL(fileURLWithPath: "\(folder.path)/relay.lock"))
        #expect(try RelayProcess(folder: folder.path).stop().status == 0)
    }

    @Test func theReasonForAFailedSignInIsReported() {
        let full = DirectoryError.unavailable("relay.sqlite: the disk is full. Free space on it.")
        #expect(
            DoctorCommand.noSignIn(full, in: "/srv/relay").found
                == "cannot sign in in /srv/relay: relay.sqlite: the disk is full. Free space on it."
        )
    }

    /// Some of Foundation's path functions crash on some of these paths.
    @Test(arguments: ["r", ".", "./r", "r/", "../r"])
    func relativePathsOfTheDataFolderAreAccepted(name: String) throws {
        let (place, program) = ("\(folder.path)/inner", Command.program.path)
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
        for command in [["container", "create", Path.container], ["backup", "create"], ["storage", "info"]] {
            let run = try Tool.run(program, command + ["--data", name], in: place)
            #expect(run.status == 0, "\(command): \(run.output)")
        }
    }

    /// The store's list names containers that are missing or unreadable.
    @Test func unreadableStoresAreListedWithTheReason() throws {
        struct Info: Decodable {
            struct Failure: Decodable { var container: String, environment: String, reason: String }
            struct Row: Decodable { var container: String }
            var stores: [Row], failures: [Failure]
        }
        try makeStore()
        func zonecast(_ arguments: String...) throws -> Command {
            try Command.run(arguments + ["--data", folder.path])
        }
        #expect(try zonecast("storage", "info", "--json").json(Info.self).failures.isEmpty)
        let place = "\(folder.path)/containers/\(Path.container)"
        for isLost in [false, true] {
            if isLost {
                try FileManager.default.removeItem(atPath: place)
            } else {
                // Only root can change owners. The command then runs as the folder's owner, who cannot read the container.
                guard geteuid() == 0, try Tool.run("chown", ["-R", "65534:65534", folder.path]).status == 0,
                    try Tool.run("chown", ["root:root", place]).status == 0
                else { continue }
            }
            let run = try zonecast("storage", "info", "--json")
            let info = try run.json(Info.self)
            #expect(run.status == 1 && info.stores.isEmpty, "\(run.output)")
            let failure = try #require(info.failures.first)
            #expect(failure.container == Path.container && failure.environment == "development")
            let reason =
                isLost ? "development.sqlite in the data folder \(folder.path) is damaged" : "Permission denied."
            #expect(failure.reason.contains(reason) && run.errors.contains(failure.reason), "\(run.errors)")
            #expect(try zonecast("storage", "info").output.contains("\(Path.container)  development  unknown"))
        }
    }
}
