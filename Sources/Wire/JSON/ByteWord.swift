/// Operations on eight bytes of text at a time.
enum ByteWord {
    static let count = 8
    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private static let highs: UInt64 = 0x8080_8080_8080_8080
    private static let quotes = ones &* UInt64(UInt8(ascii: "\""))
    private static let backslashes = ones &* UInt64(UInt8(ascii: "\\"))

    /// Returns the position of the first byte from `start` on that is not plain; the end of the text if all are.
    ///
    /// A plain byte is ASCII and needs no escape in a JSON string.
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

    /// Returns whether a JSON string can contain this byte unescaped.
    @inline(__always)
    static func needsNoEscape(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }

    @inline(__always)
    static func load(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> UInt64 {
        UInt64(littleEndian: UnsafeRawBufferPointer(text).loadUnaligned(fromByteOffset: start, as: UInt64.self))
    }

    /// Returns the index of the first marked byte; at least one must be marked.
    @inline(__always)
    static func index(of marks: UInt64) -> Int { marks.trailingZeroBitCount / 8 }

    /// Marks the first byte that is not plain with its high bit, and possibly later ones; 0 if all are plain.
    ///
    /// Each sum has its high bit set if the byte is plain. It carries into the next byte only if the byte is above
    /// 0x7F, and such a byte is marked itself.
    @inline(__always)
    private static func notPlain(_ word: UInt64) -> UInt64 {
        let control = word &+ ones &* 0x60
        let quote = (word ^ quotes) &+ ones &* 0x7F
        let backslash = (word ^ backslashes) &+ ones &* 0x7F
        return (~(control & quote & backslash) | word) & highs
    }

    /// Marks the first byte that a JSON string must escape with its high bit, and possibly later ones; 0 if there is
    /// none.
    ///
    /// Bytes above 0x7F need no escape. A subtraction borrows from the next byte only if its own byte is marked.
    @inline(__always)
    static func needsEscape(_ word: UInt64) -> UInt64 {
        let control = (word &- ones &* 0x20) & ~word
        let quote = word ^ quotes
        let backslash = word ^ backslashes
        return (control | ((quote &- ones) & ~quote) | ((backslash &- ones) & ~backslash)) & highs
    }
}
