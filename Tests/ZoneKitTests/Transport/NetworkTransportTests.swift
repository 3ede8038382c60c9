import Foundation
import NIOCore
import NIOPosix
import TestSupport
import Testing
import ZoneKit

/// Requests over real sockets, observed by the server.
@Suite(.timeLimit(.minutes(15))) struct NetworkTransportTests {
    private func transport(to server: ListeningServer) throws -> any RelayTransport { try transport(to: server.port) }

    private func transport(to port: Int) throws -> any RelayTransport {
        NetworkTransport.to(try #require(URL(string: "http://127.0.0.1:\(port)/")), timeout: 120)
    }

    /// Sends a request, cancels it once the server has received it, and waits for the end on both sides.
    private func cancel(_ request: RelayRequest, at server: ListeningServer) async throws {
        let transport = try transport(to: server)
        let call = Task { try await transport.send(request) }
        _ = try await server.events.next("the request") { $0 == .bytes(beginsRequest: true) ? true : nil }
        call.cancel()
        await #expect {
            _ = try await call.value
        } throws: { error in
            if case TransportError.cancelled = error { true } else { false }
        }
        _ = try await server.events.next("the end of the connection") { $0 == .closed ? true : nil }
        try await server.stop()
    }

    @Test func cancellingARequestBeforeItsAnswerClosesTheConnection() async throws {
        try await cancel(RelayRequest(method: .get, path: "/x"), at: try await ListeningServer())
    }

    @Test func cancellingADownloadClosesTheConnection() async throws {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nthe beginning"
        let server = try await ListeningServer(answer: answer)
        try await cancel(RelayRequest(method: .get, path: "/x"), at: server)
    }

    @Test func cancellingAnUploadClosesTheConnection() async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        // Larger than the socket buffers, so the upload cannot be complete.
        try Data(count: 32 << 20).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        var request = RelayRequest(method: .post, path: "/x", isWrite: true)
        request.file = file
        try await cancel(request, at: try await ListeningServer(reads: false))
    }

    @Test func aConnectionIsReusedForTheNextRequest() async throws {
        let server = try await ListeningServer(answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Kind: a\r\n\r\n{}")
        let transport = try transport(to: server)
        for _ in 0..<2 {
            let answer = try await transport.send(RelayRequest(method: .post, path: "/x", body: Array("abc".utf8)))
            #expect(answer.status == 200 && answer.body == Array("{}".utf8) && answer.header("x-kind") == "a")
        }
        var seen: [ListeningServer.Event] = []
        while seen.count(where: { $0 == .bytes(beginsRequest: true) }) < 2 {
            seen.append(try await server.events.next("both requests") { $0 })
        }
        #expect(seen.count { $0 == .connected } == 1)
        try await server.stop()
    }

    @Test func aMissingRelayIsReportedAsUnreachable() async throws {
        let port = try UnservedPort()
        let transport = try transport(to: port.number)
        await #expect {
            _ = try await transport.send(RelayRequest(method: .post, path: "/x", isWrite: true))
        } throws: { error in
            if case TransportError.unreachable = error { true } else { false }
        }
    }

    @Test(arguments: ["http://127.0.0.1:99999", "http://127.0.0.1:65536/", "http://[::1]:99999", "http://127.0.0.1:0"])
    func anInvalidPortIsReportedAsUnreachable(_ address: String) async throws {
        let transport = NetworkTransport.to(try #require(URL(string: address)), timeout: 120)
        await #expect {
            _ = try await transport.send(RelayRequest(method: .get, path: "/x"))
        } throws: { error in
            if case TransportError.unreachable(let why) = error { why.contains("65535") } else { false }
        }
        #expect(RelayEndpoint(variables: ["ZONECAST_URL": address]) == nil)
    }

    @Test func redirectsAreFollowedAndInvalidOnesAreErrors() async throws {
        let good = try await ListeningServer(answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        for place in ["http://127.0.0.1:\(good.port)/there", "http://127.0.0.1:99999/there"] {
            let moved = "HTTP/1.1 307 Moved\r\nLocation: \(place)\r\nContent-Length: 0\r\n\r\n"
            let server = try await ListeningServer(answer: moved)
            let transport = try transport(to: server)
            let request = RelayRequest(method: .post, path: "/x", body: Array("abc".utf8))
            if place.contains("99999") {
                await #expect(throws: TransportError.self) { try await transport.send(request) }
            } else {
                #expect(try await transport.send(request).body == Array("{}".utf8))
            }
            try await server.stop()
        }
        try await good.stop()
    }

    @Test func aRedirectLoopIsAnError() async throws {
        let answer = "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"
        let server = try await ListeningServer(answer: answer)
        let transport = try transport(to: server)
        await #expect(throws: TransportError.self) {
            try await transport.send(RelayRequest(method: .get, path: "/x"))
        }
        try await server.stop()
    }

    /// If the time is over before the connection is established, the test retries with twice the time.
    @Test func aMissingAnswerIsReportedAsLost() async throws {
        let server = try await ListeningServer()
        let transport = try transport(to: server)
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128] {
            var request = RelayRequest(method: .post, path: "/x", isWrite: true)
            request.timeout = .seconds(seconds)
            let failure = await #expect(throws: TransportError.self) { try await transport.send(request) }
            if case .unreachable = failure, seconds < 128 { continue }
            guard case .answerLost = failure else {
                Issue.record("\(String(describing: failure))")
                break
            }
            _ = try await server.events.next("the request") { $0 == .bytes(beginsRequest: true) ? true : nil }
            break
        }
        try await server.stop()
    }

    static let proxies: [(url: String, variables: [String: String], host: String?, port: Int?)] = [
        ("https://relay.example/", [:], nil, nil),
        ("https://relay.example/", ["https_proxy": "http://proxy.example:3128"], "proxy.example", 3128),
        ("https://relay.example/", ["HTTPS_PROXY": "proxy.example:3128"], "proxy.example", 3128),
        ("http://relay.example/", ["https_proxy": "http://proxy.example:3128"], nil, nil),
        ("http://relay.example/", ["all_proxy": "http://proxy.example"], "proxy.example", 80),
        ("http://127.0.0.1:1/", ["all_proxy": "http://proxy.example"], nil, nil),
        ("http://a.relay.example/", ["all_proxy": "http://p", "no_proxy": "x, .relay.example"], nil, nil),
        ("http://relay.example/", ["all_proxy": "http://p", "no_proxy": "*"], nil, nil),
        ("http://relay.example/", ["all_proxy": "http://p", "no_proxy": "lay.example"], "p", 80),
    ]

    @Test(arguments: proxies) func environmentVariablesNameAProxy(
        _ row: (url: String, variables: [String: String], host: String?, port: Int?)
    ) throws {
        let proxy = ProxyAddress(for: try #require(URL(string: row.url)), environment: row.variables)
        #expect(proxy?.host == row.host)
        #expect(proxy?.port == row.port)
    }
}

