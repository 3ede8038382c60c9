package import Records

/// A foreign issuer of identity tokens (JWT) that a container trusts.
///
/// See Reliability.md, "Tokens".
package struct TokenIssuer: Hashable, Sendable {
    /// The signature algorithms that can be allowed (RFC 7518 and RFC 8037).
    package enum Algorithm: String, Hashable, Sendable, CaseIterable {
        case hs256 = "HS256"
        case rs256 = "RS256"
        case es256 = "ES256"
        /// With curve Ed25519 alone.
        case edDSA = "EdDSA"

        /// The algorithm that tokens, keys and commands name so; `Ed25519` is the name of RFC 9864 for `EdDSA`.
        package init?(named name: String) { self.init(rawValue: name == "Ed25519" ? "EdDSA" : name) }
    }

    /// The source of the issuer's public keys.
    package enum KeyLocation: Hashable, Sendable {
        /// The `https` URL of a JWK set.
        case url(String)
        /// The path of a file with a JWK set, one JWK, a PEM public key, or for HS256 the secret itself.
        ///
        /// Read again when needed, so that no secret is copied into the data folder.
        case file(String)
    }

    /// An account property that is read from a claim.
    package enum Field: String, Hashable, Sendable, CaseIterable {
        case email, phone, name
        case givenName = "given-name"
        case familyName = "family-name"
        case middleName = "middle-name"
        case nickname

        /// The name of the claim in OpenID Connect Core, section 5.1.
        package var standardClaim: String {
            switch self {
            case .email: "email"
            case .phone: "phone_number"
            case .name: "name"
            case .givenName: "given_name"
            case .familyName: "family_name"
            case .middleName: "middle_name"
            case .nickname: "nickname"
            }
        }
    }

    package var container: ContainerID
    /// The exact value of the `iss` claim.
    package var issuer: String
    /// Values of which the `aud` claim must contain at least one.
    package var audiences: [String]
    /// The algorithms that tokens may be signed with; a token cannot choose any other.
    package var algorithms: Set<Algorithm>
    package var keys: KeyLocation
    /// Claim names that differ from the standard ones.
    package var claims: [Field: String]
    /// Whether to accept e-mail addresses and phone numbers that no claim marks as verified.
    package var trustsContacts: Bool
    package var created: Timestamp

    package init(
        container: ContainerID,
        issuer: String,
        audiences: [String],
        algorithms: Set<Algorithm>,
        keys: KeyLocation,
        claims: [Field: String] = [:],
        trustsContacts: Bool = false,
        created: Timestamp
    ) {
        self.container = container
        self.issuer = issuer
        self.audiences = audiences
        self.algorithms = algorithms
        self.keys = keys
        self.claims = claims
        self.trustsContacts = trustsContacts
        self.created = created
    }

    package func claim(for field: Field) -> String { claims[field] ?? field.standardClaim }
}

/// An issuer as the directory has it now.
package struct TrustedIssuer: Sendable {
    package var issuer: TokenIssuer
    /// Greater after each change of the issuer: keys that were read at a smaller one are not used.
    package var revision: UInt64

    package init(issuer: TokenIssuer, revision: UInt64) {
        self.issuer = issuer
        self.revision = revision
    }
}

/// The claims of a verified identity token.
package struct ExternalIdentity: Hashable, Sendable {
    package var issuer: String
    package var subject: String
    package var email: String?
    package var phone: String?
    package var name: PersonName

    package init(issuer: String, subject: String, email: String?, phone: String?, name: PersonName) {
        self.issuer = issuer
        self.subject = subject
        self.email = email
        self.phone = phone
        self.name = name
    }
}
