import RelayServer
import Testing

/// Every rule of Reliability.md, "Malformed HTTP", over a real socket.
@Suite struct MalformedHTTPTests {
    struct Row: Sendable {
        var name: String
        var request: String
        var status: Int
    }

    private static func row(_ name: String, _ request: String, _ status: Int) -> Row {
        Row(name: name, request: request, status: status)
    }

    private static let get = "GET / HTTP/1.1\r\nHost: x\r\n"
    private static let post = "POST / HTTP/1.1\r\nHost: x\r\n"

    static let framing: [Row] = [
        row("length and coding", post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        row("coding and length", post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400),
        row("two lengths that differ", post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400),
        row("two lengths alike", post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400),
        row("list of lengths", post + "Content-Length: 3, 3\r\n\r\nabc", 400),
        row("signed length", post + "Content-Length: +3\r\n\r\nabc", 400),
        row("negative length", post + "Content-Length: -3\r\n\r\nabc", 400),
        row("hexadecimal length", post + "Content-Length: 0x3\r\n\r\nabc", 400),
        row("length with a blank", post + "Content-Length: 1 1\r\n\r\nabc", 400),
        row("empty length", post + "Content-Length: \r\n\r\nabc", 400),
        row("length over 2^63", post + "Content-Length: 9223372036854775808\r\n\r\nabc", 400),
        row("length over 2^64", post + "Content-Length: 18446744073709551616\r\n\r\nabc", 400),
        row("coding gzip", post + "Transfer-Encoding: gzip\r\n\r\n", 400),
        row("coding gzip, chunked", post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
        row("coding chunked, gzip", post + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400),
        row("coding chunked twice", post + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400),
        row(
            "two coding fields",
            post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400
        ),
        row("coding xchunked", post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
        row("coding with a control character", post + "Transfer-Encoding: \u{0B}chunked\r\n\r\n0\r\n\r\n", 400),
        row("coding on 1.0", "POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        row("chunk size with sign", post + "Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n", 400),
        row("chunk size with 0x", post + "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n", 400),
        row("chunk size too large", post + "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\na", 400),
        // Refused by its declared length, before its bytes arrive.
        row("chunk of 2^63 - 1", post + "Transfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\na", 413),
        row("second chunk of 1 GiB", post + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n40000000\r\na", 413),
        row("chunk over the limit", post + "Transfer-Encoding: chunked\r\n\r\n400001\r\na", 413),
        row("chunks over the limit together", post + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n400000\r\na", 413),
        row(
            "chunk extension without an end",
            post + "Transfer-Encoding: chunked\r\n\r\n1;" + String(repeating: "x", count: 20_000),
            400
        ),
        row("chunk longer than its size", post + "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", 400),
        row("chunk size missing", post + "Transfer-Encoding: chunked\r\n\r\n\r\na\r\n", 400),
    ]

    static let fields: [Row] = [
        row("blank before the colon", get + "X-A : 1\r\n\r\n", 400),
        row("blank before the first field", "GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400),
        row("empty name", get + ": 1\r\n\r\n", 400),
        row("name with a blank", get + "X A: 1\r\n\r\n", 400),
        row("name with a bracket", get + "X(A): 1\r\n\r\n", 400),
        row("name with a quote", get + "\"X\": 1\r\n\r\n", 400),
        row("no colon", get + "XA\r\n\r\n", 400),
        row("NUL in a value", get + "X-A: a\u{0}b\r\n\r\n", 400),
        row("bell in a value", get + "X-A: a\u{7}b\r\n\r\n", 400),
        row("delete in a value", get + "X-A: a\u{7F}b\r\n\r\n", 400),
        row("NUL in a name", get + "X\u{0}A: ab\r\n\r\n", 400),
        row("folded line", get + "X-A: a\r\n b\r\n\r\n", 400),
        row("folded with a tab", get + "X-A: a\r\n\tb\r\n\r\n", 400),
        row("bare CR in a value", get + "X-A: a\rb\r\n\r\n", 400),
        row("bare LF as line end", "GET / HTTP/1.1\nHost: x\n\n", 400),
        row("no Host", "GET / HTTP/1.1\r\n\r\n", 400),
        row("two Hosts", get + "Host: y\r\n\r\n", 400),
        row("two Hosts alike", get + "Host: x\r\n\r\n", 400),
        row("list in Host", "GET / HTTP/1.1\r\nHost: x, y\r\n\r\n", 400),
        row("path in Host", "GET / HTTP/1.1\r\nHost: x/y\r\n\r\n", 400),
        row("user in Host", "GET / HTTP/1.1\r\nHost: u@x\r\n\r\n", 400),
        row("empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
        row("two ports in Host", "GET / HTTP/1.1\r\nHost: a:b:c\r\n\r\n", 400),
        row("port that is no number", "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400),
        row("port out of range", "GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", 400),
        row("port far out of range", "GET / HTTP/1.1\r\nHost: a:99999999999999999999\r\n\r\n", 400),
        row("port alone", "GET / HTTP/1.1\r\nHost: :80\r\n\r\n", 400),
        row("bracket without its pair", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400),
        row("bracket within", "GET / HTTP/1.1\r\nHost: a[::1]\r\n\r\n", 400),
        row("something behind the bracket", "GET / HTTP/1.1\r\nHost: [::1]a\r\n\r\n", 400),
        row("bracket in brackets", "GET / HTTP/1.1\r\nHost: [[::1]]\r\n\r\n", 400),
        row("empty brackets", "GET / HTTP/1.1\r\nHost: []\r\n\r\n", 400),
        row("unknown expectation", post + "Expect: miracles\r\nContent-Length: 1\r\n\r\na", 417),
        row(
            "unknown expectation before a known one",
            post + "Expect: miracles\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na",
            417
        ),
        row(
            "encoding before none",
            post + "Content-Encoding: gzip\r\nContent-Encoding: identity\r\nContent-Length: 1\r\n\r\na",
            415
        ),
        row("encoded body", post + "Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\na", 415),
    ]

    static let lines: [Row] = [
        row("unknown method", "BREW / HTTP/1.1\r\nHost: x\r\n\r\n", 501),
        row("unknown method of others", "PROPFIND / HTTP/1.1\r\nHost: x\r\n\r\n", 501),
        row("lower case method", "get / HTTP/1.1\r\nHost: x\r\n\r\n", 501),
        row("method that is no token", "G(T / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        row("CONNECT", "CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n", 405),
        row("TRACE", "TRACE / HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        row("HTTP/2.0", "GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        row("HTTP/1.2", "GET / HTTP/1.2\r\nHost: x\r\n\r\n", 505),
        row("HTTP/0.9", "GET / HTTP/0.9\r\nHost: x\r\n\r\n", 505),
        row("HTTP/3.0", "GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505),
        row("HTTP 2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        row("no version", "GET /\r\nHost: x\r\n\r\n", 400),
        row("other protocol", "GET / RTSP/1.0\r\nHost: x\r\n\r\n", 400),
        row("version in lower case", "GET / http/1.1\r\nHost: x\r\n\r\n", 400),
        row("two blanks", "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        row("blank in the target", "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        row("no target", "GET HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        row("relative target", "GET a HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        row("URL without a host", "GET http:///x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        row("URL without a host, query only", "GET http://?x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        row("URL of a scheme alone", "GET http:// HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        row("fragment", "GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        row("bytes above ASCII in the target", "GET /ä HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        row("asterisk with GET", "GET * HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        row("TLS", "\u{16}\u{3}\u{1}\u{0}\u{A5}\u{1}\u{0}\r\n\r\n", 400),
        row("NUL first", "\u{0}GET / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        row("long line", "GET /" + String(repeating: "a", count: 9000) + " HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        row("endless line", "GET /" + String(repeating: "a", count: 20_000), 414),
        row("endless method", String(repeating: "A", count: 20_000), 414),
        row("large field", get + "X-A: " + String(repeating: "a", count: 9000) + "\r\n\r\n", 431),
        row("large name", get + String(repeating: "a", count: 9000) + ": 1\r\n\r\n", 431),
        row(
            "name and value large together",
            get + String(repeating: "a", count: 5000) + ": " + String(repeating: "b", count: 5000) + "\r\n\r\n",
            431
        ),
        row(
            "large fields",
            get + (0..<5).map { "X-\($0): " + String(repeating: "a", count: 7000) + "\r\n" }.joined() + "\r\n",
            431
        ),
        row("many fields", get + (0..<100).map { "X-\($0): 1\r\n" }.joined() + "\r\n", 431),
        row("endless fields", get + String(repeating: "X: 1\r\n", count: 5000), 431),
        row("large body by its length", post + "Content-Length: 4194305\r\n\r\n", 413),
    ]

    @Test func brokenFramingIsRefused() async throws { try await expectRefusals(Self.framing) }
    @Test func brokenFieldsAreRefused() async throws { try await expectRefusals(Self.fields) }
    @Test func brokenRequestLinesAreRefused() async throws { try await expectRefusals(Self.lines) }

    @Test func bytesThatCannotStartARequestAreRefusedAtOnce() async throws {
        let starts = [("\u{16}\u{3}\u{1}\u{2}", "TLS"), ("\u{0}", "not a token"), ("\r\n{", "not a token")]
        try await withServer { port in
            for (start, reason) in starts {
                let peer = try await RawPeer.connect(port: port)
                try await peer.send(start)
                let answer = try await peer.untilClosed()
                #expect(answer.hasPrefix("HTTP/1.1 400 ") && answer.contains(reason), "\(answer)")
                await peer.close()
            }
        }
    }

    private func expectRefusals(_ rows: [Row]) async throws {
        try await withServer { port in
            for row in rows {
                let peer = try await RawPeer.connect(port: port)
                try await peer.send(row.request)
                // Bytes after a refusal must not be read as a request.
                try? await peer.send("GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
                let answer = try await peer.untilClosed()
                #expect(answer.hasPrefix("HTTP/1.1 \(row.status) "), "\(row.name): \(answer.prefix(200))")
                #expect(!answer.contains("smuggled"), "\(row.name)")
                #expect(answer.contains("\r\nConnection: close\r\n"), "\(row.name)")
                await peer.close()
            }
        }
    }

    static let good: [(String, String, String)] = [
        ("plain", get + "\r\n", "GET / - "),
        ("empty line first", "\r\n" + get + "\r\n", "GET / - "),
        ("blanks around a value", "GET / HTTP/1.1\r\nHost: \t x \t\r\n\r\n", "GET / - "),
        ("a tab behind a length", post + "Content-Length: 3\t \t\r\nX-A: a\tb\t\r\n\r\nabc", "127.0.0.1\nabc"),
        ("bytes above ASCII in a value", get + "X-A: grüße\r\n\r\n", "GET / - "),
        ("Host with a port", "GET / HTTP/1.1\r\nHost: x:65535\r\n\r\n", "GET / - "),
        ("Host with an empty port", "GET / HTTP/1.1\r\nHost: x:\r\n\r\n", "GET / - "),
        ("Host in brackets", "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n", "GET / - "),
        ("Host in brackets with a port", "GET / HTTP/1.1\r\nHost: [2001:db8::1%25eth0]:8080\r\n\r\n", "GET / - "),
        ("absolute form", "GET http://h:1/p?q HTTP/1.1\r\nHost: x\r\n\r\n", "GET /p q "),
        ("absolute form, query only", "GET http://h?q HTTP/1.1\r\nHost: x\r\n\r\n", "GET / q "),
        ("absolute form, no path", "GET HTTPS://h HTTP/1.1\r\nHost: x\r\n\r\n", "GET / - "),
        ("OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "OPTIONS * - "),
        ("1.0 without Host", "GET /old HTTP/1.0\r\n\r\n", "GET /old - "),
        ("two question marks", "GET /p?a?b HTTP/1.1\r\nHost: x\r\n\r\n", "GET /p a?b "),
        (
            "chunked", post + "Transfer-Encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: 1\r\n\r\n",
            "127.0.0.1\nabcde"
        ),
        ("continue", post + "Expect: 100-Continue\r\nContent-Length: 3\r\n\r\nabc", "100 Continue\r\n\r\nHTTP/1.1 200"),
        ("upgrade to something else", get + "Upgrade: h2c\r\nConnection: Upgrade\r\n\r\n", "GET / - "),
        ("identity", post + "Content-Encoding: identity\r\nContent-Length: 1\r\n\r\na", "127.0.0.1\na"),
        ("hundred fields", get + (0..<99).map { "X-\($0): 1\r\n" }.joined() + "\r\n", "GET / - "),
    ]

    @Test func unusualValidRequestsAreServed() async throws {
        try await withServer { port in
            for (name, request, part) in Self.good {
                let peer = try await RawPeer.connect(port: port)
                try await peer.send(request)
                let answer = try await peer.text(containing: part)
                #expect(answer.contains("HTTP/1.1 200 OK\r\n"), "\(name): \(answer)")
                await peer.close()
            }
        }
    }

    @Test func aLaterMalformedRequestIsAnsweredInOrder() async throws {
        try await withServer { port in
            let peer = try await RawPeer.connect(port: port)
            try await peer.send(Self.get + "\r\n" + Self.get + "\r\nGET / HTTP/1.1\r\n\r\n" + Self.get + "\r\n")
            let answer = try await peer.untilClosed()
            let statuses = answer.split(separator: "HTTP/1.1 ").map { $0.prefix(3) }
            #expect(statuses == ["200", "200", "400"])
        }
    }

    @Test func theBodyLimitAppliesToChunkedBodies() async throws {
        try await withServer({ $0.limits.body = 1000 }) { port in
            let peer = try await RawPeer.connect(port: port)
            let chunk = "100\r\n" + String(repeating: "a", count: 256) + "\r\n"
            try await peer.send(Self.post + "Transfer-Encoding: chunked\r\n\r\n" + String(repeating: chunk, count: 4))
            #expect(try await peer.untilClosed().hasPrefix("HTTP/1.1 413 "))
        }
    }

    @Test func aChunkedBodyMayArriveInPiecesOfAnySize() async throws {
        try await withServer { port in
            let chunks = "3;x=y\r\nab\n\r\n0A\r\ncdef\r\ngh\r\n\r\n0;z\r\nT: 1\r\n\r\n"
            let request = Array((Self.post + "Transfer-Encoding: chunked\r\n\r\n" + chunks).utf8)
            for size in [1, 2, 3, 7, request.count] {
                let peer = try await RawPeer.connect(port: port)
                for start in stride(from: 0, to: request.count, by: size) {
                    try await peer.send(Array(request[start..<min(start + size, request.count)]))
                }
                _ = try await peer.text(containing: "127.0.0.1\nab\ncdef\r\ngh\r\n")
                await peer.close()
            }
        }
    }

    @Test func unsupportedMethodsAreRefused() async throws {
        try await withServer { port in
            for (method, status) in [("QUERY", 405), ("TRACE", 405), ("PROPFIND", 501), ("FROB", 501)] {
                let peer = try await RawPeer.connect(port: port)
                try await peer.send("\(method) / HTTP/1.1\r\nHost: x\r\n\r\n")
                let answer = try await peer.untilClosed()
                #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(method): \(answer)")
                #expect(answer.contains("\r\nAllow: GET, POST, OPTIONS\r\n") == (status == 405))
            }
        }
    }

    @Test func aHeadRequestHasNoBody() async throws {
        try await withServer { port in
            let peer = try await RawPeer.connect(port: port)
            try await peer.send("HEAD /h HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            let answer = try await peer.untilClosed()
            #expect(answer.contains("\r\nContent-Length: 20\r\n"))
            #expect(answer.hasSuffix("\r\n\r\n"))
        }
    }

    @Test func aHeadRequestIsRefusedWithoutABody() async throws {
        let rest = [
            " / HTTP/1.1\r\n\r\n", " / HTTP/2.0\r\n\r\n", " /" + String(repeating: "a", count: 9000),
            " / HTTP/1.1\r\nHost: x\r\nX A: 1\r\n\r\n", " / HTTP/1.1\r\nHost: x\r\nContent-Length: 4194305\r\n\r\n",
        ]
        try await withServer { port in
            for text in rest {
                let refused = try await RawPeer.connect(port: port, sending: "HEAD" + text).untilClosed()
                #expect(refused.contains("\r\nContent-Length: "), "\(refused)")
                #expect(refused.hasSuffix("\r\n\r\n"), "\(refused)")
                // The response to the request before it, with another method, has one.
                let both = "HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET" + text
                #expect(try await RawPeer.connect(port: port, sending: both).untilClosed().hasSuffix("}"))
            }
        }
    }
}
