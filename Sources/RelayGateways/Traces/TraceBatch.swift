import Foundation
package import RelayCore

/// Spans in OTLP 1.0 JSON for OpenTelemetry collectors: the message `ExportTraceServiceRequest`.
///
/// 64-bit numbers are encoded as text, and identifiers as hex digits.
package struct TraceBatch: Encodable, Sendable {
    private struct AnyValue: Encodable {
        var stringValue: String?
        var intValue: String?

        init(_ value: TraceSpan.Value) {
            switch value {
            case .text(let text): stringValue = text
            case .number(let number): intValue = "\(number)"
            }
        }
    }

    private struct KeyValue: Encodable {
        var key: String
        var value: AnyValue

        init(_ attribute: TraceSpan.Attribute) {
            key = attribute.name
            value = AnyValue(attribute.value)
        }
    }

    private struct Status: Encodable {
        /// 2 for an error; omitted for success.
        var code: Int
    }

    private struct Span: Encodable {
        var traceId: String
        var spanId: String
        var parentSpanId: String?
        var name: String
        var kind: Int
        var startTimeUnixNano: String
        var endTimeUnixNano: String
        var attributes: [KeyValue]
        var status: Status?

        init(_ span: TraceSpan) {
            traceId = span.trace.text
            spanId = TraceContext.digits(span.id)
            parentSpanId = span.parent.map { TraceContext.digits($0) }
            name = span.name
            kind = span.kind.rawValue
            startTimeUnixNano = "\(span.start)"
            endTimeUnixNano = "\(span.end)"
            attributes = span.attributes.map { KeyValue($0) }
            status = span.isFailure ? Status(code: 2) : nil
        }
    }

    private struct Scope: Encodable {
        var name: String
        var version: String
    }

    private struct ScopeSpans: Encodable {
        var scope: Scope
        var spans: [Span]
    }

    private struct Resource: Encodable {
        var attributes: [KeyValue]
    }

    private struct ResourceSpans: Encodable {
        var resource: Resource
        var scopeSpans: [ScopeSpans]
    }

    private var resourceSpans: [ResourceSpans]

    /// - Parameters:
    ///   - spans: The spans to send.
    ///   - service: The relay's name, by which the collector groups spans.
    ///   - version: The version of the program.
    package init(_ spans: [TraceSpan], service: String, version: String) {
        let attributes: [TraceSpan.Attribute] = [
            .init("service.name", .text(service)), .init("service.version", .text(version)),
        ]
        resourceSpans = [
            ResourceSpans(
                resource: Resource(attributes: attributes.map { KeyValue($0) }),
                scopeSpans: [
                    ScopeSpans(
                        scope: Scope(name: "zonecast", version: version),
                        spans: spans.map { Span($0) }
                    )
                ]
            )
        ]
    }

    /// Returns the body of the request.
    package func json() throws -> [UInt8] { Array(try JSONEncoder().encode(self)) }
}
