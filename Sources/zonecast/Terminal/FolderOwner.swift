import Foundation
import RelayStore
import Synchronization

/// Whose a data folder is.
enum FolderOwner {
    private struct Owner {
        var user: uid_t
        var group: gid_t

        var name: String { getpwuid(user).map { String(cString: $0.pointee.pw_name) } ?? "\(user)" }
    }

    /// As whom root goes on; `nil` for everybody else.
    private static let owner = Mutex<Owner?>(nil)

    /// As root, goes on as the owner of `folder`, where that is somebody else.
    ///
    /// Files that root makes there could not be opened by the relay, and links that somebody laid there would lead root astray.
    /// Nothing changes for other users, or where the folder is not there.
    static func become(ownerOf folder: String) {
        var facts = stat()
        guard geteuid() == 0, stat(folder, &facts) == 0, facts.st_uid != 0, setgroups(0, nil) == 0 else { return }
        let (user, group) = (facts.st_uid, facts.st_gid)
        // The group first: afterwards it could not be changed any more. Root stays in reserve for `asCaller`: what is real and
        // what is in force is the owner's, what is saved is root's.
        guard setregid(group, 0) == 0, setegid(group) == 0, setreuid(user, 0) == 0, seteuid(user) == 0 else { return }
        owner.withLock { $0 = Owner(user: user, group: group) }
    }

    /// Why no relay of root's is to begin on the data of somebody else's relay; `nil` where one may.
    ///
    /// What root makes there its owner could not use: neither the service's relay, nor any command. Where it has happened
    /// already, a relay goes on as root, and `zonecast doctor` says what mends it.
    static func refusal(servingIn folder: String) -> String? {
        var facts = stat()
        guard geteuid() == 0, stat("\(folder)/relay.sqlite", &facts) == 0, facts.st_uid != 0 else { return nil }
        let owner = Owner(user: facts.st_uid, group: facts.st_gid).name
        guard stat("\(folder)/relay.lock", &facts) != 0 || facts.st_uid != 0 else { return nil }
        let start = PackageFiles.start(on: folder)
        let user = owner.allSatisfy(\.isNumber) ? "'#\(owner)'" : owner
        let way = start.hasPrefix("zonecast") ? "sudo -u \(user) \(start)" : start
        return "\(folder) is \(owner)'s, and could not use files that root makes there. Start it as that user: \(way)"
    }

    // MARK: Outside of the data folder

    /// Runs `body` as whoever started the command: for files and folders outside of the data folder, which they have named.
    static func asCaller<Value>(_ body: () throws -> Value) rethrows -> Value {
        guard let owner = owner.withLock({ $0 }), seteuid(0) == 0 else { return try body() }
        _ = setegid(0)
        defer {
            // Nothing else may be done as root.
            guard setegid(owner.group) == 0, seteuid(owner.user) == 0 else { abort() }
        }
        return try body()
    }

    /// How files are written to `place`: where the owner may not make it, root does, and gives it to the owner.
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

    /// How files are read from `place`, which may be where only root may look.
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

    /// Why the owner of the data cannot write in a folder that root names; `nil` where they can, or there is only root.
    static func refusal(writingIn place: String) -> String? {
        guard let owner = owner.withLock({ $0 })?.name else { return nil }
        let place = absolute(place)
        var nearest = place
        while nearest.count > 1, !asCaller({ FileManager.default.fileExists(atPath: nearest) }) {
            nearest = (nearest as NSString).deletingLastPathComponent
        }
        guard access(nearest, X_OK | (nearest == place ? R_OK | W_OK : 0)) != 0 else { return nil }
        let who = "\(owner), whose the data folder is,"
        return nearest == place
            ? "\(who) may not write in \(place). Give it the folder: chown \(owner) \(place.shellWord)"
            : "\(who) may not look into \(nearest). Name a folder elsewhere, such as /srv/backups."
    }

    private static func isForReading(_ flags: Int32) -> Bool { flags & (O_WRONLY | O_RDWR | O_CREAT) == 0 }

    private static func absolute(_ path: String) -> String { URL(fileURLWithPath: path).standardizedFileURL.path }
}

/// A file that a person has named for the answer.
enum OutputFile {
    static func write(_ text: String, to path: String) throws {
        // Theirs, also where the data are somebody else's.
        let isWritten = FolderOwner.asCaller {
            FileManager.default.createFile(atPath: path, contents: Data(text.utf8))
        }
        guard isWritten else {
            throw CommandFailure(.failed, "\(path) cannot be written. Name another file with --output-file.")
        }
    }
}
