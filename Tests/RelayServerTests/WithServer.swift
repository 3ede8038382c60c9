import HTTPTypes
import RelayAPI

@testable import RelayServer

/// Runs a server on a free port while `body` runs.
///
/// By default the clock stands still, so that no deadline passes on a busy machine.
func withServer<Value: Sendable>(
    _ adjust: (inout ServerConfiguration) -> Void = { _ in },
    clock: StandingClock = StandingClock(),
    isReady: @escaping @Sendable () -> Bool = { true },
    notices: NoticeService? = nil,
    intake: @escaping @Sendable (APIRequest) -> (any BodyIntake)? = { _ in nil },
    answer: @escaping RelayServer.DirectResponder = { _, _, _ in false },
    respond: @escaping RelayServer.Responder = echoRequest,
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
        isReady: isReady,
        onListening: { port.yield($0.port) },
        intake: intake,
        answer: answer,
        respond: respond
    )
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

/// Responds with the parts of the request: method, path, query, then the body.
let echoRequest: RelayServer.Responder = { request in
    let line = "\(request.method.rawValue) \(request.path) \(request.query ?? "-") \(request.remoteAddress)\n"
    return APIResponse(status: .ok, headers: [.contentType: "text/plain"], body: Array(line.utf8) + request.body)
}
