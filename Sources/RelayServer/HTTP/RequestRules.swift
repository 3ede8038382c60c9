package import HTTPTypes
import NIOHTTP1
package import RelayAPI

/// A request's framing, determined from its head.
package struct RequestPlan {
    package var request: APIRequest
    /// The declared length; `nil` for a chunked body, 0 for none.
    package var bodyLength: Int?
    var keepAlive: Bool
    /// Whether the client waits for `100 Continue` before it sends the body.
    var expectsContinue: Bool
    /// Whether the fields request another protocol, which the handshake validates.
    var requestsUpgrade: Bool
    var isHTTP10: Bool
    /// The purpose of the socket that its path opens; `nil` for other paths.
    package var purpose: SocketPurpose?
    /// Whether a head that differs only in the body's length, or in the key of a WebSocket handshake, means the same.
    var isCacheable: Bool
    /// The key of the handshake, in place of that in `request`, if the head was recognized.
    var webSocketKey: String?

    package init(
        request: APIRequest,
        bodyLength: Int? = nil,
        keepAlive: Bool,
        expectsContinue: Bool,
        requestsUpgrade: Bool,
        isHTTP10: Bool,
        purpose: SocketPurpose? = nil,
        isCacheable: Bool,
        webSocketKey: String? = nil
    ) {
        self.request = request
        self.bodyLength = bodyLength
        self.keepAlive = keepAlive
        self.expectsContinue = expectsContinue
        self.requestsUpgrade = requestsUpgrade
        self.isHTTP10 = isHTTP10
        self.purpose = purpose
        self.isCacheable = isCacheable
        self.webSocketKey = webSocketKey
    }

    /// Whether the body is processed as it arrives.
    var isUpload: Bool { request.intake != nil }
}

