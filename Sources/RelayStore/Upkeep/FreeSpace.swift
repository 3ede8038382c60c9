import Foundation

/// What a folder's disk has room for.
package enum FreeSpace {
    /// Bytes that this user may still write there; `nil` where the system does not tell.
    package static func bytes(in folder: String) -> UInt64? {
        var status = statvfs()
        guard statvfs(folder, &status) == 0 else { return nil }
        return bytes(inBlocks: UInt64(status.f_bavail), of: UInt64(status.f_frsize))
    }

    /// Whether the disk of a file or folder is mounted read-only, as the system does with one that fails.
    package static func isReadOnly(_ path: String) -> Bool {
        var status = statvfs()
        return statvfs(path, &status) == 0 && UInt64(status.f_flag) & UInt64(ST_RDONLY) != 0
    }

    /// As many as there can be where the product would be more: file systems without bounds name numbers without sense.
    package static func bytes(inBlocks blocks: UInt64, of size: UInt64) -> UInt64 {
        let (bytes, overflow) = blocks.multipliedReportingOverflow(by: size)
        return overflow ? .max : bytes
    }
}
