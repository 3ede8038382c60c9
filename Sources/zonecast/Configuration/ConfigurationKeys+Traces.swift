import RelayGateways

/// Where traces go.
extension ConfigurationKeys {
    static let traces: [ConfigurationKey] = [
        .text(
            "traces.endpoint",
            \.traces.endpoint,
            "an address beginning with http:// or https://, like http://127.0.0.1:4318/v1/traces",
            "Where OpenTelemetry traces go by OTLP over HTTP (JSON); without it there are none, and they cost nothing.",
            read: { $0 ?? "" },
            parse: { TraceExporter.Settings.admits($0) ? .some($0) : nil }
        ),
        .whole(
            "traces.sample",
            \.traces.permille,
            0...1000,
            unit: "of 1000 requests",
            "Are traced; one that comes with a traceparent is traced if that says so, up to 200 such in a second."
        ),
        .text(
            "traces.token-file",
            \.traces.tokenFile,
            "the path of a file, from / on",
            "Whose one line is shown to the collector as a bearer token.",
            read: { $0 ?? "" },
            parse: { $0.hasPrefix("/") ? .some($0) : nil }
        ),
    ]
}
