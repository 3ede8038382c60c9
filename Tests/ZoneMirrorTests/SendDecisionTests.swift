import SyncCore
import Testing
import ZoneKit
import ZoneMirror

/// The decision on a change that the relay did not accept.
///
/// See Sync.md, "Refused writes".
@Suite struct SendDecisionTests {
    private func decision(
        _ code: CKError.Code,
        _ operation: Outbox.Operation = .save,
        tries: Int = 0,
        again isRepeated: Bool = false,
        policy: MergePolicy = .mergeByPropertyObjectTrump,
        accepts: Bool = false,
        isOwnZone: Bool = true,
        isHomeZone: Bool = true
    ) -> SendDecision {
        .after(
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
        #expect(decision(.batchRequestFailed) == .resend)
        #expect(decision(.serverRecordChanged) == .merge)
        #expect(decision(.serverRecordChanged, tries: 5) == .refuse)
        #expect(decision(.zoneNotFound) == .createZone)
        #expect(decision(.zoneNotFound, isOwnZone: false) == .fetchDatabaseChanges)
        #expect(decision(.zoneNotFound, .delete) == .done)
        // A missing record may have moved, so the mirror fetches once.
        #expect(decision(.zoneNotFound, isHomeZone: false) == .fetchFirst)
        #expect(decision(.zoneNotFound, again: true, isHomeZone: false) == .createZone)
        #expect(decision(.unknownItem) == .fetchFirst)
        #expect(decision(.unknownItem, .delete) == .fetchFirst)
        #expect(decision(.unknownItem, isOwnZone: false) == .recreate)
        #expect(decision(.unknownItem, again: true) == .recreate)
        #expect(decision(.unknownItem, again: true, accepts: true) == .acceptDeletion)
        #expect(decision(.unknownItem, again: true, policy: .rollback) == .acceptDeletion)
        #expect(decision(.unknownItem, .delete, again: true) == .done)
        #expect(decision(.referenceViolation) == .wait)
        #expect(decision(.quotaExceeded) == .quotaExceeded)
        for code: CKError.Code in [
            .networkFailure, .serverResponseLost, .requestRateLimited, .zoneBusy, .notAuthenticated,
        ] {
            #expect(decision(code) == .later)
        }
        #expect(decision(.internalError) == .later)
        #expect(decision(.internalError, again: true) == .refuse)
        // An earlier conflict does not count as a failure of this kind.
        #expect(decision(.internalError, tries: 1) == .later)
        #expect(decision(.unknownItem, tries: 1) == .fetchFirst)
        for code: CKError.Code in [.permissionFailure, .invalidArguments, .limitExceeded, .constraintViolation] {
            #expect(decision(code) == .refuse)
        }
    }
}
