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

/// A person's name in the components of the wire format.
///
/// See Wire.md, "Users".
package struct PersonName: Hashable, Sendable {
    package var prefix: String?
    package var given: String?
    package var middle: String?
    package var family: String?
    package var suffix: String?
    package var nickname: String?

    package init(given: String? = nil, family: String? = nil) {
        self.given = given
        self.family = family
    }

    package var isEmpty: Bool { self == PersonName() }

    /// The maximum length of a component, in UTF-8 bytes.
    package static let longestPart = 128

    /// Returns a component as it is stored: trimmed, without control characters, truncated to `longestPart`; `nil` if
    /// empty.
    package static func part(_ text: String) -> String? {
        var kept = String.UnicodeScalarView()
        var bytes = 0
        for scalar in text.unicodeScalars where scalar.value >= 0x20 && !(0x7F...0x9F).contains(scalar.value) {
            if kept.isEmpty, scalar == " " { continue }
            bytes += UTF8.width(scalar)
            guard bytes <= longestPart else { break }
            kept.append(scalar)
        }
        while kept.last == " " { kept.removeLast() }
        return kept.isEmpty ? nil : String(kept)
    }
}

/// A person as a user of one container, and what they have made visible to other users.
package struct UserProfile: Hashable, Sendable {
    package var user: UserID
    package var account: Account
    /// Whether other users of the container can find the person and see their name; off until the person turns it on.
    ///
    /// See Wire.md, "User operations", and CloudKit's `userDiscoverability` permission.
    package var isDiscoverable: Bool

    package init(user: UserID, account: Account, isDiscoverable: Bool) {
        self.user = user
        self.account = account
        self.isDiscoverable = isDiscoverable
    }

    /// The name that other users see; empty unless the person is discoverable.
    package var shownName: PersonName { isDiscoverable ? account.name : PersonName() }
}

/// A key for finding a user of a container.
package enum UserLookup: Hashable, Sendable {
    /// As in `AccountRules.canonicalEmail`.
    case email(String)
    /// As in `AccountRules.canonicalPhone`.
    case phone(String)
    case user(UserID)
}

/// Filters the result of user lookups by discoverability.
///
/// A user who does not exist and one who is not discoverable are both left out, so that they cannot be told apart.
/// Callers always find themselves. See Wire.md, "User operations".
package enum Discovery {
    /// Returns the profiles found, in the order of `lookups`, with the index of the lookup.
    package static func find(
        _ lookups: [UserLookup?],
        among profiles: [UserLookup: UserProfile],
        by caller: UserID
    ) -> [(index: Int, profile: UserProfile)] {
        lookups.enumerated().compactMap { index, lookup in
            guard let lookup, let profile = profiles[lookup], profile.isDiscoverable || profile.user == caller,
                !profile.account.isDisabled
            else { return nil }
            return (index, profile)
        }
    }
}
