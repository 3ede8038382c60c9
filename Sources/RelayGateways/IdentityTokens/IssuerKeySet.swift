import JWTKit
import Records
package import RelayCore
import Wire

/// The keys of one issuer with which signatures are verified.
///
/// RFC 7517 and 8037. A key is never used with another algorithm, which prevents algorithm confusion attacks.
package struct IssuerKeySet: Sendable {
    /// The maximum number of keys, more than any issuer has; bounds the cost of a verification.
    static let most = 64
    /// The minimum length for HS256, RFC 7518 3.2: the length of the hash.
    static let shortestSecret = 32

    enum Key: Sendable {
        case hs256(HMACKey)
        case es256(ES256PublicKey)
        case rs256(Insecure.RSA.PublicKey)
        case edDSA(EdDSA.PublicKey)

        var algorithm: TokenIssuer.Algorithm {
            switch self {
            case .hs256: .hs256
            case .es256: .es256
            case .rs256: .rs256
            case .edDSA: .edDSA
            }
        }
    }

    struct Entry: Sendable {
        /// `nil` if the key has no identifier, so that it may match any.
        var id: String?
        var key: Key
    }

    var entries: [Entry]

    package var count: Int { entries.count }

    /// Returns the keys with which a token of this algorithm and key identifier may be signed; `nil` if there is none.
    ///
    /// The collection numbers them, because several keys of an issuer may have one identifier or none.
    func candidates(_ algorithm: TokenIssuer.Algorithm, id: String?) async -> JWTKeyCollection? {
        let found = entries.filter { $0.key.algorithm == algorithm && (id == nil || $0.id == nil || $0.id == id) }
        guard !found.isEmpty else { return nil }
        let keys = JWTKeyCollection()
        for (index, entry) in found.enumerated() {
            let number = JWKIdentifier(string: "\(index)")
            switch entry.key {
            case .hs256(let key): await keys.add(hmac: key, digestAlgorithm: .sha256, kid: number)
            case .es256(let key): await keys.add(ecdsa: key, kid: number)
            case .rs256(let key): await keys.add(rsa: key, digestAlgorithm: .sha256, kid: number)
            case .edDSA(let key): await keys.add(eddsa: key, kid: number)
            }
        }
        return keys
    }

    /// Parses the keys that an issuer publishes: a JWK set; shared secrets in it are ignored.
    package init(published bytes: [UInt8]) throws(TokenFault) {
        entries = try Self.entries(json: bytes, allowsSecrets: false)
    }

    /// Parses an operator's file: a JWK set, one JWK, a PEM public key, or, if `isSecret`, the secret itself.
    package init(file bytes: [UInt8], isSecret: Bool) throws(TokenFault) {
        guard let text = Self.text(bytes) else {
            guard isSecret else { throw .keys("It is neither a JWK set nor a PEM public key.") }
            entries = [try Self.entry(secret: bytes)]
            return
        }
        if text.first(where: { !$0.isWhitespace }) == "{" {
            entries = try Self.entries(json: Array(text.utf8), allowsSecrets: true)
        } else if text.contains("-----BEGIN") {
            guard let key = Self.key(pem: text) else {
                throw .keys("The PEM file has no public key of P-256, RSA (2048 bits or more) or Ed25519.")
            }
            entries = [Entry(id: nil, key: key)]
        } else {
            guard isSecret else { throw .keys("It is neither a JWK set nor a PEM public key.") }
            entries = [try Self.entry(secret: Array(text.utf8.reversed().drop { $0 == 0x0A || $0 == 0x0D }.reversed()))]
        }
    }

    /// The bytes as text, without a byte order mark; `nil` if they are none: no UTF-8, or with control characters in it.
    private static func text(_ bytes: [UInt8]) -> String? {
        guard bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || [0x09, 0x0A, 0x0D].contains($0) }) else { return nil }
        return String(validating: ByteOrderMark.dropped(from: bytes), as: UTF8.self)
    }

    private static func entry(secret: [UInt8]) throws(TokenFault) -> Entry {
        guard secret.count >= shortestSecret else {
            throw .keys("A secret for HS256 has at least \(shortestSecret) bytes.")
        }
        return Entry(id: nil, key: .hs256(HMACKey(from: secret)))
    }

    private static func entries(json bytes: [UInt8], allowsSecrets: Bool) throws(TokenFault) -> [Entry] {
        guard let root = try? JSONDocument(parsing: ByteOrderMark.dropped(from: bytes)).root, root.isObject else {
            throw .keys("The keys are not a JSON object.")
        }
        let listed = root["keys"].flatMap { try? $0.elements() } ?? [root]
        var entries = listed.prefix(most).compactMap { entry($0) }
        if !allowsSecrets { entries.removeAll { $0.key.algorithm == .hs256 } }
        guard !entries.isEmpty else { throw .keys("None of the keys is of a supported kind.") }
        return entries
    }

    /// Returns `nil` for keys that are not for signatures or of an unsupported kind.
    private static func entry(_ json: JSONValue) -> Entry? {
        func text(_ name: StaticString) -> String? { json[name].flatMap { try? $0.string() } }
        guard let key = key(type: text("kty"), curve: text("crv"), text) else { return nil }
        if let use = text("use"), use != "sig" { return nil }
        if let operations = json["key_ops"].flatMap({ try? $0.elements() }),
            !operations.contains(where: { (try? $0.string()) == "verify" })
        {
            return nil
        }
        if let algorithm = text("alg"), TokenIssuer.Algorithm(named: algorithm) != key.algorithm { return nil }
        return Entry(id: text("kid"), key: key)
    }

    private static func key(type: String?, curve: String?, _ text: (StaticString) -> String?) -> Key? {
        switch (type, curve) {
        case ("EC", "P-256"):
            guard let x = text("x"), let y = text("y") else { return nil }
            return (try? ES256PublicKey(parameters: (x, y))).map { .es256($0) }
        case ("OKP", "Ed25519"):
            guard let x = text("x") else { return nil }
            return (try? EdDSA.PublicKey(x: x, curve: .ed25519)).map { .edDSA($0) }
        case ("RSA", _):
            // At most 8192 and 64 bits: the cost of a verification grows with both.
            guard let n = text("n"), let e = text("e"), n.utf8.count <= 1366, e.utf8.count <= 11 else { return nil }
            return (try? Insecure.RSA.PublicKey(modulus: n, exponent: e)).map { .rs256($0) }
        case ("oct", _):
            guard let secret = text("k").flatMap({ Base64URL.decode($0.utf8) }) else { return nil }
            return try? entry(secret: secret).key
        default: return nil
        }
    }

    private static func key(pem: String) -> Key? {
        if let key = try? ES256PublicKey(pem: pem) { return .es256(key) }
        if let key = try? Insecure.RSA.PublicKey(pem: pem) { return .rs256(key) }
        return (try? EdDSA.PublicKey(pem: pem)).map { .edDSA($0) }
    }
}
