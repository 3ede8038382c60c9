import Sockets

/// The limits that can be checked with one connection.
///
/// See Reliability.md, "Limits", "Malformed JSON" and "Paths and asset addresses".
enum LimitChecks {
    static let all: [Check] = sizes + paths + json + requests

    private static let get = "GET /healthz HTTP/1.1\r\nHost: x\r\n"
    private static let post = "POST \(Probed.zones) HTTP/1.1\r\nHost: x\r\n"
    private static func letters(_ count: Int) -> String { String(repeating: "a", count: count) }

    private static let sizes: [Check] = [
        .refused("request line over 8 KiB", [414], "GET /\(letters(9000)) HTTP/1.1\r\nHost: x\r\n\r\n"),
        .refused("an endless request line", [414], "GET /\(letters(100_000))"),
        .refused("a header over 8 KiB", [431], get + "X-A: \(letters(9000))\r\n\r\n"),
        .refused("an endless header", [431], get + "X-A: \(letters(100_000))"),
        .refused(
            "headers over 32 KiB",
            [431],
            get + (0..<6).map { "X-\($0): \(letters(7000))\r\n" }.joined() + "\r\n"
        ),
        .refused("101 headers", [431], get + (0..<101).map { "X-\($0): 1\r\n" }.joined() + "\r\n"),
        .answered("99 headers", [200], get + (0..<98).map { "X-\($0): 1\r\n" }.joined() + "\r\n"),
        .refused("a body declared over 4 MiB", [413], post + "Content-Length: 4194305\r\n\r\n"),
        Check(name: "a chunked body over 4 MiB") { endpoint in
            let link = try Link(to: endpoint)
            link.send(post + "Transfer-Encoding: chunked\r\n\r\n")
            for _ in 0..<65 where !link.isClosed { link.send("10000\r\n" + letters(65536) + "\r\n") }
            let status = link.answer()?.status
            return status == 413 || (status == nil && link.isClosed) ? nil : "answered \(status ?? 0)"
        },
        .answered(
            "a gzipped body",
            [415],
            post + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"
        ),
    ]

    private static let paths: [Check] = [
        "/database/1/../../etc/passwd", "/database/1/%2e%2e/x/private/zones/list", "/database\\1/x",
        "/database/1/a%5Cb/development/private/zones/list", "/database/1/a%00b/development/private/zones/list",
        "/database/1/%c0%ae%c0%ae/development/private/zones/list",
        "/database//iCloud.probe/development/private/zones/list",
        "/database/1/%zz/development/private/zones/list", "/database/1/iCloud.probe/development/private/zones/list/",
    ].map { path in
        .answered("path \(path)", [400, 404], "GET \(path)?\(Probed.credentials) HTTP/1.1\r\nHost: x\r\n\r\n")
    }

