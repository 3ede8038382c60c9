import RelayGateways

/// Settings of the trace export.
extension ConfigurationKeys {
    static let traces: [ConfigurationKey] = [
        .text(
            "traces.endpoint",
            \.traces.endpoint,
            "an address beginning with http:// or https://, like http://127.0.0.1:4318/v1/traces",
            "The OpenTelemetry collector, called by OTLP over HTTP (JSON); tracing is disabled if it is not set.",
            read: { $0 ?? "" },
            parse: { TraceExporter.Settings.admits($0) ? .some($0) : nil }
        ),
        .whole(
            "traces.sample",
            \.traces.permille,
            0...1000,
            unit: "of 1000 requests",
            "The share of requests that are traced; requests with a traceparent follow its sampled flag, up to 200 per second."
        ),
        .text(
            "traces.token-file",
            \.traces.tokenFile,
            "the absolute path of a file",
            "A file with one line: the bearer token for the collector.",
            read: { $0 ?? "" },
            parse: { $0.hasPrefix("/") ? .some($0) : nil }
        ),
    ]
}
