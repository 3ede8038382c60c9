import Foundation
package import Records
package import RelayCore
import Synchronization

/// The assets of one container and environment: files named by the hash of their content, in a folder beside the
/// records.
///
/// An upload is written to a file of its own, flushed and renamed, so a file under a hash is complete. Equal content is
/// stored once. An asset that no record uses is removed some hours after it was last uploaded.
package final class AssetFolder: AssetStore {
    private let folder: String
    private let isTemporary: Bool
    private let draw: @Sendable () -> UInt64
    fileprivate let disk: DiskCalls
    /// Folders that this process has created or found, and whose names it has flushed.
    private let flushedFolders = Mutex<Set<String>>([])
    /// Held while a file is renamed or removed, so that a new upload is not taken for the old file.
    private let naming = Mutex(())
    /// Assets that are about to be removed: no record may start to use them.
    private let markedForRemoval = Mutex<Set<AssetHash>>([])
    private let verified = VerifiedAssets()

    /// Creates the value for a folder, which need not exist yet.
    ///
    /// - Parameters:
    ///   - folder: created with the first asset.
    ///   - isTemporary: whether `removeIfTemporary` removes it.
    ///   - disk: the calls that write files.
    ///   - draw: returns 64 random bits, for the names of unfinished uploads.
    package init(
        folder: String,
        isTemporary: Bool = false,
        disk: DiskCalls = .system,
        draw: @escaping @Sendable () -> UInt64
    ) {
        self.folder = folder
        self.isTemporary = isTemporary
        self.disk = disk
        self.draw = draw
    }

    /// The bytes that uploads leave free on the disk, so that assets do not keep records from being written.
    private static let reserve: UInt64 = 512 * 1024 * 1024

    private var incoming: String { folder + "/incoming" }

    package func path(of hash: AssetHash) -> String { "\(folder)/\(hash.hex.prefix(2))/\(hash.hex)" }

    // MARK: Uploads and lookups

    package func begin() throws(RelayError) -> any AssetUpload { try intake() }

    /// Starts an upload, and returns the path of the file to which its bytes are appended until it is finished.
    package func beginReadable() throws(RelayError) -> (upload: any AssetUpload, path: String) {
        let intake = try intake()
        return (intake, intake.path)
    }

    private func intake() throws(RelayError) -> FileIntake {
        do {
            try flushFolder(incoming)
            guard hasRoom else { throw DiskCalls.Failure("statvfs") }
            let path = incoming + "/" + String(draw(), radix: 16)
            let descriptor = try retry(ifMissing: incoming) {
                disk.open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC)
            }
            guard descriptor >= 0 else { throw DiskCalls.Failure("open") }
            return FileIntake(descriptor: descriptor, path: path, of: self)
        } catch {
            throw AssetFailure.relayError(error)
        }
    }

    private var hasRoom: Bool { FreeSpace.bytes(in: incoming).map { $0 > Self.reserve } ?? true }

    package func file(of hash: AssetHash) -> AssetFile? {
        let path = path(of: hash)
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return AssetFile(path: path, size: Int64(status.st_size))
    }

    package func renew(_ hash: AssetHash) {
        let path = path(of: hash)
        naming.withLock { _ in
            verified.renew(hash, at: path) { _ = utimensat(AT_FDCWD, path, nil, 0) }
        }
    }

    package func isSound(_ file: AssetFile, of hash: AssetHash) async throws(RelayError) -> Bool {
        try await verified.isSound(file, hash)
    }

    /// Returns whether a record may start to use the asset.
    package func isUsable(_ hash: AssetHash) -> Bool {
        file(of: hash) != nil && !markedForRemoval.withLock { $0.contains(hash) }
    }

    /// Renames a finished upload to its hash.
    fileprivate func keep(_ path: String, as hash: AssetHash) throws {
        let target = self.path(of: hash)
        let parent = "\(folder)/\(hash.hex.prefix(2))"
        try flushFolder(parent)
        // Replaces the same content if it exists, and gives it a new time.
        let outcome = try retry(ifMissing: parent) { naming.withLock { _ in disk.rename(path, target) } }
        guard outcome == 0 else { throw DiskCalls.Failure("rename") }
        verified.note(hash, at: target)
        // A new name is on disk only after its folder is flushed.
        try disk.flush(parent)
    }

    /// Creates a folder if it is missing; returns when its name is on disk.
    ///
    /// An existing folder need not be on disk, so the first use in each process flushes.
    private func flushFolder(_ path: String) throws {
        guard !flushedFolders.withLock({ $0.contains(path) }) else { return }
        try disk.makeFolders(path, within: (folder as NSString).deletingLastPathComponent)
        flushedFolders.withLock { _ = $0.insert(path) }
    }

    /// Calls again if the folder has disappeared, as it does when the container's data are reset.
    private func retry(ifMissing folder: String, _ call: () -> Int32) throws -> Int32 {
        let outcome = call()
        guard outcome < 0, errno == ENOENT else { return outcome }
        flushedFolders.withLock { $0 = [] }
        try flushFolder(folder)
        return call()
    }

    // MARK: Removal

    /// Removes uploads that an earlier process left unfinished and that cannot be continued.
    ///
    /// Must be called before the first upload.
    package static func removeIncoming(in folder: String) {
        let incoming = folder + "/incoming"
        for file in (try? FileManager.default.contentsOfDirectory(atPath: incoming)) ?? [] {
            unlink("\(incoming)/\(file)")
        }
    }

    /// Returns the assets last uploaded before `limit`, and removes unfinished uploads that are as old.
    package func assets(before limit: Timestamp) -> [AssetHash] {
        var found: [AssetHash] = []
        for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
            let place = "\(folder)/\(name)"
            for file in (try? FileManager.default.contentsOfDirectory(atPath: place)) ?? []
            where Self.isOlder("\(place)/\(file)", than: limit) {
                if name == "incoming" {
                    unlink("\(place)/\(file)")
                } else if let hash = AssetHash(hex: file) {
                    found.append(hash)
                }
            }
        }
        return found
    }

    /// Returns whether an upload has begun or ended since `limit`.
    package func hasAssets(since limit: Timestamp) -> Bool {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
            let place = "\(folder)/\(name)"
            let files = (try? FileManager.default.contentsOfDirectory(atPath: place)) ?? []
            if files.contains(where: { !Self.isOlder("\(place)/\($0)", than: limit) }) { return true }
        }
        return false
    }

    /// Keeps records from starting to use these assets, until they are spared or removed.
    package func markForRemoval(_ hashes: [AssetHash]) { markedForRemoval.withLock { $0.formUnion(hashes) } }

    package func unmarkForRemoval(_ hashes: [AssetHash]) { markedForRemoval.withLock { $0.subtract(hashes) } }

    /// Removes an asset, unless it was uploaded again since `limit`.
    package func remove(_ hash: AssetHash, ifBefore limit: Timestamp) {
        let path = path(of: hash)
        naming.withLock { _ in if Self.isOlder(path, than: limit) { unlink(path) } }
    }

    private static func isOlder(_ path: String, than limit: Timestamp) -> Bool {
        var status = stat()
        guard stat(path, &status) == 0 else { return false }
        return Int64(status.modified.tv_sec) * 1000 < limit.milliseconds
    }

    package func removeIfTemporary() {
        if isTemporary { try? FileManager.default.removeItem(atPath: folder) }
    }
}

