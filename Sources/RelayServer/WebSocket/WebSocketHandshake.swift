import Crypto
import HTTPTypes
import Records
package import RelayAPI

/// The purpose of a WebSocket.
package enum SocketPurpose: Equatable {
    case notices
    case echo

    /// Returns the purpose that a path stands for; `nil` for other paths.
    ///
    /// The path may begin with a prefix that a proxy adds.
    package static func of(path: String, testDoor: Bool) -> SocketPurpose? {
        if testDoor, path == "/__echo" { return .echo }
        // Called for every request, so it compares bytes instead of splitting, which would copy.
        var path = path
        return path.withUTF8 { bytes in
            var start = bytes.endIndex
            for _ in 0..<4 {
                guard let slash = bytes[..<start].lastIndex(of: UInt8(ascii: "/")) else { return nil }
                start = slash
            }
            return bytes[start...].starts(with: "/push/1/".utf8) ? .notices : nil
        }
    }
}

/// Validates WebSocket handshakes.
///
/// Pure. See RFC 6455, 4.2; Notices.md, "Connecting"; Reliability.md, "WebSocket rules".
package enum WebSocketHandshake {
    static let subprotocol = "zonecast.notices.1"

    /// The decision on a handshake.
    enum Verdict {
        /// Switch protocols.
        case accepted(Acceptance)
        case refused(SocketRefusal)
    }

    /// The content of the 101 response.
    struct Acceptance {
        /// The value of `Sec-WebSocket-Accept`.
        var accept: String
        /// Whether the response contains `subprotocol`, because the client offered it.
        var namesSubprotocol = false
    }

    static func check(_ plan: RequestPlan, for purpose: SocketPurpose) -> Verdict {
        guard plan.request.method == .get else {
            return refuse(405, "A WebSocket is opened by GET.", [.allow: "GET"])
        }
        let offer = SocketOffer(plan.request.headers)
        guard offer.requestsWebSocket else { return upgradeRequired }
        guard plan.requestsUpgrade else { return refuse(400, "A WebSocket is opened over HTTP/1.1.") }
        guard plan.bodyLength == 0 else { return refuse(400, "A WebSocket handshake has no body.") }
        guard offer.namesUpgrade else { return refuse(400, "The Connection field must name Upgrade.") }
        guard offer.versions == ["13"] else { return upgradeRequired }
        guard offer.keys.count == 1, let key = plan.webSocketKey ?? offer.keys.first, key.utf8.count == 24,
            Base64.decode(key)?.count == 16
        else { return refuse(400, "Sec-WebSocket-Key must be 16 bytes in base64.") }
        var acceptance = Acceptance(accept: accept(key))
        if purpose == .notices, offer.namesSubprotocols {
            guard offer.namesOurs else { return refuse(400, "The subprotocol here is \(subprotocol).") }
            acceptance.namesSubprotocol = true
        }
        return .accepted(acceptance)
    }

    /// The response to a page whose origin is not allowed; each has its own request ID.
    package static var originRefused: SocketRefusal {
        SocketRefusal(403, "Pages of this origin may not open a socket here.", [:])
    }

    /// Returns whether a page of `origin` was loaded from the host to which it connects.
    static func isOwn(origin: String, host: String) -> Bool {
        !host.isEmpty && (origin == "http://\(host)" || origin == "https://\(host)")
    }

    /// Computes the value of `Sec-WebSocket-Accept` (RFC 6455, 1.3).
    package static func accept(_ key: String) -> String {
        Base64.encode(Array(Insecure.SHA1.hash(data: Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8))))
    }

    private static var upgradeRequired: Verdict {
        refuse(
            426,
            "This path accepts only WebSocket version 13. A proxy in front of the relay must forward Upgrade.",
            [.upgrade: "websocket", .connection: "Upgrade", .secWebSocketVersion: "13"]
        )
    }

    private static func refuse(_ status: Int, _ reason: String, _ extra: HTTPFields = [:]) -> Verdict {
        .refused(SocketRefusal(status, reason, extra))
    }
}

/// A rejected handshake: its entry for metrics and logs, and its response.
package struct SocketRefusal {
    let refusedRequest: RefusedRequest
    private let extra: HTTPFields

    /// Generates the request ID.
    fileprivate init(_ status: Int, _ reason: String, _ extra: HTTPFields) {
        let error: ErrorCode = status == 403 ? .accessDenied : .badRequest
        refusedRequest = RefusedRequest(id: RequestID.random(), status: status, error: error, reason: reason)
        self.extra = extra
    }

    package var answer: APIResponse {
        var headers = extra
        headers[.contentType] = "application/json; charset=UTF-8"
        headers[.requestUUID] = refusedRequest.id
        let code = refusedRequest.error.rawValue
        let body =
            "{\"uuid\":\"\(refusedRequest.id)\",\"serverErrorCode\":\"\(code)\",\"reason\":\"\(refusedRequest.reason)\"}"
        return APIResponse(status: .init(code: refusedRequest.status), headers: headers, body: Array(body.utf8))
    }
}

/// The relevant header fields of a handshake, read in one pass.
private struct SocketOffer {
    var requestsWebSocket = false
    var namesUpgrade = false
    var versions: [String] = []
    var keys: [String] = []
    var namesSubprotocols = false
    /// Whether the offered subprotocols include the relay's.
    var namesOurs = false

    private typealias Item = Slice<UnsafeBufferPointer<UInt8>>

    init(_ headers: HTTPFields) {
        for field in headers {
            switch field.name {
            case .upgrade: Self.readList(field.value) { if Self.isWord($0, "websocket") { requestsWebSocket = true } }
            case .connection: Self.readList(field.value) { if Self.isWord($0, "upgrade") { namesUpgrade = true } }
            case .secWebSocketVersion: versions.append(field.value)
            case .secWebSocketKey: keys.append(field.value)
            case .secWebSocketProtocol:
                Self.readList(field.value) { item in
                    namesSubprotocols = true
                    if item.elementsEqual(WebSocketHandshake.subprotocol.utf8) { namesOurs = true }
                }
            default: break
            }
        }
    }

    /// Passes the items of a comma-separated list to `read`, without surrounding blanks.
    private static func readList(_ text: String, _ read: (Item) -> Void) {
        var text = text
        text.withUTF8 { bytes in
            for item in bytes.split(separator: UInt8(ascii: ",")) {
                var item = item.drop(while: isBlank)
                while let last = item.last, isBlank(last) { item.removeLast() }
                read(item)
            }
        }
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    /// Compares an item with a lower-case word, ignoring case.
    private static func isWord(_ item: Item, _ word: String) -> Bool {
        item.count == word.utf8.count
            && zip(item, word.utf8).allSatisfy { $0 == $1 || ((0x41...0x5A).contains($0) && $0 | 0x20 == $1) }
    }
}
