/// A request's position in a distributed trace, as sent in the header `traceparent`.
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
    /// The parent span.
    package var span: UInt64
    /// Whether the trace's initiator records the trace.
    package var isSampled: Bool

    package init(trace: TraceID, span: UInt64, isSampled: Bool) {
        self.trace = trace
        self.span = span
        self.isSampled = isSampled
    }

    /// Parses the header; returns `nil` if it is invalid, in which case a new trace starts.
    package init?(traceparent: String) {
        let bytes = Array(traceparent.utf8)
        // Later versions may append fields after another dash.
        guard bytes.count == 55 || (bytes.count > 55 && bytes[55] == Self.dash), bytes[2] == Self.dash,
            bytes[35] == Self.dash, bytes[52] == Self.dash, let version = Self.number(bytes[0..<2]), version != 255,
            version != 0 || bytes.count == 55, let high = Self.number(bytes[3..<19]),
            let low = Self.number(bytes[19..<35]), high | low != 0, let span = Self.number(bytes[36..<52]), span != 0,
            let flags = Self.number(bytes[53..<55])
        else { return nil }
        self.init(trace: TraceID(high: high, low: low), span: span, isSampled: flags & 1 == 1)
    }

    /// Formats a number as 16 hex digits, as in span identifiers.
    package static func digits(_ number: UInt64) -> String {
        let text = String(number, radix: 16)
        return String(repeating: "0", count: 16 - text.count) + text
    }

    private static let dash = UInt8(ascii: "-")

    /// Accepts only lower-case hex digits, as the standard requires.
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

/// A timed step in the processing of one request.
package struct TraceSpan: Hashable, Sendable {
    /// The values of OpenTelemetry.
    package enum Kind: Int, Sendable {
        case `internal` = 1
        case server = 2
        case producer = 4
    }

    package enum Value: Hashable, Sendable {
        case text(String)
        case number(Int)
    }

    package struct Attribute: Hashable, Sendable {
        package var name: String
        package var value: Value

        package init(_ name: String, _ value: Value) {
            self.name = name
            self.value = value
        }
    }

    package var trace: TraceContext.TraceID
    package var id: UInt64
    /// `nil` for a root span.
    package var parent: UInt64?
    package var name: String
    package var kind: Kind
    /// Nanoseconds since 1970.
    package var start: Int64
    package var end: Int64
    /// Contains nothing private: no names of records, zones or people, no tokens and no addresses.
    package var attributes: [Attribute]
    /// Whether the step failed for a reason other than the client's request.
    package var isFailure: Bool

    package init(
        trace: TraceContext.TraceID,
        id: UInt64,
        parent: UInt64?,
        name: String,
        kind: Kind,
        start: Int64,
        end: Int64,
        attributes: [Attribute] = [],
        isFailure: Bool = false
    ) {
        self.trace = trace
        self.id = id
        self.parent = parent
        self.name = name
        self.kind = kind
        self.start = start
        self.end = end
        self.attributes = attributes
        self.isFailure = isFailure
    }
}

/// The destination of finished spans.
package protocol TraceSink: Sendable {
    /// Accepts or drops the spans. Must not block: called on the threads that answer requests.
    func take(_ spans: [TraceSpan])
}
