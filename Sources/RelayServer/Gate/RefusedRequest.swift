package import Records

/// A request that was turned away before anybody saw what it asks for: what may be counted and written down of it.
package struct RefusedRequest: Sendable {
    /// The `uuid` of the answer.
    package var id: String
    package var status: Int
    package var error: ErrorCode
    /// What the answer says; holds nothing that the client sent.
    package var reason: String

    package init(id: String, status: Int, error: ErrorCode, reason: String) {
        self.id = id
        self.status = status
        self.error = error
        self.reason = reason
    }
}
