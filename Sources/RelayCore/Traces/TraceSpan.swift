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
