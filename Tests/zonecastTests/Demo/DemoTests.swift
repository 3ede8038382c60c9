import ChildProcesses
import Foundation
import TestSupport
import Testing

@testable import zonecast

/// The demo as a user runs it, without a terminal.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct DemoRunTests {
    private struct Line: Decodable {
        var seconds: Double
        var who: String
        var what: String
        var detail: String
    }

    @Test func theTourPassesAndItsLastLineReportsThat() throws {
        let demo = try Command.run(["demo", "--board-seconds", "1"])
        let last = demo.output.split(separator: "\n").last ?? ""
        #expect(demo.status == 0, "\(demo.output)\n\(demo.errors)")
        #expect(last.contains("check    3 mirrors equal the relay · 0 lost · 0 duplicated"))
        #expect(last.contains("1 write refused as expected"))
        #expect(last.contains("ms from save to shown"))
        #expect(last.hasSuffix("10 of 10 scenes passed"))
        #expect(!demo.output.contains("\u{1B}"))
        for step in [
            "save", "commit", "→ notice", "fetch", "ms after save", "kill -9", "refuse ", "Rolled back here",
            "\"Camping\" of alice, read only", "\"Camping\" of alice, read and write",
            "\"Camping\" of alice: removed with its notes", "\"Camping\" no longer shared; its notes stay",
        ] {
            #expect(demo.output.contains(step), "\(step)")
        }
    }

    @Test func withTheJSONFlagEveryLineIsAnObject() throws {
        let folder = ScratchFolder()
        let relay = try RelayProcess(folder: folder.path)
        let demo = try Command.run([
            "demo", "--json", "--board-seconds", "1", "--url", "http://127.0.0.1:\(relay.port)",
        ])
        #expect(demo.status == 0, "\(demo.output)\n\(demo.errors)")
        let lines = try demo.output.split(separator: "\n").map {
            try JSONDecoder().decode(Line.self, from: Data($0.utf8))
        }
        let last = try #require(lines.last)
        #expect(last.who == "tour" && last.what == "check")
        // The remote relay is not killed, so there is one scene less.
        #expect(last.detail.hasSuffix("9 of 9 scenes passed"))
        #expect(zip(lines, lines.dropFirst()).allSatisfy { $0.seconds <= $1.seconds })
    }

    @Test func chaosEndsWithEqualMirrors() throws {
        let demo = try Command.run([
            "demo", "--script", "chaos", "--seconds", "6", "--seed", "7", "--board-seconds", "1",
        ])
        #expect(demo.status == 0, "\(demo.output)\n\(demo.errors)")
        let last = demo.output.split(separator: "\n").last ?? ""
        #expect(last.contains("chaos         check    ✔ "), "\(last)")
        #expect(last.hasSuffix("3 mirrors equal the relay · 0 lost · 0 duplicated"))
        #expect(demo.output.contains("to repeat: --script chaos --seed 7"))
    }

    @Test func theRecordingIsWritten() throws {
        let folder = ScratchFolder()
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let path = folder.path + "/demo.cast"
        let demo = try Command.run(["demo", "--board-seconds", "1", "--pace", "0", "--record", path])
        #expect(demo.status == 0, "\(demo.errors)")
        let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
        #expect(lines.first?.contains("\"version\":2") == true)
        #expect(lines.count > 10)
        #expect(lines.last?.contains("3 mirrors equal") == true)
    }

    @Test func anUnreachableRelayIsReportedAtOnce() throws {
        let demo = try Command.run(["demo", "--url", "http://127.0.0.1:1"])
        #expect(demo.status == 3)
        #expect(demo.errors.contains("No relay answers at http://127.0.0.1:1."))
    }

    @Test func aPortInUseIsReported() throws {
        let folder = ScratchFolder()
        let relay = try RelayProcess(folder: folder.path)
        let demo = try Command.run(["demo", "--port", "\(relay.port)"])
        #expect(demo.status == 1)
        #expect(demo.errors.contains("127.0.0.1:\(relay.port) is in use"), "\(demo.errors)")
        #expect(demo.errors.contains("Without --port"), "\(demo.errors)")
    }

    @Test(arguments: [
        ["--record", "demo.gif"], ["--clients", "2"], ["--web-token", "alice"], ["--web-token", "alice=t"],
        ["--api-token", "t"], ["--port", "70000"], ["--seconds", "5"],
        ["--address", "127.0.0.1"], ["--join", "--plain"],
    ])
    func wrongUsageIsRefused(_ arguments: [String]) throws {
        let demo = try Command.run(["demo"] + arguments)
        #expect(demo.status == 2)
        #expect(demo.errors.contains(arguments[0]))
    }

    @Test(.enabled(if: !NetworkAddress.all().isEmpty, "this machine has no address beyond loopback"))
    func anAudienceIsNotLetInWithoutAsking() throws {
        let address = try #require(NetworkAddress.all().first)
        let demo = try Command.run(["demo", "--join"])
        #expect(demo.status == 2 && demo.output.isEmpty)
        #expect(demo.errors.contains("The demo will listen on \(address), "), "\(demo.errors)")
        #expect(demo.errors.contains("Add --yes to confirm without a terminal."), "\(demo.errors)")
    }

    @Test func theAddressForAnAudienceMustBeOneOfThisMachine() throws {
        let demo = try Command.run(["demo", "--join", "--yes", "--address", "203.0.113.9"])
        #expect(demo.status == 2)
        #expect(demo.errors.contains("203.0.113.9 is not an address of this machine."), "\(demo.errors)")
        #expect(["10.1.2.3", "192.168.0.1", "172.16.0.1"].allSatisfy(NetworkAddress.isPrivate))
        #expect(!["172.32.0.1", "203.0.113.9"].contains(where: NetworkAddress.isPrivate))
    }

    @Test func aClosedOutputEndsTheDemoSilently() throws {
        let shell = ChildProcess()
        shell.executableURL = URL(fileURLWithPath: "/bin/sh")
        let folder = ScratchFolder()
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        shell.arguments = [
            "-c", "{ \"$0\" demo --plain; echo $? > status; } 2> errors | head -1", Command.program.path,
        ]
        shell.currentDirectoryURL = URL(fileURLWithPath: folder.path)
        shell.environment = Command.cleanEnvironment(adding: ["TMPDIR": folder.path])
        shell.standardOutput = FileHandle.nullDevice
        try shell.run()
        shell.waitUntilExit()
        #expect(try String(contentsOfFile: folder.path + "/status", encoding: .utf8) == "141\n")
        #expect(try String(contentsOfFile: folder.path + "/errors", encoding: .utf8).isEmpty)
        // The relay has ended, and its files are deleted.
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == ["errors", "status"])
    }
}

