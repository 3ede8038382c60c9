import Foundation
import Logging
import RelayAPI
import RelayCore
import RelayGateways
import RelayServer
import RelaySystem

/// All settings of `zonecast serve`, with their defaults.
struct ServeSettings: Sendable {
    /// The data folder.
    var data = "./zonecast-data"
    /// The name of this relay among those that serve the same database; `nil` for the machine's.
    var node: String?
    var nodeName: String { node ?? ProcessInfo.processInfo.hostName }
    /// The database of a cluster; `nil`: files of the data folder.
    var store: StoreAddress?
    /// A file with the database's password.
    var storePasswordFile: String?
    /// Hot standbys of the database that answer queries of public databases.
    var publicQueryReplicas: StoreAddress?
    /// The storage for assets, if it is not the database.
    var assetStorage: String?
    /// Accepts any `dev-` token as a user and creates unknown containers; for this machine only.
    var isDev = false
    /// Whether `/demo/` is served.
    var servesDemo = false
    /// Whether `/console/` is served.
    var servesConsole = false
    var server = ServerConfiguration()
    var signIn = SignInSettings()
    /// The permitted difference between the clock of a foreign issuer and the relay's clock.
    ///
    /// See Reliability.md, "Tokens".
    var issuerClockSkew = ForeignSignIn.defaultSkew
    var issuerKeys = KeyLimits()
    var limits = Limits()
    /// Query execution, including the maximum time.
    var queries = QueryTuning()
    var assets = AssetSettings()
    /// Days for which deletions are kept for offline devices; 0: forever.
    var tombstoneDays = 0
    var notices = NoticeLimits()
    var logLevel = Logger.Level.info
    var logFormat = LogFormat.text
    /// Whether each request is logged with its method, path without query, status and time.
    var logsAccess = false
    /// A file with the bearer token for `GET /metrics`.
    var metricsTokenFile: String?
    /// The push services that wake sleeping devices.
    var push = PushOptions()
    /// The export of traces.
    var traces = TraceOptions()
    /// A folder to serve web pages from instead of the program; only with `isDev`.
    var webFiles: String?
    /// The alert webhook.
    var alerts = AlertSettings()
    /// PEM files; both are set or neither.
    var tlsCertificates: String?
    var tlsKey: String?
    /// Certificates that the relay obtains itself.
    var acme = ACMEOptions()
    /// `server.trustedProxies` as written, separated by commas.
    var trustedProxies = ""

    /// Returns the defaults; `--dev` raises the limits, because a developer's load test uses one address and one user.
    ///
    /// The limit of connections is at most what the descriptors allow, so that no warning about a lower limit appears.
    init(isDev: Bool = false, descriptors: @autoclosure () -> Int = Descriptors.ceiling) {
        self.isDev = isDev
        signIn.acceptsDevTokens = isDev
        servesDemo = isDev
        servesConsole = isDev
        guard isDev else { return }
        signIn.requestRate = nil
        signIn.publicRate = nil
        limits.quota = .unlimited
        signIn.failedCredentialRate = nil
        let room = min(DescriptorShares(descriptors: descriptors()).connections, 30_000)
        server.limits.connections = max(server.limits.connections, room)
        server.limits.connectionsPerAddress = 30_000
        notices.connectionsPerUser = 30_000
    }

    /// Combines the two TLS keys into the server's setting.
    ///
    /// - Throws: `CommandFailure` if only one is set.
    mutating func applyTLSFiles() throws {
        switch (tlsCertificates, tlsKey) {
        case (nil, nil): return
        case (let certificates?, let key?):
            server.tls = TLSFiles(certificates: certificates, key: key)
            signIn.endsTLS = true
        case (_?, nil): throw CommandFailure(.usage, "tls-cert requires tls-key, the file of its private key.")
        case (nil, _?): throw CommandFailure(.usage, "tls-key requires tls-cert, the file of the certificate.")
        }
    }

    var address: ListenAddress {
        get { ListenAddress(host: server.host, port: server.port) }
        set {
            server.host = newValue.host
            server.port = newValue.port
        }
    }

    // Each rate has two numbers; in the file, 0 means no limit.

    var requestsPerSecond: Int {
        get { Int(signIn.requestRate?.perSecond ?? 0) }
        set { signIn.requestRate = RateLimit(newValue, burst: Double(newValue) * 5) }
    }

    var requestBurst: Int {
        get { signIn.requestRate.map { Int($0.burst) } ?? 0 }
        set { signIn.requestRate?.burst = Double(max(newValue, 1)) }
    }

    var framesPerSecond: Int {
        get { Int(notices.frameRate.perSecond) }
        set { notices.frameRate.perSecond = Double(newValue) }
    }

    var frameBurst: Int {
        get { Int(notices.frameRate.burst) }
        set { notices.frameRate.burst = Double(newValue) }
    }

    var tombstoneHorizon: Duration? { tombstoneDays == 0 ? nil : .seconds(tombstoneDays * 86_400) }

