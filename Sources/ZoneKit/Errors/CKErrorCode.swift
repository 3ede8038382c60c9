extension CKError {
    /// What went wrong, numbered as in CloudKit.
    public enum Code: Int, Sendable, CaseIterable {
        /// The relay, or this module, failed in a way it should not.
        case internalError = 1
        /// Some items of the call failed, others did not; see `partialErrorsByItemID`.
        case partialFailure = 2
        /// There is no network.
        case networkUnavailable = 3
        /// The network, or the relay at its other end, did not answer.
        case networkFailure = 4
        /// The container is unknown, or no relay is configured for it.
        case badContainer = 5
        /// The relay is busy or restarting; see `retryAfterSeconds`.
        case serviceUnavailable = 6
        /// This client sends too many requests; see `retryAfterSeconds`.
        case requestRateLimited = 7
        /// The program lacks what the container asks of it.
        case missingEntitlement = 8
        /// Nobody is signed in, or no longer.
        case notAuthenticated = 9
        /// The user may not do this.
        case permissionFailure = 10
        /// There is no such record or subscription.
        case unknownItem = 11
        /// The request makes no sense to the relay.
        case invalidArguments = 12
        /// Never sent; kept for its number.
        case resultsTruncated = 13
        /// Somebody else changed the record first; the error holds all three versions.
        case serverRecordChanged = 14
        /// The relay refused without saying more.
        case serverRejectedRequest = 15
        /// An asset's file is not there.
        case assetFileNotFound = 16
        /// An asset's file changed while it was being sent.
        case assetFileModified = 17
        /// The program is too old for the container.
        case incompatibleVersion = 18
        /// A field that must be unique is not.
        case constraintViolation = 19
        /// The call's task was cancelled.
        case operationCancelled = 20
        /// The change token is of no use any more: fetch from the start.
        case changeTokenExpired = 21
        /// Another item of the atomic batch failed; this one was fine.
        case batchRequestFailed = 22
        /// The zone is busy; try again.
        case zoneBusy = 23
        /// The database cannot do this, whatever the user may.
        case badDatabase = 24
        /// There is no space left.
        case quotaExceeded = 25
        /// There is no such zone.
        case zoneNotFound = 26
        /// The request is too large: send it in parts.
        case limitExceeded = 27
        /// The user deleted the zone; do not create it again without asking.
        case userDeletedZone = 28
        /// The share has as many participants as it can.
        case tooManyParticipants = 29
        /// A record of the hierarchy is in another share already.
        case alreadyShared = 30
        /// A reference's target does not exist, or cannot be deleted.
        case referenceViolation = 31
        /// The user's organisation forbids it.
        case managedAccountRestricted = 32
        /// The participant must first prove who they are.
        case participantMayNeedVerification = 33
        /// The connection was lost before the answer came: the request may or may not have been carried out.
        case serverResponseLost = 34
        /// An asset is not there to be read.
        case assetNotAvailable = 35
        /// The account is there but cannot be used just now.
        case accountTemporarilyUnavailable = 36
        /// The participant has been invited already.
        case participantAlreadyInvited = 37

        /// So that `catch CKError.unknownItem` works.
        public static func ~= (code: Code, error: any Error) -> Bool {
            (error as? CKError)?.code == code
        }
    }
}

extension CKError.Code {
    /// What a person can do, where the relay has not said more.
    package var explanation: String {
        switch self {
        case .networkUnavailable: "There is no network. Try again when there is one."
        case .networkFailure: "The relay could not be reached. Check its address and the network, then try again."
        case .notAuthenticated: "Sign in first: the container's relay needs to know who is asking."
        case .serviceUnavailable, .requestRateLimited, .zoneBusy:
            "The relay is busy. Try again after retryAfterSeconds."
        case .serverRecordChanged: "The record was changed elsewhere. Merge with serverRecord and save again."
        case .changeTokenExpired: "The change token has expired. Fetch again without one."
        case .limitExceeded: "The request is too large. Send it in smaller parts."
        case .zoneNotFound: "The zone does not exist. Save the zone first."
        case .unknownItem: "There is no such item. It may have been deleted."
        case .batchRequestFailed: "Another item of the atomic batch failed. Correct that one and send all again."
        case .serverResponseLost: "The connection was lost before the answer. The request may have been carried out."
        case .operationCancelled: "The call was cancelled."
        case .partialFailure: "Some items failed; each one's error is in partialErrorsByItemID."
        default: "CloudKit error \(rawValue) (\(self))."
        }
    }
}

// `CKError.unknownItem` and the like, as patterns and values.
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
