import HTTPTypes
import NIOCore
import RelayAPI
import RelayServer
import Synchronization
import TestSupport
import Testing

/// A repeated request head is not parsed again; any other head is.
@Suite struct RequestHeadCacheTests {
    private static let good = "POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nX-A: 1\r\n\r\nabc"

    @Test func aRepeatedHeadMayHaveAnotherContentLength() async throws {
        try await withServer { port in
            let peer = try await RawPeer.connect(port: port)
            let bodies = ["abc", "defg", "", "hijklmnopqrstuvwxyz", "last"]
            let requests = bodies.map {
                "POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: \($0.utf8.count)\r\nX-A: 1\r\n\r\n\($0)"
            }
            try await peer.send(requests.joined())
            let answer = try await peer.text(containing: "\nlast")
            for body in bodies { #expect(answer.contains("POST /a b=c 127.0.0.1\n\(body)")) }
            #expect(answer.ranges(of: "200 OK").count == bodies.count)
            await peer.close()
        }
    }

    @Test func aBodyMayArriveInPieces() async throws {
        try await withServer { port in
            let peer = try await RawPeer.connect(port: port)
            try await peer.send(Self.good)
            _ = try await peer.text(containing: "\nabc")
            for piece in ["POST /a?b=c HTTP/1.1\r\nHost: x\r\nConte", "nt-Length: 6\r\nX-A: 1\r\n\r\nde", "f"] {
                try await peer.send(piece)
            }
            try await peer.send("ghi" + Self.good.replacing("abc", with: "end"))
            let answer = try await peer.text(containing: "\nend")
            #expect(answer.contains("\ndefghi"))
            await peer.close()
        }
    }

    /// A request that is refused as the first one is refused as a later one, with the same response.
    @Test(arguments: MalformedHTTPTests.framing + MalformedHTTPTests.fields)
    func malformedRequestsAreRefusedAfterAValidOne(_ row: MalformedHTTPTests.Row) async throws {
        try await withServer { port in
            let peer = try await RawPeer.connect(port: port)
            let first = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
            try await peer.send(first + first + row.request)
            let answer = try await peer.untilClosed()
            #expect(answer.ranges(of: "HTTP/1.1 200").count == 2)
            #expect(answer.contains("HTTP/1.1 \(row.status) "))
        }
    }

    struct Row: Sendable {
        var text: String
        var body: Int?
    }

    /// Heads that are compared with a known one that has `Content-Length: 3`.
    static let rows = [
        Row(text: "Content-Length: 3\r\nX-A: 1\r\n\r\nrest", body: 3),
        Row(text: "Content-Length: 1234567\r\nX-A: 1\r\n\r\n", body: 1_234_567),
        Row(text: "Content-Length: 12345678\r\nX-A: 1\r\n\r\n", body: nil),
        Row(text: "Content-Length: \r\nX-A: 1\r\n\r\n", body: nil),
        Row(text: "Content-Length: -3\r\nX-A: 1\r\n\r\n", body: nil),
        Row(text: "Content-Length: 3 \r\nX-A: 1\r\n\r\n", body: nil),
        Row(text: "Content-Length: 3\r\nX-A: 2\r\n\r\n", body: nil),
        Row(text: "Content-Length: 3\r\nX-A: 1\r\n", body: nil),
        Row(text: "Content-Length: 3", body: nil),
        Row(text: "", body: nil),
    ]

    @Test(arguments: rows) func onlyTheContentLengthMayDiffer(_ row: Row) throws {
        let start = "POST /a HTTP/1.1\r\nHost: x\r\n"
        let head = ByteBuffer(string: start + "Content-Length: 3\r\nX-A: 1\r\n\r\n")
        let plan = Self.plan("/a")
        let known = try #require(CachedRequestHead(head.readableBytesView, plan: plan, from: "127.0.0.1"))
        let found = known.match(ByteBuffer(string: start + row.text))
        #expect(found?.bodyLength == row.body)
        if let found { #expect(found.headLength == (start + row.text.replacing("rest", with: "")).utf8.count) }
    }
}

/// The heads that the connections of an event loop share.
extension RequestHeadCacheTests {
    private static func head(_ path: String, length: String = "3") -> ByteBuffer {
        ByteBuffer(string: "POST \(path) HTTP/1.1\r\nHost: x\r\ncontent-LENGTH: \(length)\r\nX-A: 1\r\n\r\n")
    }

    private static func plan(_ path: String) -> RequestPlan {
        RequestPlan(
            request: .init(method: .post, path: path),
            bodyLength: 3,
            keepAlive: true,
            expectsContinue: false,
            requestsUpgrade: false,
            isHTTP10: false,
            purpose: nil,
            isCacheable: true
        )
    }

    @Test func anotherConnectionOfTheSamePeerSharesTheHead() throws {
        let lookups = CacheLookups()
        let heads = RequestHeadCache(lookups: lookups)
        let added = try #require(heads.add(Self.head("/a").readableBytesView, plan: Self.plan("/a"), from: "10.0.0.1"))
        let other = try #require(heads.add(Self.head("/b").readableBytesView, plan: Self.plan("/b"), from: "10.0.0.1"))
        let found = try #require(heads.match(Self.head("/a", length: "70"), from: "10.0.0.1", latest: other))
        #expect(found.head === added && found.match.bodyLength == 70)
        #expect(heads.match(Self.head("/a"), from: "10.0.0.2", latest: nil) == nil)
        #expect(heads.match(Self.head("/c"), from: "10.0.0.1", latest: other) == nil)
        #expect(lookups.hits == 1)
        #expect(lookups.misses == 2)
    }

    @Test func aHeadWithSomethingBehindItIsFound() throws {
        let heads = RequestHeadCache(lookups: CacheLookups())
        let added = heads.add(Self.head("/a").readableBytesView, plan: Self.plan("/a"), from: "")
        var more = Self.head("/a", length: "2")
        more.writeString("{}POST /b")
        #expect(heads.match(more, from: "", latest: nil)?.head === added)
        let whole = Self.head("/a")
        for count in 0..<whole.readableBytes {
            let part = try #require(whole.getSlice(at: 0, length: count))
            #expect(heads.match(part, from: "", latest: nil) == nil)
        }
    }

    private static func handshake(_ key: String) -> String {
        "GET /push/1/c/development HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: \(key)\r\n\r\n"
    }

    @Test func onlyTheKeyOfAHandshakeMayDiffer() throws {
        let first = ByteBuffer(string: Self.handshake("AAAAAAAAAAAAAAAAAAAAAA=="))
        var plan = Self.plan("/push/1/c/development")
        plan.bodyLength = 0
        #expect(CachedRequestHead(first.readableBytesView, plan: plan, from: "") == nil)
        plan.purpose = .notices
        let known = try #require(CachedRequestHead(first.readableBytesView, plan: plan, from: ""))
        for key in ["dGhlIHNhbXBsZSBub25jZQ==", "AAAAAAAAAAAAAAAAAAAAAA=="] {
            let found = try #require(known.match(ByteBuffer(string: Self.handshake(key))))
            #expect(found.webSocketKey == key && found.bodyLength == 0)
            #expect(found.headLength == Self.handshake(key).utf8.count)
        }
        for key in ["", "short", "dGhlIHNhbXBsZSBub25jZQ= ", "dGhlIHNhbXBsZSBub25jZQ==A", "dGhlIHNhbXBsZSBub25jZQ=\0"] {
            #expect(known.match(ByteBuffer(string: Self.handshake(key))) == nil)
        }
        for bad in ["short", "dGhlIHNhbXBsZSBub25jZQ==AAAA"] {
            let head = ByteBuffer(string: Self.handshake(bad))
            #expect(CachedRequestHead(head.readableBytesView, plan: plan, from: "") == nil)
        }
    }

    @Test func eachHandshakeIsAnsweredByItsKey() async throws {
        try await withServer({ $0.loops = 1 }) { port in
            for key in ["AAAAAAAAAAAAAAAAAAAAAA==", "dGhlIHNhbXBsZSBub25jZQ==", "AAAAAAAAAAAAAAAAAAAAAA=="] {
                let peer = try await RawPeer.connect(port: port, sending: Self.handshake(key))
                let answer = try await peer.text(containing: "\r\n\r\n")
                #expect(answer.contains("101 Switching Protocols"))
                #expect(answer.contains("Sec-WebSocket-Accept: \(WebSocketHandshake.accept(key))\r\n"))
                await peer.close()
            }
            // 16 characters of base64 are 12 bytes.
            let peer = try await RawPeer.connect(port: port, sending: Self.handshake("AAAAAAAAAAAAAAAA========"))
            #expect(try await peer.untilClosed().hasPrefix("HTTP/1.1 400"))
        }
    }

    @Test func manyHeadsAreForgotten() {
        let heads = RequestHeadCache(lookups: CacheLookups())
        for number in 0..<5_000 {
            _ = heads.add(Self.head("/\(number)").readableBytesView, plan: Self.plan("/\(number)"), from: "")
        }
        #expect(heads.match(Self.head("/0"), from: "", latest: nil) == nil)
        #expect(heads.match(Self.head("/4999"), from: "", latest: nil) != nil)
    }

    /// A client that reconnects for each request has its heads recognized all the same.
    @Test func aNewConnectionNeedsNoParsing() async throws {
        let text = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
        let lookups = Mutex<CacheLookups?>(nil)
        try await withServer({ $0.loops = 1 }, inspect: { server in lookups.withLock { $0 = server.headLookups } }) {
            port in
            for _ in 0..<3 {
                let peer = try await RawPeer.connect(port: port, sending: text)
                _ = try await peer.text(containing: "\nabc")
                await peer.close()
            }
        }
        let counts = try #require(lookups.withLock { $0 })
        #expect(counts.misses == 1)
        #expect(counts.hits == 2)
    }
}

/// Requests that are answered without a task.
@Suite struct DirectAnswerTests {
    /// A thousand requests that waited for one are answered in order and without recursion.
    @Test func manyWaitingRequestsAreAnsweredInOrder() async throws {
        let connectionHandler = Gate()
        let respond = inTask { request in
            await connectionHandler.wait()
            return APIResponse(status: .ok, body: Array("\(request.path);".utf8))
        }
        let responder: RelayServer.Responder = { request, executor, then in
            guard request.path != "/0" else { return respond(request, executor, then) }
            then(APIResponse(status: .ok, body: Array("\(request.path);".utf8)))
            return nil
        }
        try await withServer(inPlace: responder) { port in
            let peer = try await RawPeer.connect(port: port)
            try await peer.send((0..<1000).map { "GET /\($0) HTTP/1.1\r\nHost: x\r\n\r\n" }.joined())
            await connectionHandler.arrival()
            connectionHandler.open()
            let text = try await peer.text(containing: "/999;")
            let paths = text.split(separator: "\r\n").compactMap { line in
                line.firstIndex(of: ";").flatMap { line.first == "/" ? Int(line[..<$0].dropFirst()) : nil }
            }
            #expect(paths == Array(0..<1000))
            await peer.close()
        }
    }
}
