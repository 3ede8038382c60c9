import Crypto
import Foundation
import Records
import RelayCore
import RelaySystem

/// File operations for backups; copies are on disk when the call returns.
package struct BackupFiles {
    var disk: DiskCalls

    /// Returns the paths of the SQLite files in a data folder, the accounts' last.
    ///
    /// A copy of the accounts made last has every user that the copied records name.
    static func databases(in folder: String) throws(BackupFailure) -> [String] {
        Set(try stores(in: folder) + StoreMarker.stores(in: folder)).sorted() + ["relay.sqlite"]
    }

    /// Returns those of the containers that exist, without those that only have a mark.
    static func stores(in folder: String) throws(BackupFailure) -> [String] {
        var found: [String] = []
        let containers = "\(folder)/containers"
        for name in try contents(containers) where isContainer(name, in: containers) {
            // A lost store may have left its log.
            let files = try contents("\(containers)/\(name)").map { $0.hasSuffix("-wal") ? String($0.dropLast(4)) : $0 }
            found += files.filter { $0.hasSuffix(".sqlite") }.map { "containers/\(name)/\($0)" }
        }
        return found
    }

    /// Returns whether a relay may have created the folder.
    ///
    /// Entries of other programs, such as `.DS_Store` or `lost+found`, must not prevent a backup.
    private static func isContainer(_ name: String, in folder: String) -> Bool {
        var isFolder: ObjCBool = false
        return ContainerID(name) != nil
            && FileManager.default.fileExists(atPath: "\(folder)/\(name)", isDirectory: &isFolder) && isFolder.boolValue
    }

    /// Returns the existing files with settings of a relay.
    static func settings(in folder: String) -> [String] {
        [AlertOverrides.fileName].filter { FileManager.default.fileExists(atPath: "\(folder)/\($0)") }
    }

    private static func contents(_ folder: String) throws(BackupFailure) -> [String] {
        guard FileManager.default.fileExists(atPath: folder) else { return [] }
        do {
            return try FileManager.default.contentsOfDirectory(atPath: folder)
        } catch {
            // Named itself: the caller knows only the data folder or the folder of backups.
            throw .unreadable(folder, FolderAccess.words(for: error))
        }
    }

    /// Returns the hash and the length of a file, which is read in pieces.
    package static func checksum(of path: String) throws -> (hex: String, bytes: Int64) {
        do throws(DiskCalls.Failure) {
            return try FileChecksum.sha256(of: path)
        } catch {
            throw BackupFailure.unreadable(path, FolderAccess.words(error.number))
        }
    }

    static func size(of path: String) throws -> Int64 {
        var facts = stat()
        guard stat(path, &facts) == 0 else { throw failure(path) }
        return Int64(facts.st_size)
    }

    /// Creates a folder and all missing parents; returns when their names are on disk.
    func makeFolder(_ path: String) throws {
        let path = path.hasPrefix("/") ? path : FileManager.default.currentDirectoryPath + "/" + path
        var root = (path as NSString).deletingLastPathComponent
        while !FileManager.default.fileExists(atPath: root), root.count > 1 {
            root = (root as NSString).deletingLastPathComponent
        }
        try disk.makeFolders((path as NSString).standardizingPath, within: (root as NSString).standardizingPath)
    }

    /// Copies a file that never changes, as a link if both paths are on one file system.
    func copyAsset(_ source: String, to target: String) throws {
        try makeFolder((target as NSString).deletingLastPathComponent)
        if disk.link(source, target) == 0 || errno == EEXIST { return }
        guard errno == EXDEV || errno == EPERM || errno == EMLINK || errno == ENOTSUP else {
            throw Self.failure(source)
        }
        try copy(source, to: target)
    }

    /// Returns whether the file exists, or `true` if that cannot be determined.
    func exists(_ path: String) -> Bool {
        let descriptor = disk.open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return errno != ENOENT }
        close(descriptor)
        return true
    }

    /// Copies a file, and returns the hash of the copied bytes, in hex.
    func copyHashing(_ source: String, to target: String) throws -> String {
        var hasher = SHA256()
        try copy(source, to: target) { hasher.update(bufferPointer: $0) }
        return Hex.encode(hasher.finalize())
    }

    /// Copies a file; only the owner can access the copy.
    func copy(_ source: String, to target: String, hearing: (UnsafeRawBufferPointer) -> Void = { _ in }) throws {
        let input = disk.open(source, O_RDONLY | O_CLOEXEC)
        guard input >= 0 else { throw Self.failure(source) }
        defer { close(input) }
        try write(target) { output in
            var buffer = [UInt8](repeating: 0, count: 1 << 20)
            while true {
                let count = read(input, &buffer, buffer.count)
                if count < 0, errno == EINTR { continue }
                guard count >= 0 else { throw Self.failure(source) }
                guard count > 0 else { return }
                try buffer.withUnsafeBytes {
                    let piece = UnsafeRawBufferPointer(rebasing: $0[..<count])
                    hearing(piece)
                    try put(piece, output, target)
                }
            }
        }
    }

    func write(_ content: Data, to target: String) throws {
        try write(target) { output in try content.withUnsafeBytes { try put($0, output, target) } }
    }

    private func write(_ target: String, _ body: (_ descriptor: Int32) throws -> Void) throws {
        let output = disk.open(target, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC)
        guard output >= 0 else { throw Self.failure(target) }
        defer { close(output) }
        try body(output)
        guard disk.sync(output) == 0 else { throw Self.failure(target) }
    }

    private func put(_ bytes: UnsafeRawBufferPointer, _ descriptor: Int32, _ path: String) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = disk.write(descriptor, UnsafeRawBufferPointer(rebasing: rest))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw Self.failure(path) }
            rest = rest.dropFirst(count)
        }
    }

    func rename(_ path: String, to target: String) throws {
        guard disk.rename(path, target) == 0 else { throw Self.failure(path) }
    }

    /// Returns when the file, or the names in the folder, are on disk.
    func flush(_ path: String) throws {
        let descriptor = disk.open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.failure(path) }
        defer { close(descriptor) }
        guard disk.sync(descriptor) == 0 else { throw Self.failure(path) }
    }

    /// Does the same for the folder and every folder in it.
    func flushFolders(_ path: String) throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: path) {
            var isFolder: ObjCBool = false
            let inner = "\(path)/\(name)"
            if FileManager.default.fileExists(atPath: inner, isDirectory: &isFolder), isFolder.boolValue {
                try flushFolders(inner)
            }
        }
        try flush(path)
    }

    static func failure(_ path: String) -> BackupFailure { .unreadable(path, FolderAccess.words(errno)) }

    /// Runs `body`, and converts its errors to failures with a readable text.
    static func wrapping<Value>(_ path: String, _ body: () throws -> Value) throws(BackupFailure) -> Value {
        do {
            return try body()
        } catch let failure as BackupFailure {
            throw failure
        } catch {
            throw .unreadable(path, FolderAccess.words(for: error))
        }
    }
}
