package import Records

/// Somebody else whose word about who a person is a container takes: an issuer of identity tokens (JWT).
///
/// See Reliability.md, "Tokens".
package struct ForeignIssuer: Hashable, Sendable {
    /// The ways of signing that may be allowed.
    ///
    /// RFC 7518 and 8037.
    package enum Algorithm: String, Hashable, Sendable, CaseIterable {
        case hs256 = "HS256"
        case rs256 = "RS256"
        case es256 = "ES256"
        case edDSA = "EdDSA"
    }

    /// Where the keys are that its tokens are checked with.
    package enum KeyPlace: Hashable, Sendable {
        /// An `https` address of a JWK set.
        case url(String)
        /// A file with a JWK set, one JWK, a PEM public key, or for HS256 the secret itself; read anew when needed, so
        /// that no secret is copied into the data folder.
        case file(String)
    }

    /// A claim that becomes something of the account.
    package enum Field: String, Hashable, Sendable, CaseIterable {
        case email, phone, name
        case givenName = "given-name"
        case familyName = "family-name"
        case middleName = "middle-name"
        case nickname

        /// The claim of OpenID Connect Core, section 5.1.
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
    /// What the `iss` claim must be, to the letter.
    package var issuer: String
    /// One of these must be in the `aud` claim.
    package var audiences: [String]
    /// What a token may be signed with: decided here, never by the token.
    package var algorithms: Set<Algorithm>
    package var keys: KeyPlace
    /// Claims that have other names than the usual ones.
    package var claims: [Field: String]
    /// Take an e-mail address or a telephone number even where no claim says that the issuer checked it.
    package var trustsContacts: Bool
    package var created: Timestamp

    package init(
        container: ContainerID,
        issuer: String,
        audiences: [String],
        algorithms: Set<Algorithm>,
        keys: KeyPlace,
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

/// What a checked identity token says of a person.
package struct ForeignPerson: Hashable, Sendable {
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
