public import Foundation
public import ZoneKit

/// Where the app keeps its web auth token: in the Keychain on Apple platforms, in a file elsewhere.
public protocol TokenStorage: Sendable {
    /// Returns the token, or `nil` if no user is signed in.
    func token() -> String?
    /// Replaces the token; `nil` removes it.
    func keep(_ token: String?)
}

/// A token in a file that only its owner can read.
public struct TokenFile: TokenStorage {
    let file: URL

    /// Keeps the token in a file, which need not exist.
    public init(_ file: URL) { self.file = file }

    /// Returns the content of the file.
    public func token() -> String? { try? String(contentsOf: file, encoding: .utf8) }

    /// Replaces the file, or removes it.
    public func keep(_ token: String?) {
        try? FileManager.default.removeItem(at: file)
        guard let token else { return }
        _ = FileManager.default.createFile(
            atPath: file.path,
            contents: Data(token.utf8),
            attributes: [.posixPermissions: 0o600]
        )
    }
}

/// The relay of the app, and signing in at it.
public struct SignIn: Sendable {
    /// The scheme of the callback URL of the app's API token.
    public static let callbackScheme = "org.example.notes"

    /// The connection to the relay; the user is the one whose token is stored.
    public let cloud: CKContainer
    private let storage: any TokenStorage

    /// Uses a connection that is configured elsewhere.
    public init(_ cloud: CKContainer, storage: any TokenStorage) {
        self.cloud = cloud
        self.storage = storage
    }

    /// Connects to a relay, as the user whose token is stored.
    public init(relay: URL, apiToken: String, storage: any TokenStorage) {
        let endpoint = RelayEndpoint(
            url: relay,
            apiToken: apiToken,
            webAuthToken: storage.token(),
            // The relay renews the token from time to time.
            tokenRenewed: { storage.keep($0) }
        )
        self.init(CKContainer(identifier: "iCloud.org.example.notes", endpoint: endpoint), storage: storage)
    }

    /// Returns the relay's sign-in page, or `nil` if a user is signed in.
    public func page() async throws -> URL? {
        do {
            _ = try await cloud.userRecordID()
            return nil
        } catch let error as CKError where error.code == .notAuthenticated {
            guard let page = error.signInURL else { throw error }
            return page
        }
    }

    /// Signs in with the URL to which the sign-in page redirected.
    public func finish(_ callback: URL) async throws {
        let items = URLComponents(url: callback, resolvingAgainstBaseURL: false)?.queryItems ?? []
        guard let token = items.first(where: { $0.name == "ckWebAuthToken" })?.value else {
            throw CKError(.notAuthenticated)
        }
        storage.keep(token)
        try await cloud.signIn(.webAuthToken(token))
    }

    /// Forgets the user on this device.
    public func signOut() async throws {
        storage.keep(nil)
        try await cloud.signOut()
    }
}
