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
package struct Authentication: Sendable {
    package var caller: Caller
    /// For the header `X-Apple-CloudKit-Web-Auth-Token`; `nil` where no token rotates.
    package var freshWebToken: String?
    /// When `freshWebToken`, or where there is none the token presented, ends; `nil`: never.
    package var expires: Timestamp?
    /// Browser origins the API token allows.
    ///
    /// Empty for a server key.
    package var allowedOrigins: [String]
    package var credential: Credential
    /// The account behind a `.user` caller.
    package var account: Account.ID?
    /// Whether pages served from this machine may call, whatever the API token says: on a `--dev` relay.
    var allowsLoopbackOrigins = false
    /// Makes further tokens of the session; `nil` where nothing rotates.
    var seal: WebTokenSeal?
    var signIn: SignInAddress

    /// Whether a browser page of this origin (as in the `Origin` header) may see the answer.
    ///
    /// Never for `null`.
    package func allowsOrigin(_ origin: String) -> Bool {
        OriginRule(origins: allowedOrigins, allowsLoopback: allowsLoopbackOrigins).allows(origin)
    }

    /// What to throw at a caller that needs a user and has none.
    ///
    /// Wire reference 3.3.
    package var signInRequired: RelayError {
        CredentialRefusal.ended.relayError(redirectURL: signIn.url)
    }
}

/// Which origins may read answers in a browser.
///
/// Reliability reference, section 4.
struct OriginRule {
    var origins: [String]
    var allowsLoopback: Bool

    func allows(_ origin: String) -> Bool {
        guard origin != "null", !origin.isEmpty else { return false }
        return origins.contains(origin) || (allowsLoopback && Self.isLoopback(origin))
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
    /// The request's `Host`.
    var host: String?
    var home: ContainerEnvironment
    /// The API token's public identifier; `nil` on a `--dev` relay that was shown none.
    var apiTokenID: String?

    var url: String {
        let base = publicURL ?? "http://\(usableHost)"
        let token = apiTokenID.map { "&token=\($0)" } ?? ""
        return "\(base)/signin?container=\(home.container.name)&environment=\(home.environment.rawValue)\(token)"
    }

    /// A peer's `Host` goes back into a URL only if it looks like one.
    private var usableHost: String {
        guard let host, !host.isEmpty,
            host.utf8.allSatisfy({ $0.isASCIIAlphanumeric || ".:-[]_".utf8.contains($0) })
        else { return "localhost" }
        return host
    }
}
