/// A request's place in a trace, which may have begun in another program: what the header `traceparent` says.
///
/// W3C Trace Context, level 1: `00-{32 hex digits}-{16}-{2}`.
package struct TraceContext: Hashable, Sendable {
    package struct TraceID: Hashable, Sendable {
        package var high: UInt64
        package var low: UInt64

        package init(high: UInt64, low: UInt64) {
            self.high = high
            self.low = low
        }

        /// 32 hex digits.
        package var text: String { TraceContext.digits(high) + TraceContext.digits(low) }
    }

    package var trace: TraceID
    /// The span that this one belongs under.
    package var span: UInt64
    /// Whether whoever began the trace keeps it.
    package var isSampled: Bool

    package init(trace: TraceID, span: UInt64, isSampled: Bool) {
        self.trace = trace
        self.span = span
        self.isSampled = isSampled
    }

    /// Reads the header; `nil` for what is none, which begins a trace anew.
    package init?(traceparent: String) {
        let bytes = Array(traceparent.utf8)
        // Later versions may have more behind another dash.
        guard bytes.count == 55 || (bytes.count > 55 && bytes[55] == Self.dash), bytes[2] == Self.dash,
            bytes[35] == Self.dash, bytes[52] == Self.dash, let version = Self.number(bytes[0..<2]), version != 255,
            version != 0 || bytes.count == 55, let high = Self.number(bytes[3..<19]),
            let low = Self.number(bytes[19..<35]), high | low != 0, let span = Self.number(bytes[36..<52]), span != 0,
            let flags = Self.number(bytes[53..<55])
        else { return nil }
        self.init(trace: TraceID(high: high, low: low), span: span, isSampled: flags & 1 == 1)
    }

    /// 16 hex digits, as identifiers of spans are written.
    package static func digits(_ number: UInt64) -> String {
        let text = String(number, radix: 16)
        return String(repeating: "0", count: 16 - text.count) + text
    }

    private static let dash = UInt8(ascii: "-")

    /// Lower-case hex digits alone, as the standard has it.
    private static func number(_ digits: ArraySlice<UInt8>) -> UInt64? {
        var number: UInt64 = 0
        for digit in digits {
            switch digit {
            case 0x30...0x39: number = number << 4 | UInt64(digit - 0x30)
            case 0x61...0x66: number = number << 4 | UInt64(digit - 0x61 + 10)
            default: return nil
            }
        }
        return number
    }
}
