import Crypto
import Foundation
import Synchronization

/// A credential with which an app authenticates to its relay.
///
/// With a credential that signs in, the first request signs in, and so does a request after the relay has rejected the
/// token.
public enum RelayCredential: Sendable {
    /// A web auth token that the app already has, from the sign-in page or from its last run.
    case webAuthToken(String)
    /// The email address and password of an account at the relay.
    case account(emailAddress: String, password: String)
    /// A closure that returns an identity token (JWT) of an issuer that the container trusts.
    ///
    /// Called for each sign-in. If the closure throws, it is called again later. Throw `CKError.notAuthenticated` only
    /// if no user is signed in.
    case identityToken(@Sendable () async throws -> String)
    /// Any user name, at a relay that was started with `--dev`.
    case dev(user: String)
    /// A server-to-server key: its ID, and its P-256 private key in PEM format.
    ///
    /// Gives access to the public database only.
    case serverKey(id: String, privateKey: String)
    /// No user.
    ///
    /// The public database can be read, as far as its roles allow.
    case nobody
}

extension RelayCredential {
    /// The token of a credential that needs no sign-in.
    package var presetToken: String? {
        switch self {
        case .webAuthToken(let token): token
        case .dev(let user): "dev-\(user)"
        case .account, .identityToken, .serverKey, .nobody: nil
        }
    }

    /// Whether the credential can obtain a token by signing in.
    var canSignIn: Bool {
        switch self {
        case .account, .identityToken: true
        case .webAuthToken, .dev, .serverKey, .nobody: false
        }
    }
}

/// The credentials of a connection, kept in memory.
///
/// The web auth token changes while the app runs: the relay sends renewed tokens in its responses and over the notice
/// connection. Older tokens remain valid until they expire, so requests may overlap and their responses may arrive in
/// any order.
package final class RelayCredentials: Sendable {
    private struct State {
        var credential: RelayCredential
        var webAuthToken: String?
        /// Distinguishes responses to requests before a change of the account from those to requests after it.
        var generation: Int
        /// The sign-in in progress.
        ///
        /// Requests that need a token wait for it.
        var signIn: Task<String, any Error>?
        var serverKey: ServerKey?
    }

    package let apiToken: String?
    private let state: Mutex<State>
    private let renewed: (@Sendable (String) -> Void)?
    /// Counts the sign-ins of the whole process.
    ///
    /// Numbers are unique across objects, so that an object that replaces another one is never mistaken for it.
    private static let generations = Atomic<Int>(0)

    package init(
        apiToken: String?,
        credential: RelayCredential,
        renewed: (@Sendable (String) -> Void)? = nil
    ) {
        self.apiToken = apiToken
        self.renewed = renewed
        state = Mutex(Self.newState(of: credential))
    }

    package convenience init(
        apiToken: String?,
        webAuthToken: String?,
        renewed: (@Sendable (String) -> Void)? = nil
    ) {
        self.init(
            apiToken: apiToken,
            credential: webAuthToken.map { .webAuthToken($0) } ?? .nobody,
            renewed: renewed
        )
    }

    private static func newState(of credential: RelayCredential) -> State {
        let generation = generations.add(1, ordering: .relaxed).newValue
        var state = State(credential: credential, webAuthToken: credential.presetToken, generation: generation)
        if case .serverKey(let id, let pem) = credential { state.serverKey = ServerKey(id: id, pem: pem) }
        return state
    }

    /// The token for a request, and the generation to pass to `renew` with the response.
    package var current: (webAuthToken: String?, generation: Int) {
        state.withLock { ($0.webAuthToken, $0.generation) }
    }

    package var webAuthToken: String? { state.withLock { $0.webAuthToken } }

    /// Whether there is a user, or a credential that can sign in.
    package var identifiesUser: Bool { state.withLock { $0.webAuthToken != nil || $0.credential.canSignIn } }

    var serverKey: ServerKey? { state.withLock { $0.serverKey } }

    /// Whether the credential is a server key that is not valid.
    var hasUnusableKey: Bool {
        state.withLock { state in
            if case .serverKey = state.credential { return state.serverKey == nil }
            return false
        }
    }

    /// Stores a renewed token from the response to a request of a generation.
    ///
    /// Tokens of earlier accounts are ignored.
    package func renew(_ token: String, generation: Int) {
        let isNew = state.withLock { state in
            guard state.generation == generation, state.webAuthToken != token else { return false }
            state.webAuthToken = token
            return true
        }
        if isNew { renewed?(token) }
    }

    /// Signs in as another user, or signs out.
    package func replace(webAuthToken: String?) {
        replace(by: webAuthToken.map { .webAuthToken($0) } ?? .nobody)
    }

    /// Replaces the credential.
    package func replace(by credential: RelayCredential) {
        state.withLock { state in
            state.signIn?.cancel()
            state = Self.newState(of: credential)
        }
    }

    /// Returns a token and its generation, by signing in if necessary; `nil` if the credential cannot sign in.
    ///
    /// `refused` is the token that the relay has rejected. If there is another token by now, that one is returned.
    /// Concurrent calls share one sign-in.
    func signedIn(
        insteadOf refused: String?,
        by signIn: @escaping @Sendable (RelayCredential) async throws -> String
    ) async throws -> (token: String, generation: Int)? {
        let (known, task, generation) = state.withLock { state -> (String?, Task<String, any Error>?, Int) in
            if let token = state.webAuthToken, token != refused { return (token, nil, state.generation) }
            guard state.credential.canSignIn else { return (nil, nil, state.generation) }
            if let running = state.signIn { return (nil, running, state.generation) }
            let credential = state.credential
            // Not on the cooperative pool: all of its threads may be blocked by a file access that needs this sign-in.
            let task = Task(executorPreference: BlockingThreads.executor) { try await signIn(credential) }
            state.signIn = task
            return (nil, task, state.generation)
        }
        guard let task else { return known.map { ($0, generation) } }
        defer {
            state.withLock { state in
                if state.signIn == task { state.signIn = nil }
            }
        }
        let token = try await task.value
        renew(token, generation: generation)
        return (token, generation)
    }
}

/// A server-to-server key, which signs each request.
///
/// See Wire.md, "Server-to-server keys".
package struct ServerKey: Sendable {
    let id: String
    private let key: P256.Signing.PrivateKey

    /// Returns `nil` if the text is not a P-256 private key in PEM format.
    package init?(id: String, pem: String) {
        guard let key = try? P256.Signing.PrivateKey(pemRepresentation: pem) else { return nil }
        self.id = id
        self.key = key
    }

    /// Returns the headers that sign a request at a given time.
    package func headers(path: String, body: [UInt8], at date: Date) throws(CKError) -> [(name: String, value: String)]
    {
        let dateText = date.formatted(.iso8601)
        let hash = Data(SHA256.hash(data: body)).base64EncodedString()
        let message = Data("\(dateText):\(hash):\(path)".utf8)
        guard let signature = try? key.signature(for: message) else {
            throw CKError(.notAuthenticated, "The request could not be signed with the server key \(id).")
        }
        return [
            ("X-Apple-CloudKit-Request-KeyID", id),
            ("X-Apple-CloudKit-Request-ISO8601Date", dateText),
            ("X-Apple-CloudKit-Request-SignatureV1", signature.derRepresentation.base64EncodedString()),
        ]
    }
}
