/// Eight bytes of text looked at together.
enum ByteWord {
    static let count = 8
    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private static let highs: UInt64 = 0x8080_8080_8080_8080
    private static let quotes = ones &* UInt64(UInt8(ascii: "\""))
    private static let backslashes = ones &* UInt64(UInt8(ascii: "\\"))

    /// Where the first byte stands, from `start` on, that is not plain: no ASCII, or one that a JSON string cannot hold as it
    /// is; the end of the text where there is none.
    @inline(__always)
    static func endOfPlain(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        var position = start
        while position <= text.count - count {
            let found = notPlain(load(text, from: position))
            if found != 0 { return position + index(of: found) }
            position += count
        }
        while position < text.count, isPlain(text[position]) { position += 1 }
        return position
    }

    @inline(__always)
    static func isPlain(_ byte: UInt8) -> Bool { byte < 0x80 && needsNoEscape(byte) }

    /// Whether a JSON string holds this byte as it is.
    @inline(__always)
    static func needsNoEscape(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }

    @inline(__always)
    static func load(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> UInt64 {
        UInt64(littleEndian: UnsafeRawBufferPointer(text).loadUnaligned(fromByteOffset: start, as: UInt64.self))
    }

    /// Which of the eight comes first of those that are marked; one must be.
    @inline(__always)
    static func index(of marks: UInt64) -> Int { marks.trailingZeroBitCount / 8 }

    /// Marks, by its high bit, the first byte that is not plain, and perhaps some after it; zero where all are.
    ///
    /// Each sum has its high bit set where the byte is in order; it runs over into the next byte only from one above 0x7F,
    /// which is marked itself.
    @inline(__always)
    private static func notPlain(_ word: UInt64) -> UInt64 {
        let control = word &+ ones &* 0x60
        let quote = (word ^ quotes) &+ ones &* 0x7F
        let backslash = (word ^ backslashes) &+ ones &* 0x7F
        return (~(control & quote & backslash) | word) & highs
    }

    /// Marks, by its high bit, the first byte that a JSON string must not hold as it is, and perhaps some after it; zero
    /// where all are in order, be they ASCII or not.
    ///
    /// A difference borrows from the next byte only where its own is marked.
    @inline(__always)
    static func needsEscape(_ word: UInt64) -> UInt64 {
        let control = (word &- ones &* 0x20) & ~word
        let quote = word ^ quotes
        let backslash = word ^ backslashes
        return (control | ((quote &- ones) & ~quote) | ((backslash &- ones) & ~backslash)) & highs
    }
}
