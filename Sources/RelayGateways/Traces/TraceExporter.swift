package import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
package import RelayCore
import Synchronization

/// Sends spans in batches to a collector with OTLP over HTTP, from a queue.
///
/// If the queue is full, spans are dropped and counted: the relay never waits for its collector.
package final class TraceExporter: TraceSink {
    package struct Settings: Sendable {
        /// The complete URL, such as `http://127.0.0.1:4318/v1/traces`.
        package var endpoint: String
        /// Sent as a bearer token.
        package var token: String?
        package var service = "zonecast"
        package var version: String
        /// The maximum number of queued spans.
        package var capacity = 8_192
        /// The maximum number of spans per request.
        package var batch = 512
        /// The time between two batches.
        package var interval = Duration.seconds(2)
        /// The timeout of a request.
        package var patience = Duration.seconds(10)

        package init(endpoint: String, token: String? = nil, version: String) {
            self.endpoint = endpoint
            self.token = token
            self.version = version
        }

        /// Returns whether a text is a usable URL: http or https, with a host and, if any, a valid port.
        package static func admits(_ address: String) -> Bool {
            guard let url = URL(string: address), ["http", "https"].contains(url.scheme) else { return false }
            return url.host?.isEmpty == false && !address.contains(" ") && OutgoingFault.isPortUsable(in: address)
        }
    }

    /// The numbers of spans by outcome.
    package struct Counts: Hashable, Sendable {
        package var sent = 0
        package var dropped = 0
        package var waiting = 0

        package init() {}
    }

    private struct State {
        var waiting: [TraceSpan] = []
        var counts = Counts()
        var isFailing = false
    }

    private enum Outcome {
        case taken
        /// May be retried.
        case later(String)
        case refused(String)
    }

    private let settings: Settings
    private let client: HTTPClient
    private let report: @Sendable (String) -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - settings: The collector and the limits.
    ///   - client: The HTTP client; the caller shuts it down.
    ///   - report: Receives a sentence for the operator when exporting begins to fail and when it works again.
    package init(_ settings: Settings, client: HTTPClient, report: @escaping @Sendable (String) -> Void) {
        self.settings = settings
        self.client = client
        self.report = report
    }

    package var counts: Counts {
        state.withLock { state in
            var counts = state.counts
            counts.waiting = state.waiting.count
            return counts
        }
    }

    package func take(_ spans: [TraceSpan]) {
        state.withLock { state in
            let room = settings.capacity - state.waiting.count
            state.waiting += spans.prefix(max(0, room))
            state.counts.dropped += max(0, spans.count - room)
        }
    }

    /// Sends queued spans until the task is cancelled.
    package func run() async {
        var pause = settings.interval
        while (try? await Task.sleep(for: pause)) != nil {
            // Back-off while the collector is unavailable.
            pause = await flush() ? settings.interval : min(pause * 2, .seconds(60))
        }
    }

    /// Sends all queued spans; returns `false` if the collector is unavailable, and then keeps the rest.
    @discardableResult
    package func flush() async -> Bool {
        while case let batch = takeBatch(), !batch.isEmpty {
            switch await send(batch) {
            case .taken:
                state.withLock { $0.counts.sent += batch.count }
                notice(nil)
            case .refused(let reason):
                state.withLock { $0.counts.dropped += batch.count }
                notice(reason)
            case .later(let reason):
                putBack(batch)
                // A cancelled request says nothing about the collector.
                if !Task.isCancelled { notice(reason) }
                return false
            }
        }
        return true
    }

    private func takeBatch() -> [TraceSpan] {
        state.withLock { state in
            let batch = Array(state.waiting.prefix(settings.batch))
            state.waiting.removeFirst(batch.count)
            return batch
        }
    }

    /// Puts the batch back at the front of the queue; if the queue is then too long, the newest spans are dropped.
    private func putBack(_ batch: [TraceSpan]) {
        state.withLock { state in
            let all = batch + state.waiting
            state.waiting = Array(all.prefix(settings.capacity))
            state.counts.dropped += all.count - state.waiting.count
        }
    }

    private func send(_ spans: [TraceSpan]) async -> Outcome {
        do {
            var request = HTTPClientRequest(url: settings.endpoint)
            request.method = .POST
            request.headers.add(name: "content-type", value: "application/json")
            if let token = settings.token { request.headers.add(name: "authorization", value: "Bearer \(token)") }
            let batch = TraceBatch(spans, service: settings.service, version: settings.version)
            request.body = .bytes(try batch.json())
            let response = try await client.send(request, timeout: TimeAmount(settings.patience))
            let body = try? await response.body.collect(upTo: 4_096)
            let detail = body.map { String(buffer: $0).prefix(200) } ?? ""
            switch response.status.code {
            case 200..<300: return .taken
            // OTLP, "Retryable response codes".
            case 429, 502, 503, 504: return .later("it answers \(response.status.code)")
            default: return .refused("it answers \(response.status.code) \(detail)")
            }
        } catch {
            return .later("it cannot be reached: \(reason(for: error))")
        }
    }

    /// Reports the first failure after a success, and the first success after a failure.
    private func notice(_ reason: String?) {
        let isNews = state.withLock { state in
            defer { state.isFailing = reason != nil }
            return state.isFailing != (reason != nil)
        }
        guard isNews else { return }
        if let reason {
            report(
                "The collector at \(settings.endpoint) (traces.endpoint) does not accept traces: \(reason). Spans are dropped while the queue is full."
            )
        } else {
            report("The collector at \(settings.endpoint) accepts traces again.")
        }
    }
}
