import Crypto
import Dispatch
import Foundation
package import Records
package import RelayCore
import Synchronization

/// A container's assets in one environment: files named by the hash of their content, in a folder beside the records.
///
/// An upload is written to a file of its own, flushed, and renamed: what stands under a hash is whole. The same content
/// is kept once. What no record uses goes some hours after it came, or was uploaded again.
package final class AssetFolder: AssetKeep {
    private let folder: String
    private let isTemporary: Bool
    private let draw: @Sendable () -> UInt64
    private let isReady = Mutex(false)

    /// - Parameters:
    ///   - folder: Made when the first asset comes.
    ///   - isTemporary: Whether it goes with `removeIfTemporary`.
    ///   - draw: Gives random 64 bits, for the names of what is on its way in.
    package init(folder: String, isTemporary: Bool = false, draw: @escaping @Sendable () -> UInt64) {
        self.folder = folder
        self.isTemporary = isTemporary
        self.draw = draw
    }

    /// What uploads leave free of the disk, in bytes: assets that fill it must not keep records from being written.
    private static let reserve: UInt64 = 512 * 1024 * 1024

    private var incoming: String { folder + "/incoming" }

    private func path(of hash: AssetHash) -> String { "\(folder)/\(hash.hex.prefix(2))/\(hash.hex)" }

    // MARK: In and out

    package func begin() throws(RelayError) -> any AssetIntake {
        do {
            try isReady.withLock { isReady in
                if !isReady { try Self.makeFolder(incoming) }
                isReady = true
            }
            guard hasRoom else { throw AssetFailure("statvfs") }
            let path = incoming + "/" + String(draw(), radix: 16)
            let descriptor = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else { throw AssetFailure("open") }
            return FileIntake(descriptor: descriptor, path: path, of: self)
        } catch {
            throw AssetFailure.relayError(error)
        }
    }

    private var hasRoom: Bool {
        var status = statvfs()
        guard statvfs(incoming, &status) == 0 else { return true }
        return UInt64(status.f_bavail) * UInt64(status.f_frsize) > Self.reserve
    }

    package func file(of hash: AssetHash) -> AssetFile? {
        let path = path(of: hash)
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return AssetFile(path: path, size: Int64(status.st_size))
    }

    /// Gives a finished upload its name.
    fileprivate func keep(_ path: String, as hash: AssetHash) throws {
        let target = self.path(of: hash)
        let parent = "\(folder)/\(hash.hex.prefix(2))"
        try Self.makeFolder(parent)
        // In place of the same content, if it was there: it is as new now.
        guard rename(path, target) == 0 else { throw AssetFailure("rename") }
        try Self.flush(folder: parent)
    }

    private static func makeFolder(_ path: String) throws {
        guard !FileManager.default.fileExists(atPath: path) else { return }
        try FileManager.default.createDirectory(
            atPath: path,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        try flush(folder: URL(fileURLWithPath: path).deletingLastPathComponent().path)
    }

    /// A new name in a folder is on the disk only when the folder is.
    private static func flush(folder: String) throws {
        let descriptor = open(folder, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw AssetFailure("open") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw AssetFailure("fsync") }
    }

    // MARK: Clearing up

    /// The assets that came, or came again, before `limit`; and removes what was on its way in since before then.
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

    /// Removes an asset unless it came again since `limit`.
    package func remove(_ hash: AssetHash, ifBefore limit: Timestamp) {
        let path = path(of: hash)
        if Self.isOlder(path, than: limit) { unlink(path) }
    }

    private static func isOlder(_ path: String, than limit: Timestamp) -> Bool {
        var status = stat()
        guard stat(path, &status) == 0 else { return false }
        #if canImport(Darwin)
            let seconds = status.st_mtimespec.tv_sec
        #else
            let seconds = status.st_mtim.tv_sec
        #endif
        return Int64(seconds) * 1000 < limit.milliseconds
    }

    func removeIfTemporary() {
        if isTemporary { try? FileManager.default.removeItem(atPath: folder) }
    }
}

extension AssetHash {
    /// As `hex` writes it.
    fileprivate init?(hex: String) {
        guard Hex.isDigits(hex, count: AssetHash.byteCount * 2) else { return nil }
        let digits = hex.utf8.map { $0 < 0x3A ? $0 - 0x30 : $0 - 0x57 }
        self.init(stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] })
    }
}

/// A file that is being written, with the hash so far.
private final class FileIntake: AssetIntake {
    private var descriptor: Int32
    private let path: String
    private let folder: AssetFolder
    private let hasher = PieceHasher()
    private var size: Int64 = 0
    /// Bytes that the system was told to write.
    private var begun: Int64 = 0
    private var isKept = false

    init(descriptor: Int32, path: String, of folder: AssetFolder) {
        self.descriptor = descriptor
        self.path = path
        self.folder = folder
    }

    func take(_ piece: [UInt8]) throws(RelayError) {
        hasher.add(piece)
        size += Int64(piece.count)
        guard piece.withUnsafeBytes({ writeAll($0) }) else { throw AssetFailure.relayError(AssetFailure("write")) }
        if size - begun >= Self.writeBehind { beginWriting() }
    }

    private func writeAll(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    private static let writeBehind: Int64 = 4 * 1024 * 1024

    /// Has the disk begin with what has come, while the rest is on its way: the flush at the end then finds little left.
    private func beginWriting() {
        #if os(Linux)
            // What it says of dirty pages is that they shall be written; only clean ones are let go.
            posix_fadvise(descriptor, off_t(begun), off_t(size - begun), POSIX_FADV_DONTNEED)
        #endif
        begun = size
    }

    func finish() throws(RelayError) -> (hash: AssetHash, size: Int64) {
        do {
            guard let hash = AssetHash(hasher.finish()) else { throw AssetFailure("hash") }
            guard fsync(descriptor) == 0 else { throw AssetFailure("fsync") }
            try folder.keep(path, as: hash)
            isKept = true
            return (hash, size)
        } catch {
            throw AssetFailure.relayError(error)
        }
    }

    deinit {
        close(descriptor)
        if !isKept { unlink(path) }
    }
}

/// Hashes pieces beside their being written, which takes about as long.
///
/// A few may wait; then whoever brings the next one does.
private final class PieceHasher: @unchecked Sendable {
    // Touched on `queue` alone.
    private var hasher = SHA256()
    private let queue = DispatchQueue(label: "zonecast hashing")
    private let room = DispatchSemaphore(value: 16)

    func add(_ piece: [UInt8]) {
        room.wait()
        queue.async { [self] in
            piece.withUnsafeBytes { hasher.update(bufferPointer: $0) }
            room.signal()
        }
    }

    /// The hash of all that was added.
    func finish() -> SHA256.Digest { queue.sync { hasher.finalize() } }
}

/// A call to the system that failed.
private struct AssetFailure: Error {
    var call: String
    var number: Int32

    init(_ call: String) {
        self.call = call
        number = errno
    }

    /// Nothing of paths and causes is told to a client.
    static func relayError(_ error: any Error) -> RelayError {
        if let error = error as? RelayError { return error }
        return RelayError(
            .tryAgainLater,
            "The relay cannot store assets right now; its disk may be full.",
            retryAfter: .seconds(30)
        )
    }
}
