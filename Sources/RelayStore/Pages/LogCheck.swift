import Foundation
import GRDB

/// Looks through a write-ahead log before SQLite does.
///
/// At a start SQLite takes the first frame whose sum is wrong for the log's end, since that is what a power cut leaves of
/// the last commit. But a frame that was flushed and damaged later looks the same, and everything committed after it would
/// be forgotten without a word. What tells them apart: a commit is flushed before the next is written, so behind a frame that
/// merely never reached the disk there is one commit at the most.
package struct LogCheck: Sendable {
    /// Frames that are as they were written, up to the first that is not.
    package private(set) var goodFrames = 0
    /// Commits among the frames behind the first bad one that hang together.
    package private(set) var lostCommits = 0
    /// Whether the log is one that can be read at all.
    ///
    /// Its head is flushed before the first frame is written, and fits into a disk's smallest block: no power cut leaves frames
    /// without one.
    package private(set) var hasHead = true

    /// Whether commits were on the disk that cannot be read any more.
    package var isDamaged: Bool { !hasHead || lostCommits > 1 }

    private init() {}

    /// Looks through the log whose first bytes are `head`; `frame` gives a frame with its head by its number from 0, and
    /// nothing behind the last.
    init(head: LogHead, frame: (_ number: Int) throws -> [UInt8]?) rethrows {
        var sum = head.sum
        var (number, isBroken, commits) = (0, false, 0)
        while let bytes = try frame(number) {
            number += 1
            let (isGood, isCommit, next) = bytes.withUnsafeBytes { bytes in
                // What is from before the log began anew is no part of it. But what is damaged may look so: behind it goes on
                // what hangs together.
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

    /// Looks through the log of a store's file; `nil` where there is none.
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

    /// Throws where commits are lost that were on the disk; before anybody opens the file, which may change it.
    static func demandWhole(_ path: String) throws {
        guard let fault = try fault(of: path) else { return }
        DamageLedger.note(fault, of: path)
        throw StoreFailure.damaged("\(path): \(fault)")
    }

    /// What is wrong with a file or the log behind it, in a few words; `nil` where neither has lost anything.
    private static func fault(of path: String) throws -> String? {
        let name = (path as NSString).lastPathComponent
        // SQLite takes a file without content for a new one, and throws the log behind it away.
        guard let bytes = size(of: path), bytes > 0 else {
            let log = size(of: path + "-wal") ?? 0
            if log > LogSum.headSize { return "\(name) is missing or empty, the log behind it is not" }
            guard let mark = StoreMark.name(for: path) else { return nil }
            return "\(name) is missing or empty; to begin with nothing in its place, remove \(mark)"
        }
        // Another process may be writing to it: what is wrong is so, and at the same place, every time.
        var place: Int?
        for _ in 0..<100 {
            guard let check = try LogCheck(ofFile: path), check.isDamaged else { return nil }
            guard check.goodFrames != place else {
                return check.hasHead ? "a page in the log behind \(name)" : "the head of the log behind \(name)"
            }
            place = check.goodFrames
        }
        return nil
    }

    /// In bytes; `nil` where there is no such file.
    static func size(of path: String) -> Int? {
        var facts = stat()
        return stat(path, &facts) == 0 ? Int(facts.st_size) : nil
    }
}

extension DatabaseQueue {
    /// Opens a file that is there, looking through its log first: whoever opens it without takes what a damaged log still has
    /// for all there was, and may write over the rest.
    ///
    /// Throws `StoreFailure.damaged` where commits are lost, and what SQLite throws.
    static func ofStore(_ path: String, _ configuration: Configuration) throws -> DatabaseQueue {
        try LogCheck.demandWhole(path)
        // None is ever without content: each is made at one stroke.
        guard LogCheck.size(of: path) != 0 else {
            DamageLedger.note("\((path as NSString).lastPathComponent) is empty", of: path)
            throw StoreFailure.damaged("\(path) is empty")
        }
        return try DatabaseQueue(path: CheckedVFS.address(of: path), configuration: configuration)
    }
}
