import Sockets

/// Valid and invalid WebSocket handshakes.
///
/// See RFC 6455, 4.2; Reliability.md, "WebSocket rules"; Notices.md, "Connecting".
enum HandshakeChecks {
    /// The fields of a valid handshake, which checks change one at a time.
    private static let good = [
        "Host": "x", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    ]

    static func request(
        _ line: String = "GET /__echo HTTP/1.1",
        changing changes: [String: String?] = [:]
    ) -> String {
        var fields = good
        for (name, value) in changes { fields[name] = value }
        return line + "\r\n" + fields.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)\r\n" }.joined() + "\r\n"
    }

    private static func changed(
        _ name: String,
        _ statuses: Set<Int>,
        _ line: String = "GET /__echo HTTP/1.1",
        _ changes: [String: String?] = [:]
    ) -> Check {
        .answered("handshake: \(name)", statuses, request(line, changing: changes))
    }

    static let all: [Check] = [
        Check(name: "handshake: the accept key of the RFC's example") { endpoint in
            let link = try Link(to: endpoint)
            link.send(request())
            guard let answer = link.answer(hasBody: false) else { return "no answer" }
            guard answer.status == 101 else { return "answered \(answer.status)" }
            let accept = answer.field("Sec-WebSocket-Accept")
            return accept == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" ? nil : "accept is \(accept ?? "missing")"
        },
        Check(name: "handshake: version 12 is told that 13 is spoken") { endpoint in
            let link = try Link(to: endpoint)
            link.send(request(changing: ["Sec-WebSocket-Version": "12"]))
            guard let answer = link.answer() else { return "no answer" }
            let version = answer.field("Sec-WebSocket-Version")
            return answer.status == 426 && version == "13"
                ? nil : "answered \(answer.status), version \(version ?? "-")"
        },
        changed(
            "tokens in other case",
            [101],
            "GET /__echo HTTP/1.1",
            ["Upgrade": "WebSocket", "Connection": "upgrade"]
        ),
        changed("Connection with two tokens", [101], "GET /__echo HTTP/1.1", ["Connection": "keep-alive, Upgrade"]),
        changed("no version", [426, 400], "GET /__echo HTTP/1.1", ["Sec-WebSocket-Version": nil]),
        changed("no key", [400], "GET /__echo HTTP/1.1", ["Sec-WebSocket-Key": nil]),
        changed("a key of 15 bytes", [400], "GET /__echo HTTP/1.1", ["Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25j"]),
        changed(
            "a key that is not base64",
            [400],
            "GET /__echo HTTP/1.1",
            ["Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=!"]
        ),
        changed("no Upgrade", [400, 426, 404], "GET /__echo HTTP/1.1", ["Upgrade": nil]),
        changed("Upgrade to something else", [400, 426, 404], "GET /__echo HTTP/1.1", ["Upgrade": "h2c"]),
        changed("no Connection", [400, 426, 404], "GET /__echo HTTP/1.1", ["Connection": nil]),
        changed("Connection without the token", [400, 426, 404], "GET /__echo HTTP/1.1", ["Connection": "keep-alive"]),
        changed("POST", [400, 405], "POST /__echo HTTP/1.1", ["Content-Length": "0"]),
        changed("HTTP/1.0", [400, 426, 505], "GET /__echo HTTP/1.0"),
        changed("foreign origin", [403], "GET \(Probed.push) HTTP/1.1", ["Origin": "https://evil.example"]),
        changed("origin null", [403], "GET \(Probed.push) HTTP/1.1", ["Origin": "null"]),
        changed("only foreign subprotocols", [400], "GET \(Probed.push) HTTP/1.1", ["Sec-WebSocket-Protocol": "chat"]),
        changed("a path without a socket", [404, 426, 400], "GET /push/1/x HTTP/1.1"),
        Check(name: "handshake: the subprotocol is echoed, extensions are not taken") { endpoint in
            let link = try Link(to: endpoint)
            link.send(
                request(
                    "GET \(Probed.push) HTTP/1.1",
                    changing: [
                        "Sec-WebSocket-Protocol": "zonecast.notices.1",
                        "Sec-WebSocket-Extensions": "permessage-deflate",
                    ]
                )
            )
            guard let answer = link.answer(hasBody: false), answer.status == 101 else { return "no 101" }
            guard answer.field("Sec-WebSocket-Protocol") == "zonecast.notices.1" else {
                return "subprotocol not echoed"
            }
            return answer.field("Sec-WebSocket-Extensions") == nil ? nil : "took an extension"
        },
    ]
}

extension Probed {
    static let push = "/push/1/\(container)/development"
}
