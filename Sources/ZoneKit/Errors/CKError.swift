public import Foundation
package import Records
package import Wire

/// The domain of all errors that this module throws.
public let CKErrorDomain = "CKErrorDomain"
/// The key in `userInfo` of a `partialFailure` for the errors by item ID, a dictionary.
public let CKPartialErrorsByItemIDKey = "CKPartialErrors"
/// The key in `userInfo` for the number of seconds to wait before a retry.
public let CKErrorRetryAfterKey = "CKRetryAfter"
/// The key in `userInfo` of a `serverRecordChanged` for the record on which the failed save was based.
public let CKRecordChangedErrorAncestorRecordKey = "AncestorRecord"
/// The key in `userInfo` of a `serverRecordChanged` for the relay's version of the record.
public let CKRecordChangedErrorServerRecordKey = "ServerRecord"
/// The key in `userInfo` of a `serverRecordChanged` for the record that could not be saved.
public let CKRecordChangedErrorClientRecordKey = "ClientRecord"
/// The key in `userInfo` of a `zoneNotFound` that tells whether the user has reset the encrypted data.
public let CKErrorUserDidResetEncryptedDataKey = "CKErrorUserDidResetEncryptedData"

/// An error of a call, with CloudKit's error codes and the details for handling it.
///
///     do { try await database.save(record) } catch let error as CKError where error.code == .serverRecordChanged {
///         let merged = merge(error.clientRecord, into: error.serverRecord)
///     }
///
/// `localizedDescription` says in one sentence what a person can do about the error. It contains no field values.
public struct CKError: CustomNSError, LocalizedError, Hashable, @unchecked Sendable {
    // Unchecked for the dictionary inside: it never changes, and contains only strings, numbers and this module's
    // types.

    /// The error as an `NSError`.
    public let _nsError: NSError

    /// Creates an error from an `NSError`.
    ///
    /// An error of another domain becomes the underlying error of an `internalError`.
    public init(_nsError error: NSError) {
        if error.domain == CKErrorDomain {
            _nsError = error
        } else {
            _nsError = NSError(
                domain: CKErrorDomain,
                code: Code.internalError.rawValue,
                userInfo: [
                    NSUnderlyingErrorKey: error,
                    NSLocalizedDescriptionKey: "An operation failed unexpectedly: \(error.localizedDescription)",
                    NSLocalizedRecoverySuggestionErrorKey: Code.internalError.recoverySuggestion,
                ]
            )
        }
    }

    /// Creates an error with a code.
    ///
    /// If `userInfo` contains no description or recovery suggestion, the error has those of its code.
    public init(_ code: Code, userInfo: [String: Any] = [:]) {
        var userInfo = userInfo
        // The app may pass an integer and read a `Double`.
        if let wait = userInfo[CKErrorRetryAfterKey] as? NSNumber { userInfo[CKErrorRetryAfterKey] = wait }
        if userInfo[NSLocalizedDescriptionKey] == nil { userInfo[NSLocalizedDescriptionKey] = code.explanation }
        if userInfo[NSLocalizedRecoverySuggestionErrorKey] == nil {
            userInfo[NSLocalizedRecoverySuggestionErrorKey] = code.recoverySuggestion
        }
        _nsError = NSError(domain: CKErrorDomain, code: code.rawValue, userInfo: userInfo)
    }

    /// The same as `CKErrorDomain`.
    public static var errorDomain: String { CKErrorDomain }

    /// The error code.
    public var code: Code { Code(rawValue: _nsError.code) ?? .internalError }
    /// The number of the error code.
    public var errorCode: Int { _nsError.code }
    /// Details about the error, under the keys of this module and of Foundation.
    public var userInfo: [String: Any] { _nsError.userInfo }
    /// The same as `userInfo`.
    public var errorUserInfo: [String: Any] { _nsError.userInfo }

    /// What happened, and what a person can do about it.
    public var errorDescription: String? {
        (_nsError.userInfo[NSLocalizedDescriptionKey] as? String) ?? code.explanation
    }

    /// What a person can do about the error.
    public var recoverySuggestion: String? {
        (_nsError.userInfo[NSLocalizedRecoverySuggestionErrorKey] as? String) ?? code.recoverySuggestion
    }

