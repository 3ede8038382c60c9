import ChildProcesses
import Foundation
import TestSupport
import Testing

/// A running `zonecast serve`, killed at the latest when this object is released.
final class RelayProcess {
    let port: Int
    let folder: String
    private let process: ChildProcess

    /// A wait that failed.
    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    /// Starts a relay on a free port and waits at most 120 s until it is ready.
    ///
    /// - Parameters:
    ///   - folder: The data folder.
    ///   - arguments: Arguments of `serve` besides folder and port.
    ///   - environment: `ZONECAST_` variables.
    ///   - input: The standard input.
    ///   - log: The file for the standard error.
    ///   - longestFile: The maximum size of a file in KiB, as if the disk failed there.
    ///   - openFiles: The maximum number of open files and sockets.
    /// - Throws: `Failure` if the relay does not become ready.
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
        // The shell counts in units of 512 bytes. Without the trap, a signal would end the program.
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
        // On a busy machine, the time between two requests on a connection can be long.
        let timeouts = ["ZONECAST_LIMITS_HEAD_TIME": "600", "ZONECAST_LIMITS_KEEP_ALIVE": "600"]
        process.environment = Command.cleanEnvironment(adding: timeouts.merging(environment) { $1 })
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

    /// The number of open files and sockets, 0 if the system does not tell.
    var openDescriptors: Int {
        (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process.processIdentifier)/fd").count) ?? 0
    }

    func connect() throws -> HTTPConnection { try HTTPConnection(port: port) }

    /// Connects to the relay after a pause for a command, and waits at most 120 s until it listens again.
    func reconnect() throws -> HTTPConnection {
        let deadline = ContinuousClock.now + .seconds(120)
        while true {
            do {
                let connection = try connect()
                _ = try connection.send("GET", "/healthz")
                return connection
            } catch {
                guard ContinuousClock.now < deadline else { throw error }
                usleep(20_000)
            }
        }
    }

    /// Ends the relay with SIGKILL.
    func killHard() {
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    /// Suspends the relay, and returns once it is suspended.
    func suspend() throws {
        kill(process.processIdentifier, SIGSTOP)
        var facts = siginfo_t()
        guard waitid(P_PID, id_t(process.processIdentifier), &facts, WSTOPPED | WNOWAIT) == 0 else {
            throw Failure(description: "the relay could not be suspended")
        }
    }

    /// Asks the relay to stop, without waiting.
    func beginStop() { process.terminate() }

    /// Sends the signal that the relay gets when its terminal closes.
    func hangUp() { process.signal(SIGHUP) }

    /// Waits at most 120 s for the relay to end, and returns its exit status.
    func end() throws -> Int32 {
        let deadline = ContinuousClock.now + .seconds(120)
        while process.isRunning, ContinuousClock.now < deadline { usleep(5_000) }
        guard !process.isRunning else { throw Failure(description: "waited 120 s for the relay to end") }
        return process.terminationStatus
    }

    /// Stops the relay; returns its exit status and the time it took.
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
            // A poll can end early because of a signal.
            guard poll(&waiting, 1, Int32(left / .milliseconds(1)) + 1) > 0 else { continue }
            var byte: UInt8 = 0
            guard read(descriptor, &byte, 1) == 1 else { throw Failure(description: "serve ended before it was ready") }
            bytes.append(byte)
        }
        return String(decoding: bytes.dropLast(), as: UTF8.self)
    }
}
