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
