import RelayServer
import Testing

/// Which request of a connection is the last.
///
/// If the parser and the connection handler disagree, the connection is closed.
@Suite struct LastRequestTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var request: String

        init(_ name: String, _ request: String) {
            testDescription = name
            self.request = request
        }
    }

    private static let get = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
    private static let chunked = "POST /nope HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    private static let old = "GET /nope HTTP/1.0\r\nConnection: "

    static let lastOnes = [
        Row("close as a trailer", chunked + "Connection: close\r\n\r\n" + get),
        Row("close as a trailer, then half a head", chunked + "Connection: close\r\n\r\nGET /next HTTP/1.1\r\n"),
        Row("Proxy-Connection", "GET /nope HTTP/1.1\r\nHost: a\r\nProxy-Connection: close\r\n\r\n" + get),
        Row("a token among others", "GET /nope HTTP/1.1\r\nHost: a\r\nConnection: te , Close\r\n\r\n" + get),
        Row("an unknown token on 1.0", old + "xkeep-alive\r\n\r\n" + get),
        Row("a token that contains keep-alive on 1.0", old + "not-keep-alive\r\n\r\n" + get),
        Row("both on 1.0", old + "keep-alive, close\r\n\r\n" + get),
        Row("both on 1.0, in two fields", old + "close\r\nConnection: keep-alive\r\n\r\n" + get),
    ]

    @Test(arguments: lastOnes) func theLastResponseHasConnectionClose(_ row: Row) async throws {
        try await withServer { port in
            let answer = try await RawPeer.connect(port: port, sending: row.request).untilClosed(within: 60)
            #expect(answer.split(separator: "HTTP/1.1 ").count == 1, "\(answer)")
            #expect(answer.contains("\r\nConnection: close\r\n"), "\(answer)")
            #expect(!answer.contains("/next"))
        }
    }

    /// The first response is sent before the parser reports that no other request follows.
    @Test func aConnectionThatTheParserEndedIsClosed() async throws {
        try await withServer { port in
            let peer = try await RawPeer.connect(port: port, sending: Self.chunked + "Connection: close\r\n\r\n")
            _ = try await peer.text(containing: "127.0.0.1\n")
            try await peer.send(Self.get)
            let answer = try await peer.untilClosed(within: 60)
            #expect(answer.split(separator: "HTTP/1.1 ").count == 1, "\(answer)")
        }
    }

    static let reusable = [
        Row("unknown tokens on 1.1", "GET / HTTP/1.1\r\nHost: a\r\nConnection: x-close, closed\r\n\r\n" + get),
        Row("the token on 1.0", "GET / HTTP/1.0\r\nConnection: te, Keep-Alive\r\n\r\n" + get),
        Row("a proxy's token on 1.0", "GET / HTTP/1.0\r\nProxy-Connection: keep-alive\r\n\r\n" + get),
    ]

    @Test(arguments: reusable) func theNextRequestIsServed(_ row: Row) async throws {
        try await withServer { port in
            let peer = try await RawPeer.connect(port: port, sending: row.request)
            let answer = try await peer.text(containing: "GET /next")
            #expect(!answer.contains("Connection: close"), "\(answer)")
            await peer.close()
        }
    }
}
