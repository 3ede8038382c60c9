package import Records
package import RelayCore

/// The credential of a connection, stored so that an open socket can be checked for revocation later.
package enum Credential: Hashable, Sendable {
    case apiToken(hash: [UInt8])
    case session(Session.ID, apiTokenHash: [UInt8])
    case serverKey(String)
    /// A dev user, or an anonymous caller, on a `--dev` relay.
    case dev(Account.ID?)
}

/// The caller of a request, and what its response must contain.
///
/// A class because each request passes it along and it never changes.
package final class Authentication: Sendable {
    package let caller: Caller
    /// For the header `X-Apple-CloudKit-Web-Auth-Token`; `nil` if no token rotates.
    package let freshWebToken: String?
    /// When `freshWebToken` expires, or the token of the request if there is none; `nil`: never.
    package let expires: Timestamp?
    /// The checked and allowed origin of a browser page; `nil` if the request is not from a browser.
    package let origin: String?
    package let credential: Credential
    /// The account behind a `.user` caller.
    package let account: Account.ID?
    /// Creates further tokens of the session; `nil` if nothing rotates.
    let seal: WebTokenSeal?
    let signIn: SignInAddress
    /// The replay protection of a signed write; `nil` for reads and for unsigned requests.
    let signature: UsedSignature?
    /// The grant it was created from; `nil` for a request of the console.
    private let grant: Grant?

    init(
        grant: Grant? = nil,
        caller: Caller,
        freshWebToken: String? = nil,
        expires: Timestamp? = nil,
        origin: String? = nil,
        credential: Credential,
        account: Account.ID? = nil,
        seal: WebTokenSeal? = nil,
        signIn: SignInAddress,
        signature: UsedSignature? = nil
    ) {
        self.caller = caller
        self.freshWebToken = freshWebToken
        self.expires = expires
        self.origin = origin
        self.credential = credential
        self.account = account
        self.seal = seal
        self.signIn = signIn
        self.signature = signature
        self.grant = grant
    }

    /// Whether the session was created by an operator's command; such a session ends with the command.
    var isVisit: Bool { grant?.session?.kind == .visit }

    /// The error for a caller that must sign in.
    ///
    /// See Wire.md, "Signing in".
    package var signInRequired: RelayError {
        CredentialRefusal.ended.relayError(redirectURL: signIn.url)
    }
}

/// The browser pages that may send requests, by the `Origin` header.
///
/// See Reliability.md, "Origins and cookies".
struct OriginRule {
    /// The allowed origins of the API token.
    var origins: [String]
    var settings: SignInSettings
    /// The header `Host` of the request.
    var host: String?

    /// Returns whether an origin is allowed; never `null`, which any page can have.
    func allows(_ origin: String) -> Bool {
        guard origin != "null", !origin.isEmpty else { return false }
        return origins.contains(origin) || settings.allowedOrigins.contains(origin) || isOwn(origin)
            || (settings.acceptsDevTokens && Self.isLoopback(origin))
    }

    /// Returns whether the page is the relay's own.
    ///
    /// A `--dev` relay does not trust `Host` for this: it requires no secret, and a page with any host name can be made
    /// to resolve to this machine.
    private func isOwn(_ origin: String) -> Bool {
        if let address = settings.publicURL, Self.origin(of: address) == origin { return true }
        guard let host, !settings.acceptsDevTokens else { return false }
        return origin == "https://\(host)" || origin == "http://\(host)"
    }

    /// Returns scheme, host and port of a URL.
    private static func origin(of address: String) -> String {
        let parts = address.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        return parts.prefix(3).joined(separator: "/")
    }

    /// Returns whether the page was served from this machine, like `http://localhost:5173`.
    static func isLoopback(_ origin: String) -> Bool {
        ["http://localhost", "http://127.0.0.1", "http://[::1]"].contains { start in
            guard origin.hasPrefix(start) else { return false }
            let rest = origin.utf8.dropFirst(start.utf8.count)
            return rest.isEmpty || (rest.first == UInt8(ascii: ":") && rest.dropFirst().allSatisfy(\.isASCIIDigit))
        }
    }
}

/// The URL of the sign-in page, created only when it is needed.
struct SignInAddress: Sendable {
    var publicURL: String?
    /// Whether the relay itself terminates TLS.
    var isSecure = false
    /// The header `Host` of the request.
    var host: String?
    var home: ContainerEnvironment
    /// The API token's public identifier; `nil` on a `--dev` relay without one.
    var apiTokenID: String?
    /// The page that sends the request, on a `--dev` relay where the sign-in page cannot get it from the API token.
    var origin: String?

    /// The relay's own URL, as the client reaches it.
    var base: String { publicURL ?? "\(isSecure ? "https" : "http")://\(usableHost)" }

    var url: String {
        let token = apiTokenID.map { "&token=\($0)" } ?? ""
        return "\(base)/signin?container=\(home.container.name)&environment=\(home.environment.rawValue)\(token)"
            + (origin.map { "&origin=\($0)" } ?? "")
    }

    /// The header `Host` is used in a URL only if it has valid characters.
    private var usableHost: String {
        guard let host, !host.isEmpty,
            host.utf8.allSatisfy({ $0.isASCIIAlphanumeric || ".:-[]_".utf8.contains($0) })
        else { return "localhost" }
        return host
    }
}

/// Why credentials were refused.
package enum CredentialRefusal: Error, Hashable, Sendable {
    /// Invalid, of another container, or missing; not told apart.
    case failed
    /// They were valid once; the user must sign in again.
    case ended
    /// The token of a socket has expired, but its session is valid: a newer token of it is accepted.
    case expired
    /// The page of a browser is not allowed.
    case foreignOrigin
    /// Too many requests or wrong passwords.
    case throttled(retryAfter: Duration)
    /// The request itself is malformed; the text says how.
    case malformed(String)
    /// The directory could not be read.
    ///
    /// The text is for the log.
    case unavailable(String)

    init(_ error: DirectoryError) {
        switch error {
        case .unavailable(let text): self = .unavailable(text)
        case .damaged(let file): self = .unavailable("\(file) is damaged")
        case .exists, .missing, .invalid: self = .failed
        }
    }

    /// Returns the error on the wire; `redirectURL` is the sign-in page.
    package func relayError(redirectURL: String?) -> RelayError {
        switch self {
        case .failed:
            RelayError(.authenticationFailed, "Authentication failed")
        case .ended, .expired:
            RelayError(.authenticationRequired, "request needs authorization", redirectURL: redirectURL)
        case .foreignOrigin:
            RelayError(
                .accessDenied,
                "Pages of this origin may not use this API token. Add it with: zonecast token create --allowed-origin"
            )
        case .throttled(let wait):
            RelayError(.throttled, "Too many requests. Wait before the next one.", retryAfter: wait)
        case .malformed(let reason):
            RelayError(.badRequest, reason)
        case .unavailable:
            RelayError(.tryAgainLater, "The relay cannot check credentials right now.", retryAfter: .seconds(1))
        }
    }
}