/// The rules for request heads that NIO's HTTP parser does not enforce.
///
/// The parser has already rejected duplicate and contradictory lengths, folded lines, bare line feeds, blanks before a
/// colon, NUL and unknown versions. Pure; the caller passes the client's address. See Reliability.md, "Malformed HTTP".
package struct RequestRules {
    let limits: ServerLimits
    let trustedProxies: [AddressRange]
    let testDoor: Bool

    package init(limits: ServerLimits, trustedProxies: [AddressRange], testDoor: Bool = false) {
        self.limits = limits
        self.trustedProxies = trustedProxies
        self.testDoor = testDoor
    }

    func plan(_ head: HTTPRequestHead, peer: String) throws(Refusal) -> RequestPlan {
        guard head.version == .http1_1 || head.version == .http1_0 else { throw .versionUnknown }
        let method = try Self.method(head.method)
        let (path, query) = try Self.target(head.uri, method: method)
        var fields = FieldScan()
        try fields.read(head.headers, limits: limits)
        let isHTTP10 = head.version == .http1_0
        guard fields.hosts == 1 || (fields.hosts == 0 && isHTTP10) else {
            throw .malformed("it needs exactly one Host field")
        }
        guard fields.hosts == 0 || Self.isHost(fields.host) else { throw .malformed("its Host is not a host") }
        let length = try bodyLength(fields, limit: bodyLimit(path), isHTTP10: isHTTP10)
        let hasBody = length != 0
        if hasBody, let encoding = fields.contentEncoding, !encoding.isEmpty, encoding != "identity" {
            throw .encodingNotAccepted
        }
        var expectsContinue = false
        if let expectation = fields.expect {
            guard expectation.lowercased() == "100-continue" else { throw .expectationNotMet }
            expectsContinue = hasBody && !isHTTP10
        }
        let purpose = SocketPurpose.of(path: path, testDoor: testDoor)
        return RequestPlan(
            request: APIRequest(
                head: RequestHead(
                    .init(
                        method: method,
                        path: path,
                        query: query,
                        headers: fields.kept,
                        remoteAddress: fields.isForwarded ? client(behind: peer, fields) : peer
                    )
                )
            ),
            bodyLength: length,
            // The parser reads nothing after a request with an `Upgrade` field.
            keepAlive: !fields.hasUpgrade && !fields.saysClose && (fields.saysKeepAlive || !isHTTP10),
            expectsContinue: expectsContinue,
            requestsUpgrade: fields.hasUpgrade && !isHTTP10,
            isHTTP10: isHTTP10,
            purpose: purpose,
            isCacheable: !isHTTP10 && length != nil && fields.isPlain && !isUpload(path)
                && fields.hasUpgrade == (purpose != nil)
        )
    }

    /// Methods that HTTP defines are passed on to the endpoints, which answer 405 if they do not support one.
    private static func method(_ method: HTTPMethod) throws(Refusal) -> HTTPRequest.Method {
        switch method {
        case .GET: return .get
        case .POST: return .post
        case .OPTIONS: return .options
        case .HEAD: return .head
        case .PUT: return .put
        case .PATCH: return .patch
        case .DELETE: return .delete
        case .TRACE, .CONNECT: throw .methodNotServed
        default: throw .methodUnknown
        }
    }

    /// Splits a target into path and query (RFC 9112, 3.2); the absolute form loses its scheme and authority.
    static func target(_ target: String, method: HTTPRequest.Method) throws(Refusal) -> (String, String?) {
        let bytes = target.utf8
        guard bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") }) else {
            throw .malformed("its target contains a character that must be escaped")
        }
        var rest = bytes[...]
        if bytes.first != UInt8(ascii: "/") {
            if target == "*", method == .options { return ("*", nil) }
            let lowered = target.prefix(8).lowercased()
            guard let scheme = ["http://", "https://"].first(where: { lowered.hasPrefix($0) }) else {
                throw .malformed("its target is neither a path nor a URL")
            }
            rest = rest.dropFirst(scheme.utf8.count)
            let authority = rest.prefix { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
            guard !authority.isEmpty else { throw .malformed("its target names no host") }
            rest = rest[authority.endIndex...]
            guard !rest.isEmpty else { return ("/", nil) }
        }
        guard let mark = rest.firstIndex(of: UInt8(ascii: "?")) else { return (String(Substring(rest)), nil) }
        let path = String(Substring(rest[..<mark]))
        return (path.isEmpty ? "/" : path, String(Substring(rest[rest.index(after: mark)...])))
    }

    /// Uploads are processed as they arrive, so they may be larger than buffered bodies.
    private func bodyLimit(_ path: String) -> Int {
        isUpload(path) ? max(limits.upload, limits.body) : limits.body
    }

    /// Returns whether a path may be that of an upload; the upload URL itself decides.
    package func isUpload(_ path: String) -> Bool {
        guard !path.utf8.starts(with: "/database/".utf8) else { return false }
        var path = path
        return path.withUTF8 { bytes in
            bytes.indices.contains { index in
                bytes[index] == UInt8(ascii: "/") && bytes[index...].starts(with: "/asset/1/upload/".utf8)
            }
        }
    }

    private func bodyLength(_ fields: FieldScan, limit: @autoclosure () -> Int, isHTTP10: Bool) throws(Refusal) -> Int?
    {
        if fields.transferEncodings > 0 {
            guard fields.contentLengths == 0 else { throw .malformed("it has both a length and a transfer coding") }
            guard !isHTTP10 else { throw .malformed("HTTP/1.0 has no transfer codings") }
            guard fields.transferEncodings == 1, fields.transferEncoding.lowercased() == "chunked" else {
                throw .malformed("the only transfer coding accepted is chunked")
            }
            return nil
        }
        guard fields.contentLengths > 0 else { return 0 }
        guard fields.contentLengths == 1, let length = Self.length(fields.contentLength) else {
            throw .malformed("its length is not a number")
        }
        guard length <= limit() else { throw .bodyTooLarge }
        return length
    }

    /// Parses digits only: no sign, no blanks, no list; returns `nil` also for a number that overflows.
    private static func length(_ text: String) -> Int? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        guard let length = Int(text) else { return nil }
        return length
    }

    /// Returns the client's address, if a trusted proxy reports it.
    ///
    /// A proxy that writes one of the two fields passes the other one on as its client wrote it. `X-Forwarded-For` takes
    /// precedence, since nearly all proxies write that one.
    private func client(behind peer: String, _ fields: FieldScan) -> String {
        guard let address = IPAddress(peer), trustedProxies.contains(where: { $0.contains(address) }) else {
            return peer
        }
        let hops =
            fields.forwardedFor.isEmpty
            ? ForwardedHops(forwarded: fields.forwarded) : ForwardedHops(forwardedFor: fields.forwardedFor)
        return hops.client(behind: address, trusting: trustedProxies).description
    }
}

/// One pass over the header fields, which collects the fields for the endpoints and those needed for framing.
private struct FieldScan {
    var kept = HTTPFields()
    var hosts = 0
    var host = ""
    var contentLengths = 0
    var contentLength = ""
    var transferEncodings = 0
    var transferEncoding = ""
    var saysClose = false
    var saysKeepAlive = false
    var contentEncoding: String?
    var expect: String?
    var hasUpgrade = false
    var forwardedFor: [String] = []
    var forwarded: [String] = []

    var isForwarded: Bool { !forwardedFor.isEmpty || !forwarded.isEmpty }

    /// Whether no field affects whether or how a body is sent, except for its length.
    var isPlain: Bool { transferEncodings == 0 && contentEncoding == nil && expect == nil }

