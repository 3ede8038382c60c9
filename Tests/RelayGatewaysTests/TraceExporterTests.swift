import AsyncHTTPClient
import Foundation
import NIOCore
import NIOSSL
import RelayCore
import RelayGateways
import Synchronization
import Testing

/// The exporter against a collector in this process that decodes what it receives.
@Suite(.timeLimit(.minutes(15))) struct TraceExporterTests {
    /// OTLP's JSON by its schema, written from the receiver's side.
    struct Export: Decodable {
        struct Value: Decodable { var stringValue: String?, intValue: String? }
        struct Pair: Decodable { var key: String, value: Value }
        struct Status: Decodable { var code: Int }
        struct Span: Decodable {
            var traceId: String, spanId: String, parentSpanId: String?, name: String, kind: Int
            var startTimeUnixNano: String, endTimeUnixNano: String, attributes: [Pair], status: Status?
        }
        struct Scope: Decodable { var name: String }
        struct ScopeSpans: Decodable { var scope: Scope, spans: [Span] }
        struct Resource: Decodable { var attributes: [Pair] }
        struct ResourceSpans: Decodable { var resource: Resource, scopeSpans: [ScopeSpans] }
        var resourceSpans: [ResourceSpans]
        var spans: [Span] { resourceSpans.flatMap { $0.scopeSpans.flatMap(\.spans) } }
    }

    private static func span(_ number: UInt64, parent: UInt64? = nil, isFailure: Bool = false) -> TraceSpan {
        TraceSpan(
            trace: .init(high: 1, low: 2),
            id: number,
            parent: parent,
            name: "records/modify",
            kind: .server,
            start: 1_700_000_000_000_000_000,
            end: 1_700_000_000_001_500_000,
            attributes: [
                .init("http.response.status_code", .number(200)), .init("zonecast.database", .text("private")),
            ],
            isFailure: isFailure
        )
    }

    private func withCollector(
        _ change: (inout TraceExporter.Settings) -> Void = { _ in },
        _ body: (TraceExporter, PushServicePeer, @Sendable () -> [String]) async throws -> Void
    ) async throws {
        let peer = try await PushServicePeer.start()
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(PushServicePeer.certificate.utf8)))
        var configuration = HTTPClient.Configuration.outgoing(connect: .seconds(120), read: .seconds(120))
        configuration.tlsConfiguration = tls
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        var settings = TraceExporter.Settings(endpoint: peer.address + "/v1/traces", token: "t0ken", version: "1.2")
        settings.patience = .seconds(120)
        change(&settings)
        let messages = Messages()
        let exporter = TraceExporter(settings, client: client) { messages.add($0) }
        do {
            try await body(exporter, peer) { messages.all }
        } catch {
            try await client.shutdown()
            throw error
        }
        try await client.shutdown()
        try? await peer.stop()
    }

    private final class Messages: Sendable {
        private let texts = Mutex<[String]>([])
        func add(_ text: String) { texts.withLock { $0.append(text) } }
        var all: [String] { texts.withLock { $0 } }
    }

    @Test func aCollectorCanDecodeTheSpans() async throws {
        try await withCollector { exporter, peer, messages in
            exporter.take([Self.span(7), Self.span(8, parent: 7, isFailure: true)])
            #expect(await exporter.flush())
            let request = try #require(peer.requests.first)
            #expect(request.path == "/v1/traces")
            #expect(request.headers["content-type"] == "application/json")
            #expect(request.headers["authorization"] == "Bearer t0ken")
            let export = try JSONDecoder().decode(Export.self, from: Data(request.body))
            let resource = try #require(export.resourceSpans.first?.resource)
            #expect(resource.attributes.first { $0.key == "service.name" }?.value.stringValue == "zonecast")
            let spans = export.spans
            #expect(spans.map(\.spanId) == ["0000000000000007", "0000000000000008"])
            #expect(spans.map(\.parentSpanId) == [nil, "0000000000000007"])
            #expect(spans[0].traceId == "00000000000000010000000000000002" && spans[0].kind == 2)
            #expect(spans[0].endTimeUnixNano == "1700000000001500000")
            #expect(spans[0].attributes.first?.value.intValue == "200")
            #expect(spans.map { $0.status?.code } == [nil, 2])
            #expect(exporter.counts == counts(sent: 2))
            #expect(messages().isEmpty)
        }
    }

    @Test func spansAreSentInBatches() async throws {
        try await withCollector({ $0.batch = 3 }) { exporter, peer, _ in
            exporter.take((1...7).map { Self.span($0) })
            #expect(await exporter.flush())
            let sizes = try peer.requests.map { try JSONDecoder().decode(Export.self, from: Data($0.body)).spans.count }
            #expect(sizes == [3, 3, 1])
        }
    }

    @Test func spansAboveTheCapacityAreDroppedAndCounted() async throws {
        try await withCollector({ $0.capacity = 5 }) { exporter, peer, _ in
            exporter.take((1...4).map { Self.span($0) })
            exporter.take((5...9).map { Self.span($0) })
            #expect(exporter.counts == counts(dropped: 4, waiting: 5))
            #expect(await exporter.flush())
            #expect(exporter.counts == counts(sent: 5, dropped: 4))
            #expect(peer.requests.count == 1)
        }
    }

    @Test func anInvalidPortIsReportedWithoutATrap() async throws {
        try await withCollector({ $0.endpoint = "http://127.0.0.1:99999/v1/traces" }) { exporter, _, messages in
            exporter.take([Self.span(1)])
            #expect(await exporter.flush() == false)
            #expect(messages().count == 1 && messages()[0].contains("is not between 1 and 65535"))
        }
    }

    @Test func aBusyCollectorIsRetried() async throws {
        try await withCollector { exporter, peer, messages in
            peer.willAnswer(503)
            exporter.take([Self.span(1)])
            #expect(await exporter.flush() == false)
            #expect(exporter.counts == counts(waiting: 1))
            #expect(messages().count == 1 && messages()[0].contains("503") && messages()[0].contains("traces.endpoint"))
            #expect(await exporter.flush())
            #expect(exporter.counts == counts(sent: 1))
            #expect(messages().count == 2 && messages()[1].contains("again"))
        }
    }

    @Test func refusedSpansAreDropped() async throws {
        try await withCollector { exporter, peer, messages in
            peer.willAnswer(400, "no such service")
            exporter.take([Self.span(1)])
            #expect(await exporter.flush())
            #expect(exporter.counts == counts(dropped: 1))
            #expect(messages().first?.contains("no such service") == true)
        }
    }

    @Test func anUnreachableCollectorLosesNoSpans() async throws {
        try await withCollector { exporter, peer, messages in
            try await peer.stop()
            exporter.take([Self.span(1)])
            #expect(await exporter.flush() == false)
            #expect(exporter.counts == counts(waiting: 1))
            #expect(messages().count == 1 && messages()[0].contains("Connection refused"))
        }
    }

    private func counts(sent: Int = 0, dropped: Int = 0, waiting: Int = 0) -> TraceExporter.Counts {
        var counts = TraceExporter.Counts()
        counts.sent = sent
        counts.dropped = dropped
        counts.waiting = waiting
        return counts
    }
}
