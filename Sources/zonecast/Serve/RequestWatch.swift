import Foundation
import HTTPTypes
import RelayAPI
import RelayServer

/// Stands between the server and the relay: counts every request, logs it where that is wanted, and shows the counts.
///
/// A class, since every request on its way holds on to it.
final class RequestWatch: Sendable {
    private let relay: Relay
    private let metrics: RelayMetrics
    private let door: MetricsDoor
    private let log: RequestLog
    private let recent: RecentRequests?
    private let tracer: Tracer?

    /// - Parameters:
    ///   - relay: answers.
    ///   - metrics: counts.
    ///   - door: shows what was counted.
    ///   - log: gets a line for each request, or for some.
    ///   - recent: keeps some for the console; `nil` where there is none.
    ///   - tracer: writes down what some of them do; `nil` for none.
    init(
        _ relay: Relay,
        metrics: RelayMetrics,
        door: MetricsDoor,
        log: RequestLog,
        recent: RecentRequests?,
        tracer: Tracer?
    ) {
        self.tracer = tracer
        self.relay = relay
        self.metrics = metrics
        self.door = door
        self.log = log
        self.recent = recent
    }

    @Sendable func respond(to request: APIRequest) async -> APIResponse {
        if let shown = await door.answer(request) { return shown }
        let start = ContinuousClock.now
        let request = traced(request)
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
        let request = traced(request)
        return relay.answer(request, on: lane) { [self] response in
            note(response, to: request, since: start)
            then(response)
        }
    }

    /// Notes a request that the server turned away before it came here.
    @Sendable func refused(_ request: RefusedRequest) {
        metrics.refused(request)
        log.note(request)
        recent?.note(request)
    }

    private func note(_ response: APIResponse, to request: APIRequest, since start: ContinuousClock.Instant) {
        let time = ContinuousClock.now - start
        metrics.answered(try? request.operation.get(), response, in: time)
        log.note(response, to: request, in: time)
        recent?.note(response, to: request, in: time)
        request.trace?.end(response, to: request)
    }

    /// The request with its trace, where it is to have one.
    private func traced(_ request: APIRequest) -> APIRequest {
        guard let tracer, let trace = tracer.begin(request) else { return request }
        var request = request
        request.trace = trace
        return request
    }
}
