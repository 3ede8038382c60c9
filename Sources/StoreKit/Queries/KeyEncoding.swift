package import Records

/// Keys as bytes, in whose order the keys are: for stores that compare index entries byte by byte.
///
/// One byte for the kind: 0 `absent`, 1 numbers, 2 text, 3 bytes. Text and bytes follow as they are, and end with the
/// value. A number follows in 10 bytes: the greatest double that is not greater, with its bits arranged so that they
/// sort, and what is missing from it to an integer. Thus `number` and `real` keys compare with each other exactly, and
/// equal ones are the same bytes.
extension QueryKey {
    private enum Kind {
        static let absent: UInt8 = 0
        static let number: UInt8 = 1
        static let text: UInt8 = 2
        static let bytes: UInt8 = 3
    }

    /// The encoded key.
    package var ordered: [UInt8] {
        switch self {
        case .absent: return [Kind.absent]
        case .number(let number):
            var double = Double(number)
            // Rounded up, which may be beyond the greatest integer.
            if Int64(exactly: double).map({ $0 > number }) ?? true { double = double.nextDown }
            return Self.ordered(double, UInt16(truncatingIfNeeded: number &- (Int64(exactly: double) ?? number)))
        case .real(let number): return Self.ordered(number, 0)
        case .text(let text): return [Kind.text] + text.utf8
        case .bytes(let bytes): return [Kind.bytes] + bytes
        }
    }

    private static func ordered(_ double: Double, _ rest: UInt16) -> [UInt8] {
        // 0.0 and -0.0 are equal.
        let bits = double == 0 ? 0 : double.bitPattern
        // Negative numbers sort by magnitude, the wrong way round; positive ones only lack a sign that sorts.
        let sortable = bits >> 63 == 1 ? ~bits : bits | 1 << 63
        return [Kind.number] + (0..<8).map { UInt8(truncatingIfNeeded: sortable >> (56 - 8 * UInt64($0))) }
            + [UInt8(rest >> 8), UInt8(rest & 0xFF)]
    }

    /// Decodes a key that equals the encoded one; `nil` if the bytes are damaged.
    package init?(ordered bytes: some Collection<UInt8>) {
        guard let kind = bytes.first else { return nil }
        let rest = bytes.dropFirst()
        switch kind {
        case Kind.absent:
            guard rest.isEmpty else { return nil }
            self = .absent
        case Kind.number:
            guard rest.count == 10 else { return nil }
            let sortable = rest.prefix(8).reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
            let double = Double(bitPattern: sortable >> 63 == 1 ? sortable & ~(1 << 63) : ~sortable)
            let missing = rest.suffix(2).reduce(0 as Int64) { $0 << 8 | Int64($1) }
            if let whole = Int64(exactly: double) {
                let (number, isTooLarge) = whole.addingReportingOverflow(missing)
                guard !isTooLarge else { return nil }
                self = .number(number)
            } else {
                guard missing == 0 else { return nil }
                self = .real(double)
            }
        case Kind.text:
            guard let text = String(validating: rest, as: UTF8.self) else { return nil }
            self = .text(text)
        case Kind.bytes: self = .bytes(Array(rest))
        default: return nil
        }
    }
}
