import SyncCore
import ZoneKit

/// What to do about one change that the relay did not take.
///
/// See Sync.md, "Refused writes".
enum SendVerdict: Equatable, Sendable {
    /// It was fine, another of its batch was not: send again at once.
    case resend
    /// The relay has a newer version: merge and send again.
    case merge
    /// The zone is missing: make it and send again.
    case makeZone
    /// The zone is another's and gone: the database's feed will say so.
    case lookAtZones
    /// The record is not where it was, or its zone is not: look whether it has moved before anything is done about it.
    case lookFirst
    /// The record is gone there: send it as a new one.
    case recreate
    /// The record is gone there, and so it shall be here; by the policy `error`, what was changed waits for a decision.
    case acceptDeletion
    /// What was to be done is done.
    case done
    /// Its target is not there yet: hold it until something is saved.
    case wait
    /// No space: pause the saves of this database.
    case storeFull
    /// Try again later, this one and what comes after it.
    case later
    /// The relay may have forgotten a file that it was sent before: send it once more.
    case sendFilesAgain
    /// Refused for good.
    case refuse

    /// A conflict is merged this often before it counts as refused.
    static let maxConflicts = 5

    struct Circumstances {
        var operation: Outbox.Operation
        /// Failures of this change before this one.
        var tries: Int
        /// It failed in the same way the last time: another failure before says nothing of this one.
        var isRepeated = false
        var policy: MergePolicy
        var acceptsDeletions: Bool
        /// The zone is one that this user may make.
        var isOwnZone: Bool
        /// The zone is another's: the record may be there still, out of this user's sight.
        var isSharedZone = false
        /// The zone is the one where new objects go.
        var isHomeZone = true
        /// Some of its values stand in files.
        var hasFiles = false
    }

    static func about(_ code: CKError.Code, _ change: Circumstances) -> SendVerdict {
        switch code {
        case .batchRequestFailed: .resend
        case .serverRecordChanged: change.tries < maxConflicts ? .merge : .refuse
        case .unknownItem where (change.isOwnZone || change.isSharedZone) && !change.isRepeated: .lookFirst
        case .zoneNotFound where change.isOwnZone && !change.isHomeZone && !change.isRepeated: .lookFirst
        case .zoneNotFound where change.operation == .delete: .done
        case .zoneNotFound: change.isOwnZone ? .makeZone : .lookAtZones
        case .userDeletedZone: .lookAtZones
        case .unknownItem where change.operation == .delete: .done
        case .unknownItem: aboutMissing(change)
        case .referenceViolation, .assetFileNotFound, .assetFileModified, .assetNotAvailable:
            change.isRepeated ? .refuse : .wait
        case .quotaExceeded: .storeFull
        case .networkUnavailable, .networkFailure, .serverResponseLost, .operationCancelled, .requestRateLimited,
            .serviceUnavailable, .zoneBusy, .notAuthenticated, .accountTemporarilyUnavailable:
            .later
        case .internalError, .serverRejectedRequest: change.isRepeated ? .refuse : .later
        case .invalidArguments where change.hasFiles && !change.isRepeated: .sendFilesAgain
        default: .refuse
        }
    }

    private static func aboutMissing(_ change: Circumstances) -> SendVerdict {
        let stays = PropertyMerge.keepsObjectDeletedInStore(change.policy) ?? false
        return change.acceptsDeletions || !stays ? .acceptDeletion : .recreate
    }
}