/// A server that reports received bytes and closed connections, and answers only as far as a test wants.
final class ListeningServer: Sendable {
    enum Event: Sendable, Equatable {
        case connected
        /// Bytes were received; `beginsRequest` is true if they start a request.
        case bytes(beginsRequest: Bool)
        case closed
    }

    let events: TimedStream<Event>
    let port: Int
    private let channel: any Channel

    /// Writes `answer` to each complete request, or nothing if it is empty.
    ///
    /// If `reads` is false, the server reads slowly in small parts.
    init(answer: String = "", reads: Bool = true) async throws {
        let (events, continuation) = AsyncStream<Event>.makeStream()
        self.events = TimedStream(events)
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            // Without `reads` the system must not buffer much either.
            .serverChannelOption(.socketOption(.so_rcvbuf), value: reads ? 1 << 20 : 1 << 16)
            .childChannelOption(.autoRead, value: reads)
            .childChannelOption(.allowRemoteHalfClosure, value: false)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let listener = Listener(answer: answer, isSlow: !reads, events: continuation)
                    try channel.pipeline.syncOperations.addHandler(listener)
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        port = channel.localAddress?.port ?? 0
    }

    func stop() async throws { try await channel.close() }
}

private final class Listener: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let answer: String
    private let isSlow: Bool
    private let events: AsyncStream<ListeningServer.Event>.Continuation
    /// The incomplete request, if it is to be answered.
    private var request = ""

    init(answer: String, isSlow: Bool, events: AsyncStream<ListeningServer.Event>.Continuation) {
        self.answer = answer
        self.isSlow = isSlow
        self.events = events
    }

    func channelActive(context: ChannelHandlerContext) {
        events.yield(.connected)
        if isSlow { context.read() }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        guard isSlow else { return }
        let channel = context.channel
        context.eventLoop.scheduleTask(in: .milliseconds(20)) { channel.read() }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let text = String(buffer: unwrapInboundIn(data))
        let begins = text.hasPrefix("GET ") || text.hasPrefix("POST ")
        events.yield(.bytes(beginsRequest: begins))
        guard !answer.isEmpty else { return }
        request += text
        guard isWhole else { return }
        request = ""
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer)), promise: nil)
    }

    private var isWhole: Bool {
        guard let end = request.range(of: "\r\n\r\n") else { return false }
        let lines = request[..<end.lowerBound].lowercased().split(separator: "\r\n")
        let length = lines.first { $0.hasPrefix("content-length:") }?.dropFirst(15).trimmingCharacters(in: .whitespaces)
        return request[end.upperBound...].utf8.count >= length.flatMap { Int($0) } ?? 0
    }

    func channelInactive(context: ChannelHandlerContext) { events.yield(.closed) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
