package import Records

/// A request that was rejected before it was routed, as reported to metrics and logs.
package struct RefusedRequest: Sendable {
    /// The response's `uuid`.
    package var id: String
    package var status: Int
    package var error: ErrorCode
    /// The response's text; contains nothing that the client sent.
    package var reason: String

    package init(id: String, status: Int, error: ErrorCode, reason: String) {
        self.id = id
        self.status = status
        self.error = error
        self.reason = reason
    }
}
