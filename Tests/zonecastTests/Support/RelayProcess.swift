import ChildProcesses
import Foundation
import TestSupport
import Testing

/// A running `zonecast serve`, killed at the latest when the test lets go of it.
final class RelayProcess {
    let port: Int
    let folder: String
    private let process: ChildProcess

    /// What went wrong while waiting.
    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    /// Starts one on a port of the system's choice and waits until it says that it is ready, 120 s at most.
    ///
    /// - Parameters:
    ///   - folder: its data folder.
    ///   - arguments: of `serve`, beside folder and port.
    ///   - environment: `ZONECAST_` variables.
    ///   - input: its standard input.
    ///   - log: the file that its standard error goes to.
    ///   - longestFile: no file of its can grow beyond so many KiB, as on a disk that fails there.
    ///   - openFiles: so many files and sockets may it have open.
    /// - Throws: `Failure` where it does not get ready.
    init(
        folder: String,
        _ arguments: [String] = ["--dev"],
        environment: [String: String] = [:],
        input: Pipe? = nil,
        log: String? = nil,
        longestFile: Int? = nil,
        openFiles: Int? = nil
    ) throws {
        self.folder = folder
        process = ChildProcess()
        let arguments = ["serve", "--data", folder, "--listen", "127.0.0.1:0"] + arguments
        // The shell counts in halves of a KiB; without the trap the system would end the program by a signal.
        let bounds = [
            longestFile.map { "trap '' XFSZ; ulimit -f \($0 * 2)" }, openFiles.map { "ulimit -n \($0)" },
        ].compactMap { $0 }
        if !bounds.isEmpty {
            let script = "\(bounds.joined(separator: "; ")); exec \"$0\" \"$@\""
            process.executableURL = URL(fileURLWithPath: "/bin/sh")
            process.arguments = ["-c", script, Command.program.path] + arguments
        } else {
            process.executableURL = Command.program
            process.arguments = arguments
        }
        // On a busy machine a test may be long between two requests on one connection.
        let patient = ["ZONECAST_LIMITS_HEAD_TIME": "600", "ZONECAST_LIMITS_KEEP_ALIVE": "600"]
        process.environment = Command.cleanEnvironment(adding: patient.merging(environment) { $1 })
        let output = Pipe()
        process.standardOutput = output
        process.standardError = try log.map { try Self.file($0) } ?? FileHandle.nullDevice
        process.standardInput = input ?? FileHandle.nullDevice
        try process.run()
        let line = try Self.firstLine(of: output.fileHandleForReading.fileDescriptor, within: .seconds(120))
        guard line.hasPrefix("ready http"), line.contains("://127.0.0.1:"),
            let port = Int(line.split(separator: ":").last ?? "")
        else {
            throw Failure(description: "waited for \"ready http://HOST:PORT\", got \"\(line)\"")
        }
        self.port = port
    }

    private static func file(_ path: String) throws -> FileHandle {
        _ = FileManager.default.createFile(atPath: path, contents: nil)
        guard let handle = FileHandle(forWritingAtPath: path) else { throw Failure(description: "no file \(path)") }
        return handle
    }

    deinit { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }

    /// How many files and sockets it holds; 0 where the system does not tell.
    var openDescriptors: Int {
        (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process.processIdentifier)/fd").count) ?? 0
    }

    func connect() throws -> HTTPConnection { try HTTPConnection(port: port) }

    /// `kill -9`: no goodbye, no flush.
    func killHard() {
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    /// Has it do nothing more, whatever comes; returns once it does nothing.
    func halt() throws {
        kill(process.processIdentifier, SIGSTOP)
        var facts = siginfo_t()
        guard waitid(P_PID, id_t(process.processIdentifier), &facts, WSTOPPED | WNOWAIT) == 0 else {
            throw Failure(description: "the relay could not be halted")
        }
    }

    /// Asks it to stop without waiting.
    func beginStop() { process.terminate() }

    /// What it is sent when the terminal goes that it was started from.
    func hangUp() { process.signal(SIGHUP) }

    /// Waits for its end, 120 s at most, and gives its exit status.
    func end() throws -> Int32 {
        let deadline = ContinuousClock.now + .seconds(120)
        while process.isRunning, ContinuousClock.now < deadline { usleep(5_000) }
        guard !process.isRunning else { throw Failure(description: "waited 120 s for the relay to end") }
        return process.terminationStatus
    }

    /// Asks it to stop; gives its exit status and how long it took.
    func stop() -> (status: Int32, took: Duration) {
        let start = ContinuousClock.now
        process.terminate()
        process.waitUntilExit()
        return (process.terminationStatus, ContinuousClock.now - start)
    }

    private static func firstLine(of descriptor: Int32, within limit: Duration) throws -> String {
        let deadline = ContinuousClock.now + limit
        var bytes: [UInt8] = []
        while bytes.last != UInt8(ascii: "\n") {
            let left = deadline - ContinuousClock.now
            var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard left > .zero else { throw Failure(description: "waited \(limit) for the ready line of serve") }
            // Nothing at the end of the time, and less than that where a signal or a halt came in between.
            guard poll(&waiting, 1, Int32(left / .milliseconds(1)) + 1) > 0 else { continue }
            var byte: UInt8 = 0
            guard read(descriptor, &byte, 1) == 1 else { throw Failure(description: "serve ended before it was ready") }
            bytes.append(byte)
        }
        return String(decoding: bytes.dropLast(), as: UTF8.self)
    }
}
