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
    /// An explanation for people, used if the relay has sent none.
    package var explanation: String {
        switch self {
        case .networkUnavailable: "The network is not available. Retry when it is."
        case .networkFailure: "The relay could not be reached. Check its address and the network, then retry."
        case .notAuthenticated: "Sign in first. The container's relay requires a user."
        case .serviceUnavailable, .requestRateLimited, .zoneBusy:
            "The relay is busy. Retry after retryAfterSeconds."
        case .serverRecordChanged: "The record was changed elsewhere. Merge with serverRecord and save again."
        case .changeTokenExpired: "The change token has expired. Fetch again without one."
        case .limitExceeded: "The request is too large. Send it in smaller parts."
        case .zoneNotFound: "The zone does not exist. Save the zone first."
        case .unknownItem: "The item does not exist. It may have been deleted."
        case .batchRequestFailed: "Another item of the atomic batch failed. Correct that item and send all again."
        case .serverResponseLost:
            "The connection was lost before the response. The relay may have executed the request."
        case .operationCancelled: "The call was cancelled."
        case .partialFailure: "Some items failed. Their errors are in partialErrorsByItemID."
        default: "CloudKit error \(rawValue) (\(self))."
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