    var largestAsset: Int {
        get { Int(assets.largest) }
        set {
            assets.largest = Int64(newValue)
            server.limits.upload = newValue + 16 * 1024
        }
    }

    var publicRequestsPerSecond: Int {
        get { Int(signIn.publicRate?.perSecond ?? 0) }
        set { signIn.publicRate = RateLimit(newValue, burst: Double(newValue) * 15) }
    }

    var publicRequestsPerSecondPerUser: Int {
        get { Int(signIn.publicRatePerUser?.perSecond ?? 0) }
        set { signIn.publicRatePerUser = RateLimit(newValue, burst: Double(newValue) * 10) }
    }

    var failedCredentialsPerMinute: Int {
        get { signIn.failedCredentialRate.map { Int(($0.perSecond * 60).rounded()) } ?? 0 }
        set { signIn.failedCredentialRate = RateLimit(newValue, per: 60, burst: Double(newValue)) }
    }

    var failedSignInsPerHourPerAccount: Int {
        get { signIn.failedSignInRatePerAccount.map { Int(($0.perSecond * 3600).rounded()) } ?? 0 }
        set {
            signIn.failedSignInRatePerAccount = RateLimit(
                newValue,
                per: 3600,
                burst: Double(max(newValue * 2 / 3, 1))
            )
        }
    }

    var failedSignInsPerMinute: Int {
        get { signIn.failedSignInRate.map { Int(($0.perSecond * 60).rounded()) } ?? 0 }
        set { signIn.failedSignInRate = RateLimit(newValue, per: 60, burst: Double(newValue)) }
    }
}

extension RateLimit {
    /// The rate of `count` in `seconds`; `nil` for 0, which means no limit in the file.
    fileprivate init?(_ count: Int, per seconds: Double = 1, burst: Double) {
        guard count != 0 else { return nil }
        self.init(perSecond: Double(count) / seconds, burst: burst)
    }
}

/// `HOST:PORT`, an IPv6 host in brackets.
struct ListenAddress: Hashable, Sendable, CustomStringConvertible {
    var host: String
    /// 0 lets the system choose.
    var port: Int

    init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            return nil
        }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = String(host.dropFirst().dropLast())
        } else if host.contains(":") {
            return nil
        }
        guard !host.isEmpty else { return nil }
        // Other servers write * for all addresses of the machine; doctor and browsers could not connect to that name.
        self.init(host: host == "*" ? "0.0.0.0" : host, port: Int(port))
    }

    var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

/// The checks that `serve` makes before it starts, and that `config check` makes without starting.
extension ServeSettings {
    /// Throws all errors that would prevent a relay with these settings from starting.
    ///
    /// These are addresses that are too open, and files of keys that cannot be used.
    func checkStart() throws {
        let checks: [() throws -> Void] = [
            { try Serve.checkLoopback(self) },
            { try Serve.checkDev(self) },
            { try Serve.checkTestDoor(self) },
            { try Serve.checkStore(self) },
            // The relay obtains a missing certificate itself.
            { if acme.domain == nil { _ = try server.tls?.end() } },
            { _ = try acme.trustRoots() },
            { _ = try metricsToken() },
            // Any key will do, since only the files are checked.
            { _ = try push.settings(relayKey: [UInt8](repeating: 1, count: 32)) },
            { _ = try push.trustRoots() },
            { if traces.endpoint != nil { _ = try traces.tokenFile.map { try Tracing.token(in: $0) } } },
            { _ = try alerts.sender() },
        ]
        let faults = checks.compactMap { check -> String? in
            do {
                try check()
                return nil
            } catch {
                return "\(error)"
            }
        }
        guard faults.isEmpty else { throw CommandFailure(faults) }
    }

    /// The warning that a relay with these settings logs at its start; `nil` if there is none.
    ///
    /// A warning, not an error: forwarding a port of the local network is a way to try an app on a phone.
    var warning: String? { exposure.map { "\($0) Set only one of the two to prevent this." } }

    /// Why any client could sign in as any user: `dev` is on and others reach the relay; `nil` if not.
    var exposure: String? {
        guard isDev, let address = signIn.publicURL, let host = URL(string: address)?.host(),
            !ServerConfiguration.isLoopback(host.trimmingCharacters(in: ["[", "]"]))
        else { return nil }
        return
            "dev accepts any dev- token, and public-url makes this relay reachable at \(address): any client can sign in as any user."
    }

    /// Reads the bearer token for `GET /metrics` from its file; returns `nil` if none is configured.
    func metricsToken() throws -> String? {
        guard let path = metricsTokenFile else { return nil }
        guard let token = InputFile.word(path), token.utf8.count >= 16 else {
            throw CommandFailure(
                .usage,
                "metrics.token-file: \(path) holds no token of 16 characters or more. Create one with: openssl rand -hex 32"
            )
        }
        return token
    }
}
