import Foundation
import Synchronization

/// The demo's own relay: a child process on a folder of its own, to be killed and started again.
final class DemoRelay: Sendable {
    private struct State {
        var process: Process?
        var input: Pipe?
        var port = 0
        var isMeantToRun = false
    }

    private let folder: String
    private let state = Mutex(State())

    /// A relay on `folder`, which keeps what it held before.
    init(folder: String) { self.folder = folder }

    var url: URL {
        URL(string: "http://127.0.0.1:\(state.withLock { $0.port })") ?? URL(fileURLWithPath: "/")
    }

    var isRunning: Bool { state.withLock { $0.process?.isRunning ?? false } }

    /// Starts it, on the port it had before; returns when it answers, and throws when it does not within 15 s.
    func start() async throws {
        let process = Process()
        process.executableURL = Self.program
        let port = state.withLock { $0.port }
        process.arguments = [
            "serve", "--dev", "--stop-with-input", "--listen", "127.0.0.1:\(port)", "--data", folder,
        ]
        process.environment = Self.environment
        // Ends with the demo, however that ends: so the relay does not outlive even a demo that is killed.
        let input = Pipe()
        process.standardInput = input
        let (output, complaints) = (Pipe(), Self.logFile(in: folder))
        process.standardOutput = output
        process.standardError = complaints ?? FileHandle.nullDevice
        do {
            try process.run()
        } catch {
            throw CommandFailure(.failed, "The relay cannot be started: \(error.localizedDescription)")
        }
        state.withLock {
            $0.process = process
            $0.input = input
            $0.isMeantToRun = true
        }
        let lines = Self.lines(of: output.fileHandleForReading)
        let ready = try await Wait.upTo(
            .seconds(15),
            "the relay to say that it is ready; its log is \(folder)/relay.log"
        ) { [folder] in
            for await line in lines where line.hasPrefix("ready http://") { return line }
            throw CommandFailure(.failed, "The relay ended before it was ready. Its log is \(folder)/relay.log")
        }
        guard let port = ready.split(separator: ":").last.flatMap({ Int($0) }) else {
            throw CommandFailure(.failed, "The relay said where it is in words of its own: \(ready)")
        }
        state.withLock { $0.port = port }
    }

    /// Ends it as a power cut would, with no chance to tidy up.
    func kill() {
        guard let process = state.withLock({ $0.process }), process.isRunning else { return }
        state.withLock { $0.isMeantToRun = false }
        Foundation.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    /// Ends it with the demo: a word first, and no longer than 3 s.
    func stop() {
        guard let process = state.withLock({ $0.process }), process.isRunning else { return }
        process.terminate()
        for _ in 0..<60 where process.isRunning { usleep(50_000) }
        if process.isRunning { Foundation.kill(process.processIdentifier, SIGKILL) }
    }

    private static var program: URL {
        #if os(Linux)
            // The running program's own file, wherever it was started from.
            URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        #else
            Bundle.main.executableURL ?? URL(fileURLWithPath: CommandLine.arguments[0])
        #endif
    }

    /// All clients of a demo come from one address, which an ordinary relay holds to fewer connections.
    private static var environment: [String: String] {
        let own = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("ZONECAST_") }
        return own.merging(["ZONECAST_LIMITS_CONNECTIONS_PER_ADDRESS": "2000"]) { $1 }
    }

    private static func logFile(in folder: String) -> FileHandle? {
        let path = folder + "/relay.log"
        guard FileManager.default.createFile(atPath: path, contents: nil) else { return nil }
        return FileHandle(forWritingAtPath: path)
    }

    private static func lines(of handle: FileHandle) -> AsyncStream<String> {
        AsyncStream { continuation in
            Thread {
                var rest = Data()
                // Reads on after the first line: a relay must never wait for somebody to read what it prints.
                while case let more = handle.availableData, !more.isEmpty {
                    rest.append(more)
                    while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                        continuation.yield(String(decoding: rest[rest.startIndex..<end], as: UTF8.self))
                        rest.removeSubrange(rest.startIndex...end)
                    }
                }
                continuation.finish()
            }.start()
        }
    }
}

/// Waits that end.
enum Wait {
    /// The result of `body`, or a failure that says what was waited for.
    static func upTo<Result: Sendable>(
        _ limit: Duration,
        _ what: String,
        _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        try await withThrowingTaskGroup(of: Result.self) { group in
            group.addTask { try await body() }
            group.addTask {
                try await Task.sleep(for: limit)
                throw CommandFailure(.failed, "Waited \(limit.inWords) for \(what).")
            }
            defer { group.cancelAll() }
            guard let first = try await group.next() else { throw CancellationError() }
            return first
        }
    }

    /// Waits until `condition` holds, looking every few milliseconds.
    static func until(
        _ what: String,
        upTo limit: Duration = .seconds(20),
        every pause: Duration = .milliseconds(5),
        _ condition: @escaping @Sendable () async -> Bool
    ) async throws {
        try await upTo(limit, what) {
            while !(await condition()) { try await Task.sleep(for: pause) }
        }
    }
}

extension Duration {
    /// `20 s`.
    var inWords: String { "\(components.seconds) s" }
    var milliseconds: Double { Double(components.seconds) * 1000 + Double(components.attoseconds) / 1e15 }
}
