/// The standard alphabet with padding: bytes fields, tokens and signatures travel in it.
///
/// Wire reference 4.4.
package enum Base64 {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    /// The value of each alphabet byte, 255 for every other byte.
    private static let values: [UInt8] = {
        var table = [UInt8](repeating: 255, count: 256)
        for (value, byte) in alphabet.enumerated() { table[Int(byte)] = UInt8(value) }
        return table
    }()

    /// Appends the encoding of `bytes` to `output`.
    package static func encode(_ bytes: some Collection<UInt8>, into output: inout [UInt8]) {
        output.reserveCapacity(output.count + (bytes.count + 2) / 3 * 4)
        var iterator = bytes.makeIterator()
        while let a = iterator.next() {
            let b = iterator.next()
            let c = b == nil ? nil : iterator.next()
            let bits = UInt32(a) << 16 | UInt32(b ?? 0) << 8 | UInt32(c ?? 0)
            output.append(alphabet[Int(bits >> 18)])
            output.append(alphabet[Int(bits >> 12 & 63)])
            output.append(b == nil ? UInt8(ascii: "=") : alphabet[Int(bits >> 6 & 63)])
            output.append(c == nil ? UInt8(ascii: "=") : alphabet[Int(bits & 63)])
        }
    }

    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        var output: [UInt8] = []
        encode(bytes, into: &output)
        return String(decoding: output, as: UTF8.self)
    }

    /// Strict: whole groups of four, padding only at the end, unused bits zero; `nil` otherwise.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard text.count % 4 == 0 else { return nil }
        guard !text.isEmpty else { return [] }
        let padding = text.suffix(2).reduce(0) { $0 + ($1 == UInt8(ascii: "=") ? 1 : 0) }
        var output: [UInt8] = []
        output.reserveCapacity(text.count / 4 * 3)
        var bits: UInt32 = 0
        var pending = 0
        for byte in text.dropLast(padding) {
            let value = values[Int(byte)]
            guard value != 255 else { return nil }
            bits = bits << 6 | UInt32(value)
            pending += 6
            if pending >= 8 {
                pending -= 8
                output.append(UInt8(truncatingIfNeeded: bits >> UInt32(pending)))
                bits &= (1 << UInt32(pending)) - 1
            }
        }
        return bits == 0 ? output : nil
    }

    package static func decode(_ text: String) -> [UInt8]? { decode(text.utf8) }
}
