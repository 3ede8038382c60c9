import ChildProcesses
package import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// One relay of a cluster: a program that prints `ready http://HOST:PORT` and ends with its standard input.
final class ClusterNode: Sendable {
    let name: String
    private let state = Mutex(State())
    private let log: String

    private struct State {
        var process: ChildProcess?
        var input: Pipe?
        var port: Int?
        var restarts = -1
        var isHealthy = false
        /// The number of health checks in a row without an answer.
        var unanswered = 0
    }

    /// - Parameters:
    ///   - name: the name of the node.
    ///   - log: the file for what the program writes to standard error.
    init(name: String, log: String) {
        self.name = name
        self.log = log
    }

    var port: Int? { state.withLock { $0.port } }
    var isHealthy: Bool { state.withLock { $0.isHealthy } }
    var restarts: Int { state.withLock { max(0, $0.restarts) } }
    var processIdentifier: pid_t? {
        state.withLock { $0.process.flatMap { $0.isRunning ? $0.processIdentifier : nil } }
    }

    /// Says why the program ended, as a sentence without its subject.
    var end: String {
        let process = state.withLock { $0.process }
        if let process, process.terminationReason == .uncaughtSignal {
            return "was ended by signal \(process.terminationStatus)."
        }
        let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
        guard let reason = text.split(separator: "\n").last else { return "ended; its log \(log) is empty." }
        return "ended: \(reason)"
    }

    /// Runs the program until it ends; blocks.
    func run(_ program: ClusterProgram) throws {
        let process = ChildProcess()
        let (input, output) = (Pipe(), Pipe())
        process.mostSeconds = nil
        process.executableURL = program.executable
        process.arguments = program.arguments
        process.environment = program.environment
        process.standardInput = input
        process.standardOutput = output
        if !FileManager.default.fileExists(atPath: log) {
            _ = FileManager.default.createFile(atPath: log, contents: nil)
        }
        let complaints = FileHandle(forWritingAtPath: log)
        _ = try? complaints?.seekToEnd()
        process.standardError = complaints ?? FileHandle.nullDevice
        try process.run()
        state.withLock { state in
            state.process = process
            state.input = input
            state.restarts += 1
        }
        var rest = ""
        while case let data = output.fileHandleForReading.availableData, !data.isEmpty {
            rest += String(decoding: data, as: UTF8.self)
            var lines = rest.split(separator: "\n", omittingEmptySubsequences: false)
            rest = lines.popLast().map(String.init) ?? ""
            for line in lines where line.hasPrefix("ready http://") {
                state.withLock { $0.port = line.split(separator: ":").last.flatMap { Int($0) } }
            }
        }
        process.waitUntilExit()
        state.withLock { state in
            (state.port, state.isHealthy, state.unanswered) = (nil, false, 0)
        }
    }

    /// Asks the program to end; `force` kills it.
    func stop(force: Bool = false) {
        let (process, input) = state.withLock { ($0.process, $0.input) }
        process?.signal(SIGCONT)
        process?.signal(force ? SIGKILL : SIGTERM)
        try? input?.fileHandleForWriting.close()
    }

    func signal(_ number: Int32) { state.withLock { $0.process }?.signal(number) }

    func waitUntilExit() { state.withLock { $0.process }?.waitUntilExit() }

    /// Checks whether the node wants requests; returns how many checks in a row had no answer.
    func check(on group: any EventLoopGroup) async -> Int {
        guard let port else { return 0 }
        let status = await HealthCheck.status(ofPort: port, on: group)
        return state.withLock { state in
            state.unanswered = status == nil ? state.unanswered + 1 : 0
            // One slow answer of a busy node is no reason to close its connections.
            if let status { state.isHealthy = status == 200 } else if state.unanswered > 1 { state.isHealthy = false }
            return state.unanswered
        }
    }
}

/// What to run for a node.
package struct ClusterProgram: Sendable {
    package var executable: URL
    package var arguments: [String]
    package var environment: [String: String]

    package init(executable: URL, arguments: [String], environment: [String: String]) {
        self.executable = executable
        self.arguments = arguments
        self.environment = environment
    }
}

/// `GET /readyz` as a balancer sends it.
private enum HealthCheck {
    private static let request = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    private static let timeout = TimeAmount.seconds(2)

    /// Returns the status of the response; `nil` without one.
    static func status(ofPort port: Int, on group: any EventLoopGroup) async -> Int? {
        let loop = group.next()
        let promise = loop.makePromise(of: Int?.self)
        let deadline = loop.scheduleTask(in: timeout) { promise.succeed(nil) }
        ClientBootstrap(group: loop)
            .connectTimeout(timeout)
            .channelInitializer { $0.pipeline.addHandler(Reader(promise)) }
            .connect(host: "127.0.0.1", port: port)
            .whenComplete { result in
                switch result {
                case .success(let channel):
                    channel.writeAndFlush(ByteBuffer(string: request), promise: nil)
                    promise.futureResult.whenComplete { _ in channel.close(promise: nil) }
                case .failure: promise.succeed(nil)
                }
            }
        let status = try? await promise.futureResult.get()
        deadline.cancel()
        return status ?? nil
    }

    // Unchecked: used on the event loop of its channel only.
    private final class Reader: ChannelInboundHandler, @unchecked Sendable {
        typealias InboundIn = ByteBuffer

        private let promise: EventLoopPromise<Int?>
        private var text = ""

        init(_ promise: EventLoopPromise<Int?>) { self.promise = promise }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            text += String(buffer: unwrapInboundIn(data))
            guard let line = text.split(separator: "\r\n").first, text.contains("\r\n") else { return }
            let words = line.split(separator: " ")
            promise.succeed(words.count > 1 ? Int(words[1]) : nil)
        }

        func channelInactive(context: ChannelHandlerContext) { promise.succeed(nil) }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}
