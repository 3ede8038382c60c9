import SyncCore
import ZoneKit

/// What to do about a change that the relay did not accept.
///
/// See Sync.md, "Refused writes".
enum SendVerdict: Equatable, Sendable {
    /// Another change of its batch failed: send this one again immediately.
    case resend
    /// The relay has a newer version: merge and send again.
    case merge
    /// The zone is missing: create it and send again.
    case makeZone
    /// The zone belongs to another user and is gone: read the database's feed.
    case lookAtZones
    /// The record or its zone is not found: check first whether it has moved.
    case lookFirst
    /// The record is gone on the relay: send it as a new one.
    case recreate
    /// The record is gone on the relay: delete it here too.
    ///
    /// Under the policy `error`, the change waits for a decision.
    case acceptDeletion
    /// The change is already done.
    case done
    /// The target of a reference is not there yet: hold the change until something is saved.
    case wait
    /// The quota is exceeded: pause the saves of this database.
    case storeFull
    /// Try this change and those after it again later.
    case later
    /// The relay may no longer have an uploaded asset: upload it again.
    case sendFilesAgain
    /// The change is refused permanently.
    case refuse

    /// The number of merges after which a conflict counts as refused.
    static let maxConflicts = 5

    struct Circumstances {
        var operation: Outbox.Operation
        /// The number of earlier failures of this change.
        var tries: Int
        /// Whether the last attempt failed with the same error; other failures are not counted.
        var isRepeated = false
        var policy: MergePolicy
        var acceptsDeletions: Bool
        /// Whether this user may create the zone.
        var isOwnZone: Bool
        /// Whether the zone belongs to another user, so that the record may still exist but be invisible.
        var isSharedZone = false
        /// Whether the zone is the one for new objects.
        var isHomeZone = true
        /// Whether some of its values are in assets.
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
