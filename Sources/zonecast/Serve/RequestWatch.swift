import Foundation
import HTTPTypes
import Logging
import RelayAPI
import RelayServer

/// Stands between the server and the relay: counts every request, logs it where that is wanted, and shows the counts.
struct RequestWatch: Sendable {
    private let relay: Relay
    private let metrics: RelayMetrics
    private let door: MetricsDoor
    private let logger: Logger?

    /// - Parameters:
    ///   - relay: answers.
    ///   - metrics: counts.
    ///   - door: shows what was counted.
    ///   - logger: gets a line for each request; `nil` for none.
    init(_ relay: Relay, metrics: RelayMetrics, door: MetricsDoor, logger: Logger?) {
        self.relay = relay
        self.metrics = metrics
        self.door = door
        self.logger = logger
    }

    @Sendable func respond(to request: APIRequest) async -> APIResponse {
        if let shown = door.answer(request) { return shown }
        let start = ContinuousClock.now
        let response = await relay.respond(to: request)
        note(response, to: request, since: start)
        return response
    }

    @Sendable func answer(
        _ request: APIRequest,
        on lane: any AnswerLane,
        then: @escaping @Sendable (APIResponse) -> Void
    ) -> Bool {
        let start = ContinuousClock.now
        return relay.answer(request, on: lane) { response in
            note(response, to: request, since: start)
            then(response)
        }
    }

    private func note(_ response: APIResponse, to request: APIRequest, since start: ContinuousClock.Instant) {
        let time = ContinuousClock.now - start
        metrics.answered(try? request.operation.get(), response, in: time)
        guard let logger else { return }
        let took = String(format: "%.1f", time / .milliseconds(1))
        // The query holds tokens and stays out.
        logger.info("\(request.method) \(Self.loggable(request.path)) \(response.status.code) \(took) ms")
    }

    /// An asset's address is as good as a key, so it is cut.
    private static func loggable(_ path: String) -> String {
        guard let start = path.firstRange(of: "/asset/1/") else { return path }
        let rest = path[start.upperBound...].prefix { $0 != "/" }
        return path[..<start.upperBound] + rest + "/…"
    }
}
