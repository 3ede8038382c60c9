import Foundation
import GRDB
import SQLiteStore
import TestSupport
import Testing

@testable import zonecast

/// `zonecast doctor` on folders and relays.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct DoctorTests {
    private let folder = ScratchFolder()

    struct Diagnosis: Decodable {
        struct Check: Decodable {
            var check: String
            var grade: String
            var found: String
            var next: String?
        }
        var checks: [Check]
        var problems: Int

        subscript(name: String) -> Check? { checks.first { $0.check == name } }
    }

    /// Without a relay, the doctor tries to listen: at any port, so that other programs do not interfere.
    private func doctor(_ arguments: String...) throws -> (status: Int32, diagnosis: Diagnosis) {
        let anyPort = ["ZONECAST_LISTEN": "127.0.0.1:0"]
        let run = try Command.run(["doctor", "--json", "--timeout", "120"] + arguments, environment: anyPort)
        return (run.status, try run.json(Diagnosis.self))
    }

    @Test func aRunningRelayIsCheckedAsAClientAndKeepsNoTrace() throws {
        let relay = try RelayProcess(folder: folder.path, [])
        let (status, diagnosis) = try doctor("--data", folder.path)
        #expect(status == 0)
        for name in ["configuration", "storage", "listening", "WebSocket", "clock", "round trip", "open files"] {
            #expect(diagnosis[name]?.grade == "good", "\(name): \(diagnosis[name]?.found ?? "not checked")")
        }
        #expect(diagnosis["listening"]?.found == "http://127.0.0.1:\(relay.port)")
        #expect(diagnosis["round trip"]?.found.contains("save → notice → fetch in") == true)
        #expect(diagnosis["backup"]?.next?.hasPrefix("zonecast backup schedule") == true)
        let tokens = try Command.run(["token", "list", "--data", folder.path])
        #expect(tokens.output.hasPrefix("There are no API tokens."))

        let lines = try Command.run(["doctor", "--timeout", "120", "--data", folder.path])
        #expect(lines.status == 0)
        #expect(lines.output.hasSuffix("7 ok, 3 advice, 0 problems\n"), "\(lines.output)")
    }

    @Test func theTraceCollectorIsChecked() throws {
        #expect(try Command.run(["container", "create", "iCloud.a.b", "--data", folder.path]).status == 0)
        func found(at port: Int) throws -> Diagnosis.Check? {
            let settings = ["ZONECAST_TRACES_ENDPOINT": "http://127.0.0.1:\(port)/v1/traces"]
            let run = try Command.run(
                ["doctor", "--json", "--timeout", "120", "--data", folder.path],
                environment: settings
            )
            return try run.json(Diagnosis.self)["traces"]
        }
        let collector = try RequestCollector()
        #expect(try found(at: collector.port)?.grade == "good")
        let unreachable = try found(at: 9)
        #expect(unreachable?.grade == "advice" && unreachable?.next?.contains("traces.endpoint") == true)
        #expect(try doctor("--data", folder.path).diagnosis["traces"] == nil)
    }

    @Test func withoutARelayTheFolderIsChecked() throws {
        #expect(try Command.run(["container", "create", "iCloud.a.b", "--data", folder.path]).status == 0)
        let (status, diagnosis) = try doctor("--data", folder.path)
        #expect(status == 0)
        #expect(diagnosis["storage"]?.grade == "good")
        #expect(diagnosis["listening"]?.grade == "advice")
        #expect(diagnosis["round trip"] == nil)
        // A health check fails without a relay.
        #expect(try doctor("--data", folder.path, "--quick").status == 1)
    }

    @Test func aQuickCheckOfARunningRelaySucceeds() throws {
        let relay = try RelayProcess(folder: folder.path)
        let (status, diagnosis) = try doctor("--data", folder.path, "--quick")
        #expect(status == 0)
        #expect(diagnosis["listening"]?.grade == "good")
        #expect(diagnosis["round trip"] == nil)
        withExtendedLifetime(relay) {}
    }

    @Test func aMissingFolderIsAProblemWithACommandToFixIt() throws {
        let (status, diagnosis) = try doctor("--data", folder.path)
        #expect(status == 1)
        #expect(diagnosis["storage"]?.next?.contains("zonecast init") == true)
        #expect(!FileManager.default.fileExists(atPath: folder.path))
    }

    @Test func aFaultInTheConfigurationIsReported() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let file = folder.path + "/zonecast.yaml"
        try "storag: x\n".write(toFile: file, atomically: true, encoding: .utf8)
        let (status, diagnosis) = try doctor("--config", file)
        #expect(status == 1)
        #expect(diagnosis["configuration"]?.found.contains("line 1: \"storag\" is not a key") == true)
    }

    @Test func settingsThatARelayWouldRefuseAreProblems() throws {
        let made = try Command.run(["container", "create", "iCloud.org.example.app", "--data", folder.path])
        #expect(made.status == 0)
        let file = folder.path + "/settings.yaml"
        for key in ["metrics.token-file", "push.trust-file", "push.fcm-account-file"] {
            try "data: '\(folder.path)'\n\(key): /nope\n".write(toFile: file, atomically: true, encoding: .utf8)
            let found = try doctor("--config", file)
            // The file must exist even if it only matters together with other keys.
            #expect(found.status == 1 && found.diagnosis["configuration"]?.found.contains(key) == true, "\(found)")
            #expect(found.diagnosis["storage"]?.grade != nil, "the other checks still run")
            #expect(try Command.run(["config", "check", file]).status == 2)
        }
    }

    @Test func suggestedCommandsCanBeTyped() throws {
        let place = folder.path + "/with a space"
        let made = try Command.run(["container", "create", "iCloud.org.example.app", "--data", place])
        #expect(made.status == 0)
        let found = try doctor("--data", place).diagnosis
        #expect(found["backup"]?.next?.hasSuffix("--data '\(place)'") == true)
        #expect(found["listening"]?.next == "zonecast serve --data '\(place)'")
        let file = folder.path + "/settings.yaml"
        try "data: '\(place)'\n".write(toFile: file, atomically: true, encoding: .utf8)
        #expect(try doctor("--config", file).diagnosis["listening"]?.next == "zonecast serve --config \(file)")
    }

    @Test func aRemoteRelayIsCheckedWithAUsersToken() throws {
        let relay = try RelayProcess(folder: folder.path)
        let url = "http://127.0.0.1:\(relay.port)"
        let (status, diagnosis) = try doctor("--url", url, "--web-token", "dev-alice")
        #expect(status == 0)
        #expect(diagnosis["round trip"]?.grade == "good", "\(diagnosis["round trip"]?.found ?? "")")
        #expect(try doctor("--url", url).diagnosis["round trip"]?.grade == "advice")
        let app = ["--container", "iCloud.org.example.app"]
        #expect(try doctor("--url", url, "--web-token", "dev-alice", app[0], app[1]).status == 0)
        let schema = try Command.run(["schema", "export", "--data", folder.path] + app)
        #expect(schema.status == 0 && !schema.output.contains("Doctor"), "no record type is left: \(schema.output)")
        let wrong = try doctor("--url", url, "--web-token", "nonsense")
        #expect(wrong.status == 1)
        #expect(wrong.diagnosis["round trip"]?.found.contains("AUTHENTICATION") == true)
    }

    @Test func aProxyThatDropsTheUpgradeIsReported() throws {
        let proxy = try FixedResponseServer(
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\nup\n"
        )
        let (status, diagnosis) = try doctor("--url", "http://127.0.0.1:\(proxy.port)")
        #expect(status == 1)
        #expect(diagnosis["WebSocket"]?.found.contains("returned 200 instead of 101") == true)
        #expect(diagnosis["clock"]?.grade == "problem")
        let otherServer = try FixedResponseServer("SSH-2.0-OpenSSH\r\n\r\n")
        let other = try doctor("--url", "http://127.0.0.1:\(otherServer.port)")
        #expect(other.diagnosis["public address"]?.found.contains("does not speak HTTP/1.1") == true)
        #expect(try Command.run(["doctor", "--url", "ftp://x"]).status == 2)
    }

    @Test func anOldBackupIsAProblemOnlyWithASchedule() throws {
        #expect(try Command.run(["container", "create", "iCloud.a.b", "--data", folder.path]).status == 0)
        #expect(try Command.run(["backup", "create", "--data", folder.path]).status == 0)
        let checks = FolderChecks(folder: folder.path, isThorough: true)
        let later = Date(timeIntervalSinceNow: 5 * 86_400)
        #expect(checks.backup(now: Date()).grade == .good)
        #expect(checks.backup(now: later).grade == .advice)
        #expect(try Command.run(["backup", "schedule", "daily", "--data", folder.path]).status == 0)
        #expect(checks.backup(now: Date()).grade == .good)
        #expect(checks.backup(now: later).grade == .problem)
        #expect(checks.backup(now: later).found.hasPrefix("the newest is 5 days old"))
    }

    @Test(arguments: [(0.4, "good"), (30, "advice"), (3600, "problem")])
    func clockDifferencesAreGraded(seconds: Double, grade: String) {
        #expect(RelayChecks.clock(clockOffset: seconds).grade.rawValue == grade)
    }
}