    /// `errorDescription`, followed by `recoverySuggestion` unless it is a part of the description.
    package var advice: String {
        let (description, remedy) = (errorDescription ?? "", recoverySuggestion ?? "")
        return description.contains(remedy) ? description : "\(description) \(remedy)"
    }

    /// With `partialFailure`, the error of each failed item, by its ID.
    public var partialErrorsByItemID: [AnyHashable: any Error]? {
        _nsError.userInfo[CKPartialErrorsByItemIDKey] as? [AnyHashable: any Error]
    }

    /// With `serverRecordChanged`, the record before the changes that could not be saved.
    public var ancestorRecord: CKRecord? { _nsError.userInfo[CKRecordChangedErrorAncestorRecordKey] as? CKRecord }
    /// With `serverRecordChanged`, the relay's version of the record.
    public var serverRecord: CKRecord? { _nsError.userInfo[CKRecordChangedErrorServerRecordKey] as? CKRecord }
    /// With `serverRecordChanged`, the record that could not be saved.
    public var clientRecord: CKRecord? { _nsError.userInfo[CKRecordChangedErrorClientRecordKey] as? CKRecord }

    /// The number of seconds to wait before a retry; `nil` if the relay has not specified it.
    public var retryAfterSeconds: Double? {
        (_nsError.userInfo[CKErrorRetryAfterKey] as? NSNumber)?.doubleValue
    }

    /// Returns whether code and details of two errors are equal.
    public static func == (a: CKError, b: CKError) -> Bool { a._nsError.isEqual(b._nsError) }

    /// A hash that is consistent with `==`.
    public func hash(into hasher: inout Hasher) { hasher.combine(_nsError.code) }
}

extension CKError {
    /// Creates an error with a description, one sentence that says what a person can do.
    package init(_ code: Code, _ explanation: String, underlying: (any Error)? = nil) {
        var info: [String: Any] = [NSLocalizedDescriptionKey: explanation]
        if let underlying { info[NSUnderlyingErrorKey] = underlying as NSError }
        self.init(code, userInfo: info)
    }

    /// Creates the error of a call in which some items failed.
    package static func partialFailure(_ errors: [AnyHashable: any Error]) -> CKError {
        CKError(
            .partialFailure,
            userInfo: [
                CKPartialErrorsByItemIDKey: errors,
                NSLocalizedDescriptionKey:
                    "\(errors.count) \(errors.count == 1 ? "item" : "items") failed. \(Code.partialFailure.recoverySuggestion)",
            ]
        )
    }

    /// Returns the error with an additional detail.
    package func adding(_ key: String, _ value: Any?) -> CKError {
        guard let value else { return self }
        var info = userInfo
        info[key] = value
        return CKError(code, userInfo: info)
    }
}

