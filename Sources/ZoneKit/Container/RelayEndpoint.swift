public import Foundation
import Wire

/// The relay of a container, and the credentials for it.
///
/// Code written for CloudKit needs no change: without a configuration in code, the endpoint is read from environment
/// variables, or from the JSON file with the same keys that `ZONECAST_CONFIG` names. The variables are `ZONECAST_URL`,
/// `ZONECAST_ENVIRONMENT`, `ZONECAST_API_TOKEN`, `ZONECAST_DEVICE_ID` and `ZONECAST_ENCRYPTION_PASSPHRASE`, and for the
/// credential `ZONECAST_WEB_TOKEN`, or `ZONECAST_EMAIL` with `ZONECAST_PASSWORD`, or `ZONECAST_DEV_USER`, or
/// `ZONECAST_KEY_ID` with `ZONECAST_KEY_FILE`.
///
/// To configure it in code, call this once before the first request:
///
///     CKContainer.configure(RelayEndpoint(url: relay, apiToken: "…", webAuthToken: "…"))
///
/// For a relay that was started with `--dev`, `.dev(relay, user: "alice")` is sufficient.
public struct RelayEndpoint: Sendable {
    /// The environments of a container, which share no data.
    public enum Environment: String, Sendable, CaseIterable {
        /// For development: the relay creates record types and fields when they are first saved.
        case development
        /// For production: the schema is fixed.
        case production
    }

    /// The relay's URL, such as `https://sync.example.org`.
    public var url: URL
    /// The environment of the container.
    public var environment: Environment
    /// Identifies the app: 64 hexadecimal digits from the relay's console or command line.
    public var apiToken: String?
    /// Identifies the user.
    ///
    /// Without it, only the public database can be read. The relay renews it with every response.
    public var webAuthToken: String?
    /// The credential to use instead of `webAuthToken`, for example an account or an identity token.
    public var credential: RelayCredential?
    /// Provides the key for `encryptedValues`.
    ///
    /// Without it, the values are sent unencrypted.
    public var encryptionKey: (any EncryptionKeyProvider)?
    /// Identifies this device, which gets no notices of its own changes; `nil` for a random ID of this process.
    public var deviceID: String?
    /// Called with each renewed web auth token, on any thread.
    ///
    /// The app can store the token for its next launch.
    public var tokenRenewed: (@Sendable (String) -> Void)?
    /// A simulated network for tests, used instead of the system's.
    package var network: (transport: any RelayTransport, sockets: (any SocketConnector)?)?

    /// Creates an endpoint.
    ///
    /// - Parameters:
    ///   - url: The relay's URL.
    ///   - environment: The environment of the container.
    ///   - apiToken: Identifies the app.
    ///   - webAuthToken: Identifies the user.
    ///   - credential: The credential to use instead of `webAuthToken`.
    ///   - encryptionKey: Provides the key for encrypted values.
    ///   - deviceID: Identifies the device; `nil` for a random ID of this process.
    ///   - tokenRenewed: Called with each renewed web auth token.
    public init(
        url: URL,
        environment: Environment = .development,
        apiToken: String? = nil,
        webAuthToken: String? = nil,
        credential: RelayCredential? = nil,
        encryptionKey: (any EncryptionKeyProvider)? = nil,
        deviceID: String? = nil,
        tokenRenewed: (@Sendable (String) -> Void)? = nil
    ) {
        self.url = url
        self.environment = environment
        self.apiToken = apiToken
        self.webAuthToken = webAuthToken
        self.credential = credential
        self.encryptionKey = encryptionKey
        self.deviceID = deviceID
        self.tokenRenewed = tokenRenewed
    }

    /// Returns an endpoint for a relay that was started with `--dev`, which accepts any user without a password.
    ///
    /// - Parameters:
    ///   - url: The relay's URL, on this machine.
    ///   - user: Any user name; the relay creates the user on first use.
    ///   - deviceID: Identifies the device; `nil` for a random ID of this process.
    /// - Returns: An endpoint in the development environment.
    public static func dev(_ url: URL, user: String, deviceID: String? = nil) -> RelayEndpoint {
        RelayEndpoint(url: url, webAuthToken: "dev-\(user)", deviceID: deviceID)
    }

    /// Creates an endpoint from a JSON file: an object with the environment variables' names as keys and strings as
    /// values.
    ///
    /// - Parameter file: The URL of the file.
    /// - Throws: An error if the file cannot be read, and `CKError.badContainer` if it contains no relay.
    public init(contentsOf file: URL) throws {
        let names = try JSONDecoder().decode([String: String].self, from: Data(contentsOf: file))
        guard let endpoint = RelayEndpoint(variables: names) else {
            throw CKError(.badContainer, "\(file.lastPathComponent) has no ZONECAST_URL with the address of a relay.")
        }
        self = endpoint
    }

    /// Returns the first credential in the variables: an account, a user of a `--dev` relay, or a server key.
    private static func credential(_ text: (String) -> String?) -> RelayCredential? {
        if let email = text("ZONECAST_EMAIL"), let password = text("ZONECAST_PASSWORD") {
            return .account(emailAddress: email, password: password)
        }
        if let user = text("ZONECAST_DEV_USER") { return .dev(user: user) }
        guard let id = text("ZONECAST_KEY_ID"), let path = text("ZONECAST_KEY_FILE"),
            let pem = try? String(contentsOfFile: path, encoding: .utf8)
        else { return nil }
        return .serverKey(id: id, privateKey: ByteOrderMark.dropped(from: pem))
    }

    /// Creates an endpoint from environment variables; `nil` if `ZONECAST_URL` is not set or not valid.
    ///
    /// - Parameter variables: The variables. The default is the environment of this process.
    public init?(variables: [String: String] = ProcessInfo.processInfo.environment) {
        func text(_ name: String) -> String? { variables[name].flatMap { $0.isEmpty ? nil : $0 } }
        guard let address = text("ZONECAST_URL"), let url = URL(string: address), url.scheme != nil,
            NetworkTransport.isPortUsable(in: url)
        else { return nil }
        self.init(
            url: url,
            environment: text("ZONECAST_ENVIRONMENT").flatMap(Environment.init(rawValue:)) ?? .development,
            apiToken: text("ZONECAST_API_TOKEN"),
            webAuthToken: text("ZONECAST_WEB_TOKEN"),
            credential: Self.credential(text),
            encryptionKey: text("ZONECAST_ENCRYPTION_PASSPHRASE").map { PassphraseEncryptionKey($0) },
            deviceID: text("ZONECAST_DEVICE_ID")
        )
    }
}
