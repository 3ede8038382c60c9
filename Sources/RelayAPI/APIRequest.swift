package import HTTPTypes
package import Records
package import RelayCore
import Wire

/// One HTTP request as a value, independent of a socket; the argument of `Relay.respond(to:)`.
///
/// The creator enforces the limits of Reliability.md, "Limits".
package struct APIRequest: Sendable {
    package private(set) var head: RequestHead
    package var body: [UInt8]
    /// Receives the body instead of `body` for uploads, which are too large to buffer.
    package var intake: (any BodyIntake)?
    /// The trace of this request, if it is sampled.
    package var trace: RequestTrace?

    package init(head: RequestHead, body: [UInt8] = []) {
        self.head = head
        self.body = body
    }

    package init(
        method: HTTPRequest.Method,
        path: String,
        query: String? = nil,
        headers: HTTPFields = [:],
        body: [UInt8] = [],
        remoteAddress: String = "127.0.0.1"
    ) {
        self.init(
            head: RequestHead(
                .init(method: method, path: path, query: query, headers: headers, remoteAddress: remoteAddress)
            ),
            body: body
        )
    }

    package var method: HTTPRequest.Method {
        get { head.content.method }
        set { change(\.method, to: newValue) }
    }

    package var path: String {
        get { head.content.path }
        set { change(\.path, to: newValue) }
    }

    package var query: String? {
        get { head.content.query }
        set { change(\.query, to: newValue) }
    }

    package var headers: HTTPFields {
        get { head.content.headers }
        set { change(\.headers, to: newValue) }
    }

    /// Whether this is a long poll, which may be abandoned when its client disconnects.
    package var isPoll: Bool { path.hasSuffix(LongPollService.pathEnd) }

    /// The endpoint that the router found; `nil` before it has looked, and for paths that name none.
    package var match: RouteMatch? { head.parsedHead.match }

    package var remoteAddress: String {
        get { head.content.remoteAddress }
        set { change(\.remoteAddress, to: newValue) }
    }

    private mutating func change<Value>(_ part: WritableKeyPath<RequestHead.Content, Value>, to value: Value) {
        var content = head.content
        content[keyPath: part] = value
        head = RequestHead(content)
    }
}

/// The response to one `APIRequest`.
package struct APIResponse: Sendable {
    package var status: HTTPResponse.Status
    /// The header fields common to all wire responses; written before `otherHeaders`.
    package var commonFields: CommonHeaderFields?
    /// All header fields that are not in `commonFields`.
    package var otherHeaders: HTTPFields
    /// The JSON body as `JSONWriter` produced it; `nil` if the body is not JSON or was replaced through `body`.
    private var text: JSONText?
    private var bodyBytes: [UInt8]
    /// A file to send instead of `body`.
    package var file: FileBody?
    /// A stream of parts to send instead of `body` and `file`.
    package var parts: (any BodyParts)?
    /// The error code of a refused request; used for metrics only.
    package var errorCode: ErrorCode?
    /// The authenticated caller, if known; used for logs only.
    package var caller: Caller?

    package init(status: HTTPResponse.Status, headers: HTTPFields = [:], body: [UInt8] = []) {
        self.status = status
        otherHeaders = headers
        bodyBytes = body
    }

    /// Creates a JSON response that is sent from the buffer it was written to, without a copy.
    init(status: HTTPResponse.Status, text: JSONText) {
        self.status = status
        otherHeaders = Self.noHeaders
        bodyBytes = []
        self.text = text
    }

    private static let noHeaders = HTTPFields()

    /// The buffered body.
    ///
    /// Copies it if it is JSON.
    package var body: [UInt8] {
        get { text?.bytes ?? bodyBytes }
        set {
            text = nil
            bodyBytes = newValue
        }
    }

    package var bodyLength: Int { text?.count ?? bodyBytes.count }

    /// The length in bytes of the body that is sent: `file`, `parts` or `body`.
    package var sentLength: Int { file.map { Int($0.length) } ?? parts.map { Int($0.length) } ?? bodyLength }

    /// Whether the body is streamed from `file` or `parts`.
    package var isStreamed: Bool { file != nil || parts != nil }

    /// Calls `body` with the buffered bytes, which are valid only during the call.
    package func withBody<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        if let text { return try text.withBytes(body) }
        return try bodyBytes.withUnsafeBytes(body)
    }

    /// All header fields.
    package var headers: HTTPFields {
        get { commonFields.map { HTTPFields($0.fields + otherHeaders) } ?? otherHeaders }
        set {
            commonFields = nil
            otherHeaders = newValue
        }
    }
}

/// The header fields that every wire response has.
///
/// Stored as values instead of an `HTTPFields` list, which would cost allocations for each response.
package struct CommonHeaderFields: Sendable {
    /// The request identifier.
    package var id: RequestIdentifier
    /// A new web auth token for the client, if one is issued with this response.
    package var webToken: String?

    package var requestID: String { id.text }

    init(id: RequestIdentifier, webToken: String?) {
        self.id = id
        self.webToken = webToken
    }

    /// The bytes before the value of the request identifier.
    package static let start: StaticString =
        "Content-Type: application/json; charset=UTF-8\r\nX-Responding-Instance: zonecast\r\nX-Apple-Request-UUID: "

    /// The bytes between the request identifier and the web auth token.
    package static let beforeWebToken: StaticString = "\r\nX-Apple-CloudKit-Web-Auth-Token: "

    fileprivate var fields: [HTTPField] {
        var fields = [
            HTTPField(name: .contentType, value: "application/json; charset=UTF-8"),
            HTTPField(name: .respondingInstance, value: "zonecast"),
            HTTPField(name: .requestUUID, value: requestID),
        ]
        if let webToken { fields.append(HTTPField(name: .webAuthToken, value: webToken)) }
        return fields
    }
}
