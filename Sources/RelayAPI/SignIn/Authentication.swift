package import Records
package import RelayCore

/// Which credential let somebody in, so that an open socket can be asked about later.
package enum Credential: Hashable, Sendable {
    case apiToken(hash: [UInt8])
    case session(Session.ID, apiTokenHash: [UInt8])
    case serverKey(String)
    /// A dev user, or nobody in particular, on a `--dev` relay.
    case dev(Account.ID?)
}

/// Who a request comes from, and what its answer must carry.
///
/// A class, since every request takes it along and nobody changes it.
package final class Authentication: Sendable {
    package let caller: Caller
    /// For the header `X-Apple-CloudKit-Web-Auth-Token`; `nil` where no token rotates.
    package let freshWebToken: String?
    /// When `freshWebToken`, or where there is none the token presented, ends; `nil`: never.
    package let expires: Timestamp?
    /// The page in a browser that the request is from, found to be allowed; `nil`: no browser's.
    package let origin: String?
    package let credential: Credential
    /// The account behind a `.user` caller.
    package let account: Account.ID?
    /// Makes further tokens of the session; `nil` where nothing rotates.
    let seal: WebTokenSeal?
    let signIn: SignInAddress
    /// What its write leaves behind; `nil` for reads, and for all that is not signed.
    let signature: SignatureMark?
    /// What it was made of, where that is remembered.
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
        signature: SignatureMark? = nil
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

    /// Whether it says of the same head what this use of the grant says.
    func isOf(_ granted: Granted) -> Bool { grant === granted.grant && freshWebToken == granted.freshWebToken }

    /// It comes by a sign-in that ends with an operator's command; what that prints is used afterwards.
    var isVisit: Bool { grant?.session?.kind == .visit }

    /// What to throw at a caller that needs a user and has none.
    ///
    /// See Wire.md, "Signing in".
    package var signInRequired: RelayError {
        CredentialRefusal.ended.relayError(redirectURL: signIn.url)
    }
}

/// Which browser pages may call, by the `Origin` header.
///
/// See Reliability.md, "Origins and cookies".
struct OriginRule {
    /// The API token's.
    var origins: [String]
    var settings: SignInSettings
    /// The request's `Host`.
    var host: String?

    /// Never for `null`, which any page can be.
    func allows(_ origin: String) -> Bool {
        guard origin != "null", !origin.isEmpty else { return false }
        return origins.contains(origin) || settings.allowedOrigins.contains(origin) || isOwn(origin)
            || (settings.acceptsDevTokens && Self.isLoopback(origin))
    }

    /// Whether the page is the relay's own.
    ///
    /// On a `--dev` relay the `Host` says nothing about that: there no secret is asked for, and a page of any name can
    /// be made to point to this machine.
    private func isOwn(_ origin: String) -> Bool {
        if let address = settings.publicURL, Self.origin(of: address) == origin { return true }
        guard let host, !settings.acceptsDevTokens else { return false }
        return origin == "https://\(host)" || origin == "http://\(host)"
    }

    /// Scheme, host and port of an address.
    private static func origin(of address: String) -> String {
        let parts = address.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        return parts.prefix(3).joined(separator: "/")
    }

    /// `http://localhost:5173` and its like: a page that was served from this machine.
    static func isLoopback(_ origin: String) -> Bool {
        ["http://localhost", "http://127.0.0.1", "http://[::1]"].contains { start in
            guard origin.hasPrefix(start) else { return false }
            let rest = origin.utf8.dropFirst(start.utf8.count)
            return rest.isEmpty || (rest.first == UInt8(ascii: ":") && rest.dropFirst().allSatisfy(\.isASCIIDigit))
        }
    }
}

/// Where a person signs in: made only when somebody has to be told.
struct SignInAddress: Sendable {
    var publicURL: String?
    /// The relay itself ends TLS.
    var isSecure = false
    /// The request's `Host`.
    var host: String?
    var home: ContainerEnvironment
    /// The API token's public identifier; `nil` on a `--dev` relay that was shown none.
    var apiTokenID: String?
    /// The page that asks, where the sign-in page cannot know it from the API token: on a `--dev` relay.
    var origin: String?

    /// The relay's own address, as the client reaches it.
    var base: String { publicURL ?? "\(isSecure ? "https" : "http")://\(usableHost)" }

    var url: String {
        let token = apiTokenID.map { "&token=\($0)" } ?? ""
        return "\(base)/signin?container=\(home.container.name)&environment=\(home.environment.rawValue)\(token)"
            + (origin.map { "&origin=\($0)" } ?? "")
    }

    /// A peer's `Host` goes back into a URL only if it looks like one.
    private var usableHost: String {
        guard let host, !host.isEmpty,
            host.utf8.allSatisfy({ $0.isASCIIAlphanumeric || ".:-[]_".utf8.contains($0) })
        else { return "localhost" }
        return host
    }
}
