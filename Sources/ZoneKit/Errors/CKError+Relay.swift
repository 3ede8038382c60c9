import Foundation
package import Records
package import Wire

/// Where a relay's error stood: the same code means another thing for a whole request than for one of its items.
package enum ErrorLevel: Sendable {
    case request
    case item
}

/// The one table from the wire's errors to CloudKit's.
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

    /// In `userInfo` of `changeTokenExpired`: how the zone ended that the token is of, the raw value of a `ZoneLoss`.
    private static let formerZoneKey = "FormerZone"

    /// How the zone ended that the refused token is of, where another has its name now.
    package var formerZone: ZoneLoss? {
        (userInfo[Self.formerZoneKey] as? NSNumber).flatMap { ZoneLoss(rawValue: $0.int64Value) }
    }

    /// In `userInfo`: the number under which the relay's log has the request, as a string.
    package static let requestUUIDKey = "RequestUUID"
    /// In `userInfo` of `notAuthenticated`: the address of the page to sign in at, as a string.
    package static let signInURLKey = "SignInURL"

    /// In `userInfo` of `notAuthenticated`: the program itself says that nobody has signed in.
    private static let nobodyKey = "NobodySignedIn"

    /// Nobody has signed in, by the word of the program: not that the relay no longer takes what somebody signed in with.
    var saysNobodySignedIn: Bool { userInfo[Self.nobodyKey] != nil }

    /// The number under which the relay's log has the failed request; `nil` where no relay answered.
    public var requestUUID: String? { userInfo[Self.requestUUIDKey] as? String }

    /// With `notAuthenticated`: the address of the page at which a person can sign in, where the relay has one.
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
        // Items are reported one by one, so what a whole request did not find is its container.
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

    /// What it means that there was no answer.
    package init(_ error: TransportError, isWrite: Bool) {
        switch error {
        case .offline: self.init(.networkUnavailable)
        case .unreachable(let why): self.init(.networkFailure, "The relay could not be reached: \(why)")
        case .answerLost(let why) where isWrite:
            self.init(
                .serverResponseLost,
                "The connection was lost before the answer, so the request may have been carried out: \(why)"
            )
        case .answerLost(let why): self.init(.networkFailure, "The connection was lost before the answer: \(why)")
        case .cancelled: self.init(.operationCancelled)
        }
    }

    /// What keeps a program from coming by a token to sign in with: of who has signed in it says nothing.
    init(ofSignIn error: any Error) {
        let reason = "There was no token to sign in with: \(error)"
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

    /// An error answer that is not the relay's own: a proxy's page, or an empty body.
    ///
    /// Who has waited in vain for a relay does not know what it has done: the outcome of a write is open then.
    package init(foreign response: RelayResponse, isWrite: Bool = false) {
        let code: Code =
            switch response.status {
            // A proxy wants something: the relay itself, which knows the user, has said nothing.
            case 401, 403, 407: .accountTemporarilyUnavailable
            // From 520 on: those that stand in front of a whole site have more words for it.
            case 408, 502, 503, 504, 520...530: .serviceUnavailable
            case 413, 414, 431: .limitExceeded
            case 421: .notAuthenticated
            case 429: .requestRateLimited
            case 500: .internalError
            default: .serverRejectedRequest
            }
        let reason =
            "The answer (HTTP \(response.status)) does not come from a relay. Check the address, and any proxy before it."
        let isOpen = isWrite && code == .serviceUnavailable
        self = CKError(code, reason)
            .adding(CKErrorRetryAfterKey, response.wait.map { NSNumber(value: $0.inSeconds) })
            .adding(Self.outcomeIsOpenKey, isOpen ? NSNumber(value: true) : nil)
    }

    /// An answer that makes no sense: a relay of another make, or a bug.
    package init(_ error: JSONError) {
        self.init(.internalError, "The relay's answer cannot be read: \(error.description)", underlying: error)
    }
}
