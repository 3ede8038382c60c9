package import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
package import RelayCore
import Synchronization

/// Sends spans to a collector by OTLP over HTTP, in batches, from a queue of its own.
///
/// What does not fit into the queue is dropped and counted: a relay never waits for its collector.
package final class TraceExporter: TraceSink {
    package struct Settings: Sendable {
        /// The whole address, such as `http://127.0.0.1:4318/v1/traces`.
        package var endpoint: String
        /// Shown as a bearer token.
        package var token: String?
        package var service = "zonecast"
        package var version: String
        /// Spans that wait at the most.
        package var capacity = 8_192
        /// Spans of one request to the collector.
        package var batch = 512
        /// Between two looks into the queue.
        package var interval = Duration.seconds(2)
        /// For the collector's answer.
        package var patience = Duration.seconds(10)

        package init(endpoint: String, token: String? = nil, version: String) {
            self.endpoint = endpoint
            self.token = token
            self.version = version
        }

        /// Whether a text is an address to send to: http or https, with a host and, if any, a port that there is.
        package static func admits(_ address: String) -> Bool {
            guard let url = URL(string: address), ["http", "https"].contains(url.scheme) else { return false }
            return url.host?.isEmpty == false && !address.contains(" ") && OutgoingFault.isPortUsable(in: address)
        }
    }

    /// How many spans went where.
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
        /// It may be tried again.
        case later(String)
        case refused(String)
    }

    private let settings: Settings
    private let client: HTTPClient
    private let tell: @Sendable (String) -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - settings: where to, and the bounds.
    ///   - client: shut down by whoever made it.
    ///   - tell: hears, once for each trouble and its end, a sentence for the operator.
    package init(_ settings: Settings, client: HTTPClient, tell: @escaping @Sendable (String) -> Void) {
        self.settings = settings
        self.client = client
        self.tell = tell
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

    /// Sends what comes until the task is cancelled.
    package func run() async {
        var pause = settings.interval
        while (try? await Task.sleep(for: pause)) != nil {
            // A collector that is down is asked less and less often.
            pause = await flush() ? settings.interval : min(pause * 2, .seconds(60))
        }
    }

    /// Sends all that waits; false where the collector cannot be reached, and then the rest goes on waiting.
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
                // Who has not waited for the answer knows nothing of the collector.
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

    /// Before what came meanwhile, as far as there is room: of what waits too long the newest is dropped.
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
            let said = body.map { String(buffer: $0).prefix(200) } ?? ""
            switch response.status.code {
            case 200..<300: return .taken
            // OTLP, "Retryable response codes".
            case 429, 502, 503, 504: return .later("it answers \(response.status.code)")
            default: return .refused("it answers \(response.status.code) \(said)")
            }
        } catch {
            return .later("it cannot be reached: \(reason(for: error))")
        }
    }

    /// Tells of the first failure after a success, and of the first success after that.
    private func notice(_ reason: String?) {
        let isNews = state.withLock { state in
            defer { state.isFailing = reason != nil }
            return state.isFailing != (reason != nil)
        }
        guard isNews else { return }
        if let reason {
            tell(
                "The collector at \(settings.endpoint) (traces.endpoint) takes no traces: \(reason). Those that do not fit are dropped until it does."
            )
        } else {
            tell("The collector at \(settings.endpoint) takes traces again.")
        }
    }
}
