/// The layout of one file of a relay's data.
package struct LayoutStatus: Hashable, Sendable {
    /// The path in the data folder.
    package let path: String
    /// The version of its layout; 0 for an empty file.
    package let version: Int
    /// The version that this program writes.
    package let newVersion: Int
    /// Why this program cannot open it; `nil` if it can.
    package let error: LayoutError?

    /// Whether it has the version that this program writes; otherwise opening it for use migrates it, or fails.
    package var isCurrent: Bool { error == nil && version == newVersion }

    package init(path: String, version: Int, newVersion: Int, error: LayoutError?) {
        self.path = path
        self.version = version
        self.newVersion = newVersion
        self.error = error
    }
}

/// Why a file cannot be opened: its layout is older than the first released one, or newer than this program's.
package struct LayoutError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The version of the file's layout.
    package let found: Int
    /// The versions that this program can open.
    package let known: ClosedRange<Int>

    package init(found: Int, known: ClosedRange<Int>) {
        self.found = found
        self.known = known
    }

    package var isNewer: Bool { found > known.upperBound }

    /// The reason and the remedy, to follow the file's path; without a full stop.
    package var description: String {
        isNewer
            ? "a newer zonecast wrote it (it has layout \(found), and this version knows \(known.upperBound)). Use the newer version"
            : "its layout \(found) is older than \(known.lowerBound), the first of a released zonecast: export its data with the build that wrote it, or start with a new data folder"
    }
}
