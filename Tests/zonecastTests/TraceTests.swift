import ChildProcesses
import Foundation
import TestSupport
import Testing

/// Traces that a running relay sends to a collector.
@Suite(.ownThread, .timeLimit(.minutes(15)), .serialized) struct TraceTests {
    private let folder = ScratchFolder()

    private struct Export: Decodable {
        struct Value: Decodable { var stringValue: String?, intValue: String? }
        struct Pair: Decodable { var key: String, value: Value }
        struct Span: Decodable {
            var traceId: String, spanId: String, parentSpanId: String?, name: String, attributes: [Pair]
            func text(_ key: String) -> String? { attributes.first { $0.key == key }?.value.stringValue }
        }
        struct ScopeSpans: Decodable { var spans: [Span] }
        struct ResourceSpans: Decodable { var scopeSpans: [ScopeSpans] }
        var resourceSpans: [ResourceSpans]
        var spans: [Span] { resourceSpans.flatMap { $0.scopeSpans.flatMap(\.spans) } }
    }

    @Test func aSaveIsTracedFromRequestToNotice() throws {
        let collector = try RequestCollector()
        let relay = try RelayProcess(
            folder: folder.path,
            environment: ["ZONECAST_TRACES_ENDPOINT": "http://127.0.0.1:\(collector.port)/v1/traces"]
        )
        let connection = try relay.connect()
        let base = "/database/1/iCloud.org.example.traces/development/private"
        func post(_ operation: String, _ body: String, _ headers: [String: String] = [:]) throws
            -> HTTPConnection.Answer
        {
            try connection.send("POST", "\(base)/\(operation)?ckWebAuthToken=dev-alice", headers: headers, body: body)
        }
        let zone = #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Secret"}}}]}"#
        #expect(try post("zones/modify", zone).status == 200)
        let subscription =
            #"{"operations":[{"operationType":"create","subscription":{"subscriptionID":"s","subscriptionType":"zone","#
            + #""zoneID":{"zoneName":"Secret"}}}]}"#
        #expect(try post("subscriptions/modify", subscription).status == 200)
        let watch = try WatchProcess(port: relay.port, container: "iCloud.org.example.traces")
        defer { watch.stop() }
        let trace = "0af7651916cd43dd8448eb211c80319c"
        let save =
            #"{"zoneID":{"zoneName":"Secret"},"operations":[{"operationType":"create","record":"#
            + #"{"recordName":"hidden","recordType":"Note","fields":{}}}]}"#
        let saved = try post("records/modify", save, ["traceparent": "00-\(trace)-b7ad6b7169203331-01"])
        #expect(saved.status == 200)

        let deadline = ContinuousClock.now + .seconds(120)
        var spans: [Export.Span] = []
        // The exporter sends the spans in several batches.
        let all: Set = ["records/modify", "wait", "decide", "commit", "notices"]
        while ContinuousClock.now < deadline, !all.isSubset(of: spans.map(\.name)) {
            usleep(50_000)
            spans = try collector.bodies.flatMap { try JSONDecoder().decode(Export.self, from: $0).spans }
                .filter { $0.traceId == trace }
        }
        let own = try #require(spans.first { $0.name == "records/modify" })
        #expect(own.parentSpanId == "b7ad6b7169203331")
        #expect(
            own.text("zonecast.container") == "iCloud.org.example.traces" && own.text("zonecast.database") == "private"
        )
        let id = saved.headers["x-apple-request-uuid"]
        #expect(id != nil && own.text("zonecast.request_id") == id)
        for name in ["wait", "decide", "commit", "notices"] {
            #expect(spans.contains { $0.name == name && $0.parentSpanId == own.spanId }, "waited for the span \(name)")
        }
        let output = collector.bodies.map { String(decoding: $0, as: UTF8.self) }.joined()
        for secret in ["Secret", "hidden", "dev-alice", "127.0.0.1"] { #expect(!output.contains(secret), "\(secret)") }

        let shown = String(decoding: try connection.send("GET", "/metrics").body, as: UTF8.self)
        #expect(shown.contains("\nzonecast_trace_spans_dropped_total 0\n"))
        #expect(relay.stop().status == 0)
    }

    @Test func anUnreachableCollectorDoesNotAffectRequests() throws {
        let relay = try RelayProcess(
            folder: folder.path,
            environment: ["ZONECAST_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces", "ZONECAST_TRACES_SAMPLE": "1000"]
        )
        let connection = try relay.connect()
        let caller = "/database/1/iCloud.org.example.traces/development/private/users/caller?ckWebAuthToken=dev-alice"
        for _ in 0..<50 { #expect(try connection.send("GET", caller).status == 200) }
        let stop = relay.stop()
        #expect(stop.status == 0 && stop.took < .seconds(120))
    }
}

/// A running `zonecast zone changes --follow` of the user dev-alice.
private final class WatchProcess {
    private let process = ChildProcess()

    init(port: Int, container: String) throws {
        process.executableURL = Command.program
        process.arguments = [
            "zone", "changes", "--follow", "--url", "http://127.0.0.1:\(port)", "--container", container, "--web-token",
            "dev-alice",
        ]
        process.environment = Command.cleanEnvironment()
        let errors = Pipe()
        process.standardOutput = FileHandle.nullDevice
        process.standardError = errors
        try process.run()
        // The command reports when it listens.
        let line = String(decoding: errors.fileHandleForReading.availableData, as: UTF8.self)
        guard line.hasPrefix("watching as") else { throw RelayProcess.Failure(description: "watch said: \(line)") }
    }

    func stop() {
        process.terminate()
        process.waitUntilExit()
    }
}
