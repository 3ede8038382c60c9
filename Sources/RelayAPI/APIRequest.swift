package import HTTPTypes

/// One HTTP request as a value, with no socket behind it: what `Relay.respond(to:)` takes.
///
/// Whoever makes one has already held it to the limits of the reliability reference, section 3.
package struct APIRequest: Sendable {
    package var method: HTTPRequest.Method
    /// As it stood in the request line, still percent-encoded, without the query.
    package var path: String
    /// What followed `?`, still percent-encoded.
    package var query: String?
    package var headers: HTTPFields
    package var body: [UInt8]
    /// The peer's IP address, without port; only for limits that count by address.
    package var remoteAddress: String
    /// Has taken the body instead of `body`, where that was too large to be held.
    package var intake: (any BodyIntake)?

    package init(
        method: HTTPRequest.Method,
        path: String,
        query: String? = nil,
        headers: HTTPFields = [:],
        body: [UInt8] = [],
        remoteAddress: String = "127.0.0.1"
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body
        self.remoteAddress = remoteAddress
    }
}

/// The answer to one `APIRequest`.
package struct APIResponse: Sendable {
    package var status: HTTPResponse.Status
    package var headers: HTTPFields
    package var body: [UInt8]
    /// The body instead of `body`.
    package var file: FileBody?

    package init(status: HTTPResponse.Status, headers: HTTPFields = [:], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }
}
