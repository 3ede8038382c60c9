import ChildProcesses
import Foundation
import Logging
import Records
import RelayServer
import Synchronization
import TestSupport
import Testing

@testable import zonecast

/// What the relay logs, and what it must not log.
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

    @Test func everyRequestIsOneJSONLineWithItsUUIDAndWithoutPrivateData() throws {
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

    /// Refusals are logged with their UUIDs, whether or not the access log is enabled.
    @Test(arguments: [[:], ["ZONECAST_LOG_ACCESS": "true"]])
    func theUUIDOfEveryRefusalIsLogged(settings: [String: String]) throws {
        struct Refusal: Decodable { var uuid: String }
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let log = folder.path + "/log"
        let relay = try RelayProcess(folder: folder.path, environment: settings, log: log)
        let place = "/database/1/iCloud.org.example.notes/development/private/"
        let refused: [(method: String, target: String, headers: [String: String], status: Int)] = [
            ("POST", place + "records/query", [:], 421), ("GET", "/nothing/here", [:], 404),
            ("GET", "nowhere", [:], 400), ("PUT", "/a", ["Content-Length": "99999999999"], 413),
            ("GET", "/" + String(repeating: "a", count: 9_000), [:], 414),
            ("PUT", "/a", ["Content-Length": "2", "Content-Encoding": "br"], 415),
            ("GET", "/a", ["X-Long": String(repeating: "a", count: 9_000)], 431), ("BREW", "/a", [:], 501),
            ("GET", "/push/1/iCloud.org.example.notes/development", [:], 426),
        ]
        var identifiers: [String] = []
        for request in refused {
            let connection = try relay.connect()
            let answer = try connection.send(request.method, request.target, headers: request.headers)
            #expect(answer.status == request.status, "\(request)")
            identifiers.append(try answer.json(Refusal.self).uuid)
            #expect(answer.headers["x-apple-request-uuid"] == identifiers.last)
        }
        let seen = try relay.connect().send("POST", place + "zones/list?ckWebAuthToken=dev-alice", body: "{}")
        #expect(seen.status == 200)
        _ = relay.stop()
        let text = try String(contentsOfFile: log, encoding: .utf8)
        for (identifier, request) in zip(identifiers, refused) {
            let filter = LogFilter(errors: true, request: identifier)
            let line = text.split(separator: "\n").first { filter.admits(String($0)) }
            #expect(line?.contains("status=\(request.status)") == true, "\(request)")
        }
        #expect(text.contains("status=200") == !settings.isEmpty)
    }

    @Test func repeatedRefusalsAreRateLimitedInTheLog() throws {
        let lines = WrittenLines()
        let logger = Logger(label: "test") { _ in LogLines(format: .text, write: { lines.add($0) }) }
        let uptime = Mutex(Duration.zero)
        let names = Pseudonyms(relayKey: [1])
        let log = RequestLog(logger, names, of: .refused, uptime: { uptime.withLock { $0 } })
        let refused = RefusedRequest(id: "x", status: 400, error: .badRequest, reason: "No.")
        for _ in 0..<1_000 { log.note(refused) }
        #expect(lines.all.count == 60)
        uptime.withLock { $0 += .seconds(1) }
        for _ in 0..<3 { log.note(refused) }
        #expect(lines.all.count == 61 && lines.all.last?.hasSuffix("status=400 unlogged=940") == true)
        let everything = RequestLog(logger, names, of: .all, uptime: { .zero })
        for _ in 0..<100 { everything.note(refused) }
        #expect(lines.all.count == 161)
    }

    @Test func theDebugLogContainsNoDumpedValues() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let log = folder.path + "/log"
        let relay = try RelayProcess(folder: folder.path, environment: ["ZONECAST_LOG_LEVEL": "debug"], log: log)
        #expect(relay.stop().status == 0)
        let text = try String(contentsOfFile: log, encoding: .utf8)
        #expect(!text.contains("(Function)") && !text.contains("RelayServer("), "\(text)")
    }

    /// As under a timer: without piped input, the command reads the service's log.
    @Test(arguments: [true, false]) func withoutPipedInputTheServicesLogIsShown(_ hasNoInput: Bool) throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let stub = folder.path + "/journalctl"
        try Data("#!/bin/sh\necho 'now error of the service'\n".utf8).write(to: URL(fileURLWithPath: stub))
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: stub)
        let process = ChildProcess()
        process.executableURL = Command.program
        process.arguments = ["log", "show", "--errors"]
        process.environment = Command.cleanEnvironment(adding: ["PATH": "\(folder.path):/usr/bin:/bin"])
        let (input, output) = (Pipe(), Pipe())
        process.standardInput = hasNoInput ? FileHandle.nullDevice : input
        process.standardOutput = output
        try process.run()
        input.fileHandleForWriting.write(Data("now error of a pipe\n".utf8))
        try input.fileHandleForWriting.close()
        let shown = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(shown == (hasNoInput ? "now error of the service\n" : "now error of a pipe\n"))
    }

    @Test func valuesCannotForgeALogLine() {
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

    @Test func theLastLinesAreShownFromFilesAndPipes() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let log = folder.path + "/log"
        let text = (0..<5).map { "2026-01-01T00:00:00Z info line\($0)\n" }.joined()
        try text.write(toFile: log, atomically: true, encoding: .utf8)
        for (count, first) in [("2", 3), ("5", 0), ("9", 0)] {
            let expected = text.split(separator: "\n").dropFirst(first).map { $0 + "\n" }.joined()
            #expect(try Command.run(["log", "show", "--file", log, "--lines", count]).output == expected)
            #expect(try Command.run(["log", "show", "--lines", count], input: text).output == expected)
        }
        #expect(try Command.run(["log", "show", "--file", log]).output == text)
        // The last line has no line ending.
        try String(text.dropLast()).write(toFile: log, atomically: true, encoding: .utf8)
        #expect(try Command.run(["log", "show", "--file", log]).output == text)
    }

    @Test(arguments: [
        ("/database/1/c/development/private/records/modify", "/database/1/c/development/private/records/modify"),
        ("/asset/1/d/secret/name", "/asset/1/d/…"), ("/prefix/asset/1/u/secret", "/prefix/asset/1/u/…"),
        ("/share/iCloud.x/production/0kq~p.tag", "/share/iCloud.x/…"),
    ])
    func pathsThatGrantAccessAreTruncated(path: String, shown: String) {
        #expect(RequestLog.loggable(path) == shown)
    }
}

/// Collects the lines of a log.
private final class WrittenLines: Sendable {
    private let lines = Mutex<[String]>([])

    var all: [String] { lines.withLock { $0 } }

    func add(_ line: String) { lines.withLock { $0.append(line) } }
}
