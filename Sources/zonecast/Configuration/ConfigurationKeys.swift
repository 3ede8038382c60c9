import Logging
import Records
import RelayAPI
import RelayCore
import RelayServer

/// The table of all keys: reading a configuration, checking one and `zonecast config reference` all go by it.
enum ConfigurationKeys {
    static let all: [ConfigurationKey] =
        places + tokens + signIns + rates + quotas + connections + transport + requests + sockets + noticeSockets
        + pushes + logs + traces + alerts

    private static let year = 31_536_000
    /// In days.
    private static let (shortestHorizon, longestHorizon) = (90, 36_500)

    private static let places: [ConfigurationKey] = [
        .text(
            "data",
            \.data,
            "the path of a folder, a home folder's written out",
            "Where everything is kept.",
            read: { $0 },
            // Only a shell knows ~, and not behind an = either: it would be made here as a folder of that name.
            parse: { $0.isEmpty || $0.hasPrefix("~") ? nil : $0 }
        ),
        .text(
            "listen",
            \.address,
            "an address and a port, like 127.0.0.1:8080",
            "Where to listen; port 0 lets the system choose.",
            read: { "\($0)" },
            parse: { ListenAddress($0) }
        ),
        .text(
            "public-url",
            \.signIn.publicURL,
            "an address beginning with http:// or https://",
            "Where browsers reach the relay, for sign-in links; by default the request's own host.",
            read: { $0 ?? "" },
            parse: { publicURL($0) }
        ),
        .text(
            "tls-cert",
            \.tlsCertificates,
            "the path of a PEM file",
            "Certificate and chain, for TLS in the relay itself; read anew when it changes. None behind a proxy.",
            read: { $0 ?? "" },
            parse: { $0.isEmpty ? nil : .some($0) }
        ),
        .text(
            "tls-key",
            \.tlsKey,
            "the path of a PEM file",
            "The private key of tls-cert.",
            read: { $0 ?? "" },
            parse: { $0.isEmpty ? nil : .some($0) }
        ),
        .flag("dev", \.isDev, "Take any dev- token as a user and make unknown containers. Loopback only."),
        .flag("demo", \.servesDemo, "Serve the browser demo at /demo/; by default with --dev."),
        .flag(
            "console",
            \.servesConsole,
            "Serve the operator's console at /console/; by default with --dev. zonecast console link lets somebody in."
        ),
        .flag(
            "test-door",
            \.server.testDoor,
            "Open a WebSocket echo for conformance suites. Loopback only; not with tls-cert or an https public-url."
        ),
        ConfigurationKey(
            name: "trusted-proxies",
            unit: "",
            meaning: "Proxies whose X-Forwarded-For is believed.",
            form: "a list of addresses or ranges with commas between, like 10.0.0.0/8",
            read: { $0.trustedProxies },
            write: { settings, text in
                guard let ranges = ranges(text) else { return false }
                settings.trustedProxies = text
                settings.server.trustedProxies = ranges
                return true
            }
        ),
        .text(
            "loops",
            \.server.loops,
            ConfigurationKey.form(1...256),
            unit: "threads",
            "Event loops that share the connections; by default one for each core.",
            read: { $0.map { "\($0)" } ?? "" },
            parse: { ConfigurationKey.within(1...256, $0).map { .some($0) } }
        ),
    ]

    private static let tokens: [ConfigurationKey] = [
        .seconds("tokens.lifetime", \.signIn.briefLifetime, 60...year, "How long a web auth token lives."),
        .seconds("tokens.kept-lifetime", \.signIn.keptLifetime, 60...year, "The same with \"keep me signed in\"."),
        .text(
            "tokens.grace",
            \.signIn.grace,
            ConfigurationKey.form(0...year),
            unit: "seconds",
            "How long a token still works after its successor was handed out; by default to its own end.",
            read: { $0.map { "\($0.components.seconds)" } ?? "" },
            parse: { ConfigurationKey.within(0...year, $0).map { .some(.seconds($0)) } }
        ),
        .seconds(
            "tokens.signature-window",
            \.signIn.signatureWindow,
            1...3600,
            "How far a signed request's date may be from the relay's clock."
        ),
    ]

