import Foundation
import GRDBSQLite
import RelaySystem
import Synchronization

/// One of SQLite's files in `CheckedVFS`: wraps the system's file and verifies the pages that are read from the disk.
///
/// Belongs to one connection, which one thread uses at a time.
///
/// A page or frame that was verified is not verified again for some seconds: it is served from memory meanwhile, and
/// only what the system reads from the disk again can have changed.
final class CheckedFile {
    enum Role {
        /// The database file, whose pages have our checksums.
        case pages
        /// The write-ahead log, whose frames have SQLite's checksums.
        case log
        /// Journals and temporary files.
        case other
    }

    private let real: UnsafeMutablePointer<sqlite3_file>
    private let role: Role
    let path: String
    let isReadOnly: Bool
    var index = WALIndex()

    /// 0 until the file's header has been read.
    private var pageSize = 0
    /// Whether eight bytes of each page are reserved for a checksum, as in every file that we create.
    private var hasChecksums = false
    private var log: WALHeader?
    /// When each page, or each frame of the log, was last verified.
    private var verificationTimes: ContiguousArray<UInt16> = []
    /// Frames that were overwritten inside a transaction, and whose checksums are written at its end.
    private var looseFrames: Set<Int> = []
    private var latestFrameHeader = -1
    private let recentFrames: RecentlyWrittenFrames?
    /// A buffer for the page being sealed in a database file, or for the frames held back in a log.
    private var scratch: [UInt8] = []
    /// The offset and length of the held-back frames; the last frame may lack its page.
    private var bufferedStart: Int?
    private var bufferedCount = 0
    /// The offset of the next frame, if known.
    private var logEnd: Int?
    private var buffersFrames = false
    /// Less than 128 KiB, the most that SQLite's own VFS writes in one call.
    private static let writeLimit = (128 << 10) - 1

