import HTTPTypes
import NIOCore
import RelayAPI
import TestSupport
import Testing

@testable import RelayServer

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
        let plan = RequestPlan(
            request: .init(method: .post, path: "/a"),
            bodyLength: 3,
            keepAlive: true,
            expectsContinue: false,
            requestsUpgrade: false,
            isHTTP10: false,
            purpose: nil,
            isCacheable: true
        )
        let known = try #require(RequestHeadCache(head.readableBytesView, plan: plan))
        let found = known.match(ByteBuffer(string: start + row.text))
        #expect(found?.bodyLength == row.body)
        if let found { #expect(found.headLength == (start + row.text.replacing("rest", with: "")).utf8.count) }
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
