import Crypto
import CryptoExtras
import Foundation
import Records
import RelayCore
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
        case secret(SymmetricKey)
        case p256(P256.Signing.PublicKey)
        case rsa(_RSA.Signing.PublicKey)
        case ed25519(Curve25519.Signing.PublicKey)

        var algorithm: ForeignIssuer.Algorithm {
            switch self {
            case .secret: .hs256
            case .p256: .es256
            case .rsa: .rs256
            case .ed25519: .edDSA
            }
        }

        func made(_ signature: [UInt8], over message: [UInt8]) -> Bool {
            switch self {
            case .secret(let key):
                return HMAC<SHA256>.isValidAuthenticationCode(signature, authenticating: message, using: key)
            case .p256(let key):
                guard let parsed = try? P256.Signing.ECDSASignature(rawRepresentation: signature) else { return false }
                return key.isValidSignature(parsed, for: SHA256.hash(data: message))
            case .rsa(let key):
                let parsed = _RSA.Signing.RSASignature(rawRepresentation: signature)
                return key.isValidSignature(parsed, for: SHA256.hash(data: message), padding: .insecurePKCS1v1_5)
            case .ed25519(let key):
                return key.isValidSignature(signature, for: message)
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

    /// Returns the keys with which a token of this algorithm and key identifier may be signed.
    func candidates(_ algorithm: ForeignIssuer.Algorithm, id: String?) -> [Key] {
        entries.filter { $0.key.algorithm == algorithm && (id == nil || $0.id == nil || $0.id == id) }.map(\.key)
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
        return Entry(id: nil, key: .secret(SymmetricKey(data: secret)))
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
        func bytes(_ name: StaticString) -> [UInt8]? { text(name).flatMap { Base64URL.decode($0.utf8) } }
        guard let key = key(type: text("kty"), curve: text("crv"), bytes) else { return nil }
        if let use = text("use"), use != "sig" { return nil }
        if let operations = json["key_ops"].flatMap({ try? $0.elements() }),
            !operations.contains(where: { (try? $0.string()) == "verify" })
        {
            return nil
        }
        if let algorithm = text("alg"), ForeignIssuer.Algorithm(named: algorithm) != key.algorithm { return nil }
        return Entry(id: text("kid"), key: key)
    }

    private static func key(type: String?, curve: String?, _ bytes: (StaticString) -> [UInt8]?) -> Key? {
        switch (type, curve) {
        case ("EC", "P-256"):
            guard let x = bytes("x"), let y = bytes("y"), x.count == 32, y.count == 32 else { return nil }
            return (try? P256.Signing.PublicKey(x963Representation: [4] + x + y)).map { .p256($0) }
        case ("OKP", "Ed25519"):
            guard let x = bytes("x"), x.count == 32 else { return nil }
            return (try? Curve25519.Signing.PublicKey(rawRepresentation: x)).map { .ed25519($0) }
        case ("RSA", _):
            guard let modulus = bytes("n"), let exponent = bytes("e"), modulus.count <= 1024, exponent.count <= 8 else {
                return nil
            }
            return (try? _RSA.Signing.PublicKey(n: modulus, e: exponent)).map { .rsa($0) }
        case ("oct", _):
            guard let secret = bytes("k"), secret.count >= shortestSecret else { return nil }
            return .secret(SymmetricKey(data: secret))
        default: return nil
        }
    }

    private static func key(pem: String) -> Key? {
        if let key = try? P256.Signing.PublicKey(pemRepresentation: pem) { return .p256(key) }
        if let key = try? _RSA.Signing.PublicKey(pemRepresentation: pem) { return .rsa(key) }
        // RFC 8410: all bytes before the 32 bytes of the key are constant.
        let start: [UInt8] = [0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00]
        let body = pem.split(whereSeparator: \.isNewline).filter { !$0.hasPrefix("-----") }.joined()
        guard let der = Base64.decode(body), der.count == 44, der.starts(with: start) else { return nil }
        return (try? Curve25519.Signing.PublicKey(rawRepresentation: der.dropFirst(12))).map { .ed25519($0) }
    }
}
