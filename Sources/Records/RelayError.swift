/// Why the relay refused a request, or one item of it.
///
/// See Errors.md, "Error dictionary".
package struct RelayError: Error, Hashable, Sendable {
    /// The part that code may switch over.
    package var code: ErrorCode
    /// One sentence a person can act on.
    ///
    /// Never holds field values; worded stably, since clients match on some.
    package var reason: String
    /// Our finer code, where the wire has none of its own.
    package var fineCode: FineErrorCode?
    /// How long to wait before trying again; `nil` where trying again cannot help.
    package var retryAfter: Duration?
    /// Where to sign in; only with `authenticationRequired`.
    package var redirectURL: String?
    /// With `changeTokenExpired`: how the zone ended that the token is of, where another has its name now.
    package var formerZone: ZoneLoss?
    /// The HTTP status where it is not the code's own (a body too large is 413 however it is coded).
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

    /// A bad request for its size alone: natively `limitExceeded`.
    package static func tooLarge(_ reason: String) -> RelayError {
        RelayError(.badRequest, reason, fineCode: .limitExceeded)
    }
}
