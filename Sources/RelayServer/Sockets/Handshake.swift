import Crypto
import HTTPTypes
import Records
import RelayAPI

/// What a WebSocket may be opened for.
enum SocketPurpose: Equatable {
    case notices
    case echo

    /// Which one a path names; `nil` for every other path.
    ///
    /// The base may have a prefix of a proxy's.
    static func of(path: String, testDoor: Bool) -> SocketPurpose? {
        if testDoor, path == "/__echo" { return .echo }
        // Asked of every request: most paths are dismissed by comparing bytes, without a search through text.
        guard namesPush(path) else { return nil }
        let segments = path.split(separator: "/", omittingEmptySubsequences: false)
        guard segments.count >= 5 else { return nil }
        let end = segments.suffix(4)
        return end.elementsEqual(["push", "1"] + end.suffix(2)) ? .notices : nil
    }

    private static func namesPush(_ path: String) -> Bool {
        var rest = path.utf8[...]
        while let slash = rest.firstIndex(of: UInt8(ascii: "/")) {
            rest = rest[slash...].dropFirst()
            if rest.starts(with: "push/1/".utf8) { return true }
        }
        return false
    }
}

/// Judges a WebSocket handshake.
///
/// RFC 6455 4.2, notices reference 1, reliability reference 4. Pure.
enum Handshake {
    static let subprotocol = "zonecast.notices.1"

    /// What to do with a request for a socket's path.
    enum Verdict {
        /// Switch protocols; the fields of the 101.
        case accepted(HTTPFields)
        case refused(APIResponse)
    }

    static func judge(_ plan: RequestPlan, for purpose: SocketPurpose) -> Verdict {
        let headers = plan.request.headers
        guard plan.request.method == .get else {
            return refuse(405, "A WebSocket is opened by GET.", [.allow: "GET"])
        }
        guard tokens(headers, .upgrade).contains("websocket") else { return upgradeRequired }
        guard plan.asksUpgrade else { return refuse(400, "A WebSocket is opened over HTTP/1.1.") }
        guard plan.bodyLength == 0 else { return refuse(400, "A WebSocket handshake has no body.") }
        guard tokens(headers, .connection).contains("upgrade") else {
            return refuse(400, "The Connection field must name Upgrade.")
        }
        let versions = headers[values: .secWebSocketVersion]
        guard versions == ["13"] else { return upgradeRequired }
        let keys = headers[values: .secWebSocketKey]
        guard keys.count == 1, let key = keys.first, key.utf8.count == 24, Base64.decode(key)?.count == 16 else {
            return refuse(400, "Sec-WebSocket-Key must be 16 bytes in base64.")
        }
        var answer: HTTPFields = [.upgrade: "websocket", .connection: "Upgrade", .secWebSocketAccept: accept(key)]
        if purpose == .notices {
            let offered = headers[values: .secWebSocketProtocol].flatMap { $0.split(separator: ",") }
                .map { $0.trimmingBlanks() }
            if !offered.isEmpty {
                guard offered.contains(subprotocol) else {
                    return refuse(400, "The subprotocol here is \(subprotocol).")
                }
                answer[.secWebSocketProtocol] = subprotocol
            }
        }
        return .accepted(answer)
    }

    /// The answer to a page of an origin that may not.
    static let originRefused = answer(403, "Pages of this origin may not open a socket here.")

    /// Whether a page of `origin` came from the host it is talking to.
    static func isOwn(origin: String, host: String) -> Bool {
        !host.isEmpty && (origin == "http://\(host)" || origin == "https://\(host)")
    }

    /// RFC 6455 1.3.
    static func accept(_ key: String) -> String {
        Base64.encode(Array(Insecure.SHA1.hash(data: Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8))))
    }

    /// Comma-separated words of all fields of this name, in lower case.
    private static func tokens(_ headers: HTTPFields, _ name: HTTPField.Name) -> [String] {
        headers[values: name].flatMap { $0.split(separator: ",") }.map { $0.trimmingBlanks().lowercased() }
    }

    private static var upgradeRequired: Verdict {
        refuse(
            426,
            "This path speaks WebSocket, version 13. If a proxy is in front, it must forward Upgrade.",
            [.upgrade: "websocket", .connection: "Upgrade", .secWebSocketVersion: "13"]
        )
    }

    private static func refuse(_ status: Int, _ reason: String, _ extra: HTTPFields = [:]) -> Verdict {
        .refused(answer(status, reason, extra))
    }

    private static func answer(_ status: Int, _ reason: String, _ extra: HTTPFields = [:]) -> APIResponse {
        var headers = extra
        headers[.contentType] = "application/json; charset=UTF-8"
        let body = "{\"uuid\":\"\(RequestID.random())\",\"serverErrorCode\":\"BAD_REQUEST\",\"reason\":\"\(reason)\"}"
        return APIResponse(status: .init(code: status), headers: headers, body: Array(body.utf8))
    }
}
