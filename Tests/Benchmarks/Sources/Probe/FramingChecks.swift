import Sockets

/// HTTP/1.1 messages with ambiguous boundaries.
///
/// See Reliability.md, "Malformed HTTP".
enum FramingChecks {
    private static let post = "POST /database/1/iCloud.probe/development/private/zones/list HTTP/1.1\r\nHost: x\r\n"
    private static let get = "GET /healthz HTTP/1.1\r\n"

    static let all: [Check] = lengths + codings + heads + lines + decent

    private static let lengths: [Check] =
        [
            ("both lengths", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            ("both lengths, other order", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
            ("two lengths that differ", "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} "),
            ("a list of lengths that differ", "Content-Length: 2, 3\r\n\r\n{} "),
            ("length with plus", "Content-Length: +2\r\n\r\n{}"), ("length with minus", "Content-Length: -2\r\n\r\n{}"),
            ("length in hex", "Content-Length: 0x2\r\n\r\n{}"),
            ("length with a space", "Content-Length: 2 2\r\n\r\n{}"),
            ("empty length", "Content-Length: \r\n\r\n{}"), ("length of letters", "Content-Length: two\r\n\r\n{}"),
            ("length of 2^63", "Content-Length: 9223372036854775808\r\n\r\n{}"),
            ("length of 2^64 + 2", "Content-Length: 18446744073709551618\r\n\r\n{}"),
        ].map { .refused($0.0, $0.0 == "length of 2^63" ? [400, 413] : [400], post + $0.1) }

    private static let codings: [Check] =
        [
            ("coding gzip", "Transfer-Encoding: gzip\r\n\r\n"),
            ("coding identity", "Transfer-Encoding: identity\r\n\r\n"),
            ("coding chunked, gzip", "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
            ("coding gzip, chunked", "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
            ("coding chunked twice", "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
            (
                "coding chunked on two lines",
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
            ("coding xchunked", "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
            ("coding with vertical tab", "Transfer-Encoding: \u{0B}chunked\r\n\r\n0\r\n\r\n"),
            ("chunk size of letters", "Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n"),
            ("chunk size negative", "Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n"),
            ("chunk size in 0x", "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n"),
            ("chunk size beyond 64 bits", "Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n"),
            ("chunk longer than said", "Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n"),
        ].map { .refused($0.0, [400, 413], post + $0.1) } + [
            .refused(
                "coding on HTTP/1.0",
                [400, 505],
                "POST /healthz HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            )
        ]

    private static let heads: [Check] =
        [
            ("blank before the colon", "Host: x\r\nX-A : 1\r\n\r\n"), ("empty field name", "Host: x\r\n: 1\r\n\r\n"),
            ("field name with a blank", "Host: x\r\nX A: 1\r\n\r\n"),
            ("name not a token", "Host: x\r\nX(A): 1\r\n\r\n"),
            ("no colon", "Host: x\r\nXA\r\n\r\n"), ("NUL in a value", "Host: x\r\nX-A: a\0b\r\n\r\n"),
            ("control character in a value", "Host: x\r\nX-A: a\u{1}b\r\n\r\n"),
            ("DEL in a value", "Host: x\r\nX-A: a\u{7F}b\r\n\r\n"), ("NUL in a name", "Host: x\r\nX\0A: 1\r\n\r\n"),
            ("folded line", "Host: x\r\nX-A: 1\r\n 2\r\n\r\n"), ("folded first line", " X: 1\r\nHost: x\r\n\r\n"),
            ("bare CR in a value", "Host: x\r\nX-A: a\rb\r\n\r\n"), ("bare LF", "Host: x\nX-A: 1\r\n\r\n"),
            ("no Host", "X-A: 1\r\n\r\n"), ("two Hosts", "Host: x\r\nHost: y\r\n\r\n"),
            ("the same Host twice", "Host: x\r\nHost: x\r\n\r\n"), ("Host with a blank", "Host: x y\r\n\r\n"),
        ].map { .refused($0.0, [400], get + $0.1) }

    private static let lines: [Check] = [
        .refused("no version", [400, 505], "GET /healthz\r\n\r\n"),
        .refused("HTTP/2.0", [505, 400], "GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n"),
        .refused("HTTP/1.2", [505, 400], "GET /healthz HTTP/1.2\r\nHost: x\r\n\r\n"),
        .refused("HTTP/0.9", [505, 400], "GET /healthz HTTP/0.9\r\nHost: x\r\n\r\n"),
        .refused("lower-case http", [400, 505], "GET /healthz http/1.1\r\nHost: x\r\n\r\n"),
        .refused("two blanks", [400], "GET  /healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
        .refused("blank in the target", [400], "GET /heal thz HTTP/1.1\r\nHost: x\r\n\r\n"),
        .refused("control character in the target", [400], "GET /heal\u{1}thz HTTP/1.1\r\nHost: x\r\n\r\n"),
        .refused("method not a token", [400, 501], "G(T /healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
        .refused("a TLS hello", [400], [0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3, 13, 10, 13, 10]),
        .refused("the HTTP/2 preface", [505, 400], "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        .refused("CONNECT", [400, 405, 501], "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n"),
        .answered("a method not served", [405], "DELETE /healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
        .answered("a method not known", [501], "FROB /healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
    ]

    private static let decent: [Check] = [
        .answered("a health check", [200], "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
        .answered("HEAD", [200, 405], "HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
        .answered(
            "Expect: 100-continue",
            [100, 417, 421, 401, 404],
            post + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        ),
        Check(name: "a request in single bytes") { endpoint in
            let link = try Link(to: endpoint)
            for byte in "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n".utf8 { link.send([byte]) }
            return link.answer()?.status == 200 ? nil : "no 200"
        },
        Check(name: "five pipelined requests are answered in turn") { endpoint in
            let link = try Link(to: endpoint)
            link.send(String(repeating: "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", count: 4))
            link.send("GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
            let statuses = (0..<5).map { _ in link.answer()?.status }
            return statuses == [200, 200, 200, 200, 404] ? nil : "\(statuses)"
        },
        Check(name: "a bad request after a good one is answered in turn") { endpoint in
            let link = try Link(to: endpoint)
            link.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n")
            let statuses = [link.answer()?.status, link.answer()?.status]
            return statuses == [200, 400] ? nil : "\(statuses)"
        },
        Check(name: "a client that has finished writing still gets its answer") { endpoint in
            let link = try Link(to: endpoint)
            link.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            link.finishWriting()
            let status = link.answer()?.status
            _ = link.readMore()
            return status == 200 && link.isClosed ? nil : "answer \(status ?? 0), closed \(link.isClosed)"
        },
        Check(name: "Connection: close is obeyed") { endpoint in
            let link = try Link(to: endpoint)
            link.send("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            let status = link.answer()?.status
            _ = link.readMore()
            return status == 200 && link.isClosed ? nil : "answer \(status ?? 0), closed \(link.isClosed)"
        },
    ]
}