    init(_ real: UnsafeMutablePointer<sqlite3_file>, path: String?, flags: CInt) {
        self.real = real
        self.path = path ?? ""
        isReadOnly = flags & SQLITE_OPEN_READONLY != 0
        switch flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL) {
        case SQLITE_OPEN_MAIN_DB: role = .pages
        case SQLITE_OPEN_WAL: role = .log
        default: role = .other
        }
        recentFrames = role == .log ? RecentlyWrittenFrames.of(self.path) : nil
    }

    var file: UnsafeMutablePointer<sqlite3_file> { real }
    var methods: UnsafePointer<sqlite3_io_methods>? { real.pointee.pMethods }

    // MARK: Reading

    func read(_ bytes: UnsafeMutableRawBufferPointer, at offset: Int) -> CInt {
        let flushed = flushBuffered()
        guard flushed == SQLITE_OK else { return flushed }
        let status = readReal(bytes, at: offset)
        switch role {
        case .other: return status
        case .log:
            guard status == SQLITE_OK else { return status }
            return readFrame(bytes, at: offset)
        case .pages:
            // SQLite reads zeros past the end of the file.
            guard status == SQLITE_OK || status == CheckedVFS.shortRead else { return status }
            if offset == 0 { learn(from: UnsafeRawBufferPointer(bytes)) }
            guard isPage(bytes.count, at: offset) else {
                return offset == 0 && hidesChecksums(UnsafeRawBufferPointer(bytes)) ? CheckedVFS.damaged : status
            }
            return readPage(bytes, at: offset, status)
        }
    }

    private func readReal(_ bytes: UnsafeMutableRawBufferPointer, at offset: Int) -> CInt {
        guard let read = methods?.pointee.xRead else { return CheckedVFS.ioError }
        return read(real, bytes.baseAddress, CInt(bytes.count), sqlite3_int64(offset))
    }

    private func readPage(_ bytes: UnsafeMutableRawBufferPointer, at offset: Int, _ status: CInt) -> CInt {
        let number = offset / pageSize + 1
        var status = status
        // Twice: a page that another process is just writing is complete the next time.
        for attempt in 0..<2 {
            if attempt > 0 { status = readReal(bytes, at: offset) }
            switch PageChecksum.verdict(on: UnsafeRawBufferPointer(bytes), number: number) {
            case .good:
                setVerified(at: number)
                PageChecksum.unseal(bytes)
                return status
            // Complete pages only: if the file ends within the page, the checksum is missing along with the rest.
            case .unsummed: if status == SQLITE_OK { return status }
            // Only pages that the writer has discarded may be empty.
            case .empty: if !isReadOnly { return status }
            case .damaged: break
            }
        }
        DamageLog.note("page \(number)", of: path)
        return CheckedVFS.damaged
    }

    /// Whether SQLite may read pages where the system has mapped them.
    ///
    /// Only in readers: a changed page would contain its old checksum, which `read` clears.
    var isMappable: Bool { role == .pages && isReadOnly }

    /// Returns whether a mapped page is as it was written.
    func isGoodMapped(_ page: UnsafeRawPointer, count: Int, at offset: Int) -> Bool {
        guard isPage(count, at: offset) else { return pageSize > 0 && !hasChecksums }
        let number = offset / pageSize + 1
        if isVerified(number) { return true }
        // A bad page is read once more by `read`, which reports it.
        guard PageChecksum.verdict(on: UnsafeRawBufferPointer(start: page, count: count), number: number) == .good
        else {
            return false
        }
        setVerified(at: number)
        return true
    }

    /// Returns whether the first page has a checksum but does not say so, because that byte is damaged.
    private func hidesChecksums(_ page: UnsafeRawBufferPointer) -> Bool {
        guard !hasChecksums, pageSize > 0, page.count == pageSize, page[20] != PageChecksum.size else { return false }
        let isStrange = page[20] != 0
        var copy = Array(page)
        copy[20] = UInt8(PageChecksum.size)
        guard isStrange || copy.withUnsafeBytes({ PageChecksum.verdict(on: $0, number: 1) }) == .good else {
            return false
        }
        DamageLog.note("page 1", of: path)
        return true
    }

    /// Returns whether these bytes are one page of a file with checksums.
    private func isPage(_ count: Int, at offset: Int) -> Bool {
        if pageSize == 0 {
            withUnsafeTemporaryAllocation(byteCount: 100, alignment: 8) { head in
                if readReal(head, at: 0) == SQLITE_OK { learn(from: UnsafeRawBufferPointer(head)) }
            }
        }
        return hasChecksums && count == pageSize && offset % pageSize == 0
    }

    /// Reads the properties of all pages from the first page; they never change.
    private func learn(from bytes: UnsafeRawBufferPointer) {
        guard pageSize == 0, bytes.count >= 100, bytes.starts(with: "SQLite format 3\0".utf8) else { return }
        let size = Int(bytes[16]) << 8 | Int(bytes[17])
        pageSize = size == 1 ? 65_536 : size
        hasChecksums = Int(bytes[20]) == PageChecksum.size && pageSize >= 512
        guard hasChecksums else { return }
        scratch = [UInt8](repeating: 0, count: pageSize)
    }

    // MARK: The log

    private func readFrame(_ page: UnsafeMutableRawBufferPointer, at offset: Int) -> CInt {
        guard let frame = frame(ofPage: page.count, at: offset), let head = log, !looseFrames.contains(frame) else {
            return SQLITE_OK
        }
        if isVerified(frame) || recentFrames?.isRecent(frame) == true { return SQLITE_OK }
        for attempt in 0..<2 {
            if attempt > 0 { _ = readReal(page, at: offset) }
            if isGood(UnsafeRawBufferPointer(page), frame, head) {
                setVerified(at: frame)
                return SQLITE_OK
            }
        }
        let name = (path as NSString).lastPathComponent
        DamageLog.note("page \(frame + 1) of \(name)", of: String(path.dropLast(4)))
        return CheckedVFS.damaged
    }

    private func isGood(_ page: UnsafeRawBufferPointer, _ frame: Int, _ head: WALHeader) -> Bool {
        let start = WALChecksum.headerSize + frame * head.frameSize
        return withUnsafeTemporaryAllocation(byteCount: 32, alignment: 8) { bytes in
            let before = UnsafeMutableRawBufferPointer(rebasing: bytes[24...])
            let own = UnsafeMutableRawBufferPointer(rebasing: bytes[..<24])
            // For the first frame, the preceding checksum is at the end of the log's header.
            let place = frame == 0 ? WALChecksum.headerSize - 8 : start - head.frameSize + 16
            guard readReal(before, at: place) == SQLITE_OK, readReal(own, at: start) == SQLITE_OK else { return false }
            let sum = WALChecksum(storedIn: UnsafeRawBufferPointer(before), at: 0)
            return head.isGood(head: UnsafeRawBufferPointer(own), page: page, after: sum)
        }
    }

    /// Returns the index of the frame whose page is at this offset; `nil` for other parts of the log.
    private func frame(ofPage count: Int, at offset: Int) -> Int? {
        if log == nil {
            withUnsafeTemporaryAllocation(byteCount: WALChecksum.headerSize, alignment: 8) { head in
                if readReal(head, at: 0) == SQLITE_OK { log = WALHeader(UnsafeRawBufferPointer(head)) }
            }
        }
        guard let log, count == log.pageSize else { return nil }
        let place = offset - WALChecksum.headerSize - WALChecksum.frameHeaderSize
        return place >= 0 && place % log.frameSize == 0 ? place / log.frameSize : nil
    }

    private func noteLogWrite(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        if offset == 0, bytes.count == WALChecksum.headerSize { log = WALHeader(bytes) }
        guard let log else { return }
        let place = offset - WALChecksum.headerSize
        if bytes.count == WALChecksum.frameHeaderSize, place >= 0, place % log.frameSize == 0 {
            latestFrameHeader = place / log.frameSize
            if !looseFrames.isEmpty { looseFrames.remove(latestFrameHeader) }
        } else if let frame = frame(ofPage: bytes.count, at: offset) {
            if frame != latestFrameHeader { looseFrames.insert(frame) }
            recentFrames?.wrote(frame)
        }
    }

    // MARK: Writing

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> CInt {
        switch role {
        case .other: break
        case .log:
            noteLogWrite(bytes, at: offset)
            return log.map { writeLog(bytes, at: offset, $0) } ?? writeReal(bytes, at: offset)
        case .pages:
            if offset == 0 { learn(from: bytes) }
            guard isPage(bytes.count, at: offset) else { break }
            let number = offset / pageSize + 1
            guard isWritten(page: number, of: pageSize) else { return SQLITE_OK }
            // SQLite's buffer must not be changed.
            return scratch.withUnsafeMutableBytes { page in
                page.copyMemory(from: bytes)
                PageChecksum.seal(page, number: number)
                return writeReal(UnsafeRawBufferPointer(page), at: offset)
            }
        }
        return writeReal(bytes, at: offset)
    }

    private func writeReal(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> CInt {
        guard let write = methods?.pointee.xWrite else { return CheckedVFS.ioError }
        return write(real, bytes.baseAddress, CInt(bytes.count), sqlite3_int64(offset))
    }

    /// Writes to a log: a frame at its end in one call, or the frames of a commit in as few calls as possible.
    ///
    /// SQLite passes a frame's header of 24 bytes and its page separately, and each write costs as much as copying a
    /// page.
    private func writeLog(_ bytes: UnsafeRawBufferPointer, at offset: Int, _ log: WALHeader) -> CInt {
        let isNext = bufferedStart.map { offset == $0 + bufferedCount } ?? true
        if isNext, bufferedCount % log.frameSize != 0, bytes.count == log.pageSize {
            buffer(bytes)
            logEnd = offset + bytes.count
            let hasRoom = bufferedCount + log.frameSize <= scratch.count
            return buffersFrames && hasRoom && !endsCommit(bufferedCount - log.frameSize) ? SQLITE_OK : flushBuffered()
        }
        if isNext, bufferedCount % log.frameSize == 0, bytes.count == WALChecksum.frameHeaderSize, offset == logEnd {
            let room = log.frameSize * (buffersFrames ? Self.writeLimit / log.frameSize : 1)
            if bufferedStart == nil, scratch.count < room { scratch = [UInt8](repeating: 0, count: room) }
            bufferedStart = bufferedStart ?? offset
            buffer(bytes)
            return SQLITE_OK
        }
        let status = flushBuffered()
        guard status == SQLITE_OK else { return status }
        if offset == 0 { logEnd = WALChecksum.headerSize }
        let latestPage = WALChecksum.headerSize + latestFrameHeader * log.frameSize + WALChecksum.frameHeaderSize
        if bytes.count == log.pageSize, offset == latestPage { logEnd = offset + bytes.count }
        return writeReal(bytes, at: offset)
    }

    private func buffer(_ bytes: UnsafeRawBufferPointer) {
        scratch.withUnsafeMutableBytes {
            UnsafeMutableRawBufferPointer(rebasing: $0[bufferedCount...]).copyMemory(from: bytes)
        }
        bufferedCount += bytes.count
    }

    /// Returns whether the held frame is a commit's last, whose header contains the size of the database in pages.
    private func endsCommit(_ frame: Int) -> Bool { scratch[frame + 4..<frame + 8].contains { $0 != 0 } }

    /// Writes the held-back frames; must be called before any other use of the file.
    func flushBuffered() -> CInt {
        guard let start = bufferedStart else { return SQLITE_OK }
        defer { discardBuffered() }
        return scratch.withUnsafeBytes { writeReal(UnsafeRawBufferPointer(rebasing: $0[..<bufferedCount]), at: start) }
    }

    private func discardBuffered() {
        bufferedStart = nil
        bufferedCount = 0
    }

    /// Starts or stops holding frames back until the last one of a commit.
    ///
    /// Everything is written before other connections can see it or it is flushed. Holds frames only during a commit,
    /// when nothing else is written to the log's end. Frames still held at the end belong to a failed commit and are
    /// dropped: other processes may have written there by the time.
    func bufferFrames(_ buffers: Bool) {
        buffersFrames = buffers && role == .log
        guard bufferedStart != nil else { return }
        discardBuffered()
        logEnd = nil
    }

    // MARK: Verification times

    private func isVerified(_ number: Int) -> Bool {
        number < verificationTimes.count && verificationTimes[number] == CoarseClock.now
    }

    private func setVerified(at number: Int) {
        if number >= verificationTimes.count {
            let room = max(number + 1, min(verificationTimes.count * 2, number + 65_536), 64)
            verificationTimes.append(contentsOf: repeatElement(0, count: room - verificationTimes.count))
        }
        verificationTimes[number] = CoarseClock.now
    }
}

