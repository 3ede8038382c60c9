package import HTTPTypes
package import Records
package import RelayCore
import Wire

/// One HTTP request as a value, with no socket behind it: what `Relay.respond(to:)` takes.
///
/// Whoever makes one has already held it to the limits of Reliability.md, "Limits".
package struct APIRequest: Sendable {
    package private(set) var head: RequestHead
    package var body: [UInt8]
    /// Has taken the body instead of `body`, where that was too large to be held.
    package var intake: (any BodyIntake)?
    /// What is written down of it, where it is one of those.
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

    /// Whether it waits for a notice: it is of use only as long as its peer is there.
    package var isPoll: Bool { Couriers.home(ofPath: path) != nil }

    /// What the path asks for; throws for one that is no operation's.
    package var operation: Result<Route.Operation, RelayError> { head.reading.route.map(\.operation) }

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

/// The answer to one `APIRequest`.
package struct APIResponse: Sendable {
    package var status: HTTPResponse.Status
    /// What answers of the wire carry, as values; they stand before the others.
    package var usual: UsualFields?
    /// All fields but the usual ones.
    package var otherHeaders: HTTPFields
    /// The body as it was written, where it is JSON of the wire and nobody has put another in its place.
    private var text: JSONText?
    private var held: [UInt8]
    /// The body instead of `body`.
    package var file: FileBody?
    /// The body instead of both.
    package var parts: (any BodyParts)?
    /// Why the request was refused, where it was; only for counting.
    package var errorCode: ErrorCode?
    /// Who asked, once that was known; only for logs.
    package var caller: Caller?

    package init(status: HTTPResponse.Status, headers: HTTPFields = [:], body: [UInt8] = []) {
        self.status = status
        otherHeaders = headers
        held = body
    }

    /// An answer in JSON, which is sent from where it was written.
    init(status: HTTPResponse.Status, text: JSONText) {
        self.status = status
        otherHeaders = Self.noHeaders
        held = []
        self.text = text
    }

    private static let noHeaders = HTTPFields()

    /// The body; of an answer in JSON a copy.
    package var body: [UInt8] {
        get { text?.bytes ?? held }
        set {
            text = nil
            held = newValue
        }
    }

    package var bodyLength: Int { text?.count ?? held.count }

    /// Bytes of what is sent as the body, wherever it is.
    package var sentLength: Int { file.map { Int($0.length) } ?? parts.map { Int($0.length) } ?? bodyLength }

    /// Whether the body comes piece by piece from elsewhere.
    package var isStreamed: Bool { file != nil || parts != nil }

    /// Lends the body's bytes for the length of the call.
    package func withBody<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        if let text { return try text.withBytes(body) }
        return try held.withUnsafeBytes(body)
    }

    /// All header fields.
    package var headers: HTTPFields {
        get { usual.map { HTTPFields($0.fields + otherHeaders) } ?? otherHeaders }
        set {
            usual = nil
            otherHeaders = newValue
        }
    }
}

/// The header fields that every answer of the wire has: written by the million, and so not kept as a list.
package struct UsualFields: Sendable {
    /// Names the request.
    package var id: RequestIdentifier
    /// A fresh web auth token, where one goes with the answer.
    package var webToken: String?

    package var requestID: String { id.text }

    init(id: RequestIdentifier, webToken: String?) {
        self.id = id
        self.webToken = webToken
    }

    /// What they begin with, up to the value of the one that names the request.
    package static let start: StaticString =
        "Content-Type: application/json; charset=UTF-8\r\nX-Responding-Instance: zonecast\r\nX-Apple-Request-UUID: "

    /// What a web auth token stands behind, with the line end before it.
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