    private static let signIns: [ConfigurationKey] = [
        .text(
            "sign-in.allowed-origins",
            \.allowedOrigins,
            "a list of origins with commas between, like https://app.example",
            "Pages that may call every container, besides those of each API token.",
            read: { $0 },
            parse: { text in
                let origins = text.split(separator: ",").map { $0.filter { !$0.isWhitespace } }
                return origins.allSatisfy { APIToken.isOrigin($0) } ? text : nil
            }
        ),
        .seconds(
            "sign-in.issuer-clock-skew",
            \.signIn.issuerClockSkew,
            0...600,
            "How far the clock of an issuer of identity tokens may be from the relay's."
        ),
        .seconds(
            "sign-in.issuer-key-lifetime",
            \.signIn.issuerKeys.lifetime,
            60...86_400,
            "How long an issuer's keys serve before they are fetched again."
        ),
        .seconds(
            "sign-in.issuer-key-pause",
            \.signIn.issuerKeys.pause,
            1...3600,
            "Between two fetches from one issuer, whatever keys tokens name: nobody can make the relay call it often."
        ),
    ]

    private static let rates: [ConfigurationKey] = [
        .whole(
            "limits.requests-per-second",
            \.requestsPerSecond,
            0...1_000_000,
            unit: "requests",
            "Of one user, or one address nobody has signed in at; 0: any number (so with --dev)."
        ),
        .whole(
            "limits.request-burst",
            \.requestBurst,
            0...10_000_000,
            unit: "requests",
            "How many of those may come at once."
        ),
        .whole(
            "limits.public-requests-per-second",
            \.publicRequestsPerSecond,
            0...1_000_000,
            unit: "requests",
            "To a container's public database, shared by all its callers; 0: any number (so with --dev)."
        ),
        .whole(
            "limits.public-requests-per-user",
            \.publicRequestsPerSecondPerUser,
            0...1_000_000,
            unit: "requests",
            "A second, of each signed-in user's own there, before the shared ones: the whole grows with active users."
        ),
        .whole(
            "limits.failed-credentials-per-minute",
            \.failedCredentialsPerMinute,
            0...1_000_000,
            unit: "requests",
            "With wrong tokens or signatures, from one address; 0: any number (so with --dev)."
        ),
        .whole(
            "limits.failed-sign-ins-per-account",
            \.failedSignInsPerHourPerAccount,
            0...10_000,
            unit: "attempts",
            "Wrong passwords for one account in an hour, from anywhere, whether or not it is there; 0: any number."
        ),
        .whole(
            "limits.failed-sign-ins-per-minute",
            \.failedSignInsPerMinute,
            0...10_000,
            unit: "attempts",
            "Wrong passwords from one address; 0: any number."
        ),
    ]

    private static let connections: [ConfigurationKey] = [
        .whole(
            "limits.connections",
            \.server.limits.connections,
            1...1_000_000,
            unit: "connections",
            "Open at once, in all; with --dev as many as the process may open, up to 30000."
        ),
        .whole(
            "limits.sockets-per-user",
            \.notices.connectionsPerUser,
            1...1_000_000,
            unit: "sockets",
            "Notice sockets of one user in one container; 30000 with --dev."
        ),
        .whole(
            "limits.connections-per-address",
            \.server.limits.connectionsPerAddress,
            1...1_000_000,
            unit: "connections",
            "Open at once from one address; 30000 with --dev."
        ),
        .whole(
            "limits.requests-per-connection",
            \.server.limits.requestsPerConnection,
            1...1_000_000_000,
            unit: "requests",
            "After so many a connection is closed."
        ),
        .seconds("limits.keep-alive", \.server.limits.keepAlive, 1...3600, "A connection without a request ends."),
        .seconds("limits.write-stall", \.server.limits.writeStall, 1...3600, "A peer that takes nothing is cut off."),
        .seconds("limits.shutdown", \.server.limits.shutdown, 0...600, "On a stop, what is unfinished then is cut."),
    ]

