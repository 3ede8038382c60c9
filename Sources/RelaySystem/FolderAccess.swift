import Foundation
package import RelayCore

/// Explanations and remedies for errors with a folder or a disk.
package enum FolderAccess {
    /// Returns whether the folder, or a parent, cannot be accessed by this user.
    package static func isForbidden(_ folder: String) -> Bool {
        guard access(folder, R_OK | X_OK) != 0, errno == EACCES else { return false }
        // A file cannot be listed by any user, not even root.
        var facts = stat()
        return stat(folder, &facts) != 0 || facts.st_mode & S_IFMT == S_IFDIR
    }

    /// Returns a sentence for a user who may not access the folder; `nil` if they may, or it does not exist.
    package static func refusal(_ folder: String) -> String? {
        guard isForbidden(folder) else { return nil }
        let owner = (try? FileManager.default.attributesOfItem(atPath: folder))?[.ownerAccountName] as? String
        let who = owner == "root" ? "root" : "\(owner ?? "its owner") or as root"
        return "You have no access to \(folder). Run this as \(who): sudo zonecast …"
    }

    /// Returns the system's error number in an error; 0 if there is none.
    package static func number(_ error: any Error) -> Int32 {
        let outer = error as NSError
        let inner = (outer.userInfo[NSUnderlyingErrorKey] as? any Error).map { $0 as NSError }
        let cause = [inner, outer].compactMap { $0 }.first { $0.domain == NSPOSIXErrorDomain }
        return cause.map { Int32($0.code) } ?? 0
    }

    /// Returns what the user can do about a folder that cannot be created or written, by the system's error number.
    package static func remedy(_ number: Int32) -> String {
        switch number {
        case EROFS:
            "The disk is mounted read-only, as the system does with a failing disk: see dmesg, then mount it for writing."
        case ENOSPC, EDQUOT: "Free space on the disk."
        case EACCES, EPERM: "Run this as a user who may write there, or name another folder with --data."
        default: "Name another folder with --data."
        }
    }

    /// Returns the system's description of an error with a file, if it has one, without a full stop.
    package static func reason(_ error: any Error) -> String {
        let number = number(error)
        guard number == 0 else { return String(cString: strerror(number)) }
        let outer = error as NSError
        guard outer.domain == NSCocoaErrorDomain else { return "\(error)" }
        // On Linux, a sentence without information precedes the description.
        let words = outer.localizedDescription.replacing("The operation could not be completed. ", with: "")
        return String(words.reversed().drop { $0 == "." }.reversed())
    }

    /// Returns the system's description of an error number, and what to do if the disk is full.
    package static func words(_ number: Int32) -> String {
        let isFull = [ENOSPC, EDQUOT].contains(number)
        return String(cString: strerror(number)) + (isFull ? ". \(remedy(number))" : ".")
    }
}

extension BackupFailure {
    /// The failure for a folder that contains no relay data, or that the caller may not access.
    package static func noData(in folder: String) -> BackupFailure {
        .nothingThere(folder, refusal: FolderAccess.refusal(folder))
    }
}

/// The free space on a folder's disk.
package enum FreeSpace {
    /// Returns how many bytes this user may still write there; `nil` if unknown.
    package static func bytes(in folder: String) -> UInt64? {
        var status = statvfs()
        guard statvfs(folder, &status) == 0 else { return nil }
        return bytes(inBlocks: UInt64(status.f_bavail), of: UInt64(status.f_frsize))
    }

    /// Returns whether the disk of a file or folder is mounted read-only, as the system does with a failing disk.
    package static func isReadOnly(_ path: String) -> Bool {
        var status = statvfs()
        return statvfs(path, &status) == 0 && UInt64(status.f_flag) & UInt64(ST_RDONLY) != 0
    }

    /// Returns the product, or the maximum on overflow: file systems without a limit report arbitrary numbers.
    package static func bytes(inBlocks blocks: UInt64, of size: UInt64) -> UInt64 {
        let (bytes, overflow) = blocks.multipliedReportingOverflow(by: size)
        return overflow ? .max : bytes
    }
}

extension String {
    /// The text as one word of a shell command, for messages: quoted if necessary.
    package var shellWord: String {
        let isPlain = { (sign: Character) in sign.isLetter || sign.isNumber || "@%+=:,./-_".contains(sign) }
        return !isEmpty && allSatisfy(isPlain) ? self : "'\(replacing("'", with: #"'\''"#))'"
    }
}
