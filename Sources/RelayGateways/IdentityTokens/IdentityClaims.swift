import JWTKit
import Records
import RelayCore

/// The claims of an identity token whose signature was verified, by the names that the operator configured.
///
/// jwt-kit's own claim types are not used: `AudienceClaim` traps on an empty array.
struct IdentityClaims: JWTPayload {
    private enum Value: Codable {
        case text(String)
        case number(Double)
        case boolean(Bool)
        case array([Value])
        case null
        case object

        init(from decoder: any Decoder) throws {
            let json = try decoder.singleValueContainer()
            if json.decodeNil() {
                self = .null
            } else if let text = try? json.decode(String.self) {
                self = .text(text)
            } else if let number = try? json.decode(Double.self) {
                self = .number(number)
            } else if let boolean = try? json.decode(Bool.self) {
                self = .boolean(boolean)
            } else if let array = try? json.decode([Value].self) {
                self = .array(array)
            } else {
                self = .object
            }
        }

        var text: String? { if case .text(let text) = self { text } else { nil } }
    }

    private let values: [String: Value]

    init(from decoder: any Decoder) throws { values = try Dictionary(from: decoder) }

    /// Does nothing: `person` checks the claims, against the issuer's settings and the relay's clock.
    func verify(using algorithm: some JWTAlgorithm) {}

    /// Returns the person that the token identifies, if it is for this relay and currently valid.
    ///
    /// `skew`: the permitted difference between the issuer's clock and the relay's.
    func person(_ issuer: TokenIssuer, at now: Timestamp, skew: Duration) throws(TokenFault) -> ExternalIdentity {
        guard texts("aud").contains(where: issuer.audiences.contains) else { throw .audience }
        try checkTimes(at: now, skew: skew)
        guard let subject = text("sub"), subject.utf8.count <= 255,
            subject.unicodeScalars.allSatisfy({ $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) })
        else { throw .claim("sub") }
        // Users are found by their addresses, so an address counts only if the issuer has verified it.
        let email = isTrue("email_verified") || issuer.trustsContacts ? text(issuer.claim(for: .email)) : nil
        let phone = isTrue("phone_number_verified") || issuer.trustsContacts ? text(issuer.claim(for: .phone)) : nil
        return ExternalIdentity(
            issuer: issuer.issuer,
            subject: subject,
            email: email.flatMap(AccountRules.canonicalEmail),
            // Without its country a number is that of several people.
            phone: phone.flatMap { PhoneNumber.objection(to: $0) == nil ? AccountRules.canonicalPhone($0) : nil },
            name: name(issuer)
        )
    }

    private func checkTimes(at now: Timestamp, skew: Duration) throws(TokenFault) {
        let now = Double(now.milliseconds) / 1000
        guard let end = number("exp") else { throw .claim("exp") }
        guard now < end + skew.inSeconds else { throw .expired }
        for name in ["nbf", "iat"] where has(name) {
            guard let start = number(name) else { throw .claim(name) }
            guard now >= start - skew.inSeconds else { throw .notYetValid }
        }
    }

    private func name(_ issuer: TokenIssuer) -> PersonName {
        func part(_ field: TokenIssuer.Field) -> String? { text(issuer.claim(for: field)).flatMap(PersonName.part) }
        var name = PersonName(given: part(.givenName), family: part(.familyName))
        name.middle = part(.middleName)
        name.nickname = part(.nickname)
        guard name.given == nil, name.family == nil, let whole = part(.name) else { return name }
        // Only the full name is known; the last word is usually the family name.
        let words = whole.split(separator: " ")
        name.given = words.count > 1 ? words.dropLast().joined(separator: " ") : whole
        name.family = words.count > 1 ? words.last.map(String.init) : nil
        return name
    }

    private func has(_ name: String) -> Bool {
        switch values[name] {
        case nil, .null: false
        default: true
        }
    }

    private func text(_ name: String) -> String? { values[name]?.text.flatMap { $0.isEmpty ? nil : $0 } }

    private func number(_ name: String) -> Double? {
        if case .number(let number) = values[name] { number } else { nil }
    }

    /// Returns one text, or the texts of an array.
    private func texts(_ name: String) -> [String] {
        if case .array(let array) = values[name] { array.compactMap(\.text) } else { text(name).map { [$0] } ?? [] }
    }

    /// Some issuers encode booleans as text.
    private func isTrue(_ name: String) -> Bool {
        switch values[name] {
        case .boolean(let value): value
        case .text(let text): text == "true"
        default: false
        }
    }
}
