import AsyncHTTPClient
import Foundation
import HTTPTypes
import Logging
import NIOCore
import NIOPosix
import Records
import RelayAPI
import RelayCore
import RelayGateways
import RelayServer
import RelayStore
import ServiceLifecycle

/// What the configuration says of traces.
struct TraceChoices: Sendable {
    /// `nil`: there are none.
    var endpoint: String?
    /// Requests of a thousand that are traced.
    var permille = 10
    var tokenFile: String?
}

/// Traces of sampled requests on their way to a collector, from the relay's start to its stop.
struct Tracing: Service {
    let tracer: Tracer
    private let exporter: TraceExporter
    private let client: HTTPClient

    /// `nil` where nobody collects them.
    init?(_ choices: TraceChoices, logger: Logger) throws {
        guard let endpoint = choices.endpoint else { return nil }
        var settings = TraceExporter.Settings(endpoint: endpoint, version: Zonecast.version)
        settings.token = try choices.tokenFile.map { try Self.token(in: $0) }
        client = HTTPClient(
            eventLoopGroupProvider: .singleton,
            configuration: .outgoing(connect: .seconds(5), read: .seconds(10))
        )
        exporter = TraceExporter(settings, client: client) { logger.warning("\($0)") }
        tracer = Tracer(share: Double(choices.permille) / 1000, sink: exporter, time: .system, random: .system)
    }

    /// The collector's token in a file; throws where there is none.
    static func token(in path: String) throws -> String {
        let text = FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) }
        guard let token = text?.trimmingCharacters(in: .whitespacesAndNewlines), !token.isEmpty else {
            throw CommandFailure(
                .usage,
                "traces.token-file: \(path) holds no token. Put the collector's token into it."
            )
        }
        return token
    }

    func run() async throws {
        await cancelWhenGracefulShutdown { await exporter.run() }
        // The last words, if the collector takes them at once.
        await withTaskGroup(of: Void.self) { tasks in
            tasks.addTask { await exporter.flush() }
            tasks.addTask { try? await Task.sleep(for: .seconds(1)) }
            await tasks.next()
            tasks.cancelAll()
        }
        try? await client.shutdown()
    }

    /// Shows what becomes of spans; nothing does where there are no traces.
    static func show(_ tracing: Tracing?, in metrics: RelayMetrics) {
        metrics.show("zonecast_trace_spans_sent_total", "Spans that the collector took.", kind: .counter) {
            Double(tracing?.exporter.counts.sent ?? 0)
        }
        metrics.show("zonecast_trace_spans_dropped_total", "Spans it did not, or not in time.", kind: .counter) {
            Double(tracing?.exporter.counts.dropped ?? 0)
        }
    }
}

extension RequestTrace {
    /// Ends the trace of an answered request, and says as little of it as the log does: nothing private.
    func end(_ response: APIResponse, to request: APIRequest) {
        let route = try? request.operation.get()
        var attributes: [TraceSpan.Attribute] = [
            .init("http.request.method", .text("\(request.method)")),
            .init("http.response.status_code", .number(response.status.code)),
            .init("http.response.body.size", .number(response.sentLength)),
        ]
        if let id = response.usual?.requestID { attributes.append(.init("zonecast.request_id", .text(id))) }
        if let error = response.errorCode { attributes.append(.init("error.type", .text(error.rawValue))) }
        if let route {
            attributes.append(.init("zonecast.operation", .text(route.rawValue)))
            let parts = request.path.split(separator: "/").map(String.init)
            // /database/1/{container}/{environment}/{database}/…
            if parts.count > 4 {
                attributes.append(.init("zonecast.container", .text(parts[2])))
                attributes.append(.init("zonecast.environment", .text(parts[3])))
                attributes.append(.init("zonecast.database", .text(parts[4])))
            }
        }
        end(
            route?.rawValue ?? "other",
            attributes,
            isFailure: response.status.code >= 500
        )
    }
}
