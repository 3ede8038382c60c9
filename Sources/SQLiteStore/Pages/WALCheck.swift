import Foundation
import GRDB
import GRDBSQLite

/// The checksum of a write-ahead log's frames, which SQLite itself verifies only when a process opens the log.
///
/// The log is a header of 32 bytes, followed by frames: a header of 24 bytes and a page. Each frame's checksum
/// continues that of the frame before. See the SQLite file format, section 4.2.
package struct WALChecksum: Hashable, Sendable {
    static let headerSize = 32
    static let frameHeaderSize = 24

    private var first: UInt32
    private var second: UInt32

    /// Reads a stored checksum, which is big-endian whatever the byte order of the summed words is.
    init(storedIn bytes: UnsafeRawBufferPointer, at offset: Int) {
        first = Self.number(bytes, offset)
        second = Self.number(bytes, offset + 4)
    }

    init() { (first, second) = (0, 0) }

    /// Adds more bytes, a multiple of eight.
    ///
    /// - Parameters:
    ///   - bytes: the bytes to add.
    ///   - isBigEndian: whether the log's writer read the words as big-endian.
    mutating func add(_ bytes: UnsafeRawBufferPointer, isBigEndian: Bool) {
        var (s1, s2) = (first, second)
        var offset = 0
        while offset + 8 <= bytes.count {
            let one = bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
            let two = bytes.loadUnaligned(fromByteOffset: offset + 4, as: UInt32.self)
            s1 = s1 &+ (isBigEndian ? one.bigEndian : one.littleEndian) &+ s2
            s2 = s2 &+ (isBigEndian ? two.bigEndian : two.littleEndian) &+ s1
            offset += 8
        }
        (first, second) = (s1, s2)
    }

    static func number(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> UInt32 {
        UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }
}

/// The contents of a log's header, which is 32 bytes.
struct WALHeader: Hashable, Sendable {
    var isBigEndian: Bool
    var pageSize: Int
    /// Frames with another salt were written before the log last started over.
    var salt: UInt64
    var sum: WALChecksum

    /// `nil` if the bytes are not the header of a log.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= WALChecksum.headerSize else { return nil }
        let magic = WALChecksum.number(bytes, 0)
        guard magic & 0xFFFF_FFFE == 0x377F_0682 else { return nil }
        isBigEndian = magic & 1 == 1
        pageSize = Int(WALChecksum.number(bytes, 8))
        guard (512...65_536).contains(pageSize), pageSize & (pageSize - 1) == 0 else { return nil }
        salt = UInt64(WALChecksum.number(bytes, 16)) << 32 | UInt64(WALChecksum.number(bytes, 20))
        sum = WALChecksum()
        sum.add(UnsafeRawBufferPointer(rebasing: bytes[..<24]), isBigEndian: isBigEndian)
        guard sum == WALChecksum(storedIn: bytes, at: 24) else { return nil }
    }

    var frameSize: Int { WALChecksum.frameHeaderSize + pageSize }

    /// Returns whether a frame, given with its header, is as it was written after a frame with that checksum.
    func isGood(_ frame: UnsafeRawBufferPointer, after before: WALChecksum) -> Bool {
        isGood(
            head: frame,
            page: UnsafeRawBufferPointer(rebasing: frame[WALChecksum.frameHeaderSize...]),
            after: before
        )
    }

    func isGood(head: UnsafeRawBufferPointer, page: UnsafeRawBufferPointer, after before: WALChecksum) -> Bool {
        var sum = before
        sum.add(UnsafeRawBufferPointer(rebasing: head[..<8]), isBigEndian: isBigEndian)
        sum.add(page, isBigEndian: isBigEndian)
        return sum == WALChecksum(storedIn: head, at: 16)
    }
}

