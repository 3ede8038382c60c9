import Foundation

/// What a folder's disk has room for.
package enum FreeSpace {
    /// Bytes that this user may still write there; `nil` where the system does not tell.
    package static func bytes(in folder: String) -> UInt64? {
        var status = statvfs()
        guard statvfs(folder, &status) == 0 else { return nil }
        return UInt64(status.f_bavail) * UInt64(status.f_frsize)
    }
}
