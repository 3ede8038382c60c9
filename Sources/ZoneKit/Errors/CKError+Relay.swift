import Foundation
package import Records
package import Wire

/// The place of an error in a response: a code can have different meanings for a request and for one of its items.
package enum ErrorLevel: Sendable {
    case request
    case item
}

/// The mapping from the relay's errors to CloudKit's.
///
/// See Errors.md, "Codes".
extension CKError {
    package init(_ failure: ClientResponse.Failure, at level: ErrorLevel) {
        let error = failure.error
        var info: [String: Any] = [NSLocalizedDescriptionKey: error.reason]
        if let retryAfter = error.retryAfter { info[CKErrorRetryAfterKey] = NSNumber(value: retryAfter.inSeconds) }
        if let uuid = failure.uuid { info[CKError.requestUUIDKey] = uuid }
        if let redirectURL = error.redirectURL { info[CKError.signInURLKey] = redirectURL }
        if let loss = error.formerZone { info[CKError.formerZoneKey] = NSNumber(value: loss.rawValue) }
        self.init(Self.code(of: error, at: level), userInfo: info)
    }

    /// The key in `userInfo` of `changeTokenExpired` for the reason why the token's zone ended: the raw value of a
    /// `ZoneLoss`.
    private static let formerZoneKey = "FormerZone"

    /// The reason why the zone of a rejected token ended, if another zone has its name now.
    package var formerZone: ZoneLoss? {
        (userInfo[Self.formerZoneKey] as? NSNumber).flatMap { ZoneLoss(rawValue: $0.int64Value) }
    }

    /// The key in `userInfo` for the request's ID in the relay's log, a string.
    package static let requestUUIDKey = "RequestUUID"
    /// The key in `userInfo` of `notAuthenticated` for the URL of the sign-in page, a string.
    package static let signInURLKey = "SignInURL"

    /// The key in `userInfo` of `notAuthenticated` if the app has reported that no user is signed in.
    private static let nobodyKey = "NobodySignedIn"

    /// Whether the app has reported that no user is signed in.
    ///
    /// If `false`, the relay has rejected the user's credential.
    var saysNobodySignedIn: Bool { userInfo[Self.nobodyKey] != nil }

    /// The ID of the failed request in the relay's log; `nil` if no relay has responded.
    public var requestUUID: String? { userInfo[Self.requestUUIDKey] as? String }

    /// With `notAuthenticated`, the URL of the page where a user can sign in, if the relay has one.
    public var signInURL: URL? { (userInfo[Self.signInURLKey] as? String).flatMap { URL(string: $0) } }

    package static func code(of error: RelayError, at level: ErrorLevel) -> Code {
        if let fine = error.fineCode { return code(of: fine) }
        return switch error.code {
        case .accessDenied: .permissionFailure
        case .atomicError: .batchRequestFailed
        case .authenticationFailed, .authenticationRequired: .notAuthenticated
        case .badRequest: .invalidArguments
        case .conflict, .exists: .serverRecordChanged
        case .internalError: .internalError
        // Errors of items are reported individually, so a whole request that was not found concerns its container.
        case .notFound: level == .item ? .unknownItem : .badContainer
        case .quotaExceeded: .quotaExceeded
        case .throttled: .requestRateLimited
        case .tryAgainLater: .serviceUnavailable
        case .uniqueFieldError: .constraintViolation
        case .validatingReferenceError: .referenceViolation
        case .zoneNotFound: .zoneNotFound
        }
    }

    private static func code(of fine: FineErrorCode) -> Code {
        switch fine {
        case .changeTokenExpired: .changeTokenExpired
        case .limitExceeded: .limitExceeded
        case .userDeletedZone: .userDeletedZone
        case .zoneBusy: .zoneBusy
        case .alreadyShared: .alreadyShared
        case .tooManyParticipants: .tooManyParticipants
        case .participantMayNeedVerification: .participantMayNeedVerification
        case .participantAlreadyInvited: .participantAlreadyInvited
        case .serverResponseLost: .serverResponseLost
        }
    }

    /// Creates an error for a request without a response.
    package init(_ error: TransportError, isWrite: Bool) {
        switch error {
        case .offline: self.init(.networkUnavailable)
        case .unreachable(let why): self.init(.networkFailure, "The relay could not be reached: \(why)")
        case .answerLost(let why) where isWrite:
            self.init(
                .serverResponseLost,
                "The connection was lost before the response; the relay may have executed the request: \(why)"
            )
        case .answerLost(let why): self.init(.networkFailure, "The connection was lost before the response: \(why)")
        case .cancelled: self.init(.operationCancelled)
        }
    }

    /// Creates an error for an app that could not provide a token for the sign-in.
    ///
    /// It says nothing about the signed-in user.
    init(ofSignIn error: any Error) {
        let reason = "The app provided no token for the sign-in: \(error)"
        if let error = error as? CKError {
            self = error.code == .notAuthenticated ? error.adding(Self.nobodyKey, NSNumber(value: true)) : error
        } else if error is CancellationError {
            self.init(.operationCancelled)
        } else if (error as NSError).domain == NSURLErrorDomain {
            self.init(.networkFailure, reason, underlying: error)
        } else {
            self.init(.accountTemporarilyUnavailable, reason, underlying: error)
        }
    }

    /// Creates an error for a response that does not come from a relay, such as a proxy's error page or an empty body.
    ///
    /// If a proxy has timed out, the relay may have executed a write.
    package init(foreign response: RelayResponse, isWrite: Bool = false) {
        let code: Code =
            switch response.status {
            // A proxy requires authentication; the relay itself has said nothing about the user.
            case 401, 403, 407: .accountTemporarilyUnavailable
            // Status codes from 520 are used by reverse proxies and content delivery networks.
            case 408, 502, 503, 504, 520...530: .serviceUnavailable
            case 413, 414, 431: .limitExceeded
            case 421: .notAuthenticated
            case 429: .requestRateLimited
            case 500: .internalError
            default: .serverRejectedRequest
            }
        let reason =
            "The response (HTTP \(response.status)) does not come from a relay. Check its address and any proxy before it."
        let isOpen = isWrite && code == .serviceUnavailable
        self = CKError(code, reason)
            .adding(CKErrorRetryAfterKey, response.wait.map { NSNumber(value: $0.inSeconds) })
            .adding(Self.outcomeIsOpenKey, isOpen ? NSNumber(value: true) : nil)
    }

    /// Creates an error for a malformed response, from an incompatible relay or because of a bug.
    package init(_ error: JSONError) {
        self.init(.internalError, "The relay's response cannot be parsed: \(error.description)", underlying: error)
    }
}