/// Demos that end early.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct DemoEndTests {
    private let folder = ScratchFolder()

    /// A demo whose output is read while it runs.
    private struct Running {
        let process = ChildProcess()
        private let output = Pipe()

        init(_ arguments: [String], environment: [String: String] = [:]) throws {
            process.executableURL = Command.program
            process.arguments = ["demo", "--plain", "--board-seconds", "1"] + arguments
            process.environment = Command.cleanEnvironment().merging(environment) { $1 }
            process.standardInput = FileHandle.nullDevice
            process.standardOutput = output
            process.standardError = FileHandle.nullDevice
            try process.run()
        }

        /// Returns the output until `words` appear or the demo ends.
        func read(until words: String? = nil) -> String {
            var text = Data()
            while case let more = output.fileHandleForReading.availableData, !more.isEmpty {
                text.append(more)
                if let words, String(decoding: text, as: UTF8.self).contains(words) { break }
            }
            return String(decoding: text, as: UTF8.self)
        }
    }

    @Test func anUnwritableRecordingIsReportedBeforeTheDemoStarts() throws {
        let demo = try Command.run(["demo", "--record", folder.path + "/none/demo.cast"])
        #expect(demo.status == 1 && demo.output.isEmpty)
        #expect(demo.errors.contains("The recording cannot be written to \(folder.path)/none/demo.cast"))
    }

    @Test func anInterruptedDemoKeepsItsRecording() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let path = folder.path + "/demo.cast"
        let demo = try Running(["--pace", "0", "--record", path])
        #expect(demo.read(until: "scene 2").contains("scene 2"))
        demo.process.signal(SIGINT)
        demo.process.waitUntilExit()
        #expect(demo.process.terminationStatus == 130)
        let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
        #expect(lines.first?.contains("\"version\":2") == true && lines.count > 1)
    }

    /// Returns the child process of a process, from /proc.
    private func child(of parent: pid_t) throws -> pid_t {
        let children = try FileManager.default.contentsOfDirectory(atPath: "/proc").compactMap { pid_t($0) }.filter {
            let facts = try? String(contentsOfFile: "/proc/\($0)/stat", encoding: .utf8)
            // The name, which may contain anything, ends with the last parenthesis; the state and the parent follow.
            return facts?.split(separator: ")").last?.split(separator: " ").dropFirst().first == "\(parent)"
        }
        return try #require(children.first)
    }

    @Test(.enabled(if: FileManager.default.fileExists(atPath: "/proc/self"), "there is no /proc here"))
    func aDemoEndsWhenItsOwnRelayDies() throws {
        let demo = try Running([])
        #expect(demo.read(until: "scene 1").contains("scene 1"))
        kill(try child(of: demo.process.processIdentifier), SIGKILL)
        let rest = demo.read()
        demo.process.waitUntilExit()
        #expect(demo.process.terminationStatus == 1)
        let last = rest.split(separator: "\n").last ?? ""
        #expect(last.contains("The demo's relay has stopped unexpectedly"), "\(rest)")
    }

    @Test(arguments: [SIGHUP, SIGQUIT]) func anInterruptedDemoLeavesNoFiles(signal: Int32) throws {
        let temporary = folder.path + "/tmp"
        try FileManager.default.createDirectory(atPath: temporary, withIntermediateDirectories: true)
        let demo = try Running([], environment: ["TMPDIR": temporary])
        #expect(demo.read(until: "scene 1").contains("scene 1"))
        demo.process.signal(signal)
        demo.process.waitUntilExit()
        #expect(demo.process.terminationStatus == 128 + signal)
        #expect(try FileManager.default.contentsOfDirectory(atPath: temporary).isEmpty)
    }

    @Test func aDemoEndsWhenARemoteRelayDies() throws {
        let relay = try RelayProcess(folder: folder.path)
        let demo = try Running(["--url", "http://127.0.0.1:\(relay.port)"])
        #expect(demo.read(until: "scene 1").contains("scene 1"))
        relay.killHard()
        let rest = demo.read()
        demo.process.waitUntilExit()
        #expect(demo.process.terminationStatus == 1)
        #expect(rest.contains("the relay at http://127.0.0.1:\(relay.port) does not answer"), "\(rest)")
        let last = rest.split(separator: "\n").last ?? ""
        #expect(last.contains("has not answered for 15 s"), "\(last)")
    }
}
