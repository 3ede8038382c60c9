import HTTPTypes
import Logging
import NIOCore
import RelayAPI
import RelayServer
import Synchronization

/// Runs a server on a free port while `body` runs.
///
/// By default the clock stands still, so that no deadline passes on a busy machine. `inPlace` takes the place of
/// `respond` where no task is to be used.
func withServer<Value: Sendable>(
    _ adjust: (inout ServerConfiguration) -> Void = { _ in },
    clock: StandingClock = StandingClock(),
    notices: NoticeService? = nil,
    inspect: (RelayServer) -> Void = { _ in },
    intake: @escaping @Sendable (APIRequest) -> (any BodyIntake)? = { _ in nil },
    respond: @escaping AsyncResponder = echoRequest,
    inPlace: RelayServer.Responder? = nil,
    _ body: @escaping @Sendable (Int) async throws -> Value
) async throws -> Value {
    var configuration = ServerConfiguration()
    configuration.port = 0
    configuration.loops = 2
    configuration.limits.connectionsPerAddress = 10_000
    adjust(&configuration)
    let (ports, port) = AsyncStream.makeStream(of: Int.self)
    let server = RelayServer(
        configuration: configuration,
        logger: quiet,
        notices: notices,
        now: clock.now,
        onListening: { port.yield($0.port) },
        intake: intake,
        respond: inPlace ?? inTask(respond)
    )
    inspect(server)
    return try await withThrowingTaskGroup(of: Value?.self) { group in
        group.addTask {
            defer { port.finish() }
            try await server.run()
            return nil
        }
        group.addTask {
            var iterator = ports.makeAsyncIterator()
            guard let port = await iterator.next() else { return nil }
            return try await body(port)
        }
        while let value = try await group.next() {
            if let value {
                group.cancelAll()
                return value
            }
        }
        throw RawPeer.TimedOut(description: "the server ended before the test did")
    }
}

typealias AsyncResponder = @Sendable (APIRequest) async -> APIResponse

/// Returns a responder that answers each request in a task, except those of `settle`.
func inTask(_ respond: @escaping AsyncResponder) -> RelayServer.Responder {
    { request, executor, then in
        if request.path == "/healthz" {
            then(APIResponse(status: .ok, body: Array("up\n".utf8)))
            return nil
        }
        return Task(executorPreference: executor.tasks) {
            let response = await respond(request)
            executor.run { then(response) }
        }
    }
}

/// Responds with the parts of the request: method, path, query, then the body.
let echoRequest: AsyncResponder = { request in
    let line = "\(request.method.rawValue) \(request.path) \(request.query ?? "-") \(request.remoteAddress)\n"
    return APIResponse(status: .ok, headers: [.contentType: "text/plain"], body: Array(line.utf8) + request.body)
}

/// A server's clock that stands still until a test advances it, so that no deadline passes while a busy machine delays
/// the test.
final class StandingClock: Sendable {
    private let time = Mutex(NIODeadline.now())

    var now: @Sendable () -> NIODeadline { { self.time.withLock { $0 } } }

    /// Advances the clock.
    ///
    /// Deadlines that are due by then are handled in the server's next sweep.
    func advance(_ amount: TimeAmount) { time.withLock { $0 = $0 + amount } }
}

/// Returns once a server with one event loop has processed all bytes sent to it before: it answers a later connection.
func settle(_ port: Int) async throws {
    let peer = try await RawPeer.connect(port: port, sending: "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    _ = try await peer.text(containing: "up\n")
    await peer.close()
}

/// Counts log lines.
final class LogLines: LogHandler {
    private let lines = Mutex(0)

    var count: Int { lines.withLock { $0 } }
    var logger: Logger { Logger(label: "test") { _ in self } }

    func log(event: LogEvent) { lines.withLock { $0 += 1 } }

    subscript(metadataKey _: String) -> Logger.Metadata.Value? {
        get { nil }
        set {}
    }
    var metadata: Logger.Metadata {
        get { [:] }
        set {}
    }
    var logLevel: Logger.Level {
        get { .trace }
        set {}
    }
}

let quiet = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
