import ChildProcesses
import Foundation
import TestSupport
import Testing

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
