import Foundation

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
