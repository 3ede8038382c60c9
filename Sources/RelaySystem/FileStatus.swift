package import Foundation

/// The system's facts about a file, or about the target of a symbolic link.
///
/// Targets that depend on jwt-kit cannot read `stat` itself: with swift-certificates, which comes with jwt-kit, the
/// compiler takes its members for those of CoreFoundation.
package struct FileStatus: Sendable {
    private let facts: stat

    /// `nil` if there is no file, or it is not accessible.
    package init?(path: String) {
        var facts = stat()
        guard stat(path, &facts) == 0 else { return nil }
        self.facts = facts
    }

    /// `nil` if the descriptor is not open.
    package init?(descriptor: Int32) {
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { return nil }
        self.facts = facts
    }

    package var owner: uid_t { facts.st_uid }
    package var group: gid_t { facts.st_gid }
    /// The size in bytes.
    package var size: Int64 { Int64(facts.st_size) }
    /// The rights of owner, group and others.
    package var permissions: mode_t { facts.st_mode & 0o777 }
    /// `S_IFREG`, `S_IFDIR`, `S_IFIFO` and so on.
    package var kind: mode_t { facts.st_mode & S_IFMT }
}
