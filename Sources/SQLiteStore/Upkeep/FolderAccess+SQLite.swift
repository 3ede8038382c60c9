import Foundation
import GRDB
import RelayCore
import RelaySystem

extension FolderAccess {
    /// Returns a description of an error with a file, without the SQL statement.
    static func words(for error: any Error) -> String {
        if let error = error as? DiskCalls.Failure { return "\(error.call): \(words(error.number))" }
        guard let error = error as? DatabaseError else { return reason(error) + "." }
        switch error.resultCode {
        // SQLite needs a little disk space beside a file even to read it.
        case _ where [.SQLITE_FULL, .SQLITE_IOERR_SHMSIZE].contains(error.extendedResultCode):
            return "the disk is full. Free space on it."
        case .SQLITE_READONLY: return "it cannot be written; its disk may be mounted read-only."
        default: break
        }
        return (error.message ?? "SQLite error \(error.resultCode.rawValue)") + "."
    }
}

extension DirectoryError {
    /// Creates the error for a file.
    init(_ error: any Error, in file: String) {
        let words = FolderAccess.words(for: error)
        self = StoreFailure.isDamage(error) ? .damaged(file) : .unavailable("\(file): \(words)")
    }
}