    mutating func read(_ headers: HTTPHeaders, limits: ServerLimits) throws(Refusal) {
        var total = 0
        var count = 0
        kept.reserveCapacity(min(headers.count, limits.headerCount))
        for (name, value) in headers {
            let size = name.utf8.count + value.utf8.count
            total += size
            count += 1
            guard size <= limits.headerField, total <= limits.headerList, count <= limits.headerCount else {
                throw .headersTooLarge
            }
            guard let fieldName = HTTPField.Name(name) else { throw .malformed("a field's name is not a token") }
            guard value.utf8.allSatisfy({ ($0 >= 0x20 && $0 != 0x7F) || $0 == 0x09 }) else {
                throw .malformed("a field contains a control character")
            }
            let field = HTTPField(name: fieldName, value: value)
            kept.append(field)
            note(field)
        }
    }

    private mutating func note(_ field: HTTPField) {
        switch field.name {
        case .hostField:
            hosts += 1
            host = field.value
        case .contentLength:
            contentLengths += 1
            contentLength = field.value
        case .transferEncoding:
            transferEncodings += 1
            transferEncoding = field.value
        // The parser treats both fields alike, and must agree with these rules on which request is the last.
        case .connection, .proxyConnection: noteConnection(field.value.lowercased())
        // If there are two, both count.
        case .contentEncoding: contentEncoding = Self.joined(contentEncoding, field.value.lowercased())
        case .expect: expect = Self.joined(expect, field.value)
        case .upgrade: hasUpgrade = true
        case .forwardedFor: forwardedFor.append(field.value)
        case .forwarded: forwarded.append(field.value)
        default: break
        }
    }

    private static func joined(_ earlier: String?, _ value: String) -> String {
        earlier.map { $0 + "," + value } ?? value
    }

    private mutating func noteConnection(_ value: String) {
        switch value {
        case "close": saysClose = true
        case "keep-alive": saysKeepAlive = true
        default:
            let options = value.split(separator: ",").map { $0.trimmingBlanks() }
            saysClose = saysClose || options.contains("close")
            saysKeepAlive = saysKeepAlive || options.contains("keep-alive")
        }
    }
}

extension HTTPField.Name {
    /// `HTTPField.Name` has no constant for `Host`, which the library represents as the request's authority.
    static let hostField = HTTPField.Name.known("Host")
    static let forwardedFor = HTTPField.Name.known("X-Forwarded-For")
    static let forwarded = HTTPField.Name.known("Forwarded")
    static let proxyConnection = HTTPField.Name.known("Proxy-Connection")

    /// Returns a constant name.
    package static func known(_ name: String) -> HTTPField.Name {
        guard let made = HTTPField.Name(name) else { preconditionFailure("\(name) is not a field name") }
        return made
    }
}

extension Substring {
    /// Returns the text without blanks and tabs at both ends.
    func trimmingBlanks() -> String {
        var rest = self
        while let first = rest.utf8.first, first == 0x20 || first == 0x09 { rest.removeFirst() }
        while let last = rest.utf8.last, last == 0x20 || last == 0x09 { rest.removeLast() }
        return String(rest)
    }
}

/// Validation of the `Host` field (RFC 9110, 7.2).
extension RequestRules {
    /// Returns whether a text is a host with an optional port.
    ///
    /// Rejects everything that another server could interpret as a path, a user or a second host.
    static func isHost(_ text: String) -> Bool {
        let bytes = text.utf8[...]
        guard bytes.first == UInt8(ascii: "[") else {
            let end = bytes.firstIndex(of: UInt8(ascii: ":")) ?? bytes.endIndex
            return isName(bytes[..<end]) && isPort(bytes[end...])
        }
        let address = bytes.dropFirst().prefix { $0 != UInt8(ascii: "]") }
        let isClosed = address.endIndex < bytes.endIndex
        return isClosed && address.contains(UInt8(ascii: ":"))
            && address.split(separator: UInt8(ascii: ":")).allSatisfy { isName($0) }
            && isPort(bytes[address.endIndex...].dropFirst())
    }

    private static func isName(_ bytes: Substring.UTF8View) -> Bool {
        !bytes.isEmpty
            && bytes.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
                case UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "%"): true
                default: false
                }
            }
    }

    /// Returns whether a text is empty, or a colon with an optional port.
    private static func isPort(_ bytes: Substring.UTF8View) -> Bool {
        guard let colon = bytes.first else { return true }
        let digits = bytes.dropFirst()
        guard colon == UInt8(ascii: ":"), digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return false }
        return digits.isEmpty || (Int(Substring(digits)) ?? .max) <= 65_535
    }
}
