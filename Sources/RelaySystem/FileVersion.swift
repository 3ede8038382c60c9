package import Foundation

/// Identifies a file and its version without reading it: differs for another file of that name, and after a write.
package struct FileVersion: Hashable, Sendable {
    private let inode: UInt64
    private let size: Int64
    private let seconds: Int64
    private let nanoseconds: Int64

    /// `nil` if there is no file.
    package init?(_ path: String) {
        var facts = stat()
        guard stat(path, &facts) == 0 else { return nil }
        inode = UInt64(facts.st_ino)
        size = Int64(facts.st_size)
        seconds = Int64(facts.modified.tv_sec)
        nanoseconds = Int64(facts.modified.tv_nsec)
    }
}

extension stat {
    /// The modification time.
    package var modified: timespec {
        #if canImport(Darwin)
            st_mtimespec
        #else
            st_mtim
        #endif
    }
}