    /// Bodies that must be refused as a whole, and similar ones that must be accepted.
    private static let json: [Check] =
        [
            ("trailing text", #"{"zones":[]} x"#), ("two values", "{}{}"), ("NaN", #"{"zones":[],"a":NaN}"#),
            ("leading zero", #"{"zones":[],"a":01}"#), ("bare point", #"{"zones":[],"a":1.}"#),
            ("plus sign", #"{"zones":[],"a":+1}"#), ("raw control character", "{\"zones\":[],\"a\":\"\u{1}\"}"),
            ("raw newline in a string", "{\"zones\":[],\"a\":\"\n\"}"), ("bad escape", #"{"zones":[],"a":"\x"}"#),
            ("short escape", #"{"zones":[],"a":"\u12"}"#), ("lone surrogate", #"{"zones":[],"a":"\ud800"}"#),
            ("duplicate member", #"{"zones":[],"zones":[]}"#),
            ("duplicate unknown member", #"{"a":1,"a":2,"zones":[]}"#),
            ("duplicate by escape", #"{"a":1,"\u0061":2,"zones":[]}"#), ("trailing comma", #"{"zones":[],}"#),
            ("comment", #"{"zones":[]/* */}"#), ("single quotes", "{'zones':[]}"), ("an array", "[]"),
            ("two byte order marks", "\u{FEFF}\u{FEFF}{\"zones\":[]}"), ("cut short", #"{"zones":["#),
            ("a wrong type", #"{"zones":7}"#),
            ("depth 33", nested(33)), ("depth 10,000", nested(10_000)),
            ("a number of 65 characters", #"{"zones":[],"a":1\#(String(repeating: "0", count: 64))}"#),
        ].map { name, body in
            Probed.check("JSON: \(name)", "zones/lookup", body, expect: 400, code: "BAD_REQUEST")
        } + [
            Check(name: "JSON: invalid UTF-8") { endpoint in
                try Probed.outcome(
                    "zones/lookup",
                    Array(#"{"zones":[],"a":""#.utf8) + [0xFF] + Array(#""}"#.utf8),
                    at: endpoint,
                    expect: 400,
                    code: "BAD_REQUEST"
                )
            },
            Check(name: "JSON: overlong UTF-8") { endpoint in
                try Probed.outcome(
                    "zones/lookup",
                    Array(#"{"zones":[],"a":""#.utf8) + [0xC0, 0x80] + Array(#""}"#.utf8),
                    at: endpoint,
                    expect: 400,
                    code: "BAD_REQUEST"
                )
            },
            Probed.check(
                "JSON: unknown members are ignored",
                "zones/lookup",
                #"{"zones":[],"a":{"b":[1]}}"#,
                expect: 200
            ),
            Probed.check("JSON: depth 30 is fine", "zones/lookup", nested(30), expect: 200),
            Probed.check("JSON: blanks around are fine", "zones/lookup", " \r\n\t{ \"zones\" : [ ] } \n", expect: 200),
        ]

    private static func nested(_ depth: Int) -> String {
        let arrays = depth - 1
        return #"{"zones":[],"a":"# + String(repeating: "[", count: arrays) + String(repeating: "]", count: arrays)
            + "}"
    }

    private static let requests: [Check] = [
        Probed.check(
            "201 operations",
            "records/modify",
            #"{"operations":[\#(operations(201))]}"#,
            expect: 400,
            code: "BAD_REQUEST"
        ),
        Probed.check(
            "201 lookups",
            "records/lookup",
            #"{"records":[\#((0..<201).map { #"{"recordName":"r\#($0)"}"# }.joined(separator: ","))]}"#,
            expect: 400,
            code: "BAD_REQUEST"
        ),
        Probed.check(
            "a record name of 256 characters",
            "records/modify",
            #"{"operations":[{"operationType":"create","record":{"recordName":"\#(letters(256))","recordType":"T"}}]}"#,
            expect: 200,
            code: "BAD_REQUEST"
        ),
        Probed.check(
            "a record name that is not ASCII",
            "records/modify",
            #"{"operations":[{"operationType":"create","record":{"recordName":"ü","recordType":"T"}}]}"#,
            expect: 200,
            code: "BAD_REQUEST"
        ),
        Probed.check(
            "a zone name with a leading underscore",
            "zones/modify",
            #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"_x"}}}]}"#,
            expect: 200,
            code: "BAD_REQUEST"
        ),
        Probed.check(
            "a string over 1 MB",
            "records/modify",
            #"{"operations":[{"operationType":"create","record":{"recordName":"big","recordType":"T","#
                + #""fields":{"t":{"value":"\#(letters(1_048_577))"}}}}]}"#,
            expect: 200,
            code: "BAD_REQUEST"
        ),
        Probed.check("an unknown path", "no/such", "{}", expect: 404, code: "NOT_FOUND"),
    ]

    private static func operations(_ count: Int) -> String {
        (0..<count).map {
            #"{"operationType":"forceDelete","record":{"recordName":"r\#($0)"}}"#
        }.joined(separator: ",")
    }
}
