/// Validates UTF-8 incrementally, failing at the first invalid byte (RFC 3629; RFC 6455, 8.1).
struct UTF8Stream {
    /// The number of continuation bytes that the current sequence still needs.
    private var needed: UInt8 = 0
    /// The range of the next continuation byte, which is narrower after some lead bytes.
    private var lowest: UInt8 = 0x80
    private var highest: UInt8 = 0xBF

    /// Whether no sequence is incomplete; must be true at the end of the text.
    var isComplete: Bool { needed == 0 }

    /// Validates the next bytes; returns `false` at the first invalid byte, after which the value must not be used.
    mutating func accepts(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var index = 0
        while index < bytes.count {
            if needed == 0 {
                index = Self.skipASCII(bytes, from: index)
                guard index < bytes.count else { return true }
                guard begins(bytes[index]) else { return false }
            } else {
                guard (lowest...highest).contains(bytes[index]) else { return false }
                needed -= 1
                lowest = 0x80
                highest = 0xBF
            }
            index += 1
        }
        return true
    }

    private mutating func begins(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x00...0x7F: return true
        case 0xC2...0xDF: needed = 1
        case 0xE0...0xEF:
            needed = 2
            if byte == 0xE0 { lowest = 0xA0 }
            if byte == 0xED { highest = 0x9F }
        case 0xF0...0xF4:
            needed = 3
            if byte == 0xF0 { lowest = 0x90 }
            if byte == 0xF4 { highest = 0x8F }
        default: return false
        }
        return true
    }

    /// Skips ASCII, which most texts consist of, eight bytes at a time.
    private static func skipASCII(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int {
        var index = start
        while index + 8 <= bytes.count,
            bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self) & 0x8080_8080_8080_8080 == 0
        {
            index += 8
        }
        while index < bytes.count, bytes[index] < 0x80 { index += 1 }
        return index
    }
}
