import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelaySystem
import Synchronization
import Testing

/// Which requests are traced, and what a trace contains.
@Suite struct TracerTests {
    private final class Sink: TraceSink {
        private let taken = Mutex<[TraceSpan]>([])
        func take(_ spans: [TraceSpan]) { taken.withLock { $0 += spans } }
        var spans: [TraceSpan] { taken.withLock { $0 } }
    }

    private static func request(_ operation: String, _ body: String, traceParent: String? = nil) throws -> APIRequest {
        var headers: HTTPFields = [:]
        if let traceParent { headers[try #require(HTTPField.Name("traceparent"))] = traceParent }
        return APIRequest(
            method: .post,
            path: "/database/1/iCloud.org.example.notes/development/private/\(operation)",
            query: "ckAPIToken=x&ckWebAuthToken=dev-alice",
            headers: headers,
            body: Array(body.utf8)
        )
    }

    @Test func aWriteIsTracedFromRequestToCommit() async throws {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        let sink = Sink()
        let tracer = Tracer(share: 0, sink: sink, time: .system, random: .system)
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        let body =
            #"{"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"create","record":"#
            + #"{"recordName":"secret","recordType":"Note","fields":{}}}]}"#
        var request = try Self.request("records/modify", body, traceParent: parent)
        let trace = try #require(tracer.begin(request))
        request.trace = trace
        let response = await world.relay.respond(to: request)
        #expect(response.status == .ok)
        trace.end("records/modify", [], isFailure: false)

        let spans = sink.spans
        let own = try #require(spans.first)
        #expect(own.kind == .server && own.name == "records/modify")
        #expect(own.parent.map { TraceContext.digits($0) } == "b7ad6b7169203331")
        let parts = spans.dropFirst()
        for name in ["wait", "decide", "commit"] { #expect(parts.contains { $0.name == name }, "\(name)") }
        for part in parts {
            #expect(part.parent == own.id && part.trace.text == "0af7651916cd43dd8448eb211c80319c")
            #expect(part.start >= own.start && part.end <= own.end && part.start <= part.end)
        }
        #expect(Set(spans.map(\.id)).count == spans.count)
        #expect(!"\(spans)".contains("secret") && !"\(spans)".contains("Notes"))
        // After the commit nothing is kept of the write.
        let home = ContainerEnvironment(try #require(ContainerID(world.container)), .development)
        #expect(tracer.writes(in: home).isEmpty)
    }

    @Test func theConfiguredShareOfRequestsIsTraced() throws {
        let request = try Self.request("zones/list", "{}")
        func traced(_ share: Double, of count: Int) -> Int {
            let tracer = Tracer(share: share, sink: Sink(), time: .system, random: .system)
            return (0..<count).count { _ in tracer.begin(request) != nil }
        }
        #expect(traced(0, of: 10_000) == 0)
        #expect(traced(1, of: 1_000) == 1_000)
        #expect((95...105).contains(traced(0.01, of: 10_000)))
        // A caller's sampled traces are followed, but limited, so that a flood of requests is not traced completely.
        let still = TimeSource(now: { Timestamp(milliseconds: 0) }, uptime: { .zero })
        let follower = Tracer(share: 0, sink: Sink(), time: still, random: .system)
        let kept = try Self.request(
            "zones/list",
            "{}",
            traceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        )
        #expect((0..<1_000).count { _ in follower.begin(kept) != nil } == Tracer.continuedTraceLimit)
        // A trace that the caller does not sample is not recorded here either.
        let tracer = Tracer(share: 1, sink: Sink(), time: .system, random: .system)
        let other = try Self.request(
            "zones/list",
            "{}",
            traceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
        )
        #expect(tracer.begin(other) == nil)
    }
}
