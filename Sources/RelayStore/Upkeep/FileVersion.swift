import Foundation

/// What tells a file from another one under its name, and from itself after somebody has written to it, without reading it.
package struct FileVersion: Hashable, Sendable {
    private let inode: UInt64
    private let size: Int64
    private let seconds: Int64
    private let nanoseconds: Int64

    /// `nil` where there is none.
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
    /// When the file was last written to.
    var modified: timespec {
        #if canImport(Darwin)
            st_mtimespec
        #else
            st_mtim
        #endif
    }
}
