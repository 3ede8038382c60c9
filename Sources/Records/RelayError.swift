/// The reason why the relay rejected a request or one of its items.
///
/// See Errors.md, "Error dictionary".
package struct RelayError: Error, Hashable, Sendable {
    /// The part that code can switch over.
    package var code: ErrorCode
    /// One sentence that a person can act on.
    ///
    /// Contains no field values. The wording is stable, since some clients match it.
    package var reason: String
    /// A more specific code, as an extension of the wire's codes.
    package var fineCode: FineErrorCode?
    /// The time to wait before a retry; `nil` if a retry cannot help.
    package var retryAfter: Duration?
    /// The sign-in URL; only with `authenticationRequired`.
    package var redirectURL: String?
    /// With `changeTokenExpired`: how the token's zone ended, if another zone has its name now.
    package var formerZone: ZoneLoss?
    /// The HTTP status if it differs from the code's (a body that is too large is always 413).
    package var status: Int?

    package init(
        _ code: ErrorCode,
        _ reason: String,
        fineCode: FineErrorCode? = nil,
        retryAfter: Duration? = nil,
        redirectURL: String? = nil,
        status: Int? = nil
    ) {
        self.code = code
        self.reason = reason
        self.fineCode = fineCode
        self.retryAfter = retryAfter
        self.redirectURL = redirectURL
        self.status = status
    }

    package static func badRequest(_ reason: String) -> RelayError { RelayError(.badRequest, reason) }

    /// Returns a bad request that concerns size only; `limitExceeded` in native clients.
    package static func tooLarge(_ reason: String) -> RelayError {
        RelayError(.badRequest, reason, fineCode: .limitExceeded)
    }
}
