/// The checksum of a write-ahead log's frames, which SQLite itself verifies only when a process opens the log.
///
/// The log is a header of 32 bytes, followed by frames: a header of 24 bytes and a page. Each frame's checksum
/// continues that of the frame before. See the SQLite file format, section 4.2.
package struct LogSum: Hashable, Sendable {
    static let headSize = 32
    static let frameHeadSize = 24

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
struct LogHead: Hashable, Sendable {
    var isBigEndian: Bool
    var pageSize: Int
    /// Frames with another salt were written before the log last started over.
    var salt: UInt64
    var sum: LogSum

    /// `nil` if the bytes are not the header of a log.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= LogSum.headSize else { return nil }
        let magic = LogSum.number(bytes, 0)
        guard magic & 0xFFFF_FFFE == 0x377F_0682 else { return nil }
        isBigEndian = magic & 1 == 1
        pageSize = Int(LogSum.number(bytes, 8))
        guard (512...65_536).contains(pageSize), pageSize & (pageSize - 1) == 0 else { return nil }
        salt = UInt64(LogSum.number(bytes, 16)) << 32 | UInt64(LogSum.number(bytes, 20))
        sum = LogSum()
        sum.add(UnsafeRawBufferPointer(rebasing: bytes[..<24]), isBigEndian: isBigEndian)
        guard sum == LogSum(storedIn: bytes, at: 24) else { return nil }
    }

    var frameSize: Int { LogSum.frameHeadSize + pageSize }

    /// Returns whether a frame, given with its header, is as it was written after a frame with that checksum.
    func isGood(_ frame: UnsafeRawBufferPointer, after before: LogSum) -> Bool {
        isGood(head: frame, page: UnsafeRawBufferPointer(rebasing: frame[LogSum.frameHeadSize...]), after: before)
    }

    func isGood(head: UnsafeRawBufferPointer, page: UnsafeRawBufferPointer, after before: LogSum) -> Bool {
        var sum = before
        sum.add(UnsafeRawBufferPointer(rebasing: head[..<8]), isBigEndian: isBigEndian)
        sum.add(page, isBigEndian: isBigEndian)
        return sum == LogSum(storedIn: head, at: 16)
    }
}
