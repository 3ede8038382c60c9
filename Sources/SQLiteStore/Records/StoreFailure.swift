import GRDB
package import Records
import RelayCore

/// A failure of a store's file.
package enum StoreFailure: Error {
    /// The file is inconsistent.
    case damaged(String)
    /// An earlier commit could not be made durable: the state of the disk is unknown until the process starts again.
    case stopped
    /// A write touched the data of an owner that it had not named: a mistake of the relay.
    case foreignOwner(UserID, named: UserID)

    /// Returns the error for the request that met the failure; it does not reveal the cause.
    package static func relayError(for error: any Error) -> RelayError {
        if isDamage(error) {
            return RelayError(.internalError, "The store is damaged; the operator should restore a backup.")
        }
        if case .foreignOwner? = error as? StoreFailure {
            return RelayError(
                .internalError,
                "The write touched another owner's data, so it was not stored; report this."
            )
        }
        if isLostWrite(error) {
            return RelayError(
                .tryAgainLater,
                "The relay's disk failed during this write, which may have been stored nevertheless. Try again later.",
                fineCode: .serverResponseLost,
                retryAfter: .seconds(5)
            )
        }
        if let error = error as? LayoutError {
            return RelayError(
                .tryAgainLater,
                error.isNewer
                    ? "A later version of the relay has written this store; the operator should install that version again."
                    : "An unreleased version of the relay has written this store, and this one cannot open it.",
                retryAfter: .seconds(60)
            )
        }
        guard let error = error as? DatabaseError else {
            return RelayError(.tryAgainLater, "The store cannot write now.", retryAfter: .seconds(5))
        }
        switch error.resultCode {
        // SQLite needs a little disk space beside a file even to read it.
        case _ where [.SQLITE_FULL, .SQLITE_IOERR_SHMSIZE].contains(error.extendedResultCode):
            return RelayError(.tryAgainLater, "The relay's disk is full.", retryAfter: .seconds(30))
        case .SQLITE_INTERRUPT:
            return RelayError(.tryAgainLater, "The query took too long. Narrow it down.", retryAfter: .seconds(30))
        default:
            return RelayError(.tryAgainLater, "The store cannot be reached now.", retryAfter: .seconds(5))
        }
    }

    /// Returns whether the content of the file is damaged.
    static func isDamage(_ error: any Error) -> Bool {
        if let failure = error as? StoreFailure, case .damaged = failure { return true }
        guard let error = error as? DatabaseError else { return false }
        switch error.resultCode {
        case .SQLITE_CORRUPT, .SQLITE_NOTADB: return true
        default: return error.extendedResultCode == .SQLITE_IOERR_DATA
        }
    }

    /// Returns whether the operating system failed to make a commit durable.
    ///
    /// A retry proves nothing then: the kernel may have dropped the pages that it could not write.
    ///
    /// See Reliability.md, "Faults".
    static func isLostWrite(_ error: any Error) -> Bool {
        guard let error = error as? DatabaseError else { return false }
        switch error.extendedResultCode {
        case .SQLITE_IOERR_WRITE, .SQLITE_IOERR_FSYNC, .SQLITE_IOERR_DIR_FSYNC, .SQLITE_IOERR_TRUNCATE: return true
        // The other codes concern reads, locks and the log's index in memory. They lose nothing and are temporary.
        default: return false
        }
    }
}