extension CKError {
    /// The error codes, with CloudKit's numbers.
    public enum Code: Int, Sendable, CaseIterable {
        /// The relay or this library failed unexpectedly.
        case internalError = 1
        /// Some items of the call failed; see `partialErrorsByItemID`.
        case partialFailure = 2
        /// The network is not available.
        case networkUnavailable = 3
        /// The network or the relay did not respond.
        case networkFailure = 4
        /// The container does not exist, or no relay is configured for it.
        case badContainer = 5
        /// The relay is busy or restarting; see `retryAfterSeconds`.
        case serviceUnavailable = 6
        /// This client has sent too many requests; see `retryAfterSeconds`.
        case requestRateLimited = 7
        /// The app lacks something that the container requires.
        case missingEntitlement = 8
        /// No user is signed in, or the sign-in has expired.
        case notAuthenticated = 9
        /// The user has no permission for this operation.
        case permissionFailure = 10
        /// The record or subscription does not exist.
        case unknownItem = 11
        /// The request contains invalid values.
        case invalidArguments = 12
        /// Never used by the relay; exists for source compatibility.
        case resultsTruncated = 13
        /// The record was changed by another device; the error contains all three versions.
        case serverRecordChanged = 14
        /// The relay rejected the request without a specific reason.
        case serverRejectedRequest = 15
        /// The file of an asset does not exist.
        case assetFileNotFound = 16
        /// The file of an asset changed during the upload.
        case assetFileModified = 17
        /// The app's version is too old for the container.
        case incompatibleVersion = 18
        /// A field that must be unique is not unique.
        case constraintViolation = 19
        /// The task of the call was cancelled.
        case operationCancelled = 20
        /// The change token has expired.
        ///
        /// Fetch again without a token.
        case changeTokenExpired = 21
        /// Another item of the atomic batch failed.
        case batchRequestFailed = 22
        /// The zone is busy.
        ///
        /// Retry later.
        case zoneBusy = 23
        /// The database does not support this operation.
        case badDatabase = 24
        /// The storage is full.
        case quotaExceeded = 25
        /// The zone does not exist.
        case zoneNotFound = 26
        /// The request is too large.
        ///
        /// Split it.
        case limitExceeded = 27
        /// The user deleted the zone.
        ///
        /// Don't create it again without asking the user.
        case userDeletedZone = 28
        /// The share has the maximum number of participants.
        case tooManyParticipants = 29
        /// A record of the hierarchy belongs to another share.
        case alreadyShared = 30
        /// The target of a reference does not exist, or cannot be deleted.
        case referenceViolation = 31
        /// The user's organization forbids the operation.
        case managedAccountRestricted = 32
        /// The participant must verify their identity first.
        case participantMayNeedVerification = 33
        /// The connection was lost before the response, and the relay may have executed the request.
        case serverResponseLost = 34
        /// The asset's file cannot be read.
        case assetNotAvailable = 35
        /// The account exists, but cannot be used at the moment.
        case accountTemporarilyUnavailable = 36
        /// The participant has already been invited.
        case participantAlreadyInvited = 37

        /// Makes `catch CKError.unknownItem` work.
        public static func ~= (code: Code, error: any Error) -> Bool {
            (error as? CKError)?.code == code
        }
    }
}

extension CKError.Code {
    /// What happened and what a person can do about it, used if the relay has sent no explanation.
    package var explanation: String { "\(texts.happened) \(texts.remedy)" }

    /// What a person can do about the error.
    package var recoverySuggestion: String { texts.remedy }

