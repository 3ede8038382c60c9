import ChildProcesses
import Foundation
import Logging
import Testing

@testable import zonecast

/// What the relay writes about itself, and what it does not.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct LogTests {
    private let folder = ScratchFolder()

    private struct Line: Decodable {
        var time: String
        var level: String
        var message: String
        var request: String?
        var path: String?
        var status: Int?
        var ms: Double?
        var bytes: Int?
    }

    @Test func everyRequestIsALineOfJSONWithItsIdentifierAndNothingPrivate() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let log = folder.path + "/log"
        let relay = try RelayProcess(
            folder: folder.path,
            environment: ["ZONECAST_LOG_FORMAT": "json", "ZONECAST_LOG_ACCESS": "true"],
            log: log
        )
        let connection = try relay.connect()
        let place = "/database/1/iCloud.org.example.notes/development/private/"
        let body = #"{"operations":[{"operationType":"create","record":{"recordName":"Secret","recordType":"Note"}}]}"#
        let saved = try connection.send("POST", place + "records/modify?ckWebAuthToken=dev-alice", body: body)
        let refused = try connection.send("POST", place + "records/query?ckWebAuthToken=nonsense", body: "{}")
        let identifiers = [saved, refused].map { $0.headers["x-apple-request-uuid"] ?? "none" }
        _ = relay.stop()
        let text = try String(contentsOfFile: log, encoding: .utf8)
        let lines = try text.split(separator: "\n").map { try JSONDecoder().decode(Line.self, from: Data($0.utf8)) }
        let requests = lines.filter { $0.message == "request" }
        #expect(requests.map(\.request) == identifiers)
        #expect(requests.map(\.status) == [saved.status, refused.status])
        #expect(requests.allSatisfy { $0.ms != nil && $0.bytes != nil })
        #expect(requests.map(\.path) == [place + "records/modify", place + "records/query"])
        for secret in ["alice", "nonsense", "Secret", "ckWebAuthToken"] { #expect(!text.contains(secret), "\(secret)") }
    }

    @Test func atDebugItDoesNotWriteItselfDown() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let log = folder.path + "/log"
        let relay = try RelayProcess(folder: folder.path, environment: ["ZONECAST_LOG_LEVEL": "debug"], log: log)
        #expect(relay.stop().status == 0)
        let text = try String(contentsOfFile: log, encoding: .utf8)
        #expect(!text.contains("(Function)") && !text.contains("RelayServer("), "\(text)")
    }

    /// As a timer runs it: nothing is piped in, so the service's log is meant.
    @Test(arguments: [true, false]) func withNothingPipedInTheServicesLogIsShown(_ isNothing: Bool) throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let stub = folder.path + "/journalctl"
        try Data("#!/bin/sh\necho 'now error of the service'\n".utf8).write(to: URL(fileURLWithPath: stub))
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: stub)
        let process = ChildProcess()
        process.executableURL = Command.program
        process.arguments = ["logs", "--errors"]
        process.environment = Command.cleanEnvironment(adding: ["PATH": "\(folder.path):/usr/bin:/bin"])
        let (input, output) = (Pipe(), Pipe())
        process.standardInput = isNothing ? FileHandle.nullDevice : input
        process.standardOutput = output
        try process.run()
        input.fileHandleForWriting.write(Data("now error of a pipe\n".utf8))
        try input.fileHandleForWriting.close()
        let shown = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(shown == (isNothing ? "now error of the service\n" : "now error of a pipe\n"))
    }

    @Test func aLineCannotBeForgedByWhatIsInIt() {
        let date = Date(timeIntervalSince1970: 0)
        let facts: Logger.Metadata = ["path": "a b\n\"c\"\u{1}", "status": .stringConvertible(200)]
        #expect(
            LogLines.line(at: date, .info, "request", facts, .text)
                == #"1970-01-01T00:00:00.000Z info request path="a b\n\"c\"\u0001" status=200"#
        )
        #expect(
            LogLines.line(at: date, .error, "x\ny", facts, .json)
                == #"{"time":"1970-01-01T00:00:00.000Z","level":"error","message":"x\ny","path":"a b\n\"c\"\u0001","status":200}"#
        )
    }

    @Test func linesAreCountedFromTheEndOfAnyLog() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let log = folder.path + "/log"
        let text = (0..<5).map { "2026-01-01T00:00:00Z info line\($0)\n" }.joined()
        try text.write(toFile: log, atomically: true, encoding: .utf8)
        for (count, first) in [("2", 3), ("5", 0), ("9", 0)] {
            let expected = text.split(separator: "\n").dropFirst(first).map { $0 + "\n" }.joined()
            #expect(try Command.run(["logs", "--file", log, "--lines", count]).output == expected)
            #expect(try Command.run(["logs", "--lines", count], input: text).output == expected)
        }
        #expect(try Command.run(["logs", "--file", log]).output == text)
    }

    @Test(arguments: [
        ("/database/1/c/development/private/records/modify", "/database/1/c/development/private/records/modify"),
        ("/asset/1/d/secret/name", "/asset/1/d/…"), ("/prefix/asset/1/u/secret", "/prefix/asset/1/u/…"),
        ("/share/iCloud.x/production/0kq~p.tag", "/share/iCloud.x/…"),
    ])
    func addressesThatAreKeysAreCut(path: String, shown: String) {
        #expect(RequestLog.loggable(path) == shown)
    }
}
