/// A 64-bit FNV-1a hash; stable across processes and versions, because it is stored in files and tokens.
///
/// Detects accidental differences only: collisions are easy to construct.
package struct Fingerprint: Sendable {
    package var sum: UInt64

    @inlinable package init() { sum = 0xCBF2_9CE4_8422_2325 }

    @inlinable package init(of bytes: some Sequence<UInt8>) {
        self.init()
        add(bytes)
    }

    package init(of text: String) {
        self.init()
        add(text)
    }

    @inlinable package mutating func add(_ byte: UInt8) { sum = (sum ^ UInt64(byte)) &* 0x100_0000_01B3 }

    @inlinable package mutating func add(_ bytes: some Sequence<UInt8>) {
        for byte in bytes { add(byte) }
    }

    package mutating func add(_ text: String) {
        var text = text
        text.withUTF8 { add($0) }
    }

    /// Returns 128 bits of two independent hashes, for shortening long names.
    package static func pair(of bytes: some Sequence<UInt8>) -> (UInt64, UInt64) {
        var (first, second) = (Fingerprint(), Fingerprint())
        second.sum = 0x6C62_272E_07BB_0142
        for byte in bytes {
            first.add(byte)
            second.add(byte &+ 0x5B)
        }
        return (first.sum, second.sum)
    }
}