/// A clock that ticks every eight seconds and is cheap to read; never 0.
enum CoarseClock {
    static var now: UInt16 {
        var time = timespec()
        #if os(Linux)
            clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
        #else
            clock_gettime(CLOCK_MONOTONIC, &time)
        #endif
        let value = UInt16(truncatingIfNeeded: time.tv_sec / 8)
        return value == 0 ? 1 : value
    }
}

/// Frames of a log that this process has just written, so that its readers need not verify them.
final class RecentlyWrittenFrames: Sendable {
    /// The number of frames that share one time: that of the latest.
    private static let perBlock = 64
    private static let blocks = 4_096
    private struct Weak { weak var frames: RecentlyWrittenFrames? }
    private static let known = Mutex<[String: Weak]>([:])

    // The pointer never changes, and all threads access what it points to as atomics.
    nonisolated(unsafe) private let times: UnsafeMutablePointer<Atomic<UInt16>>

    /// Returns the instance shared by all connections to the log.
    static func of(_ path: String) -> RecentlyWrittenFrames {
        known.withLock { known in
            if let frames = known[path]?.frames { return frames }
            let frames = RecentlyWrittenFrames()
            known = known.filter { $0.value.frames != nil }
            known[path] = Weak(frames: frames)
            return frames
        }
    }

