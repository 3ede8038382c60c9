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
    package var formerZone: ZoneDeletionReason?
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

/// The server error codes of the wire format.
///
/// See Errors.md, "Codes".
package enum ErrorCode: String, Hashable, Sendable, CaseIterable {
    case accessDenied = "ACCESS_DENIED"
    case atomicError = "ATOMIC_ERROR"
    case authenticationFailed = "AUTHENTICATION_FAILED"
    case authenticationRequired = "AUTHENTICATION_REQUIRED"
    case badRequest = "BAD_REQUEST"
    case conflict = "CONFLICT"
    case exists = "EXISTS"
    case internalError = "INTERNAL_ERROR"
    case notFound = "NOT_FOUND"
    case quotaExceeded = "QUOTA_EXCEEDED"
    case throttled = "THROTTLED"
    case tryAgainLater = "TRY_AGAIN_LATER"
    case uniqueFieldError = "UNIQUE_FIELD_ERROR"
    case validatingReferenceError = "VALIDATING_REFERENCE_ERROR"
    case zoneNotFound = "ZONE_NOT_FOUND"

    /// The HTTP status if the whole request fails with this code.
    package var status: Int {
        switch self {
        case .atomicError, .badRequest: 400
        case .authenticationFailed: 401
        case .accessDenied: 403
        case .notFound, .zoneNotFound: 404
        case .conflict, .exists, .uniqueFieldError: 409
        case .validatingReferenceError: 412
        case .quotaExceeded: 413
        case .authenticationRequired: 421
        case .throttled: 429
        case .internalError: 500
        case .tryAgainLater: 503
        }
    }
}

/// More specific codes, sent in addition to the wire format's codes for clients that know them.
///
/// See Errors.md, "Error dictionary".
package enum FineErrorCode: String, Hashable, Sendable, CaseIterable {
    case changeTokenExpired = "CHANGE_TOKEN_EXPIRED"
    case limitExceeded = "LIMIT_EXCEEDED"
    case userDeletedZone = "USER_DELETED_ZONE"
    case zoneBusy = "ZONE_BUSY"
    case alreadyShared = "ALREADY_SHARED"
    case tooManyParticipants = "TOO_MANY_PARTICIPANTS"
    case participantMayNeedVerification = "PARTICIPANT_MAY_NEED_VERIFICATION"
    case participantAlreadyInvited = "PARTICIPANT_ALREADY_INVITED"
    /// The relay does not know whether a write was committed, because its disk failed.
    case serverResponseLost = "SERVER_RESPONSE_LOST"
}