    private static let requests: [ConfigurationKey] = [
        .whole("limits.request-line", \.server.limits.requestLine, 256...65_536, unit: "bytes", "Of a request line."),
        .whole("limits.header-field", \.server.limits.headerField, 256...65_536, unit: "bytes", "Of one header field."),
        .whole("limits.header-list", \.server.limits.headerList, 1024...1_048_576, unit: "bytes", "Of all of them."),
        .whole("limits.header-count", \.server.limits.headerCount, 10...1000, unit: "fields", "In one request."),
        .whole("limits.body", \.server.limits.body, 1024...67_108_864, unit: "bytes", "Of a request's body."),
        .seconds("limits.head-time", \.server.limits.headTime, 1...600, "To the end of a request's head."),
        .seconds("limits.body-gap", \.server.limits.bodyGap, 1...600, "Between two pieces of a body."),
        .seconds("limits.body-time", \.server.limits.bodyTime, 1...3600, "To the end of a body."),
        .whole(
            "limits.items",
            \.limits.itemsPerRequest,
            1...10_000,
            unit: "items",
            "Operations or records in one request or answer."
        ),
        .whole("limits.record", \.limits.recordBytes, 1024...16_777_216, unit: "bytes", "Of one record's fields."),
        .whole("limits.field", \.limits.fieldBytes, 1024...16_777_216, unit: "bytes", "Of one field."),
        .whole("limits.asset", \.largestAsset, 1024...4_294_967_296, unit: "bytes", "Of one asset."),
        .seconds(
            "assets.download-lifetime",
            \.assets.downloadLifetime,
            60...86_400,
            "How long a download address is good."
        ),
        .seconds(
            "assets.upload-lifetime",
            \.assets.uploadLifetime,
            60...86_400,
            "How long an upload address is good."
        ),
        .seconds(
            "assets.receipt-lifetime",
            \.assets.receiptLifetime,
            60...604_800,
            "How long after its upload an asset can be saved in a record; what nobody uses goes an hour later."
        ),
        .whole("limits.zones", \.limits.zonesPerUser, 1...1_000_000, unit: "zones", "Of one user."),
        .text(
            "tombstones.horizon",
            \.tombstoneDays,
            "0 or \(ConfigurationKey.form(shortestHorizon...longestHorizon))",
            unit: "days",
            "How long deletions are told to devices that were away; whoever was away for longer fetches anew. 0: for ever.",
            read: { "\($0)" },
            parse: { $0 == "0" ? 0 : ConfigurationKey.within(shortestHorizon...longestHorizon, $0) }
        ),
    ]

    private static let sockets: [ConfigurationKey] = [
        .whole(
            "limits.socket-message",
            \.server.limits.socketMessage,
            1024...16_777_216,
            unit: "bytes",
            "Of a WebSocket message from a client."
        ),
        .seconds(
            "limits.closing-handshake",
            \.server.limits.closingHandshake,
            1...60,
            "From the relay's close frame to the client's."
        ),
    ]

    private static let logs: [ConfigurationKey] = [
        .text(
            "log.level",
            \.logLevel,
            "one of " + Logger.Level.allCases.map(\.rawValue).joined(separator: ", "),
            "How much is logged to standard error.",
            read: { $0.rawValue },
            parse: { Logger.Level(rawValue: $0) }
        ),
        .text(
            "log.format",
            \.logFormat,
            "text or json",
            "Lines for people, or one JSON object a line for programs.",
            read: { $0.rawValue },
            parse: { LogFormat(rawValue: $0) }
        ),
        .flag(
            "log.access",
            \.logsAccess,
            "One line for each request, nothing private in it; else for refused ones, 60 at once and one a second after."
        ),
        .text(
            "metrics.token-file",
            \.metricsTokenFile,
            "the path of a file, from / on",
            "Whose one line opens GET /metrics to a bearer token; without it only a --dev relay shows metrics.",
            read: { $0 ?? "" },
            parse: { $0.hasPrefix("/") ? .some($0) : nil }
        ),
    ]

    private static func publicURL(_ text: String) -> String?? {
        guard text.hasPrefix("https://") || text.hasPrefix("http://"), !text.contains(where: \.isWhitespace),
            PortNumber.isUsable(in: text)
        else { return nil }
        return .some(text.hasSuffix("/") ? String(text.dropLast()) : text)
    }

    private static func ranges(_ text: String) -> [AddressRange]? {
        let parts = text.split(separator: ",").map { $0.filter { !$0.isWhitespace } }
        let ranges = parts.compactMap { AddressRange($0) }
        return ranges.count == parts.count ? ranges : nil
    }

    /// The one of `names` that was meant by a name that is none; `nil` if none is near.
    static func suggestion(for name: String, among names: [String] = all.map(\.name)) -> String? {
        let near = names.map { (name: $0, distance: distance(name, $0)) }.min { $0.distance < $1.distance }
        guard let near, near.distance <= max(2, name.count / 3) else { return nil }
        return near.name
    }

    /// How many letters must be added, dropped or changed (Levenshtein).
    static func distance(_ a: String, _ b: String) -> Int {
        let b = Array(b)
        var row = Array(0...b.count)
        for (i, letter) in a.enumerated() {
            var diagonal = row[0]
            row[0] = i + 1
            for (j, other) in b.enumerated() {
                let above = row[j + 1]
                row[j + 1] = letter == other ? diagonal : min(diagonal, above, row[j]) + 1
                diagonal = above
            }
        }
        return row[b.count]
    }
}
