/// Something that took time on the way of one request.
package struct TraceSpan: Hashable, Sendable {
    /// As OpenTelemetry numbers them.
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
    /// `nil`: the trace begins here.
    package var parent: UInt64?
    package var name: String
    package var kind: Kind
    /// Nanoseconds since 1970.
    package var start: Int64
    package var end: Int64
    /// Never anything private: no name of a record, zone or person, no token, no address.
    package var attributes: [Attribute]
    /// Failed by no fault of the client's.
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

/// Where finished spans go.
package protocol TraceSink: Sendable {
    /// Takes them or drops them, and returns at once: called on the threads that answer requests.
    func take(_ spans: [TraceSpan])
}
