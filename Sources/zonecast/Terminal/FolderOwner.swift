import Foundation
import RelayCore
import RelaySystem
import Synchronization
import Wire

/// Runs commands of root as the owner of the data folder.
enum FolderOwner {
    private struct Owner {
        var user: uid_t
        var group: gid_t

        var name: String { getpwuid(user).map { String(cString: $0.pointee.pw_name) } ?? "\(user)" }
    }

    /// The owner that root has switched to; `nil` for other users.
    private static let owner = Mutex<Owner?>(nil)

    /// Switches from root to the owner of `folder`, if that is another user.
    ///
    /// The relay could not open files created by root, and symbolic links in the folder could mislead root. Does
    /// nothing for other users or if the folder does not exist.
    static func become(ownerOf folder: String) {
        guard geteuid() == 0, let status = FileStatus(path: folder), status.owner != 0, setgroups(0, nil) == 0 else {
            return
        }
        let (user, group) = (status.owner, status.group)
        // The group first: after the user changes, it can no longer be set. Root is kept as the saved ID for
        // `asCaller`; the real and effective IDs are the owner's.
        guard setregid(group, 0) == 0, setegid(group) == 0, setreuid(user, 0) == 0, seteuid(user) == 0 else { return }
        owner.withLock { $0 = Owner(user: user, group: group) }
    }

    /// Returns why root must not start a relay on another user's folder; `nil` if it may.
    ///
    /// The owner could not use files that root creates there. If root has already done so, the relay continues as root,
    /// and `zonecast doctor` shows the fix.
    static func refusal(servingIn folder: String) -> String? {
        guard geteuid() == 0, let status = FileStatus(path: "\(folder)/relay.sqlite"), status.owner != 0 else {
            return nil
        }
        let owner = Owner(user: status.owner, group: status.group).name
        guard FileStatus(path: "\(folder)/relay.lock")?.owner != 0 else { return nil }
        let start = PackageFiles.start(on: folder)
        let user = owner.allSatisfy(\.isNumber) ? "'#\(owner)'" : owner
        let way = start.hasPrefix("zonecast") ? "sudo -u \(user) \(start)" : start
        return
            "\(folder) belongs to \(owner), who could not use files created by root. Start the relay as that user: \(way)"
    }

    // MARK: Outside of the data folder

    /// Runs `body` as the calling user, for files and folders outside the data folder that they named.
    static func asCaller<Value>(_ body: () throws -> Value) rethrows -> Value {
        guard let owner = owner.withLock({ $0 }), seteuid(0) == 0 else { return try body() }
        _ = setegid(0)
        defer {
            // The process must not continue as root.
            guard setegid(owner.group) == 0, seteuid(owner.user) == 0 else { abort() }
        }
        return try body()
    }

    /// Returns the system calls that write to `place`: if the owner may not create it, root creates it and changes its
    /// owner.
    static func disk(to place: String, besides data: String) -> DiskCalls {
        let (place, data) = (absolute(place), absolute(data))
        var disk = DiskCalls.system
        guard let owner = owner.withLock({ $0 }), !"\(place)/".hasPrefix("\(data)/") else { return disk }
        let system = disk
        let leadsThere = { @Sendable (path: String) in
            [place, place + ".partial"].contains { "\($0)/".hasPrefix("\(path)/") || path == "/" }
        }
        disk.makeFolder = { path in
            let outcome = system.makeFolder(path)
            guard outcome != 0, errno == EACCES, leadsThere(path) else { return outcome }
            return asCaller {
                let outcome = system.makeFolder(path)
                return outcome == 0 ? lchown(path, owner.user, owner.group) : outcome
            }
        }
        disk.open = { path, flags in
            let descriptor = system.open(path, flags)
            guard descriptor < 0, errno == EACCES, leadsThere(path), isForReading(flags) else { return descriptor }
            return asCaller { system.open(path, flags) }
        }
        disk.rename = { path, target in
            let outcome = system.rename(path, target)
            guard outcome != 0, errno == EACCES, target == place else { return outcome }
            return asCaller { system.rename(path, target) }
        }
        return disk
    }

    /// Returns the system calls that read from `place`, which may be readable only for root.
    static func disk(from place: String) -> DiskCalls {
        var disk = DiskCalls.system
        let system = disk
        disk.open = { path, flags in
            let descriptor = system.open(path, flags)
            guard descriptor < 0, errno == EACCES, path.hasPrefix("\(place)/"), isForReading(flags) else {
                return descriptor
            }
            return asCaller { system.open(path, flags) }
        }
        return disk
    }

    /// Returns why the data's owner cannot write to a folder that root named; `nil` if they can or the owner is root.
    static func refusal(writingIn place: String) -> String? {
        guard let owner = owner.withLock({ $0 })?.name else { return nil }
        let place = absolute(place)
        var nearest = place
        while nearest.count > 1, !asCaller({ FileManager.default.fileExists(atPath: nearest) }) {
            nearest = (nearest as NSString).deletingLastPathComponent
        }
        guard access(nearest, X_OK | (nearest == place ? R_OK | W_OK : 0)) != 0 else { return nil }
        let who = "\(owner), who owns the data folder,"
        return nearest == place
            ? "\(who) may not write in \(place). Give it the folder: chown \(owner) \(place.shellWord)"
            : "\(who) may not read \(nearest). Name another folder, such as /srv/backups."
    }

    private static func isForReading(_ flags: Int32) -> Bool { flags & (O_WRONLY | O_RDWR | O_CREAT) == 0 }

    private static func absolute(_ path: String) -> String { URL(fileURLWithPath: path).standardizedFileURL.path }
}

/// Writes output to a file named on the command line.
enum OutputFile {
    static func write(_ text: String, to path: String) throws {
        // Written as the calling user, even if the data folder belongs to another one.
        let isWritten = FolderOwner.asCaller {
            FileManager.default.createFile(atPath: path, contents: Data(text.utf8))
        }
        guard isWritten else {
            throw CommandFailure(.failed, "\(path) cannot be written. Name another file with --output-file.")
        }
    }
}

/// Files that commands and settings name, and standard input, read whole.
///
/// A byte order mark at the beginning is dropped: some editors and shells put one there, and it is no part of the text.
enum InputFile {
    /// `-` is standard input; `nil` where the file cannot be read.
    static func bytes(_ path: String) -> [UInt8]? {
        let data =
            path == "-" ? FileHandle.standardInput.readDataToEndOfFile() : FileManager.default.contents(atPath: path)
        return data.map { ByteOrderMark.dropped(from: [UInt8]($0)) }
    }

    /// The same as text.
    static func text(_ path: String) -> String? { bytes(path).map { String(decoding: $0, as: UTF8.self) } }

    /// The one word in a file that holds a secret, without the blanks and line ends around it.
    static func word(_ path: String) -> String? { text(path)?.trimmingCharacters(in: .whitespacesAndNewlines) }
}
