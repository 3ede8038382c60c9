import SyncCore
import Testing
import ZoneKit

@testable import ZoneMirror

/// The decision on a change that the relay did not accept.
///
/// See Sync.md, "Refused writes".
@Suite struct VerdictTests {
    private func verdict(
        _ code: CKError.Code,
        _ operation: Outbox.Operation = .save,
        tries: Int = 0,
        again isRepeated: Bool = false,
        policy: MergePolicy = .mergeByPropertyObjectTrump,
        accepts: Bool = false,
        isOwnZone: Bool = true,
        isHomeZone: Bool = true
    ) -> SendVerdict {
        .about(
            code,
            .init(
                operation: operation,
                tries: tries,
                isRepeated: isRepeated,
                policy: policy,
                acceptsDeletions: accepts,
                isOwnZone: isOwnZone,
                isHomeZone: isHomeZone
            )
        )
    }

    @Test func eachErrorCodeLeadsToADecision() {
        #expect(verdict(.batchRequestFailed) == .resend)
        #expect(verdict(.serverRecordChanged) == .merge)
        #expect(verdict(.serverRecordChanged, tries: 5) == .refuse)
        #expect(verdict(.zoneNotFound) == .makeZone)
        #expect(verdict(.zoneNotFound, isOwnZone: false) == .lookAtZones)
        #expect(verdict(.zoneNotFound, .delete) == .done)
        // A missing record may have moved, so the mirror fetches once.
        #expect(verdict(.zoneNotFound, isHomeZone: false) == .lookFirst)
        #expect(verdict(.zoneNotFound, again: true, isHomeZone: false) == .makeZone)
        #expect(verdict(.unknownItem) == .lookFirst)
        #expect(verdict(.unknownItem, .delete) == .lookFirst)
        #expect(verdict(.unknownItem, isOwnZone: false) == .recreate)
        #expect(verdict(.unknownItem, again: true) == .recreate)
        #expect(verdict(.unknownItem, again: true, accepts: true) == .acceptDeletion)
        #expect(verdict(.unknownItem, again: true, policy: .rollback) == .acceptDeletion)
        #expect(verdict(.unknownItem, .delete, again: true) == .done)
        #expect(verdict(.referenceViolation) == .wait)
        #expect(verdict(.quotaExceeded) == .storeFull)
        for code: CKError.Code in [
            .networkFailure, .serverResponseLost, .requestRateLimited, .zoneBusy, .notAuthenticated,
        ] {
            #expect(verdict(code) == .later)
        }
        #expect(verdict(.internalError) == .later)
        #expect(verdict(.internalError, again: true) == .refuse)
        // An earlier conflict does not count as a failure of this kind.
        #expect(verdict(.internalError, tries: 1) == .later)
        #expect(verdict(.unknownItem, tries: 1) == .lookFirst)
        for code: CKError.Code in [.permissionFailure, .invalidArguments, .limitExceeded, .constraintViolation] {
            #expect(verdict(code) == .refuse)
        }
    }
}