    private var texts: (happened: String, remedy: String) {
        switch self {
        case .internalError:
            (
                "The relay or the SDK failed unexpectedly.",
                "Retry later. If it fails again, look for the error's requestUUID in the relay's log."
            )
        case .partialFailure: ("Some items failed.", "Handle each error in partialErrorsByItemID.")
        case .networkUnavailable: ("The network is not available.", "Retry when it is.")
        case .networkFailure:
            ("The relay could not be reached.", "Check its address and the network, and that it runs; then retry.")
        case .badContainer:
            (
                "The container does not exist, or no relay is configured for it.",
                "Check its identifier, and set ZONECAST_URL or call CKContainer.configure(_:) before the first request."
            )
        case .serviceUnavailable, .requestRateLimited, .zoneBusy:
            ("The relay is busy.", "Retry after retryAfterSeconds.")
        case .missingEntitlement:
            (
                "The app lacks something that the container requires.",
                "Check the API token and the container's settings."
            )
        case .notAuthenticated:
            (
                "No user is signed in, or the sign-in is no longer valid.",
                "Sign in again: call CKContainer.signIn(_:), or configure the container with another credential."
            )
        case .permissionFailure:
            ("The user may not do this.", "Ask the owner of the data, or the relay's operator, for permission.")
        case .unknownItem: ("The item does not exist.", "It may have been deleted. Fetch again.")
        case .invalidArguments: ("The request contains invalid values.", "Correct them before you send it again.")
        case .resultsTruncated: ("The results are incomplete.", "Fetch the rest with another request.")
        case .serverRecordChanged: ("The record was changed elsewhere.", "Merge with serverRecord and save again.")
        case .serverRejectedRequest:
            (
                "The server rejected the request without a reason.",
                "Check that the address is a relay's, and any proxy before it."
            )
        case .assetFileNotFound: ("An asset's file does not exist.", "Assign an asset with an existing file.")
        case .assetFileModified:
            ("An asset's file changed during the upload.", "Save again when nothing else writes to the file.")
        case .incompatibleVersion: ("The app is too old for this container.", "Update the app.")
        case .constraintViolation: ("A value that must be unique is not unique.", "Change it and save again.")
        case .operationCancelled: ("The call was cancelled.", "Call again to continue.")
        case .changeTokenExpired: ("The change token has expired.", "Fetch again without one.")
        case .batchRequestFailed:
            ("Another item of the atomic batch failed.", "Correct that item and send all again.")
        case .badDatabase:
            ("The database does not support this operation.", "Use the private or the shared database instead.")
        case .quotaExceeded: ("The storage is full.", "Delete data, or ask the relay's operator for more space.")
        case .zoneNotFound: ("The zone does not exist.", "Save the zone first.")
        case .limitExceeded: ("The request is too large.", "Send it in smaller parts.")
        case .userDeletedZone: ("The user deleted the zone.", "Ask the user before you create it again.")
        case .tooManyParticipants:
            ("The share has the maximum number of participants.", "Remove a participant before you add one.")
        case .alreadyShared:
            ("A record of the hierarchy is in another share.", "Use that share, or end it before you create one.")
        case .referenceViolation:
            (
                "The target of a reference does not exist, or cannot be deleted.",
                "Save targets first, and delete the records that refer to them first."
            )
        case .managedAccountRestricted:
            ("The user's organization forbids this.", "Ask the organization's administrator.")
        case .participantMayNeedVerification:
            ("The participant is not verified.", "Open the share's link to verify the participant first.")
        case .serverResponseLost:
            (
                "The connection was lost before the response. The relay may have executed the request.",
                "Fetch the items, or send the same request again."
            )
        case .assetNotAvailable: ("An asset's file is not available.", "Fetch the record again.")
        case .accountTemporarilyUnavailable:
            ("The account cannot be used at the moment.", "Retry later, or sign in again.")
        case .participantAlreadyInvited:
            ("The participant has already been invited.", "Use the existing invitation.")
        }
    }
}