/// Parsing of what the doctor reads from a connection.
@Suite(.ownThread) struct ProbeTests {
    private func take(_ text: String, isOver: Bool = false) throws -> (answer: ProbeAnswer?, rest: String) {
        var bytes = Array(text.utf8)
        let answer = try ProbeAnswer.take(from: &bytes, isOver: isOver)
        return (answer, String(decoding: bytes, as: UTF8.self))
    }

    @Test func anAnswerEndsByItsLengthItsChunksOrTheConnection() throws {
        let counted = try take("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX: y\r\n\r\nup\nHTTP")
        #expect(counted.answer?.body == Array("up\n".utf8) && counted.rest == "HTTP")
        #expect(counted.answer?.header("x") == "y")
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n"
        for cut in 0..<chunked.count { #expect(try take(String(chunked.prefix(cut))).answer == nil, "\(cut)") }
        #expect(try take(chunked + "Z").answer?.body == Array("abc".utf8))
        #expect(try take(chunked + "Z").rest == "Z")
        #expect(try take("HTTP/1.0 200 OK\r\n\r\nab").answer == nil)
        #expect(try take("HTTP/1.0 200 OK\r\n\r\nab", isOver: true).answer?.body == Array("ab".utf8))
        #expect(try take("HTTP/1.1 101 Switching\r\n\r\nframe").rest == "frame")
        #expect(throws: ProbeFault.self) { try take("SSH-2.0\r\n\r\n") }
        #expect(throws: ProbeFault.self) { try take("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n") }
    }

    @Test func aChunkSizeThatOverflowsIsRefused() {
        let chunks = "1\r\na\r\n7fffffffffffffff\r\n"
        #expect(throws: ProbeFault.self) {
            try take("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
        }
    }

    @Test(arguments: [0, 1, 125, 126, 65_535, 65_536]) func framesOfEverySizeAreParsed(length: Int) throws {
        let payload = [UInt8](repeating: 7, count: length)
        // A server's frame is a client's frame without the mask.
        var masked = ProbeFrames.text(payload, mask: 0)
        let header = length < 126 ? 2 : length < 65_536 ? 4 : 10
        #expect(masked.count == header + 4 + length)
        masked.removeSubrange(header..<(header + 4))
        masked[1] &= 0x7F
        for cut in [0, 1, header - 1, masked.count - 1] where cut < masked.count {
            var part = Array(masked.prefix(cut))
            #expect(try ProbeFrames.take(from: &part) == nil)
        }
        var bytes = masked + [1]
        guard case .text(payload)? = try ProbeFrames.take(from: &bytes) else {
            Issue.record("the frame differs from the one written")
            return
        }
        #expect(bytes == [1])
    }
}

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
            ["serve", "--listen", "127.0.0.1:0"], ["user", "list"], ["storage", "show"], ["backup", "create"],
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
