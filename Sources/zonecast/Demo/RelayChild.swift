import Foundation
import Synchronization

/// The demo's own relay: this program again, as a child process that can be killed.
final class RelayChild: Sendable {
    private let folder: String
    private let state = Mutex<(process: Process?, port: Int)>((nil, 0))

    init(folder: String) { self.folder = folder }

    /// Starts it and waits until it is ready; again on the same port after the first time.
    func start(within limit: Duration = .seconds(20)) async throws -> URL {
        let port = state.withLock { $0.port }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: Self.program)
        process.arguments = ["serve", "--dev", "--data", folder, "--listen", "127.0.0.1:\(port)"]
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle(forWritingAtPath: "/dev/null")
        process.standardInput = FileHandle(forReadingAtPath: "/dev/null")
        try process.run()
        state.withLock { $0.process = process }

        let text = Mutex("")
        output.fileHandleForReading.readabilityHandler = { handle in
            let data = handle.availableData
            if data.isEmpty { handle.readabilityHandler = nil }
            text.withLock { $0 += String(decoding: data, as: UTF8.self) }
        }
        defer { output.fileHandleForReading.readabilityHandler = nil }
        try await Patience.wait(for: "the relay to say that it is ready", within: limit) {
            text.withLock { $0.contains("\n") } || !process.isRunning
        }
        let line = text.withLock { $0 }.split(separator: "\n").first { $0.hasPrefix("ready ") }
        guard let line, let url = URL(string: String(line.dropFirst(6))) else {
            throw CommandFailure(.failed, "The demo's relay did not start. Try: zonecast serve --dev --data \(folder)")
        }
        state.withLock { $0.port = url.port ?? 0 }
        return url
    }

    /// Ends it as a power cut would, as far as a process can.
    func kill() {
        state.withLock { state in
            guard let process = state.process, process.isRunning else { return }
            Foundation.kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
            state.process = nil
        }
    }

    private static var program: String {
        (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? CommandLine.arguments[0]
    }
}

/// Waiting with an end: every wait of the demo says what it waited for.
enum Patience {
    /// Looks every few milliseconds until `condition` holds.
    ///
    /// Throws a `CommandFailure` that names `what` once `limit` is over.
    static func wait(
        for what: String,
        within limit: Duration = .seconds(20),
        _ condition: @Sendable () async throws -> Bool
    ) async throws {
        let end = ContinuousClock.now + limit
        while try await !condition() {
            guard ContinuousClock.now < end else {
                throw CommandFailure(.failed, "Waited \(limit) for \(what), in vain.")
            }
            try await Task.sleep(for: .milliseconds(5))
        }
    }
}
