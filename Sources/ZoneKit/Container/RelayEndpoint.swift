public import Foundation
import Wire

/// Where a container's relay is, and as whom to speak to it.
///
/// Code written for CloudKit needs no change: without a word from the program the endpoint is read from the
/// environment (`ZONECAST_URL`, `ZONECAST_ENVIRONMENT`, `ZONECAST_API_TOKEN`, `ZONECAST_DEVICE_ID`; who speaks:
/// `ZONECAST_WEB_TOKEN`, or `ZONECAST_EMAIL` with `ZONECAST_PASSWORD`, or `ZONECAST_DEV_USER`, or `ZONECAST_KEY_ID` with
/// `ZONECAST_KEY_FILE`; `ZONECAST_ENCRYPTION_PASSPHRASE`), or from the JSON file of the same names that
/// `ZONECAST_CONFIG` names. A program that wants to say it itself does so once, before the first request:
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
    /// As whom to speak, instead of `webAuthToken`: who signs in by an account or an identity token needs none.
    public var credential: RelayCredential?
    /// Gives the key by which `encryptedValues` are read and written; without one they go to the relay as they are.
    public var encryptionKey: (any EncryptionKeyProvider)?
    /// Names this device, so that it is not told of its own changes; `nil`: one drawn for this process.
    public var deviceID: String?
    /// Called with each renewed web auth token, on any thread, so that a program can keep it for its next start.
    public var tokenRenewed: (@Sendable (String) -> Void)?
    /// A test's network, in the place of the system's.
    package var network: (transport: any RelayTransport, sockets: (any SocketConnector)?)?

    /// Says where the relay is and as whom to speak to it.
    ///
    /// - Parameters:
    ///   - url: The relay's address.
    ///   - environment: Which of the container's two lives to use.
    ///   - apiToken: Names the program.
    ///   - webAuthToken: Names the user.
    ///   - credential: As whom to speak, instead of `webAuthToken`.
    ///   - encryptionKey: Gives the key of encrypted values.
    ///   - deviceID: Names the device; left out, one drawn for this process.
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

    /// The endpoint that a file describes: a JSON object of the names of the environment variables, each with a string.
    ///
    /// - Parameter file: Where it is.
    /// - Throws: What reading throws, and `CKError.badContainer` when it names no relay.
    public init(contentsOf file: URL) throws {
        let names = try JSONDecoder().decode([String: String].self, from: Data(contentsOf: file))
        guard let endpoint = RelayEndpoint(variables: names) else {
            throw CKError(.badContainer, "\(file.lastPathComponent) has no ZONECAST_URL with the address of a relay.")
        }
        self = endpoint
    }

    /// The first of an account, a user of a `--dev` relay and a server key that is named.
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

    /// The endpoint that environment variables describe; `nil` when `ZONECAST_URL` is not set or is no address.
    ///
    /// - Parameter variables: Left out, those of this process.
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
