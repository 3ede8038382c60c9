import Records
import RelayCore
import Wire

/// A parsed JWT whose signature is not verified yet.
///
/// RFC 7519. Of its header only `alg`, `kid` and `crit` are used; an address or a key in the token itself (`jku`,
/// `x5u`, `jwk`, `x5c`) is ignored.
package struct IdentityToken: Sendable {
    /// The maximum length in bytes; longer than a token that fits into a header line.
    static let longest = 16 * 1024

    /// The claim `iss`, which selects the keys for verification.
    package let issuer: String
    let algorithm: String
    let keyID: String?
    private let hasCriticalHeader: Bool
    private let claims: JSONDocument
    private let message: [UInt8]
    private let signature: [UInt8]

    package init(_ text: String) throws(TokenFault) {
        let bytes = Array(text.utf8)
        let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard bytes.count <= Self.longest, parts.count == 3,
            let header = Base64URL.decode(parts[0]).flatMap({ try? JSONDocument(parsing: $0) }), header.root.isObject,
            let claims = Base64URL.decode(parts[1]).flatMap({ try? JSONDocument(parsing: $0) }), claims.root.isObject,
            let signature = Base64URL.decode(parts[2])
        else { throw .malformed }
        guard let algorithm = header.root["alg"].flatMap({ try? $0.string() }) else { throw .malformed }
        guard let issuer = claims.root["iss"].flatMap({ try? $0.string() }) else { throw .claim("iss") }
        self.algorithm = algorithm
        self.issuer = issuer
        self.claims = claims
        self.signature = signature
        keyID = header.root["kid"].flatMap { try? $0.string() }
        hasCriticalHeader = header.root.hasMember("crit")
        message = Array(bytes[..<parts[1].endIndex])
    }

    /// Returns the algorithm if the issuer may use it.
    func allowedAlgorithm(_ issuer: ForeignIssuer) throws(TokenFault) -> ForeignIssuer.Algorithm {
        guard !hasCriticalHeader else { throw .criticalHeader }
        guard let known = ForeignIssuer.Algorithm(named: algorithm), issuer.algorithms.contains(known) else {
            throw .algorithm(algorithm)
        }
        if known == .hs256, case .url = issuer.keys { throw .algorithm(algorithm) }
        return known
    }

    /// Returns the person that the token identifies, if `issuer` signed it for this relay and it is currently valid.
    ///
    /// `skew`: the permitted difference between the issuer's clock and the relay's.
    func person(
        by issuer: ForeignIssuer,
        keys: IssuerKeySet,
        at now: Timestamp,
        skew: Duration
    ) throws(TokenFault) -> ForeignPerson {
        guard self.issuer == issuer.issuer else { throw .unknownIssuer }
        let candidates = keys.candidates(try allowedAlgorithm(issuer), id: keyID)
        guard !candidates.isEmpty else { throw .noKey(keyID) }
        guard candidates.contains(where: { $0.made(signature, over: message) }) else { throw .signature }
        let claims = ClaimReader(claims.root)
        guard claims.texts("aud").contains(where: issuer.audiences.contains) else { throw .audience }
        try checkTimes(claims, at: now, skew: skew)
        return try claims.person(issuer)
    }

    private func checkTimes(_ claims: ClaimReader, at now: Timestamp, skew: Duration) throws(TokenFault) {
        let now = Double(now.milliseconds) / 1000
        guard let end = claims.number("exp") else { throw .claim("exp") }
        guard now < end + skew.inSeconds else { throw .expired }
        for name in ["nbf", "iat"] where claims.has(name) {
            guard let start = claims.number(name) else { throw .claim(name) }
            guard now >= start - skew.inSeconds else { throw .notYetValid }
        }
    }
}

/// The claims of a token, by the names that the operator configured.
private struct ClaimReader {
    private var values: [String: JSONValue]

    init(_ json: JSONValue) {
        values = Dictionary((try? json.members())?.map { ($0.name, $0.value) } ?? []) { first, _ in first }
    }

    func has(_ name: String) -> Bool { values[name].map { !$0.isNull } ?? false }

    func text(_ name: String) -> String? {
        values[name].flatMap { try? $0.string() }.flatMap { $0.isEmpty ? nil : $0 }
    }

    func number(_ name: String) -> Double? { values[name].flatMap { try? $0.double() } }

    /// Returns one text, or the texts of an array.
    func texts(_ name: String) -> [String] {
        if let one = text(name) { return [one] }
        return values[name].flatMap { try? $0.elements() }?.compactMap { try? $0.string() } ?? []
    }

    /// Some issuers encode booleans as text.
    private func isTrue(_ name: String) -> Bool {
        values[name].map { (try? $0.bool()) ?? ((try? $0.string()) == "true") } ?? false
    }

    func person(_ issuer: ForeignIssuer) throws(TokenFault) -> ForeignPerson {
        guard let subject = text("sub"), subject.utf8.count <= 255,
            subject.unicodeScalars.allSatisfy({ $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) })
        else { throw .claim("sub") }
        // Users are found by their addresses, so an address counts only if the issuer has verified it.
        let email = isTrue("email_verified") || issuer.trustsContacts ? text(issuer.claim(for: .email)) : nil
        let phone = isTrue("phone_number_verified") || issuer.trustsContacts ? text(issuer.claim(for: .phone)) : nil
        return ForeignPerson(
            issuer: issuer.issuer,
            subject: subject,
            email: email.flatMap(AccountRules.canonicalEmail),
            // Without its country a number is that of several people.
            phone: phone.flatMap { PhoneNumber.objection(to: $0) == nil ? AccountRules.canonicalPhone($0) : nil },
            name: name(issuer)
        )
    }

    private func name(_ issuer: ForeignIssuer) -> PersonName {
        func part(_ field: ForeignIssuer.Field) -> String? { text(issuer.claim(for: field)).flatMap(PersonName.part) }
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
}
