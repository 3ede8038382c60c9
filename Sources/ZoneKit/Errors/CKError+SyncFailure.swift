import Foundation
import Records
package import SyncCore

extension CKError {
    /// Converts any error to a `CKError`.
    package init(from error: any Error) {
        if let error = error as? CKError {
            self = error
        } else if error is CancellationError {
            self.init(.operationCancelled)
        } else {
            self.init(_nsError: error as NSError)
        }
    }

    /// The consequence of this error for the next step.
    package var syncFailure: SyncFailure {
        let kind: SyncFailure.Kind =
            switch code {
            // After a lost response the outcome is unknown; change tags make it safe to send again.
            case .networkFailure, .networkUnavailable, .serverResponseLost: .network
            case .operationCancelled: .cancelled
            case .requestRateLimited, .serviceUnavailable: .busy
            case .zoneBusy: .zoneBusy
            case .notAuthenticated, .accountTemporarilyUnavailable: .account
            case .changeTokenExpired: .tokenExpired
            case .zoneNotFound, .userDeletedZone: .zoneNotFound
            case .limitExceeded: .limitExceeded
            default: .refused
            }
        return SyncFailure(kind, retryAfter: retryAfterSeconds.flatMap { Duration(waitOf: $0) })
    }
}

extension CKError {
    /// Creates an error for a failure that only the engine detects.
    init(_ syncFailure: SyncFailure) {
        switch syncFailure.kind {
        case .tokenExpired: self.init(.changeTokenExpired)
        default:
            self.init(
                .internalError,
                "The relay's change feed makes no progress. Retry later, and see the relay's log."
            )
        }
    }
}
