import Foundation
package import Records
package import RelayCore
package import RelaySystem

/// Deletes a container and its files; no process may have its stores open.
///
/// First the files are moved aside, then the directory deletes the container, which is the moment of its deletion. If
/// the removal is interrupted, `finish` either puts the files back or completes the removal. A new container of the
/// same name starts without them.
package struct ContainerRemoval: Sendable {
    private static let folderName = "container-deleted"

    private let data: String
    private let files: BackupFiles

    /// Prepares removals in a data folder.
    ///
    /// - Parameters:
    ///   - data: the data folder.
    ///   - disk: the calls that rename and flush files.
    package init(in data: String, disk: DiskCalls = .system) {
        self.data = data
        files = BackupFiles(disk: disk)
    }

    private var aside: String { "\(data)/\(Self.folderName)" }

    private func place(of container: ContainerID) -> String { "\(data)/containers/\(container.name)" }

    /// Contains the creation time: a later container of the same name is a different one.
    private static func name(aside row: (container: ContainerID, created: Timestamp)) -> String {
        "\(row.container.name).\(row.created.milliseconds)"
    }

    /// Deletes the container; after it returns, no power cut restores the container.
    ///
    /// - Throws: `DirectoryError` or `BackupFailure`; the container is then as before, once `finish` has been called.
    package func remove(_ container: ContainerID, from accounts: any AccountDirectory) throws {
        try finish(with: accounts)
        guard let row = try accounts.containers().first(where: { $0.container == container }) else {
            throw DirectoryError.missing("container \(container)")
        }
        // A backup has the container as a whole or not at all.
        let lock: AssetLock?
        do { lock = try AssetLock.replacing(of: data) } catch { throw BackupFailure.busy(data) }
        defer { lock?.release() }
        try putAside(row)
        // If this fails, the next start of a relay finds out whether it is on disk, and what to do with the files.
        try accounts.removeContainer(container)
        try? FileManager.default.removeItem(atPath: aside)
    }

    private func putAside(_ row: (container: ContainerID, created: Timestamp)) throws {
        try BackupFiles.wrapping(data) {
            if files.exists(place(of: row.container)) {
                try files.makeFolder(aside)
                try files.rename(place(of: row.container), to: "\(aside)/\(Self.name(aside: row))")
                try flush()
            }
            // With a mark left, the relay would look for the stores of a new container. If the files are put back, the
            // stores are marked again.
            StoreMarker.remove(of: row.container, in: data)
            let marks = "\(data)/\(StoreMarker.folder)"
            if files.exists(marks) { try files.flush(marks) }
        }
    }

    /// Puts back the files of a container that the directory still has, and removes those of a deleted one.
    ///
    /// - Throws: `DirectoryError` if the directory cannot be read, `BackupFailure` if the files cannot be put back.
    package func finish(with accounts: any AccountDirectory) throws {
        guard let kept = try? FileManager.default.contentsOfDirectory(atPath: aside) else { return }
        for row in try accounts.containers()
        where kept.contains(Self.name(aside: row)) && !files.exists(place(of: row.container)) {
            try BackupFiles.wrapping(data) {
                try files.makeFolder("\(data)/containers")
                try files.rename("\(aside)/\(Self.name(aside: row))", to: place(of: row.container))
                try flush()
            }
            for environment in Environment.allCases {
                let store = "\(place(of: row.container))/\(environment.rawValue).sqlite"
                if files.exists(store) { StoreMarker.make(for: store) }
            }
        }
        try? FileManager.default.removeItem(atPath: aside)
    }

    private func flush() throws {
        try files.flush(aside)
        try files.flush("\(data)/containers")
    }
}
