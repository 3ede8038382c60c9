import Foundation
import Logging
import Synchronization

/// Reports failures of automatic work: to the log, and to the caller, which tells the app.
///
/// A failure that persists is reported once, until work succeeds or another kind of failure takes its place. Engines and
/// mirrors of one container that fail for the same reason write one line together.
package final class FailureLog: Sendable {
    private static let logger = Logger(label: "zonecast.sdk")
    /// The reported failures of all engines and mirrors of the process, by container.
    private static let reported = Mutex<[RelaySession.Identity: [UUID: CKError.Code]]>([:])

    /// Writes a warning to the process's log.
    package static let standard: @Sendable (String) -> Void = { logger.warning("\($0)") }

    private let container: RelaySession.Identity
    private let id = UUID()
    private let write: @Sendable (String) -> Void

    /// Creates the log of one engine or mirror.
    package init(of database: CKDatabase, _ write: @escaping @Sendable (String) -> Void) {
        container = database.session.identity
        self.write = write
    }

    deinit { succeeded() }

    /// Returns whether the app must be told, and logs the failure unless the log already has it.
    ///
    /// Cancellation is no failure, and the errors of single items were delivered one by one.
    package func failed(_ error: CKError) -> Bool {
        guard error.code != .operationCancelled, error.code != .partialFailure, error != .anotherUser else {
            return false
        }
        let (isNew, isLogged) = Self.reported.withLock { reported in
            let isLogged = reported[container]?.values.contains(error.code) ?? false
            let previous = reported[container, default: [:]].updateValue(error.code, forKey: id)
            return (previous != error.code, isLogged)
        }
        if isNew, !isLogged { write("\(container.container) does not sync: \(error.advice)") }
        return isNew
    }

    /// Makes the next failure count as new.
    package func succeeded() {
        Self.reported.withLock { reported in
            reported[container]?[id] = nil
            if reported[container]?.isEmpty == true { reported[container] = nil }
        }
    }
}

extension CKError {
    /// Thrown by a mirrored store after another user has signed in, until that user's store replaces it.
    package static let anotherUser = CKError(
        .notAuthenticated,
        "Another user has signed in. That user's store is opened instead of this one."
    )
}
