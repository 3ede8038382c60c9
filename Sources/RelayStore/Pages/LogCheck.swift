import Foundation

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

    /// Whether commits were on the disk that cannot be read any more.
    package var isDamaged: Bool { lostCommits > 1 }

    /// Looks through the log whose first bytes are `head`; `frame` gives a frame with its head by its number from 0, and
    /// nothing behind the last.
    init(head: LogHead, frame: (_ number: Int) throws -> [UInt8]?) rethrows {
        var sum = head.sum
        var (number, isBroken, commits) = (0, false, 0)
        while let bytes = try frame(number) {
            number += 1
            let (isOurs, isGood, isCommit, next) = bytes.withUnsafeBytes { bytes in
                let salt = UInt64(LogSum.number(bytes, 8)) << 32 | UInt64(LogSum.number(bytes, 12))
                return (
                    salt == head.salt, head.isGood(bytes, after: sum), LogSum.number(bytes, 4) != 0,
                    LogSum(storedIn: bytes, at: 16)
                )
            }
            sum = next
            // What is from before the log began anew, or room kept free, is no part of it.
            if isOurs, isGood {
                if isBroken, isCommit { commits += 1 } else if !isBroken { goodFrames += 1 }
            } else {
                commits = 0
                if isBroken, !isOurs { break }
                isBroken = true
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
        guard let head = bytes(LogSum.headSize, at: 0)?.withUnsafeBytes({ LogHead($0) }) else { return nil }
        self.init(head: head) { bytes(head.frameSize, at: LogSum.headSize + $0 * head.frameSize) }
    }

    /// Throws where commits are lost that were on the disk; before anybody opens the file.
    static func demandWhole(_ path: String) throws {
        // Another process may be writing to it: what is wrong is so every time.
        for _ in 0..<3 {
            guard let check = try LogCheck(ofFile: path), check.isDamaged else { return }
        }
        DamageLedger.note("a page in the log behind \((path as NSString).lastPathComponent)", of: path)
        throw StoreFailure.damaged("the log of \(path)")
    }
}
