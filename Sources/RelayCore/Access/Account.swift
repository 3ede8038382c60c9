import Foundation
package import Records

/// A person's account on the relay; each container knows the person by a different `UserID`.
package struct Account: Hashable, Sendable {
    package struct ID: Hashable, Sendable {
        package let number: Int64
        package init(_ number: Int64) { self.number = number }
    }

    /// How the person signs in.
    package enum Login: Hashable, Sendable {
        /// Trimmed, lower-case.
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
        if case .email(let address) = login { self.email = address } else { self.email = email }
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

    /// Returns the address as it is stored and compared: trimmed, lower-case and NFC-normalized; `nil` if it is
    /// invalid.
    ///
    /// Deliberately lenient: exactly one `@`, text before and after it, no blanks, at most 254 bytes.
    package static func canonicalEmail(_ text: String) -> String? {
        let trimmed = text.utf8.drop { $0 <= 0x20 }.reversed().drop { $0 <= 0x20 }.reversed()
        guard (3...254).contains(trimmed.count), trimmed.allSatisfy({ $0 > 0x20 && $0 != 0x7F }) else { return nil }
        let parts = trimmed.split(separator: UInt8(ascii: "@"), omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ !$0.isEmpty }) else { return nil }
        return String(decoding: trimmed, as: UTF8.self).lowercased().precomposedStringWithCanonicalMapping
    }

    /// Returns a phone number as it is stored and compared: `+` and 7 to 15 digits; `nil` if it is invalid.
    ///
    /// Blanks, dots, dashes, slashes and parentheses are removed, and a leading `00` becomes `+`. A number without a
    /// country code is kept without the `+`, so it matches only as it was written.
    package static func canonicalPhone(_ text: String) -> String? {
        var digits = text.utf8.filter { !" .-/()".utf8.contains($0) }
        let isInternational = digits.first == UInt8(ascii: "+") || digits.starts(with: "00".utf8)
        if isInternational { digits.removeFirst(digits.first == UInt8(ascii: "+") ? 1 : 2) }
        guard (7...15).contains(digits.count), digits.allSatisfy(\.isASCIIDigit) else { return nil }
        return (isInternational ? "+" : "") + String(decoding: digits, as: UTF8.self)
    }

    /// Returns whether a name has 1 to 64 letters, digits, `.`, `_`, `-`, `@` or `+`.
    package static func isDevName(_ name: some StringProtocol) -> Bool {
        (1...64).contains(name.utf8.count)
            && name.utf8.allSatisfy { $0.isASCIIAlphanumeric || ".-_@+".utf8.contains($0) }
    }
}