extension AssetHash {
    /// Parses the form that `hex` returns.
    fileprivate init?(hex: String) {
        guard Hex.isDigits(hex, count: AssetHash.byteCount * 2) else { return nil }
        let digits = hex.utf8.map { $0 < 0x3A ? $0 - 0x30 : $0 - 0x57 }
        self.init(stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] })
    }
}

/// A file that is being written, with the hash so far.
private final class FileIntake: AssetUpload {
    /// `nil` while the file is closed between two pieces.
    private var descriptor: Int32?
    let path: String
    private let folder: AssetFolder
    private let hasher = PieceHasher()
    private var size: Int64 = 0
    /// Bytes for which the system has been asked to start writing.
    private var begun: Int64 = 0
    private var isKept = false

    init(descriptor: Int32, path: String, of folder: AssetFolder) {
        self.descriptor = descriptor
        self.path = path
        self.folder = folder
    }

    func rest() {
        if let descriptor { close(descriptor) }
        descriptor = nil
    }

    /// Opens the file again after `rest`, at its end.
    private func opened() throws -> Int32 {
        if let descriptor { return descriptor }
        let reopened = folder.disk.open(path, O_WRONLY | O_APPEND | O_CLOEXEC)
        guard reopened >= 0 else { throw DiskCalls.Failure("open") }
        descriptor = reopened
        return reopened
    }

    func take(_ piece: [UInt8]) throws(RelayError) {
        do {
            let descriptor = try opened()
            hasher.add(piece)
            size += Int64(piece.count)
            guard piece.withUnsafeBytes({ writeAll($0, to: descriptor) }) else { throw DiskCalls.Failure("write") }
            if size - begun >= Self.writeBehind { beginWriting(descriptor) }
        } catch {
            throw AssetFailure.relayError(error)
        }
    }

    private func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = folder.disk.write(descriptor, UnsafeRawBufferPointer(rebasing: rest))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    private static let writeBehind: Int64 = 4 * 1024 * 1024

    /// Makes the disk start to write what has arrived, so that little is left for the flush at the end.
    private func beginWriting(_ descriptor: Int32) {
        #if os(Linux)
            // For dirty pages the advice starts writing them; only clean ones are dropped.
            posix_fadvise(descriptor, off_t(begun), off_t(size - begun), POSIX_FADV_DONTNEED)
        #endif
        begun = size
    }

    func finish() throws(RelayError) -> (hash: AssetHash, size: Int64) {
        do {
            guard let hash = hasher.finish() else { throw DiskCalls.Failure("hash") }
            let descriptor = try opened()
            guard folder.disk.sync(descriptor) == 0 else { throw DiskCalls.Failure("fsync") }
            try folder.keep(path, as: hash)
            isKept = true
            return (hash, size)
        } catch {
            throw AssetFailure.relayError(error)
        }
    }

    deinit {
        rest()
        if !isKept { unlink(path) }
    }
}

/// Converts a failed call to an error for the client, which reveals neither paths nor causes.
private enum AssetFailure {
    static func relayError(_ error: any Error) -> RelayError {
        if let error = error as? RelayError { return error }
        return RelayError(
            .tryAgainLater,
            "The relay cannot store assets right now; its disk may be full.",
            retryAfter: .seconds(30)
        )
    }
}