/// Checks a write-ahead log before SQLite opens it.
///
/// When a process opens the log, SQLite takes the first frame with a wrong checksum for the log's end, since that is
/// what a power cut leaves of the last commit. But a frame that was flushed and damaged later looks the same, and every
/// later commit would be lost silently. The two cases differ: a commit is flushed before the next one is written, so a
/// frame that merely never reached the disk is followed by at most one commit.
package struct WALCheck: Sendable {
    /// The number of frames before the first one that is not as it was written.
    package private(set) var goodFrames = 0
    /// The length of the longest series of commits with consecutive checksums after the first bad frame.
    package private(set) var lostCommits = 0
    /// Whether the log's header is valid.
    ///
    /// The header is flushed before the first frame is written, and fits into a disk's smallest block: no power cut
    /// leaves frames without it.
    package private(set) var hasHeader = true

    /// Whether commits that were on disk can no longer be read.
    package var isDamaged: Bool { !hasHeader || lostCommits > 1 }

    private init() {}

    /// Checks the log with the header `head`.
    ///
    /// `frame` returns a frame with its header by its index, or `nil` after the last one.
    init(head: WALHeader, frame: (_ number: Int) throws -> [UInt8]?) rethrows {
        var sum = head.sum
        var (number, isBroken, commits) = (0, false, 0)
        while let bytes = try frame(number) {
            number += 1
            let (isGood, isCommit, next) = bytes.withUnsafeBytes { bytes in
                // A frame with another salt is older than the log's last restart and not part of it. Damage may look
                // the same, so the frames after it are checked for consecutive checksums.
                let salt = UInt64(WALChecksum.number(bytes, 8)) << 32 | UInt64(WALChecksum.number(bytes, 12))
                return (
                    salt == head.salt && head.isGood(bytes, after: sum), WALChecksum.number(bytes, 4) != 0,
                    WALChecksum(storedIn: bytes, at: 16)
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
        guard let head = bytes(WALChecksum.headerSize, at: 0) else { return nil }
        guard let head = head.withUnsafeBytes({ WALHeader($0) }) else {
            guard bytes(WALChecksum.frameHeaderSize, at: WALChecksum.headerSize) != nil else { return nil }
            self.init()
            hasHeader = false
            return
        }
        self.init(head: head) { bytes(head.frameSize, at: WALChecksum.headerSize + $0 * head.frameSize) }
    }

    // MARK: Before a file is opened

    /// Throws if commits that were on disk are lost; must be called before the file is opened, which may change it.
    static func requireIntact(_ path: String) throws {
        guard let fault = try fault(of: path) else { return }
        DamageLog.note(fault, of: path)
        throw StoreFailure.damaged("\(path): \(fault)")
    }

    /// Returns what is wrong with a file or its log, in a few words; `nil` if neither has lost anything.
    private static func fault(of path: String) throws -> String? {
        let name = (path as NSString).lastPathComponent
        // SQLite takes an empty file for a new one, and discards its log.
        guard let bytes = size(of: path), bytes > 0 else {
            let log = size(of: path + "-wal") ?? 0
            if log > WALChecksum.headerSize { return "\(name) is missing or empty, but its log is not" }
            guard let mark = StoreMarker.name(for: path) else { return nil }
            return "\(name) is missing or empty; to start with an empty store, remove \(mark)"
        }
        // Another process may be writing. Real damage is found at the same place every time.
        var place: Int?
        for _ in 0..<100 {
            guard let check = try WALCheck(ofFile: path), check.isDamaged else { return nil }
            guard check.goodFrames != place else {
                return check.hasHeader ? "a page in the log of \(name)" : "the header of the log of \(name)"
            }
            place = check.goodFrames
        }
        return nil
    }

    /// Returns the size in bytes; `nil` if there is no such file.
    package static func size(of path: String) -> Int? {
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
        try WALCheck.requireIntact(path)
        // A store's file is never empty: it is created with its tables in one step.
        guard WALCheck.size(of: path) != 0 else {
            DamageLog.note("\((path as NSString).lastPathComponent) is empty", of: path)
            throw StoreFailure.damaged("\(path) is empty")
        }
        return try DatabaseQueue(path: CheckedVFS.address(of: path), configuration: configuration)
    }
}

extension DatabaseQueue {
    /// Turns on the write-ahead log if it is off, with a flush for each commit.
    ///
    /// GRDB's setting is not used: it creates and drops a table each time a file is opened, which fails on a full disk,
    /// so that nothing could even be read; and it flushes too little to keep an answered change through a power cut.
    ///
    /// The log and its index stay beside the file, empty, when the last connection closes. Creating them again takes
    /// some disk space, and a full disk must serve reads after a restart too.
    func enableDurableLog() throws {
        try inDatabase { database in
            // Fetches all rows: the file's header is written after the row, and a caller that stops there misses an
            // error.
            let mode = try String.fetchAll(database, sql: "PRAGMA journal_mode = WAL").first
            guard mode == "wal" else {
                throw DatabaseError(resultCode: .SQLITE_CANTOPEN, message: "The write-ahead log cannot be turned on.")
            }
            try database.execute(sql: "PRAGMA synchronous = FULL")
            // Truncates a log that grew during a long read, once it starts over: each start of the relay writes all of
            // it.
            try database.execute(sql: "PRAGMA journal_size_limit = \(64 << 20)")
            var stays: CInt = 1
            sqlite3_file_control(database.sqliteConnection, "main", SQLITE_FCNTL_PERSIST_WAL, &stays)
        }
    }
}
