/// The header of a file in a tar archive: POSIX.1-2001's `ustar` header, after an extended one if a path or size is too
/// long.
///
/// https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html, "ustar Interchange Format".
enum TarHeader {
    static let block = 512
    /// The largest size that fits into eleven octal digits.
    private static let largestSize: Int64 = 0o77_777_777_777

    /// Returns the header of a plain file that only its owner can read.
    ///
    /// - Parameters:
    ///   - path: the parts separated by `/`, without one at either end.
    ///   - size: the size in bytes.
    ///   - modified: the modification time, in seconds since 1970.
    /// - Returns: whole blocks.
    static func of(_ path: String, size: Int64, modified: Int64) -> [UInt8] {
        let parts = size > largestSize ? nil : split(path)
        guard let (prefix, name) = parts else {
            var records: [UInt8] = record("path", path)
            if size > largestSize { records += record("size", "\(size)") }
            let extended = header(
                name: "./PaxHeaders/file",
                prefix: "",
                kind: "x",
                size: Int64(records.count),
                modified
            )
            // Readers use the extended records; the short forms are for readers that do not know them.
            let short = header(
                name: String(decoding: path.utf8.suffix(100).drop { $0 & 0xC0 == 0x80 }, as: UTF8.self),
                prefix: "",
                kind: "0",
                size: min(size, largestSize),
                modified
            )
            return extended + padded(records) + short
        }
        return header(name: name, prefix: prefix, kind: "0", size: size, modified)
    }

    /// Returns the number of zeros up to the next block after a file of this size.
    static func padding(after size: Int64) -> Int { Int((Int64(block) - size % Int64(block)) % Int64(block)) }

    /// The end of an archive.
    static let end = [UInt8](repeating: 0, count: 2 * block)

    private static func padded(_ bytes: [UInt8]) -> [UInt8] {
        bytes + [UInt8](repeating: 0, count: padding(after: Int64(bytes.count)))
    }

    /// Splits at a `/` so that both parts fit; `nil` if that is impossible, or the path is not ASCII.
    private static func split(_ path: String) -> (prefix: String, name: String)? {
        let bytes = Array(path.utf8)
        guard bytes.allSatisfy({ $0 < 0x80 }) else { return nil }
        if bytes.count <= 100 { return ("", path) }
        let slash = UInt8(ascii: "/")
        guard let cut = bytes.indices.first(where: { bytes[$0] == slash && bytes.count - $0 - 1 <= 100 }), cut <= 155
        else { return nil }
        return (String(decoding: bytes[..<cut], as: UTF8.self), String(decoding: bytes[(cut + 1)...], as: UTF8.self))
    }

    /// Returns `LENGTH key=value\n`; the length includes itself.
    private static func record(_ key: String, _ value: String) -> [UInt8] {
        let rest = " \(key)=\(value)\n".utf8.count
        var length = rest + 1
        while "\(length)".utf8.count + rest != length { length = "\(length)".utf8.count + rest }
        return Array("\(length) \(key)=\(value)\n".utf8)
    }

    private static func header(
        name: String,
        prefix: String,
        kind: Character,
        size: Int64,
        _ modified: Int64
    ) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(block)
        func text(_ text: String, _ width: Int) {
            let start = bytes.count
            bytes += text.utf8.prefix(width)
            bytes += [UInt8](repeating: 0, count: start + width - bytes.count)
        }
        func octal(_ number: Int64, _ width: Int) {
            let digits = String(max(0, number), radix: 8)
            text(String(repeating: "0", count: max(0, width - 1 - digits.count)) + digits, width)
        }
        text(name, 100)
        octal(0o600, 8)
        octal(0, 8)
        octal(0, 8)
        octal(size, 12)
        octal(modified, 12)
        let sum = bytes.count
        text(String(repeating: " ", count: 8), 8)
        text(String(kind), 1)
        text("", 100)
        text("ustar", 6)
        text("00", 2)
        text("", 32)
        text("", 32)
        octal(0, 8)
        octal(0, 8)
        text(prefix, 155)
        text("", 12)
        let digits = String(bytes.reduce(0) { $0 + Int($1) }, radix: 8)
        let checksum = String(repeating: "0", count: max(0, 6 - digits.count)) + digits
        bytes.replaceSubrange(sum..<(sum + 8), with: Array(checksum.utf8) + [0, UInt8(ascii: " ")])
        return bytes
    }
}
