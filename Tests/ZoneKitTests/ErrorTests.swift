import Foundation
import Records
import Testing
import Wire
import ZoneKit

/// `CKError`, and the table that maps wire errors to it.
@Suite struct ErrorTests {
    @Test func codesHaveCloudKitsNumbers() {
        #expect(CKError.Code.allCases.map(\.rawValue) == Array(1...37))
        #expect(CKError.Code.serverRecordChanged.rawValue == 14)
        #expect(CKError.Code.changeTokenExpired.rawValue == 21)
        #expect(CKError.Code.serverResponseLost.rawValue == 34)
        #expect(CKErrorDomain == "CKErrorDomain")
    }

    @Test func errorsAreCaughtByCodeAndBridge() {
        let error: any Error = CKError(.zoneNotFound, userInfo: [CKErrorRetryAfterKey: NSNumber(value: 2.5)])
        do { throw error } catch CKError.zoneNotFound {} catch { Issue.record("not caught by its code") }
        #expect((error as? CKError)?.code == .zoneNotFound)
        #expect((error as? CKError)?.retryAfterSeconds == 2.5)
        let bridged = error as NSError
        #expect(bridged.domain == CKErrorDomain)
        #expect(bridged.code == CKError.Code.zoneNotFound.rawValue)
        #expect(bridged.userInfo[CKErrorRetryAfterKey] as? Double == 2.5)
        #expect(CKError(_nsError: bridged).code == .zoneNotFound)
        #expect(CKError(_nsError: NSError(domain: "other", code: 3)).code == .internalError)
    }

    @Test func everyCodeHasADescription() {
        for code in CKError.Code.allCases {
            #expect(CKError(code).localizedDescription.hasSuffix("."), "\(code)")
        }
    }

    @Test func partialErrorsAreFoundByItem() {
        let id = CKRecord.ID(recordName: "a")
        let error = CKError(.partialFailure, userInfo: [CKPartialErrorsByItemIDKey: [id: CKError(.unknownItem)]])
        #expect((error.partialErrorsByItemID?[id] as? CKError)?.code == .unknownItem)
    }

    static let table: [(ErrorCode, CKError.Code, whole: CKError.Code)] = [
        (.accessDenied, .permissionFailure, .permissionFailure),
        (.atomicError, .batchRequestFailed, .batchRequestFailed),
        (.authenticationFailed, .notAuthenticated, .notAuthenticated),
        (.authenticationRequired, .notAuthenticated, .notAuthenticated),
        (.badRequest, .invalidArguments, .invalidArguments),
        (.conflict, .serverRecordChanged, .serverRecordChanged),
        (.exists, .serverRecordChanged, .serverRecordChanged),
        (.internalError, .internalError, .internalError),
        (.notFound, .unknownItem, .badContainer),
        (.quotaExceeded, .quotaExceeded, .quotaExceeded),
        (.throttled, .requestRateLimited, .requestRateLimited),
        (.tryAgainLater, .serviceUnavailable, .serviceUnavailable),
        (.uniqueFieldError, .constraintViolation, .constraintViolation),
        (.validatingReferenceError, .referenceViolation, .referenceViolation),
        (.zoneNotFound, .zoneNotFound, .zoneNotFound),
    ]

    @Test func everyWireCodeMapsToANativeCode() {
        #expect(Set(Self.table.map(\.0)) == Set(ErrorCode.allCases))
        for (wire, item, whole) in Self.table {
            let failure = ClientResponse.Failure(error: RelayError(wire, "Reason."))
            #expect(CKError(failure, at: .item).code == item)
            #expect(CKError(failure, at: .request).code == whole)
            #expect(CKError(failure, at: .item).localizedDescription == "Reason.")
        }
    }

    static let fineTable: [FineErrorCode: CKError.Code] = [
        .changeTokenExpired: .changeTokenExpired, .limitExceeded: .limitExceeded, .userDeletedZone: .userDeletedZone,
        .zoneBusy: .zoneBusy, .alreadyShared: .alreadyShared, .tooManyParticipants: .tooManyParticipants,
        .participantMayNeedVerification: .participantMayNeedVerification,
        .participantAlreadyInvited: .participantAlreadyInvited, .serverResponseLost: .serverResponseLost,
    ]

    @Test(arguments: FineErrorCode.allCases) func fineCodesOverrideErrorCodes(_ fine: FineErrorCode) {
        let failure = ClientResponse.Failure(error: RelayError(.badRequest, "Reason.", fineCode: fine))
        #expect(CKError(failure, at: .item).code == Self.fineTable[fine])
    }
}
