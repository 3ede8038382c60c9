/// The part of a file that a request asks for.
///
/// See RFC 9110, 14. One range is supported; a list of ranges or a malformed header returns the whole file.
package enum ByteRange: Hashable {
    case whole
    case part(offset: Int64, length: Int64)
    /// The range is outside the file: 416.
    case none

    package init(_ header: String?, size: Int64) {
        self = header.flatMap { Self.parse($0, size: size) } ?? .whole
    }

    private static func parse(_ header: String, size: Int64) -> ByteRange? {
        guard header.lowercased().hasPrefix("bytes="), !header.contains(",") else { return nil }
        let ends = header.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, ends.allSatisfy({ $0.utf8.count <= 18 && $0.utf8.allSatisfy(isDigit) }) else {
            return nil
        }
        switch (Int64(ends[0]), Int64(ends[1])) {
        case (nil, nil): return nil
        case (nil, let last?):
            guard last > 0, size > 0 else { return ByteRange.none }
            return .part(offset: max(0, size - last), length: min(last, size))
        case (let first?, nil):
            return first < size ? .part(offset: first, length: size - first) : ByteRange.none
        case (let first?, let last?):
            guard first <= last else { return nil }
            return first < size ? .part(offset: first, length: min(last, size - 1) - first + 1) : ByteRange.none
        }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }
}
