/// Eight bytes of text looked at together.
enum ByteWord {
    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private static let highs: UInt64 = 0x8080_8080_8080_8080

    /// Whether there are eight bytes at `start` that a JSON string holds as they are, be they ASCII or not.
    @inline(__always)
    static func needsNoEscape(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> Bool {
        guard start + 8 <= text.count else { return false }
        return marks(of: load(text, from: start)) & highs == 0
    }

    /// The same, and all of them ASCII, which need no look at how they follow each other.
    @inline(__always)
    static func isPlain(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> Bool {
        guard start + 8 <= text.count else { return false }
        let word = load(text, from: start)
        return (marks(of: word) | word) & highs == 0
    }

    @inline(__always)
    private static func load(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> UInt64 {
        UnsafeRawBufferPointer(text).loadUnaligned(fromByteOffset: start, as: UInt64.self)
    }

    /// A byte's high bit comes out set where it is below 0x20, or zero once the character is taken off.
    @inline(__always)
    private static func marks(of word: UInt64) -> UInt64 {
        let control = (word &- ones &* 0x20) & ~word
        let quote = word ^ (ones &* UInt64(UInt8(ascii: "\"")))
        let backslash = word ^ (ones &* UInt64(UInt8(ascii: "\\")))
        return control | ((quote &- ones) & ~quote) | ((backslash &- ones) & ~backslash)
    }
}
