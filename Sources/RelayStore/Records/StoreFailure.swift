import GRDB
import Records

/// What went wrong in the file beneath a store.
enum StoreFailure: Error {
    /// The file contradicts itself.
    case damaged(String)
    /// An earlier commit could not be made durable: what the disk holds is unknown until the process starts again.
    case stopped
    /// A later version of the program has written the file, and what this one writes might spoil it.
    case later

    /// What such a failure means for the request that met it: the cause stays out of the answer.
    static func relayError(for error: any Error) -> RelayError {
        if isDamage(error) {
            return RelayError(.internalError, "The store is damaged; the operator should restore a backup.")
        }
        if isLostWrite(error) {
            return RelayError(
                .tryAgainLater,
                "The relay's disk has failed at this write, which may be there all the same. Try again later.",
                fineCode: .serverResponseLost,
                retryAfter: .seconds(5)
            )
        }
        if let failure = error as? StoreFailure, case .later = failure {
            return RelayError(
                .tryAgainLater,
                "A later version of the relay has written this store; the operator should install that version again.",
                retryAfter: .seconds(60)
            )
        }
        guard let error = error as? DatabaseError else {
            return RelayError(.tryAgainLater, "The store cannot write now.", retryAfter: .seconds(5))
        }
        switch error.resultCode {
        // SQLite wants a little room beside a file for those who read it, too.
        case _ where [.SQLITE_FULL, .SQLITE_IOERR_SHMSIZE].contains(error.extendedResultCode):
            return RelayError(.tryAgainLater, "The relay's disk is full.", retryAfter: .seconds(30))
        case .SQLITE_INTERRUPT:
            return RelayError(.tryAgainLater, "The query took too long. Narrow it down.", retryAfter: .seconds(30))
        default:
            return RelayError(.tryAgainLater, "The store cannot be reached now.", retryAfter: .seconds(5))
        }
    }

    /// Whether the file is otherwise than it was written.
    static func isDamage(_ error: any Error) -> Bool {
        if let failure = error as? StoreFailure, case .damaged = failure { return true }
        guard let error = error as? DatabaseError else { return false }
        switch error.resultCode {
        case .SQLITE_CORRUPT, .SQLITE_NOTADB: return true
        default: return error.extendedResultCode == .SQLITE_IOERR_DATA
        }
    }

    /// Did the operating system fail to make a commit durable? Then trying again proves nothing: the kernel may have
    /// dropped the pages it could not write.
    ///
    /// See Reliability.md, "Faults".
    static func isLostWrite(_ error: any Error) -> Bool {
        guard let error = error as? DatabaseError else { return false }
        switch error.extendedResultCode {
        case .SQLITE_IOERR_WRITE, .SQLITE_IOERR_FSYNC, .SQLITE_IOERR_DIR_FSYNC, .SQLITE_IOERR_TRUNCATE: return true
        // The rest is about reading, locks and the log's index in memory: those lose nothing, and end by themselves.
        default: return false
        }
    }
}
