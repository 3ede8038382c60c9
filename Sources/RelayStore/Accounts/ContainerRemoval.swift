import Foundation
package import Records
import RelayCore

/// Deletes a container with its files, while no relay runs.
///
/// The files are put aside first, and the directory forgets the container then: that is the moment at which it is deleted.
/// However a removal is broken off, `finish` puts the files back or brings it to its end; and a container that is made anew
/// under that name begins without them.
package struct ContainerRemoval: Sendable {
    private static let folderName = "container-deleted"

    private let data: String
    private let files: BackupFiles

    /// - Parameters:
    ///   - data: The data folder.
    ///   - disk: What names are changed and flushed by.
    package init(in data: String, disk: DiskCalls = .system) {
        self.data = data
        files = BackupFiles(disk: disk)
    }

    private var aside: String { "\(data)/\(Self.folderName)" }

    private func place(of container: ContainerID) -> String { "\(data)/containers/\(container.name)" }

    /// With the time it was made: one that is made later under the same name is another.
    private static func name(aside row: (container: ContainerID, created: Timestamp)) -> String {
        "\(row.container.name).\(row.created.milliseconds)"
    }

    /// Deletes the container; when this returns, no power cut brings it back.
    ///
    /// - Throws: `DirectoryError` or `BackupFailure`; then the container is as it was once `finish` has been called.
    package func remove(_ container: ContainerID, from accounts: AccountStore) throws {
        try finish(with: accounts)
        guard let row = try accounts.containers().first(where: { $0.container == container }) else {
            throw DirectoryError.missing("container \(container)")
        }
        try putAside(row)
        // Where this fails, only a relay's start knows whether it is on the disk, and what to do about the files.
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
            // A mark that stayed would have the relay look for the stores of one made anew. Put back, they are marked again.
            StoreMark.remove(of: row.container, in: data)
            let marks = "\(data)/\(StoreMark.folder)"
            if files.exists(marks) { try files.flush(marks) }
        }
    }

    /// Puts back the files of a container that the directory still knows, and removes those of one that it does not.
    ///
    /// - Throws: `DirectoryError` where that cannot be read, `BackupFailure` where the files cannot be put back.
    package func finish(with accounts: AccountStore) throws {
        guard let kept = try? FileManager.default.contentsOfDirectory(atPath: aside) else { return }
        for row in try accounts.containers()
        where kept.contains(Self.name(aside: row)) && !files.exists(place(of: row.container)) {
            try BackupFiles.wrapping(data) {
                try files.makeFolder("\(data)/containers")
                try files.rename("\(aside)/\(Self.name(aside: row))", to: place(of: row.container))
                try flush()
            }
        }
        try? FileManager.default.removeItem(atPath: aside)
    }

    private func flush() throws {
        try files.flush(aside)
        try files.flush("\(data)/containers")
    }
}