// `CKError.unknownItem` and similar names, as patterns and values.
extension CKError {
    /// `Code.internalError`.
    public static var internalError: Code { .internalError }
    /// `Code.partialFailure`.
    public static var partialFailure: Code { .partialFailure }
    /// `Code.networkUnavailable`.
    public static var networkUnavailable: Code { .networkUnavailable }
    /// `Code.networkFailure`.
    public static var networkFailure: Code { .networkFailure }
    /// `Code.badContainer`.
    public static var badContainer: Code { .badContainer }
    /// `Code.serviceUnavailable`.
    public static var serviceUnavailable: Code { .serviceUnavailable }
    /// `Code.requestRateLimited`.
    public static var requestRateLimited: Code { .requestRateLimited }
    /// `Code.missingEntitlement`.
    public static var missingEntitlement: Code { .missingEntitlement }
    /// `Code.notAuthenticated`.
    public static var notAuthenticated: Code { .notAuthenticated }
    /// `Code.permissionFailure`.
    public static var permissionFailure: Code { .permissionFailure }
    /// `Code.unknownItem`.
    public static var unknownItem: Code { .unknownItem }
    /// `Code.invalidArguments`.
    public static var invalidArguments: Code { .invalidArguments }
    /// `Code.resultsTruncated`.
    public static var resultsTruncated: Code { .resultsTruncated }
    /// `Code.serverRecordChanged`.
    public static var serverRecordChanged: Code { .serverRecordChanged }
    /// `Code.serverRejectedRequest`.
    public static var serverRejectedRequest: Code { .serverRejectedRequest }
    /// `Code.assetFileNotFound`.
    public static var assetFileNotFound: Code { .assetFileNotFound }
    /// `Code.assetFileModified`.
    public static var assetFileModified: Code { .assetFileModified }
    /// `Code.incompatibleVersion`.
    public static var incompatibleVersion: Code { .incompatibleVersion }
    /// `Code.constraintViolation`.
    public static var constraintViolation: Code { .constraintViolation }
    /// `Code.operationCancelled`.
    public static var operationCancelled: Code { .operationCancelled }
    /// `Code.changeTokenExpired`.
    public static var changeTokenExpired: Code { .changeTokenExpired }
    /// `Code.batchRequestFailed`.
    public static var batchRequestFailed: Code { .batchRequestFailed }
    /// `Code.zoneBusy`.
    public static var zoneBusy: Code { .zoneBusy }
    /// `Code.badDatabase`.
    public static var badDatabase: Code { .badDatabase }
    /// `Code.quotaExceeded`.
    public static var quotaExceeded: Code { .quotaExceeded }
    /// `Code.zoneNotFound`.
    public static var zoneNotFound: Code { .zoneNotFound }
    /// `Code.limitExceeded`.
    public static var limitExceeded: Code { .limitExceeded }
    /// `Code.userDeletedZone`.
    public static var userDeletedZone: Code { .userDeletedZone }
    /// `Code.tooManyParticipants`.
    public static var tooManyParticipants: Code { .tooManyParticipants }
    /// `Code.alreadyShared`.
    public static var alreadyShared: Code { .alreadyShared }
    /// `Code.referenceViolation`.
    public static var referenceViolation: Code { .referenceViolation }
    /// `Code.managedAccountRestricted`.
    public static var managedAccountRestricted: Code { .managedAccountRestricted }
    /// `Code.participantMayNeedVerification`.
    public static var participantMayNeedVerification: Code { .participantMayNeedVerification }
    /// `Code.serverResponseLost`.
    public static var serverResponseLost: Code { .serverResponseLost }
    /// `Code.assetNotAvailable`.
    public static var assetNotAvailable: Code { .assetNotAvailable }
    /// `Code.accountTemporarilyUnavailable`.
    public static var accountTemporarilyUnavailable: Code { .accountTemporarilyUnavailable }
    /// `Code.participantAlreadyInvited`.
    public static var participantAlreadyInvited: Code { .participantAlreadyInvited }
}

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
        if let reason = error.formerZone {
            info[CKError.formerZoneKey] = NSNumber(value: reason.rawValue)
        }
        self.init(Self.code(of: error, at: level), userInfo: info)
    }

    /// The key in `userInfo` of `changeTokenExpired` for the reason why the token's zone ended: the raw value of a
    /// `ZoneDeletionReason`.
    private static let formerZoneKey = "FormerZone"

    /// The reason why the zone of a rejected token ended, if another zone has its name now.
    package var formerZone: ZoneDeletionReason? {
        (userInfo[Self.formerZoneKey] as? NSNumber).flatMap { ZoneDeletionReason(rawValue: $0.int64Value) }
    }

    /// The key in `userInfo` for the request's ID in the relay's log, a string.
    package static let requestUUIDKey = "RequestUUID"
    /// The key in `userInfo` of `notAuthenticated` for the URL of the sign-in page, a string.
    package static let signInURLKey = "SignInURL"

    /// The key in `userInfo` of `notAuthenticated` if the app has reported that no user is signed in.
    private static let signedOutKey = "NobodySignedIn"

    /// Whether the app has reported that no user is signed in.
    ///
    /// If `false`, the relay has rejected the user's credential.
    var appReportsSignedOut: Bool { userInfo[Self.signedOutKey] != nil }

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
            self = error.code == .notAuthenticated ? error.adding(Self.signedOutKey, NSNumber(value: true)) : error
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

extension CKError {
    /// Whether it is unknown if the relay has executed the request.
    package var leavesOutcomeOpen: Bool {
        code == .serverResponseLost || code == .operationCancelled || userInfo[Self.outcomeIsOpenKey] != nil
    }

    /// The key in `userInfo` that marks an unknown outcome where the code does not imply it.
    static let outcomeIsOpenKey = "ZonecastOutcomeIsOpen"

    /// Whether the error of a whole request means that the connection or the relay is broken, and says nothing about
    /// its items.
    ///
    /// Examples are a proxy without a backend, the login page of a public network, a damaged store, and a missing
    /// container. The pending changes stay pending.
    package var isServiceFailure: Bool {
        switch code {
        case .internalError, .serverRejectedRequest, .badContainer, .missingEntitlement, .incompatibleVersion: true
        default: false
        }
    }
}
