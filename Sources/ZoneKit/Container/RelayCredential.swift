/// As whom a program speaks to its relay, and how it comes by the right to.
///
/// A credential that signs in does so with the first request, and again when the relay no longer takes what it was given.
public enum RelayCredential: Sendable {
    /// A web auth token that the program has already, from the sign-in page or from its last run.
    case webAuthToken(String)
    /// An account of the relay's own.
    case account(emailAddress: String, password: String)
    /// An identity token (JWT) of an issuer that the container trusts; asked for at each sign-in.
    ///
    /// Who throws has no token just now, and is asked again later; only `CKError.notAuthenticated` says that nobody has signed
    /// in.
    case identityToken(@Sendable () async throws -> String)
    /// Any name, at a relay started with `--dev`.
    case dev(user: String)
    /// A server-to-server key: its number, and its P-256 private key in PEM. It reaches the public database only.
    case serverKey(id: String, privateKey: String)
    /// Nobody: the public database can be read, as far as its roles allow.
    case nobody
}

extension RelayCredential {
    /// The token that needs no sign-in.
    package var presetToken: String? {
        switch self {
        case .webAuthToken(let token): token
        case .dev(let user): "dev-\(user)"
        case .account, .identityToken, .serverKey, .nobody: nil
        }
    }

    /// Whether it can come by a token by itself.
    var canSignIn: Bool {
        switch self {
        case .account, .identityToken: true
        case .webAuthToken, .dev, .serverKey, .nobody: false
        }
    }
}
