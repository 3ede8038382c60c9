import Foundation

/// E-mail addresses as they are stored and compared.
package enum EmailAddress {
    /// The canonical spelling of an address: trimmed, in lower case, in composed form, with an internationalised domain
    /// in its own letters.
    ///
    /// `nil` if it cannot be an address. Deliberately loose: one `@` with text before it and text without spaces after
    /// it, at most 254 bytes. A domain that is not a valid host is kept as it is; it matches no account.
    package static func canonical(_ text: String) -> String? {
        guard let (local, domain) = parts(text) else { return nil }
        return lowered(local) + "@" + (host(domain) ?? lowered(domain))
    }

    /// Returns why a new account cannot have this address; `nil` if it can.
    package static func objection(to text: String) -> String? {
        guard let (local, domain) = parts(text) else {
            return "\"\(text)\" is not an e-mail address. Write it like name@example.org."
        }
        guard let host = host(domain) else {
            return "\"\(domain)\" is not the name of a host, so \"\(text)\" is not an e-mail address."
                + " Write it like name@example.org."
        }
        guard (local + host).unicodeScalars.allSatisfy(isTyped) else {
            return "\"\(text)\" holds a character that no e-mail address has, such as a blank, a quote or a bracket."
                + " Write it like name@example.org."
        }
        return nil
    }

    private static func parts(_ text: String) -> (local: String, domain: String)? {
        let trimmed = text.utf8.drop { $0 <= 0x20 }.reversed().drop { $0 <= 0x20 }.reversed()
        guard (3...254).contains(trimmed.count), trimmed.allSatisfy({ $0 > 0x20 && $0 != 0x7F }) else { return nil }
        let parts = trimmed.split(separator: UInt8(ascii: "@"), omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ !$0.isEmpty }) else { return nil }
        return (String(decoding: parts[0], as: UTF8.self), String(decoding: parts[1], as: UTF8.self))
    }

    private static func lowered(_ text: String) -> String { text.lowercased().precomposedStringWithCanonicalMapping }

    /// A dot at the end of a domain makes no difference.
    private static func host(_ domain: String) -> String? {
        HostName.unicode(domain.hasSuffix(".") ? domain.dropLast() : domain[...])
    }

    /// Returns whether a reader of the address could type this character.
    ///
    /// Persian and Indic names need the two joiners.
    private static func isTyped(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .initialPunctuation, .finalPunctuation, .control, .spaceSeparator, .lineSeparator, .paragraphSeparator,
            .unassigned, .privateUse, .surrogate:
            false
        case .format: scalar == "\u{200C}" || scalar == "\u{200D}"
        default: !"\"(),:;<>[\\]".unicodeScalars.contains(scalar)
        }
    }
}

/// Telephone numbers as they are stored and compared.
package enum PhoneNumber {
    /// The canonical spelling of a number: `+` and 7 to 15 digits; `nil` if it cannot be one.
    ///
    /// Spaces, dots, dashes, slashes and brackets are removed, and also the `(0)` that is only dialled within a
    /// country; a leading `00` becomes `+`. A number without a country code stays without the `+`: shares may have
    /// one, and it is found only in the same spelling.
    package static func canonical(_ text: String) -> String? {
        let signs = String(String.UnicodeScalarView(text.unicodeScalars.filter { !isBlank($0) }))
        let start = signs.drop { $0 == "(" }
        let isInternational = start.hasPrefix("+") || start.hasPrefix("00")
        let written = isInternational ? start.dropFirst(start.hasPrefix("+") ? 1 : 2).replacing("(0)", with: "") : start
        let digits = written.utf8.filter { !"()".utf8.contains($0) }
        guard (7...15).contains(digits.count), digits.allSatisfy(\.isASCIIDigit) else { return nil }
        return (isInternational ? "+" : "") + String(decoding: digits, as: UTF8.self)
    }

    private static func isBlank(_ scalar: Unicode.Scalar) -> Bool {
        scalar == "." || scalar == "/" || scalar.properties.isWhitespace || scalar.properties.isDash
    }

    /// Returns why a new account cannot have this number; `nil` if it can.
    ///
    /// Without a country code, several people can have the same number.
    package static func objection(to text: String) -> String? {
        guard let number = canonical(text) else {
            return "\"\(text)\" is not a telephone number. Write it with its country code: +49 30 1234567."
        }
        guard number.hasPrefix("+") else {
            return "\"\(text)\" has no country code. Write it with its country code: +49 30 1234567."
        }
        return nil
    }
}
