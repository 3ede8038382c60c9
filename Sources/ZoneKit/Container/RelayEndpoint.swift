public import Foundation

/// Where a container's relay is, and as whom to speak to it.
///
/// Code written for CloudKit needs no change: without a word from the program the endpoint is read from the
/// environment (`ZONECAST_URL`, `ZONECAST_ENVIRONMENT`, `ZONECAST_API_TOKEN`, `ZONECAST_WEB_TOKEN`,
/// `ZONECAST_DEVICE_ID`). A program that wants to say it itself does so once, before the first request:
///
///     CKContainer.configure(RelayEndpoint(url: relay, apiToken: "…", webAuthToken: "…"))
///
/// Against a relay started with `--dev`, `.dev(relay, user: "alice")` is enough.
public struct RelayEndpoint: Sendable {
    /// The two lives of a container; they share no data.
    public enum Environment: String, Sendable, CaseIterable {
        /// For building: record types and fields come into being when first saved.
        case development
        /// For users: the schema is fixed.
        case production
    }

    /// The relay's address, such as `https://sync.example.org`.
    public var url: URL
    /// Which of the container's two lives to use.
    public var environment: Environment
    /// Names the program to the relay: 64 hexadecimal digits from the relay's console or command line.
    public var apiToken: String?
    /// Names the user; without one only the public database can be read.
    ///
    /// Renewed by the relay with every answer.
    public var webAuthToken: String?
    /// Names this device, so that it is not told of its own changes; `nil`: one drawn for this process.
    public var deviceID: String?
    /// Called with each renewed web auth token, on any thread, so that a program can keep it for its next start.
    public var tokenRenewed: (@Sendable (String) -> Void)?

    /// Says where the relay is and as whom to speak to it.
    ///
    /// - Parameters:
    ///   - url: The relay's address.
    ///   - environment: Which of the container's two lives to use.
    ///   - apiToken: Names the program.
    ///   - webAuthToken: Names the user.
    ///   - deviceID: Names the device; left out, one drawn for this process.
    ///   - tokenRenewed: Called with each renewed web auth token.
    public init(
        url: URL,
        environment: Environment = .development,
        apiToken: String? = nil,
        webAuthToken: String? = nil,
        deviceID: String? = nil,
        tokenRenewed: (@Sendable (String) -> Void)? = nil
    ) {
        self.url = url
        self.environment = environment
        self.apiToken = apiToken
        self.webAuthToken = webAuthToken
        self.deviceID = deviceID
        self.tokenRenewed = tokenRenewed
    }

    /// A relay started with `--dev`, which takes any user at their word.
    ///
    /// - Parameters:
    ///   - url: The relay's address, on this machine.
    ///   - user: Any name; the user is made when first seen.
    ///   - deviceID: Names the device; left out, one drawn for this process.
    /// - Returns: An endpoint in the development environment.
    public static func dev(_ url: URL, user: String, deviceID: String? = nil) -> RelayEndpoint {
        RelayEndpoint(url: url, webAuthToken: "dev-\(user)", deviceID: deviceID)
    }

    /// The endpoint that environment variables describe; `nil` when `ZONECAST_URL` is not set or is no address.
    ///
    /// - Parameter variables: Left out, those of this process.
    public init?(variables: [String: String] = ProcessInfo.processInfo.environment) {
        func text(_ name: String) -> String? { variables[name].flatMap { $0.isEmpty ? nil : $0 } }
        guard let address = text("ZONECAST_URL"), let url = URL(string: address), url.scheme != nil else { return nil }
        self.init(
            url: url,
            environment: text("ZONECAST_ENVIRONMENT").flatMap(Environment.init(rawValue:)) ?? .development,
            apiToken: text("ZONECAST_API_TOKEN"),
            webAuthToken: text("ZONECAST_WEB_TOKEN"),
            deviceID: text("ZONECAST_DEVICE_ID")
        )
    }
}
