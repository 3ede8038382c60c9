import Foundation
import HTTPTypes
import RelayAPI
import RelayServer

/// Between the server and the relay: counts, logs and traces the requests of monitored endpoints.
///
/// A class, since every request in flight refers to it.
final class RequestMonitor: Sendable {
    private let relay: Relay
    private let metrics: RelayMetrics
    private let log: RequestLog
    private let recent: RecentRequests?
    private let tracer: Tracer?

    /// - Parameters:
    ///   - relay: Answers the requests.
    ///   - metrics: Counts the requests.
    ///   - log: Logs all or refused requests.
    ///   - recent: Recent requests for the console; `nil` without a console.
    ///   - tracer: Traces sampled requests; `nil` if tracing is disabled.
    init(
        _ relay: Relay,
        metrics: RelayMetrics,
        log: RequestLog,
        recent: RecentRequests?,
        tracer: Tracer?
    ) {
        self.tracer = tracer
        self.relay = relay
        self.metrics = metrics
        self.log = log
        self.recent = recent
    }

    @Sendable func respond(
        to request: APIRequest,
        on executor: any ResponseExecutor,
        then: @escaping @Sendable (APIResponse) -> Void
    ) -> Task<Void, Never>? {
        guard relay.router.entry(of: request)?.isMonitored != false else {
            return relay.respond(to: request, on: executor, then: then)
        }
        let start = ContinuousClock.now
        let request = traced(request)
        return relay.respond(to: request, on: executor) { [self] response in
            note(response, to: request, since: start)
            then(response)
        }
    }

    /// Records a request that the server rejected before it reached the relay.
    @Sendable func refused(_ request: RefusedRequest) {
        metrics.refused(request)
        log.note(request)
        recent?.note(request)
    }

    private func note(_ response: APIResponse, to request: APIRequest, since start: ContinuousClock.Instant) {
        let time = ContinuousClock.now - start
        metrics.answered(request.match?.entry, response, in: time)
        log.note(response, to: request, in: time)
        recent?.note(response, to: request, in: time)
        request.trace?.end(response, to: request)
    }

    /// Returns the request, with a trace if it is sampled.
    private func traced(_ request: APIRequest) -> APIRequest {
        guard let tracer, let trace = tracer.begin(request) else { return request }
        var request = request
        request.trace = trace
        return request
    }
}
