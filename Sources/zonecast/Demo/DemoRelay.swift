import Foundation
import Synchronization
import ZoneKit

/// The demo's relay: a child process with its own folder, which can be killed and restarted.
final class DemoRelay: Sendable {
    private struct State {
        var process: Process?
        var input: Pipe?
        var port = 0
        var isMeantToRun = false
    }

    private let folder: String
    private let host: String
    /// For a demo with an audience, which needs a relay without `--dev`: the file with its secrets.
    private let guests: String?
    private let state = Mutex(State())

    /// A relay on `folder`, which keeps its data across restarts; with `port` 0, it uses a free port.
    init(folder: String, host: String = "127.0.0.1", port: Int, guests: String? = nil) {
        self.folder = folder
        self.host = host
        self.guests = guests
        state.withLock { $0.port = port }
    }

    var url: URL {
        URL(string: "http://\(host):\(state.withLock { $0.port })") ?? URL(fileURLWithPath: "/")
    }

    var isRunning: Bool { state.withLock { $0.process?.isRunning ?? false } }

    /// Starts the relay on its previous port and waits until it is ready.
    ///
    /// - Throws: `CommandFailure` if it is not ready within two minutes.
    func start() async throws {
        let process = Process()
        process.executableURL = Self.program
        let port = state.withLock { $0.port }
        process.arguments =
            ["serve", "--stop-with-input", "--listen", "\(host):\(port)", "--data", folder]
            + (guests.map { ["--demo-guests", $0] } ?? ["--dev"])
        process.environment = Self.environment(isForGuests: guests != nil)
        // The relay stops when its standard input closes, so it ends with the demo even if that is killed.
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
            .seconds(120),
            "the relay to say that it is ready"
        ) { [folder] in
            for await line in lines where line.hasPrefix("ready http://") { return line }
            throw CommandFailure(.failed, "The relay ended before it was ready: \(Self.lastLogLine(in: folder))")
        }
        guard let port = ready.split(separator: ":").last.flatMap({ Int($0) }) else {
            throw CommandFailure(.failed, "The relay's ready line contains no port: \(ready)")
        }
        state.withLock { $0.port = port }
    }

    /// Throws if the relay ends without `kill` or `stop`, so that callers do not wait in vain.
    func throwWhenEnded() async throws {
        while state.withLock({ !$0.isMeantToRun || $0.process?.isRunning == true }) {
            try await Task.sleep(for: .milliseconds(200))
        }
        let words = Self.lastLogLine(in: folder)
        throw CommandFailure(.failed, "The demo's relay has stopped unexpectedly. Its last log line: \(words)")
    }

    /// Kills the relay as a power failure would, without cleanup.
    func kill() {
        guard let process = state.withLock({ $0.process }), process.isRunning else { return }
        state.withLock { $0.isMeantToRun = false }
        Foundation.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    /// Stops the relay: SIGTERM first, SIGKILL after 3 seconds.
    func stop() {
        guard let process = state.withLock({ $0.process }), process.isRunning else { return }
        state.withLock { $0.isMeantToRun = false }
        process.terminate()
        for _ in 0..<60 where process.isRunning { usleep(50_000) }
        guard process.isRunning else { return }
        Foundation.kill(process.processIdentifier, SIGKILL)
        // Its folder is removed next, so it must not write there any more.
        process.waitUntilExit()
    }

    static var program: URL {
        #if os(Linux)
            // The running program's own file.
            URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        #else
            Bundle.main.executableURL ?? URL(fileURLWithPath: CommandLine.arguments[0])
        #endif
    }

    private static func environment(isForGuests: Bool) -> [String: String] {
        let own = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("ZONECAST_") }
        if isForGuests { return own.merging(["ZONECAST_DEMO": "true"]) { $1 } }
        // All clients of a demo use one address, for which an ordinary relay allows fewer connections.
        return own.merging(["ZONECAST_LIMITS_CONNECTIONS_PER_ADDRESS": "2000"]) { $1 }
    }

    /// Returns the relay's last log line; the log is deleted with the demo's folder.
    private static func lastLogLine(in folder: String) -> String {
        let log = (try? String(contentsOfFile: folder + "/relay.log", encoding: .utf8)) ?? ""
        let last = log.split(separator: "\n").last.map(String.init) ?? "the log is empty."
        return last.hasPrefix("zonecast: ") ? String(last.dropFirst("zonecast: ".count)) : last
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
                // Keeps reading after the first line, so that the relay never blocks on its output.
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

/// Polls a relay that the demo did not start, to detect that it has stopped.
///
/// Clients would wait for minutes before they report it.
final class DemoHealthMonitor: Sendable {
    private struct State {
        var lastAnswer = ContinuousClock.now
        var isAnswering = true
    }

    /// The time without a response after which it is logged, and after which a script is aborted.
    private static let timeout = Duration.seconds(3)
    private static let end = Duration.seconds(15)

    private let url: URL
    private let journal: DemoJournal
    private let state = Mutex(State())

    init(_ url: URL, _ journal: DemoJournal) {
        self.url = url
        self.journal = journal
    }

    var isAnswering: Bool { state.withLock { $0.isAnswering } }
    /// Whether the relay has not responded for so long that the demo gives up.
    var isLost: Bool { silence >= Self.end }

    private var silence: Duration { state.withLock { ContinuousClock.now - $0.lastAnswer } }

    /// Polls the relay and logs when it stops answering and when it answers again, until cancelled.
    func watch() async {
        state.withLock { $0.lastAnswer = .now }
        await withTaskGroup(of: Void.self) { tasks in
            tasks.addTask { await self.ask() }
            tasks.addTask {
                while (try? await Task.sleep(for: .milliseconds(200))) != nil { self.reportReachability() }
            }
        }
    }

    /// Throws when the relay is lost.
    func throwWhenLost() async throws {
        while !isLost { try await Task.sleep(for: .milliseconds(200)) }
        throw CommandFailure(
            .unreachable,
            "The relay at \(url.absoluteString) has not answered for \(Self.end.inWords). Check that it is running."
        )
    }

    private func ask() async {
        // On a busy machine a response may be late; it still counts.
        let relay = NetworkTransport.to(url, timeout: 14)
        let question = RelayRequest(method: .get, path: "/healthz")
        while !Task.isCancelled {
            // A proxy answers 502 for a stopped relay.
            if let answer = try? await relay.send(question), answer.status < 500 {
                state.withLock { $0.lastAnswer = .now }
            }
            guard (try? await Task.sleep(for: .milliseconds(500))) != nil else { return }
        }
    }

    private func reportReachability() {
        let isAnswering = silence < Self.timeout
        let hasChanged = state.withLock { state in
            defer { state.isAnswering = isAnswering }
            return state.isAnswering != isAnswering
        }
        guard hasChanged else { return }
        let address = url.absoluteString
        if isAnswering {
            journal.note("relay", "back", "the relay at \(address) answers again")
        } else {
            journal.note("relay", "silent", "the relay at \(address) does not answer")
        }
    }
}