    private init() {
        times = .allocate(capacity: Self.blocks)
        for index in 0..<Self.blocks { (times + index).initialize(to: Atomic(0)) }
    }

    deinit {
        times.deinitialize(count: Self.blocks)
        times.deallocate()
    }

    func wrote(_ frame: Int) {
        let block = frame / Self.perBlock
        if block < Self.blocks { times[block].store(CoarseClock.now, ordering: .relaxed) }
    }

    func isRecent(_ frame: Int) -> Bool {
        let block = frame / Self.perBlock
        return block < Self.blocks && times[block].load(ordering: .relaxed) == CoarseClock.now
    }
}

/// SQLite's index of a write-ahead log: a file beside it, or memory if no such file can be created.
///
/// Without this, data on a disk that is mounted read-only or full could not even be read, exactly when it must be
/// copied to another disk. For files that it may not write, SQLite can work without the index file
/// (`SQLITE_READONLY_CANTINIT`, sqlite.org/rescode.html): it then reads the log at the start of each read.
struct WALIndex {
    /// Never reset: the index must not change during a read.
    private var isInMemory = false
    /// Whether there is a file in which other processes can see our locks.
    private var hasFile = true

    private static let isUnusable = SQLITE_READONLY | 5 << 8
    /// In bytes: an index takes at least 32 KiB, and grows with its log.
    private static let leastRoom: UInt64 = 1 << 20

    /// Maps a part of the index, or returns SQLite's code for working without one.
    ///
    /// `map` asks the system for the part and stores its address in `part`. `path` is the path of the database file;
    /// `isReadOnly` is whether this is the first part and the caller never writes through it.
    mutating func map(
        _ path: String,
        isReadOnly: Bool,
        _ part: UnsafeMutablePointer<UnsafeMutableRawPointer?>?,
        _ map: () -> CInt
    ) -> CInt {
        if isInMemory { return Self.isUnusable }
        let status = map()
        if status == SQLITE_CANTOPEN, FreeSpace.isReadOnly(path) {
            (isInMemory, hasFile) = (true, false)
        } else if status == SQLITE_OK, isReadOnly, part?.pointee == nil {
            // No process has an index, and there may be no room for one. Others see our locks in the file, and wait.
            isInMemory = FreeSpace.bytes(in: path).map { $0 < Self.leastRoom } ?? false
        }
        return isInMemory ? Self.isUnusable : status
    }

    /// Without an index file no other process can be using the database: the disk is read-only.
    func lock(_ lock: () -> CInt) -> CInt { hasFile ? lock() : SQLITE_OK }
}
