import Foundation
import Logging
import Records
import RelayAPI
import RelayCore
import RelayGateways
import RelayServer

/// The table of all keys, used to read and check a configuration and by `zonecast config reference`.
enum ConfigurationKeys {
    static let all: [ConfigurationKey] =
        places + certificates + tokens + signIns + rates + quotas + connections + transport + requests + sockets
        + noticeSockets + pushes + logs + traces + alerts

    private static let year = 31_536_000
    /// In days.
    private static let (shortestHorizon, longestHorizon) = (90, 36_500)

    private static let places: [ConfigurationKey] = [
        .text(
            "data",
            \.data,
            "the path of a folder, without ~",
            "The data folder.",
            read: { $0 },
            // Only a shell expands ~, and not after an =: the relay would create a folder of that name.
            parse: { $0.isEmpty || $0.hasPrefix("~") ? nil : $0 }
        ),
        .text(
            "node",
            \.node,
            "1 to 63 letters, digits, dots, hyphens and underscores",
            "The name of this relay among those that serve the same database; by default the machine's.",
            read: { $0 ?? "" },
            parse: { nodeName($0) }
        ),
        .text(
            "store",
            \.store,
            StoreAddress.form,
            "The PostgreSQL database in which several relays keep their data; by default, one relay keeps it in files of the data folder.",
            read: { $0?.url ?? "" },
            parse: { StoreAddress($0).map { .some($0) } }
        ).secret,
        .text(
            "store-password-file",
            \.storePasswordFile,
            "the path of a file, from / on",
            "A file with the password of the database, which is in neither store nor ZONECAST_STORE_PASSWORD.",
            read: { $0 ?? "" },
            parse: { $0.hasPrefix("/") ? .some($0) : nil }
        ),
        .text(
            "public-query-replicas",
            \.publicQueryReplicas,
            StoreAddress.form,
            "Hot standbys of the database that answer queries of public databases, up to 5 s late: like store, with all hosts in one address.",
            read: { $0?.url ?? "" },
            parse: { StoreAddress($0).map { .some($0) } }
        ).secret,
        .text(
            "asset-storage",
            \.assetStorage,
            "s3://BUCKET/PREFIX",
            "S3-compatible storage for the assets of relays on a database, which keeps them itself by default. Its keys are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
            read: { $0 ?? "" },
            parse: { S3Address($0) == nil ? nil : .some($0) }
        ),
        .text(
            "listen",
            \.address,
            "an address and a port, like 127.0.0.1:8080",
            "The address and port to listen on; with port 0, the system chooses one.",
            read: { "\($0)" },
            parse: { ListenAddress($0) }
        ),
        .text(
            "public-url",
            \.signIn.publicURL,
            "an address beginning with http:// or https://",
            "The relay's public address, for links; by default the host of the request.",
            read: { $0 ?? "" },
            parse: { publicURL($0) }
        ),
        .text(
            "tls-cert",
            \.tlsCertificates,
            "the path of a PEM file",
            "Certificate and chain, for TLS without a proxy; reloaded when the file changes.",
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
        .flag("dev", \.isDev, "Accept any dev- token as a user and create unknown containers. Loopback only."),
        .flag("demo", \.servesDemo, "Serve the browser demo at /demo/; by default with --dev."),
        .flag(
            "console",
            \.servesConsole,
            "Serve the operator's console at /console/; by default with --dev. Sign in with a link: zonecast user operator create."
        ),
        .text(
            "web-files",
            \.webFiles,
            "the path of a folder, from / on",
            "Serve console, demo and zonecast.js from this copy of Sources/RelayConsole/Web, to see edits without a build. With dev only.",
            read: { $0 ?? "" },
            parse: { $0.hasPrefix("/") ? .some($0) : nil }
        ),
        .flag(
            "test-door",
            \.server.testDoor,
            "Serve a WebSocket echo for conformance suites. Loopback only; not with tls-cert or an https public-url."
        ),
        ConfigurationKey(
            name: "trusted-proxies",
            unit: "",
            meaning: "Proxies whose X-Forwarded-For header, or in its absence Forwarded, is trusted.",
            form: "a comma-separated list of addresses or ranges, like 10.0.0.0/8",
            read: { $0.trustedProxies },
            write: { settings, text in
                guard let ranges = ranges(text) else { return false }
                settings.trustedProxies = text
                settings.server.trustedProxies = ranges
                return true
            }
        ).explained { text in
            let meant = ConfigurationKey.items(text).lazy.compactMap { item in
                AddressRange.networkMeant(by: item).map { "\(item) names one host of a range. Write \($0)." }
            }
            return meant.first
        },
        .text(
            "loops",
            \.server.loops,
            ConfigurationKey.form(1...256),
            unit: "threads",
            "Event loops that share the connections; by default one per core.",
            read: { $0.map { "\($0)" } ?? "" },
            parse: { ConfigurationKey.within(1...256, $0).map { .some($0) } }
        ),
    ]

    private static let tokens: [ConfigurationKey] = [
        .seconds("tokens.lifetime", \.signIn.briefLifetime, 60...year, "The lifetime of a web auth token."),
        .seconds("tokens.kept-lifetime", \.signIn.keptLifetime, 60...year, "The lifetime with \"keep me signed in\"."),
        .text(
            "tokens.grace",
            \.signIn.grace,
            ConfigurationKey.form(0...year, "seconds"),
            unit: "seconds",
            "How long a token remains valid after its successor was issued; by default until it expires.",
            read: { $0.map { "\($0.components.seconds)" } ?? "" },
            parse: { ConfigurationKey.within(0...year, $0, "seconds").map { .some(.seconds($0)) } }
        ),
        .seconds(
            "tokens.signature-window",
            \.signIn.signatureWindow,
            1...3600,
            "Maximum difference between a signed request's date and the relay's clock."
        ),
    ]

    private static let signIns: [ConfigurationKey] = [
        .text(
            "sign-in.allowed-origins",
            \.signIn.allowedOrigins,
            "a comma-separated list of origins, like https://app.example",
            "Origins of pages that may call all containers, in addition to those of each API token.",
            read: { $0.joined(separator: ",") },
            parse: { ConfigurationKey.every(ConfigurationKey.items($0), WebOrigin.canonical) }
        ).explained { ConfigurationKey.items($0).lazy.compactMap(WebOrigin.objection).first },
        .seconds(
            "sign-in.issuer-clock-skew",
            \.issuerClockSkew,
            0...600,
            "Maximum difference between the clocks of an identity token issuer and the relay."
        ),
        .seconds(
            "sign-in.issuer-key-lifetime",
            \.issuerKeys.lifetime,
            60...86_400,
            "How long an issuer's keys are cached."
        ),
        .seconds(
            "sign-in.issuer-key-pause",
            \.issuerKeys.pause,
            1...3600,
            "Minimum time between two fetches from one issuer, even if tokens name unknown keys."
        ),
    ]

    private static let rates: [ConfigurationKey] = [
        .whole(
            "limits.requests-per-second",
            \.requestsPerSecond,
            0...1_000_000,
            unit: "requests",
            "Maximum rate of one user, or of one address without a sign-in; 0: no limit (the default with --dev)."
        ),
        .whole(
            "limits.request-burst",
            \.requestBurst,
            0...10_000_000,
            unit: "requests",
            "Maximum burst of those requests."
        ),
        .whole(
            "limits.public-requests-per-second",
            \.publicRequestsPerSecond,
            0...1_000_000,
            unit: "requests",
            "Maximum rate of requests to a container's public database by all callers; 0: no limit (the default with --dev)."
        ),
        .whole(
            "limits.public-requests-per-user",
            \.publicRequestsPerSecondPerUser,
            0...1_000_000,
            unit: "requests",
            "Requests per second that each signed-in user may make there before they count against the shared rate."
        ),
        .whole(
            "limits.failed-credentials-per-minute",
            \.failedCredentialsPerMinute,
            0...1_000_000,
            unit: "requests",
            "Maximum requests with invalid tokens or signatures from one address; 0: no limit (the default with --dev)."
        ),
        .whole(
            "limits.failed-sign-ins-per-account",
            \.failedSignInsPerHourPerAccount,
            0...10_000,
            unit: "attempts",
            "Maximum wrong passwords for one account name per hour, from all addresses, existing or not; 0: no limit."
        ),
        .whole(
            "limits.failed-sign-ins-per-minute",
            \.failedSignInsPerMinute,
            0...10_000,
            unit: "attempts",
            "Maximum wrong passwords from one address; 0: no limit."
        ),
    ]

    private static let connections: [ConfigurationKey] = [
        .whole(
            "limits.connections",
            \.server.limits.connections,
            1...1_000_000,
            unit: "connections",
            "Maximum open connections; with --dev as many as the process may open, up to 30000."
        ),
        .whole(
            "limits.sockets-per-user",
            \.notices.connectionsPerUser,
            1...1_000_000,
            unit: "sockets",
            "Maximum notice sockets of one user in one container; 30000 with --dev."
        ),
        .whole(
            "limits.connections-per-address",
            \.server.limits.connectionsPerAddress,
            1...1_000_000,
            unit: "connections",
            "Maximum open connections from one address; 30000 with --dev."
        ),
        .whole(
            "limits.requests-per-connection",
            \.server.limits.requestsPerConnection,
            1...1_000_000_000,
            unit: "requests",
            "Requests after which a connection is closed."
        ),
        .seconds(
            "limits.keep-alive",
            \.server.limits.keepAlive,
            1...3600,
            "Idle time after which a connection is closed."
        ),
        .seconds(
            "limits.write-stall",
            \.server.limits.writeStall,
            1...3600,
            "A client that reads nothing for this long is disconnected."
        ),
        .seconds(
            "limits.shutdown",
            \.server.limits.shutdown,
            0...600,
            "Maximum time to finish requests when the relay stops."
        ),
    ]

    private static let requests: [ConfigurationKey] = [
        .whole(
            "limits.request-line",
            \.server.limits.requestLine,
            256...65_536,
            unit: "bytes",
            "Maximum size of a request line."
        ),
        .whole(
            "limits.header-field",
            \.server.limits.headerField,
            256...65_536,
            unit: "bytes",
            "Maximum size of one header field."
        ),
        .whole(
            "limits.header-list",
            \.server.limits.headerList,
            1024...1_048_576,
            unit: "bytes",
            "Maximum size of all header fields."
        ),
        .whole(
            "limits.header-count",
            \.server.limits.headerCount,
            10...1000,
            unit: "fields",
            "Maximum header fields of one request."
        ),
        .whole(
            "limits.body",
            \.server.limits.body,
            1024...67_108_864,
            unit: "bytes",
            "Maximum size of a request's body."
        ),
        .seconds("limits.head-time", \.server.limits.headTime, 1...600, "Maximum time to receive a request's head."),
        .seconds("limits.body-gap", \.server.limits.bodyGap, 1...600, "Maximum time between two parts of a body."),
        .seconds("limits.body-time", \.server.limits.bodyTime, 1...3600, "Maximum time to receive a body."),
        .whole(
            "limits.items",
            \.limits.itemsPerRequest,
            1...10_000,
            unit: "items",
            "Maximum operations or records in one request or response."
        ),
        .whole(
            "limits.record",
            \.limits.recordBytes,
            1024...16_777_216,
            unit: "bytes",
            "Maximum size of one record's fields."
        ),
        .whole("limits.field", \.limits.fieldBytes, 1024...16_777_216, unit: "bytes", "Maximum size of one field."),
        .whole("limits.asset", \.largestAsset, 1024...4_294_967_296, unit: "bytes", "Maximum size of one asset."),
        .seconds(
            "assets.download-lifetime",
            \.assets.downloadLifetime,
            60...86_400,
            "The lifetime of a download URL."
        ),
        .seconds(
            "assets.upload-lifetime",
            \.assets.uploadLifetime,
            60...86_400,
            "The lifetime of an upload URL."
        ),
        .seconds(
            "assets.receipt-lifetime",
            \.assets.receiptLifetime,
            60...604_800,
            "How long after its upload an asset can be saved in a record; unused assets are deleted an hour later."
        ),
        .whole("limits.zones", \.limits.zonesPerUser, 1...1_000_000, unit: "zones", "Maximum zones of one user."),
        .text(
            "tombstones.horizon",
            \.tombstoneDays,
            "0 or \(ConfigurationKey.form(shortestHorizon...longestHorizon, "days"))",
            unit: "days",
            "How long deletions are kept for devices that are offline; a device that was offline longer fetches everything again. 0: forever.",
            read: { "\($0)" },
            parse: { $0 == "0" ? 0 : ConfigurationKey.within(shortestHorizon...longestHorizon, $0, "days") }
        ),
    ]

    private static let sockets: [ConfigurationKey] = [
        .whole(
            "limits.socket-message",
            \.server.limits.socketMessage,
            1024...16_777_216,
            unit: "bytes",
            "Maximum size of a WebSocket message from a client."
        ),
        .seconds(
            "limits.closing-handshake",
            \.server.limits.closingHandshake,
            1...60,
            "Maximum time from the relay's close frame to the client's."
        ),
    ]

    private static let logs: [ConfigurationKey] = [
        .text(
            "log.level",
            \.logLevel,
            "one of " + Logger.Level.allCases.map(\.rawValue).joined(separator: ", "),
            "The lowest level that is logged to standard error.",
            read: { $0.rawValue },
            parse: { Logger.Level(rawValue: $0) }
        ),
        .text(
            "log.format",
            \.logFormat,
            "text or json",
            "Plain text lines, or one JSON object per line.",
            read: { $0.rawValue },
            parse: { LogFormat(rawValue: $0) }
        ),
        .flag(
            "log.access",
            \.logsAccess,
            "Log each request, without private data; otherwise only refused ones, at most one per second after a burst of 60."
        ),
        .text(
            "metrics.token-file",
            \.metricsTokenFile,
            "the absolute path of a file",
            "A file with one line: the bearer token for GET /metrics; without it, only a --dev relay serves metrics.",
            read: { $0 ?? "" },
            parse: { $0.hasPrefix("/") ? .some($0) : nil }
        ),
    ]

    private static func nodeName(_ text: String) -> String?? {
        let isName = text.utf8.allSatisfy { byte in
            UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte || UInt8(ascii: "A")...UInt8(ascii: "Z") ~= byte
                || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte || ".-_".utf8.contains(byte)
        }
        return isName && (1...63).contains(text.utf8.count) ? .some(text) : nil
    }

    /// Its origin is compared with those that browsers send, so it is stored in that spelling.
    private static func publicURL(_ text: String) -> String?? {
        guard text.hasPrefix("https://") || text.hasPrefix("http://"), !text.contains(where: \.isWhitespace) else {
            return nil
        }
        let parts = text.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard let origin = WebOrigin.canonical(parts.prefix(3).joined(separator: "/")) else { return nil }
        let path = parts.dropFirst(3).map { "/\($0)" }.joined()
        return .some(origin + (path.hasSuffix("/") ? String(path.dropLast()) : path))
    }

    private static func ranges(_ text: String) -> [AddressRange]? {
        let parts = text.split(separator: ",").map { $0.filter { !$0.isWhitespace } }
        let ranges = parts.compactMap { AddressRange.networkMeant(by: $0) == nil ? AddressRange($0) : nil }
        return ranges.count == parts.count ? ranges : nil
    }

    /// Returns the name that is closest to a misspelled one; `nil` if none is near.
    static func suggestion(for name: String, among names: [String] = all.map(\.name)) -> String? {
        let near = names.map { (name: $0, distance: distance(name, $0)) }.min { $0.distance < $1.distance }
        guard let near, near.distance <= max(2, name.count / 3) else { return nil }
        return near.name
    }

    /// Returns the Levenshtein distance: how many letters must be added, removed or changed.
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

extension ConfigurationKeys {
    private static let mostBytes = 1_000_000_000_000_000

    /// Storage and transfer quotas, each per container and environment.
    static let quotas: [ConfigurationKey] = [
        .whole(
            "quota.private",
            \.privateQuota,
            0...mostBytes,
            unit: "bytes",
            "Maximum for one user's records and assets in a container; 0: no limit (the default of all quotas with --dev)."
        ),
        .whole(
            "quota.public-records",
            \.publicRecordQuota,
            0...mostBytes,
            unit: "bytes",
            "Maximum for records in a container's public database; 0: no limit."
        ),
        .whole(
            "quota.public-records-per-user",
            \.publicRecordQuotaPerUser,
            0...mostBytes,
            unit: "bytes",
            "Added to that maximum for each user of the container."
        ),
        .whole(
            "quota.public-assets",
            \.publicAssetQuota,
            0...mostBytes,
            unit: "bytes",
            "Maximum for assets in a container's public database; 0: no limit."
        ),
        .whole(
            "quota.public-assets-per-user",
            \.publicAssetQuotaPerUser,
            0...mostBytes,
            unit: "bytes",
            "Added to that maximum for each user of the container."
        ),
        .whole(
            "quota.public-transfer",
            \.publicTransferQuota,
            0...mostBytes,
            unit: "bytes",
            "Maximum that a container's public database sends per month, records and assets; 0: no limit."
        ),
        .whole(
            "quota.public-transfer-per-user",
            \.publicTransferQuotaPerUser,
            0...mostBytes,
            unit: "bytes",
            "Added to that maximum for each user of the container."
        ),
    ]
}

/// Quotas as the file expresses them: a base and an amount per user, with 0 for no limit.
extension ServeSettings {
    var privateQuota: Int {
        get { Int(limits.quota.privateBytes ?? 0) }
        set { limits.quota.privateBytes = newValue == 0 ? nil : Int64(newValue) }
    }

    var publicRecordQuota: Int {
        get { Self.base(limits.quota.publicRecords) }
        set { limits.quota.publicRecords = Self.growing(newValue, QuotaSettings().publicRecords) }
    }

    var publicRecordQuotaPerUser: Int {
        get { Self.perUser(limits.quota.publicRecords) }
        set { limits.quota.publicRecords?.perUser = Int64(newValue) }
    }

    var publicAssetQuota: Int {
        get { Self.base(limits.quota.publicAssets) }
        set { limits.quota.publicAssets = Self.growing(newValue, QuotaSettings().publicAssets) }
    }

    var publicAssetQuotaPerUser: Int {
        get { Self.perUser(limits.quota.publicAssets) }
        set { limits.quota.publicAssets?.perUser = Int64(newValue) }
    }

    var publicTransferQuota: Int {
        get { Self.base(limits.quota.publicTransfer) }
        set { limits.quota.publicTransfer = Self.growing(newValue, QuotaSettings().publicTransfer) }
    }

    var publicTransferQuotaPerUser: Int {
        get { Self.perUser(limits.quota.publicTransfer) }
        set { limits.quota.publicTransfer?.perUser = Int64(newValue) }
    }

    private static func base(_ quota: QuotaSettings.Growing?) -> Int { Int(quota?.base ?? 0) }
    private static func perUser(_ quota: QuotaSettings.Growing?) -> Int { Int(quota?.perUser ?? 0) }

    /// The amount per user keeps its default until it is set too.
    private static func growing(_ base: Int, _ standard: QuotaSettings.Growing?) -> QuotaSettings.Growing? {
        base == 0 ? nil : QuotaSettings.Growing(base: Int64(base), perUser: standard?.perUser ?? 0)
    }
}

/// Settings of the push services that wake devices without an open socket.
extension ConfigurationKeys {
    static let pushes: [ConfigurationKey] = [
        .text(
            "push.contact",
            \.push.contact,
            "an address beginning with mailto: or https://",
            "The operator's contact address for push services (VAPID); enables Web Push and UnifiedPush.",
            read: { $0 ?? "" },
            parse: { PushContact.canonical($0).map { .some($0) } }
        ).explained { PushContact.objection(to: $0) },
        .flag(
            "push.ntfy",
            \.push.sendsToNtfy,
            "Send pushes to plain ntfy topics, which are readable by anyone who knows their names."
        ),
        .text(
            "push.hosts",
            \.push.hosts,
            "a comma-separated list of hosts, like push.example or *.push.example",
            "The push services that devices may register; all others are refused, so that devices cannot make the relay call other hosts.",
            read: { $0.joined(separator: ",") },
            parse: { ConfigurationKey.every(ConfigurationKey.items($0), PushHost.canonical) }
        ).explained { ConfigurationKey.items($0).lazy.compactMap(PushHost.objection).first },
        .text(
            "push.trust-file",
            \.push.trustFile,
            "the absolute path of a PEM file",
            "Certificates of your own push services, trusted in addition to the system's.",
            read: { $0 ?? "" },
            parse: { path($0) }
        ),
        .text(
            "push.apns-key-file",
            \.push.apnsKeyFile,
            "the absolute path of a .p8 file",
            "The key for Apple's push service, from Apple's developer pages; requires the three keys below.",
            read: { $0 ?? "" },
            parse: { path($0) }
        ),
        .text(
            "push.apns-key-id",
            \.push.apnsKeyID,
            "ten letters and digits",
            "The key's identifier.",
            read: { $0 ?? "" },
            parse: { identifier($0) }
        ),
        .text(
            "push.apns-team-id",
            \.push.apnsTeamID,
            "ten letters and digits",
            "The identifier of your Apple developer team.",
            read: { $0 ?? "" },
            parse: { identifier($0) }
        ),
        .text(
            "push.apns-topics",
            \.push.apnsTopics,
            "a comma-separated list of bundle identifiers, like org.example.notes",
            "The apps that receive pushes through Apple's push service.",
            read: { $0.joined(separator: ",") },
            parse: { list($0) }
        ),
        .text(
            "push.fcm-account-file",
            \.push.fcmAccountFile,
            "the absolute path of a JSON file",
            "A service account's key file from Firebase's console; enables pushes to Android apps.",
            read: { $0 ?? "" },
            parse: { path($0) }
        ),
    ]

    private static func list(_ text: String) -> [String]? {
        let items = ConfigurationKey.items(text)
        return items.contains { $0.isEmpty || $0.contains { $0 == "/" || $0.isWhitespace } } ? nil : items
    }

    private static func path(_ text: String) -> String?? { text.hasPrefix("/") ? .some(text) : nil }

    private static func identifier(_ text: String) -> String?? {
        text.utf8.count == 10 && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) } ? .some(text) : nil
    }
}

