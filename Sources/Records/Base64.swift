/// Base64 with the standard alphabet and padding, used for bytes fields, tokens and signatures.
///
/// See Wire.md, "Field values".
package enum Base64 {
    private static let alphabet: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

    /// The value of each alphabet byte, 255 for every other byte.
    private static let values: [UInt8] = {
        var table = [UInt8](repeating: 255, count: 256)
        for value in 0..<alphabet.utf8CodeUnitCount { table[Int(alphabet.utf8Start[value])] = UInt8(value) }
        return table
    }()

    /// Returns the length of the encoding of `count` bytes.
    package static func length(of count: Int) -> Int { (count + 2) / 3 * 4 }

    /// Writes the encoding of `bytes` to `output`, which must have enough space.
    package static func write(_ bytes: UnsafeBufferPointer<UInt8>, to output: UnsafeMutablePointer<UInt8>) {
        let alphabet = alphabet.utf8Start
        var output = output
        var position = 0
        while position < bytes.count {
            let left = bytes.count - position
            var bits = Int(bytes[position]) << 16
            if left > 1 { bits |= Int(bytes[position + 1]) << 8 }
            if left > 2 { bits |= Int(bytes[position + 2]) }
            output[0] = alphabet[bits >> 18]
            output[1] = alphabet[bits >> 12 & 63]
            output[2] = left > 1 ? alphabet[bits >> 6 & 63] : UInt8(ascii: "=")
            output[3] = left > 2 ? alphabet[bits & 63] : UInt8(ascii: "=")
            output += 4
            position += 3
        }
    }

    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        bytes.withContiguousStorageIfAvailable(encode) ?? Array(bytes).withUnsafeBufferPointer(encode)
    }

    private static func encode(_ bytes: UnsafeBufferPointer<UInt8>) -> String {
        let length = length(of: bytes.count)
        return String(unsafeUninitializedCapacity: length) { output in
            if let start = output.baseAddress { write(bytes, to: start) }
            return length
        }
    }

    /// Decodes strictly: complete groups of four, padding only at the end, unused bits zero; `nil` otherwise.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        // In two steps, because the closure's result is also `nil` on failure.
        if let decoded = text.withContiguousStorageIfAvailable(decode) { return decoded }
        return Array(text).withUnsafeBufferPointer(decode)
    }

    private static func decode(_ text: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
        guard text.count % 4 == 0 else { return nil }
        // An array without capacity is a global singleton whose count must not be written.
        if text.isEmpty { return [] }
        let padding = text.suffix(2).count { $0 == UInt8(ascii: "=") }
        var isGood = true
        let decoded = [UInt8](unsafeUninitializedCapacity: text.count / 4 * 3) { output, count in
            var bits: UInt32 = 0
            var pending = 0
            values.withUnsafeBufferPointer { values in
                for byte in text.dropLast(padding) {
                    let value = values[Int(byte)]
                    guard value != 255 else { return isGood = false }
                    bits = bits << 6 | UInt32(value)
                    pending += 6
                    if pending >= 8 {
                        pending -= 8
                        output[count] = UInt8(truncatingIfNeeded: bits >> UInt32(pending))
                        count += 1
                        bits &= (1 << UInt32(pending)) - 1
                    }
                }
            }
            isGood = isGood && bits == 0
        }
        return isGood ? decoded : nil
    }

    package static func decode(_ text: String) -> [UInt8]? { decode(text.utf8) }
}

/// Base64url without padding, used in tokens and URLs (RFC 7515, appendix C).
package enum Base64URL {
    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        var text = Base64.encode(bytes).utf8.map { byte -> UInt8 in
            switch byte {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            default: byte
            }
        }
        while text.last == UInt8(ascii: "=") { text.removeLast() }
        return String(decoding: text, as: UTF8.self)
    }

    /// Decodes strictly; `nil` for invalid text, including text with padding.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard text.count % 4 != 1, !text.contains(where: { "+/=".utf8.contains($0) }) else { return nil }
        var padded: [UInt8] = text.map {
            switch $0 {
            case UInt8(ascii: "-"): UInt8(ascii: "+")
            case UInt8(ascii: "_"): UInt8(ascii: "/")
            default: $0
            }
        }
        while padded.count % 4 != 0 { padded.append(UInt8(ascii: "=")) }
        return Base64.decode(padded)
    }
}
