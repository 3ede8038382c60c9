import Logging
import RelayAPI
import RelayCore
import RelayServer
import RelayStore

/// Everything `zonecast serve` can be told, each with its default.
struct ServeSettings: Sendable {
    /// The data folder.
    var data = "./zonecast-data"
    /// Any `dev-` token is a user, unknown containers are made: for this machine only.
    var isDev = false
    /// Whether `/demo/` is served.
    var servesDemo = false
    /// Whether `/console/` is served.
    var servesConsole = false
    var server = ServerConfiguration()
    var signIn = SignInSettings()
    var limits = Limits()
    /// How queries are answered, and how long one may take.
    var queries = QueryTuning()
    var assets = AssetSettings()
    /// For so many days deletions are told to devices that were away; 0: for ever.
    var tombstoneDays = 0
    var notices = NoticeLimits()
    var logLevel = Logger.Level.info
    var logFormat = LogFormat.text
    /// One line for each request: method, path without its query, status, time.
    var logsAccess = false
    /// Holds the token that opens `GET /metrics`.
    var metricsTokenFile: String?
    /// The push services that wake sleeping devices.
    var push = PushChoices()
    /// Where traces of requests go.
    var traces = TraceChoices()
    /// Who is told when the relay is not well.
    var alerts = AlertSettings()
    /// PEM files; both or neither.
    var tlsCertificates: String?
    var tlsKey: String?
    /// `server.trustedProxies` as it was written, with commas between.
    var trustedProxies = ""

    /// The defaults; `--dev` is generous, because one developer's load test comes from one address and one user.
    ///
    /// With connections no more than there is room for: nobody has asked for them, so nobody is to be told that they are
    /// fewer.
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

    /// Turns the two TLS keys into what the server takes; throws where only one is set.
    mutating func settleTLS() throws {
        switch (tlsCertificates, tlsKey) {
        case (nil, nil): return
        case (let certificates?, let key?):
            server.tls = TLSFiles(certificates: certificates, key: key)
            signIn.endsTLS = true
        case (_?, nil): throw CommandFailure(.usage, "tls-cert needs tls-key, the file of its private key.")
        case (nil, _?): throw CommandFailure(.usage, "tls-key needs tls-cert, the file of the certificate.")
        }
    }

    var address: ListenAddress {
        get { ListenAddress(host: server.host, port: server.port) }
        set {
            server.host = newValue.host
            server.port = newValue.port
        }
    }

    // Rates are two numbers each, and in the file zero means no limit.

    var requestsPerSecond: Int {
        get { Int(signIn.requestRate?.perSecond ?? 0) }
        set {
            signIn.requestRate =
                newValue == 0 ? nil : RateLimit(perSecond: Double(newValue), burst: Double(newValue) * 5)
        }
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
        set {
            signIn.publicRate =
                newValue == 0 ? nil : RateLimit(perSecond: Double(newValue), burst: Double(newValue) * 15)
        }
    }

    var publicRequestsPerSecondPerUser: Int {
        get { Int(signIn.publicRatePerUser?.perSecond ?? 0) }
        set {
            signIn.publicRatePerUser =
                newValue == 0 ? nil : RateLimit(perSecond: Double(newValue), burst: Double(newValue) * 10)
        }
    }

    var failedCredentialsPerMinute: Int {
        get { signIn.failedCredentialRate.map { Int(($0.perSecond * 60).rounded()) } ?? 0 }
        set {
            signIn.failedCredentialRate =
                newValue == 0 ? nil : RateLimit(perSecond: Double(newValue) / 60, burst: Double(newValue))
        }
    }

    var failedSignInsPerHourPerAccount: Int {
        get { signIn.failedSignInRatePerAccount.map { Int(($0.perSecond * 3600).rounded()) } ?? 0 }
        set {
            signIn.failedSignInRatePerAccount =
                newValue == 0
                ? nil : RateLimit(perSecond: Double(newValue) / 3600, burst: Double(max(newValue * 2 / 3, 1)))
        }
    }

    /// `sign-in.allowed-origins`, with commas between.
    var allowedOrigins: String {
        get { signIn.allowedOrigins.joined(separator: ",") }
        set { signIn.allowedOrigins = newValue.split(separator: ",").map { $0.filter { !$0.isWhitespace } } }
    }

    var failedSignInsPerMinute: Int {
        get { signIn.failedSignInRate.map { Int(($0.perSecond * 60).rounded()) } ?? 0 }
        set {
            signIn.failedSignInRate =
                newValue == 0 ? nil : RateLimit(perSecond: Double(newValue) / 60, burst: Double(newValue))
        }
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
        // As other servers call all of a machine's addresses; no name that doctor, or a browser, could connect to.
        self.init(host: host == "*" ? "0.0.0.0" : host, port: Int(port))
    }

    var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