/// Settings of the webhook that receives alerts.
extension ConfigurationKeys {
    static let alerts: [ConfigurationKey] = [
        .text(
            "alerts.webhook",
            \.alerts.webhook,
            "an address beginning with https://, or http:// on this machine",
            "The address that receives alerts: a POST with JSON when an alert begins, daily while it lasts, and when it ends.",
            read: { $0 ?? "" },
            parse: { AlertSender.Settings.admits($0) ? .some($0) : nil }
        ).secret,
        .text(
            "alerts.format",
            \.alerts.format,
            AlertSender.Format.allCases.map(\.rawValue).joined(separator: " or "),
            "The body of that message: one object for Slack (its text) and ntfy (templates), or a list for Alertmanager's /api/v2/alerts.",
            read: { $0.rawValue },
            parse: { AlertSender.Format(rawValue: $0) }
        ),
        .text(
            "alerts.token-file",
            \.alerts.tokenFile,
            "the absolute path of a file",
            "A file with one line: the bearer token for the webhook.",
            read: { $0 ?? "" },
            parse: { $0.hasPrefix("/") ? .some($0) : nil }
        ),
        .seconds(
            "alerts.interval",
            \.alerts.interval,
            1...3600,
            "The time between two checks; an alert is sent after two positive checks in a row."
        ),
    ]
}

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
