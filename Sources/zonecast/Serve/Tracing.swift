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
import RelaySystem
import ServiceLifecycle

/// The `traces` keys of the configuration.
struct TraceOptions: Sendable {
    /// `nil`: tracing is disabled.
    var endpoint: String?
    /// The share of requests that are traced, per thousand.
    var permille = 10
    var tokenFile: String?
}

/// Exports traces of sampled requests to a collector, from the relay's start to its stop.
struct Tracing: Service {
    let tracer: Tracer
    private let exporter: TraceExporter
    private let client: HTTPClient

    /// Returns `nil` if no collector is configured.
    init?(_ choices: TraceOptions, logger: Logger) throws {
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

    /// Reads the collector's token from a file.
    ///
    /// - Throws: `CommandFailure` if the file cannot be read or is empty.
    static func token(in path: String) throws -> String {
        guard let token = InputFile.word(path), !token.isEmpty else {
            throw CommandFailure(
                .usage,
                "traces.token-file: \(path) holds no token. Put the collector's token into it."
            )
        }
        return token
    }

    func run() async throws {
        await cancelWhenGracefulShutdown { await exporter.run() }
        // Sends the remaining spans, waiting at most one second.
        await withTaskGroup(of: Void.self) { tasks in
            tasks.addTask { await exporter.flush() }
            tasks.addTask { try? await Task.sleep(for: .seconds(1)) }
            await tasks.next()
            tasks.cancelAll()
        }
        try? await client.shutdown()
    }

    /// Registers the span counters; they stay 0 if tracing is disabled.
    static func show(_ tracing: Tracing?, in metrics: RelayMetrics) {
        metrics.show("zonecast_trace_spans_sent_total", "Spans that the collector accepted.", kind: .counter) {
            Double(tracing?.exporter.counts.sent ?? 0)
        }
        metrics.show(
            "zonecast_trace_spans_dropped_total",
            "Spans dropped because the collector refused them or was too slow.",
            kind: .counter
        ) {
            Double(tracing?.exporter.counts.dropped ?? 0)
        }
    }
}

extension RequestTrace {
    /// Ends the trace of an answered request, with the same attributes as the log: nothing private.
    func end(_ response: APIResponse, to request: APIRequest) {
        let route = request.match?.route
        var attributes: [TraceSpan.Attribute] = [
            .init("http.request.method", .text("\(request.method)")),
            .init("http.response.status_code", .number(response.status.code)),
            .init("http.response.body.size", .number(response.sentLength)),
        ]
        if let id = response.commonFields?.requestID { attributes.append(.init("zonecast.request_id", .text(id))) }
        if let error = response.errorCode { attributes.append(.init("error.type", .text(error.rawValue))) }
        if let route {
            attributes.append(.init("zonecast.operation", .text(route.operation.name)))
            attributes.append(.init("zonecast.container", .text(route.home.container.name)))
            attributes.append(.init("zonecast.environment", .text(route.home.environment.rawValue)))
            attributes.append(.init("zonecast.database", .text(route.scope.pathName)))
        }
        end(route?.operation.name ?? "other", attributes, isFailure: response.status.code >= 500)
    }
}
