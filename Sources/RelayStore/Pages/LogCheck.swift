import Foundation
import GRDB

/// Checks a write-ahead log before SQLite opens it.
///
/// When a process opens the log, SQLite takes the first frame with a wrong checksum for the log's end, since that is
/// what a power cut leaves of the last commit. But a frame that was flushed and damaged later looks the same, and every
/// later commit would be lost silently. The two cases differ: a commit is flushed before the next one is written, so a
/// frame that merely never reached the disk is followed by at most one commit.
package struct LogCheck: Sendable {
    /// The number of frames before the first one that is not as it was written.
    package private(set) var goodFrames = 0
    /// The length of the longest series of commits with consecutive checksums after the first bad frame.
    package private(set) var lostCommits = 0
    /// Whether the log's header is valid.
    ///
    /// The header is flushed before the first frame is written, and fits into a disk's smallest block: no power cut
    /// leaves frames without it.
    package private(set) var hasHead = true

    /// Whether commits that were on disk can no longer be read.
    package var isDamaged: Bool { !hasHead || lostCommits > 1 }

    private init() {}

    /// Checks the log with the header `head`.
    ///
    /// `frame` returns a frame with its header by its index, or `nil` after the last one.
    init(head: LogHead, frame: (_ number: Int) throws -> [UInt8]?) rethrows {
        var sum = head.sum
        var (number, isBroken, commits) = (0, false, 0)
        while let bytes = try frame(number) {
            number += 1
            let (isGood, isCommit, next) = bytes.withUnsafeBytes { bytes in
                // A frame with another salt is older than the log's last restart and not part of it. Damage may look
                // the same, so the frames after it are checked for consecutive checksums.
                let salt = UInt64(LogSum.number(bytes, 8)) << 32 | UInt64(LogSum.number(bytes, 12))
                return (
                    salt == head.salt && head.isGood(bytes, after: sum), LogSum.number(bytes, 4) != 0,
                    LogSum(storedIn: bytes, at: 16)
                )
            }
            sum = next
            if !isGood {
                (commits, isBroken) = (0, true)
            } else if !isBroken {
                goodFrames += 1
            } else if isCommit {
                commits += 1
            }
            lostCommits = max(lostCommits, commits)
        }
    }

    /// Checks the log of a store's file; `nil` if there is no log.
    package init?(ofFile path: String) throws {
        let descriptor = open(path + "-wal", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        func bytes(_ count: Int, at offset: Int) -> [UInt8]? {
            var buffer = [UInt8](repeating: 0, count: count)
            return pread(descriptor, &buffer, count, off_t(offset)) == count ? buffer : nil
        }
        guard let head = bytes(LogSum.headSize, at: 0) else { return nil }
        guard let head = head.withUnsafeBytes({ LogHead($0) }) else {
            guard bytes(LogSum.frameHeadSize, at: LogSum.headSize) != nil else { return nil }
            self.init()
            hasHead = false
            return
        }
        self.init(head: head) { bytes(head.frameSize, at: LogSum.headSize + $0 * head.frameSize) }
    }

    // MARK: Before a file is opened

    /// Throws if commits that were on disk are lost; must be called before the file is opened, which may change it.
    static func demandWhole(_ path: String) throws {
        guard let fault = try fault(of: path) else { return }
        DamageLedger.note(fault, of: path)
        throw StoreFailure.damaged("\(path): \(fault)")
    }

    /// Returns what is wrong with a file or its log, in a few words; `nil` if neither has lost anything.
    private static func fault(of path: String) throws -> String? {
        let name = (path as NSString).lastPathComponent
        // SQLite takes an empty file for a new one, and discards its log.
        guard let bytes = size(of: path), bytes > 0 else {
            let log = size(of: path + "-wal") ?? 0
            if log > LogSum.headSize { return "\(name) is missing or empty, but its log is not" }
            guard let mark = StoreMark.name(for: path) else { return nil }
            return "\(name) is missing or empty; to start with an empty store, remove \(mark)"
        }
        // Another process may be writing. Real damage is found at the same place every time.
        var place: Int?
        for _ in 0..<100 {
            guard let check = try LogCheck(ofFile: path), check.isDamaged else { return nil }
            guard check.goodFrames != place else {
                return check.hasHead ? "a page in the log of \(name)" : "the header of the log of \(name)"
            }
            place = check.goodFrames
        }
        return nil
    }

    /// Returns the size in bytes; `nil` if there is no such file.
    static func size(of path: String) -> Int? {
        var facts = stat()
        return stat(path, &facts) == 0 ? Int(facts.st_size) : nil
    }
}

extension DatabaseQueue {
    /// Opens an existing store file, after a check of its log.
    ///
    /// Opening it without the check would take the readable part of a damaged log for all of it, and might overwrite
    /// the rest.
    ///
    /// Throws `StoreFailure.damaged` if commits are lost, or the error of SQLite.
    static func ofStore(_ path: String, _ configuration: Configuration) throws -> DatabaseQueue {
        try LogCheck.demandWhole(path)
        // A store's file is never empty: it is created with its tables in one step.
        guard LogCheck.size(of: path) != 0 else {
            DamageLedger.note("\((path as NSString).lastPathComponent) is empty", of: path)
            throw StoreFailure.damaged("\(path) is empty")
        }
        return try DatabaseQueue(path: CheckedVFS.address(of: path), configuration: configuration)
    }
}
