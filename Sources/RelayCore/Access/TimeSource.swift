package import Records

/// The two clocks the relay reads, passed in so that tests can turn them.
package struct TimeSource: Sendable {
    /// The calendar's clock.
    ///
    /// It may jump, so it serves only for what is shown or ends at a date.
    package let now: @Sendable () -> Timestamp
    /// Time since some fixed moment.
    ///
    /// It never goes back; rates and intervals are counted by it.
    package let uptime: @Sendable () -> Duration

    package init(now: @escaping @Sendable () -> Timestamp, uptime: @escaping @Sendable () -> Duration) {
        self.now = now
        self.uptime = uptime
    }
}

/// Where unguessable bytes come from, passed in so that tests can repeat a run.
package struct RandomSource: Sendable {
    /// That many bytes, fit for secrets.
    package let bytes: @Sendable (_ count: Int) -> [UInt8]

    package init(bytes: @escaping @Sendable (_ count: Int) -> [UInt8]) { self.bytes = bytes }

    /// Lower-case hex digits of `byteCount` random bytes.
    package func hex(byteCount: Int) -> String { Hex.encode(bytes(byteCount)) }
}

/// Lower-case hexadecimal digits, as tokens, key identifiers and user record names are written.
package enum Hex {
    private static let digits = Array("0123456789abcdef".utf8)

    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        for byte in bytes {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Whether `text` is exactly `count` lower-case hex digits.
    package static func isDigits(_ text: String, count: Int) -> Bool {
        text.utf8.count == count && text.utf8.allSatisfy { $0.isASCIIDigit || (0x61...0x66).contains($0) }
    }
}
