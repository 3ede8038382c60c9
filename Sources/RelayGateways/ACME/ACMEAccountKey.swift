package import Crypto
import Foundation
import Records

/// The key that identifies an account at an ACME server, and the signatures made with it.
///
/// See RFC 8555, sections 6.2 and 8.1, and RFC 7638.
package struct ACMEAccountKey: Sendable {
    package let key: P256.Signing.PrivateKey

    package init(_ key: P256.Signing.PrivateKey) { self.key = key }

    /// Base64url of the SHA-256 of the public key's canonical JSON.
    package var thumbprint: String {
        Base64URL.encode(Array(SHA256.hash(data: Data(publicKey.canonical.utf8))))
    }

    /// The text that answers a challenge with this token.
    package func keyAuthorization(token: String) -> String { "\(token).\(thumbprint)" }

    /// Returns a signed request body: a JWS in flattened JSON with ES256.
    ///
    /// `payload` is `nil` for a request that only reads ("POST-as-GET"). `nonce` must not have been used before.
    /// `account` is the account's URL; `nil` for the request that creates the account, which carries the public key.
    func sign(_ payload: [UInt8]?, for url: String, nonce: String, account: String?) throws -> [UInt8] {
        let header = Header(nonce: nonce, url: url, jwk: account == nil ? publicKey : nil, kid: account)
        let protected = Base64URL.encode(Array(try Self.encoder.encode(header)))
        let content = Base64URL.encode(payload ?? [])
        let signature = try key.signature(for: Data("\(protected).\(content)".utf8))
        let body = Body(
            protected: protected,
            payload: content,
            signature: Base64URL.encode(Array(signature.rawRepresentation))
        )
        return Array(try Self.encoder.encode(body))
    }

    private var publicKey: PublicKey {
        let point = key.publicKey.rawRepresentation
        return PublicKey(x: Base64URL.encode(Array(point.prefix(32))), y: Base64URL.encode(Array(point.suffix(32))))
    }

    static let encoder: JSONEncoder = {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return encoder
    }()

    /// The public key as a JWK.
    private struct PublicKey: Encodable {
        let crv = "P-256"
        let kty = "EC"
        var x: String
        var y: String

        /// The members that RFC 7638 names, in its order and without spaces.
        var canonical: String { #"{"crv":"\#(crv)","kty":"\#(kty)","x":"\#(x)","y":"\#(y)"}"# }
    }

    private struct Header: Encodable {
        let alg = "ES256"
        var nonce: String
        var url: String
        var jwk: PublicKey?
        var kid: String?
    }

    private struct Body: Encodable {
        var protected: String
        var payload: String
        var signature: String
    }
}
