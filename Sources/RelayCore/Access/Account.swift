package import Records

/// A person's account on the relay; each container knows the person by a different `UserID`.
package struct Account: Hashable, Sendable {
    package struct ID: Hashable, Sendable {
        package let number: Int64
        package init(_ number: Int64) { self.number = number }
    }

    /// How the person signs in.
    package enum Login: Hashable, Sendable {
        /// In the form of `AccountRules.canonicalEmail`.
        case email(String)
        /// The NAME of a `dev-NAME` token; such an account has no password and no other way to sign in.
        case dev(String)
        /// The `iss` and `sub` claims of a foreign issuer's identity token; such an account has no password here.
        case foreign(issuer: String, subject: String)
    }

    package var id: ID
    package var login: Login
    /// The address by which other users can find the person, in the form of `AccountRules.canonicalEmail`.
    ///
    /// The address of an `.email` login, or one that the foreign issuer has verified.
    package var email: String?
    /// In the form of `AccountRules.canonicalPhone`.
    package var phone: String?
    package var name: PersonName
    package var isDisabled: Bool
    package var created: Timestamp

    package init(
        id: ID,
        login: Login,
        email: String? = nil,
        phone: String? = nil,
        name: PersonName = PersonName(),
        isDisabled: Bool = false,
        created: Timestamp
    ) {
        self.id = id
        self.login = login
        if case .email(let address) = login { self.email = email ?? address } else { self.email = email }
        self.phone = phone
        self.name = name
        self.isDisabled = isDisabled
        self.created = created
    }
}

/// The rules for e-mail addresses, passwords and dev names.
package enum AccountRules {
    /// In UTF-8 bytes; the upper limit only bounds the cost of hashing.
    package static let passwordLength = 8...1024

    /// Returns the address as it is stored and compared; `nil` if it is invalid.
    package static func canonicalEmail(_ text: String) -> String? { EmailAddress.canonical(text) }

    /// Returns a phone number as it is stored and compared; `nil` if it is invalid.
    package static func canonicalPhone(_ text: String) -> String? { PhoneNumber.canonical(text) }

    /// Returns whether a name has 1 to 64 letters, digits, `.`, `_`, `-`, `@` or `+`.
    package static func isDevName(_ name: some StringProtocol) -> Bool {
        (1...64).contains(name.utf8.count)
            && name.utf8.allSatisfy { $0.isASCIIAlphanumeric || ".-_@+".utf8.contains($0) }
    }
}
