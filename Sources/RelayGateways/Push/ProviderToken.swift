package import Crypto
import Foundation
import Records

/// Tokens that authenticate the relay to push services: JWTs with ES256.
package enum ProviderToken {
    /// Returns a VAPID token for one push service.
    ///
    /// `audience` is the service's origin, `contact` the operator's `mailto:` or `https:` address, and `expires` at
    /// most a day ahead, in seconds since 1970. See RFC 8292.
    package static func vapid(
        audience: String,
        contact: String,
        expires: Int64,
        key: P256.Signing.PrivateKey
    ) throws -> String {
        try token(["typ": .text("JWT")], ["aud": .text(audience), "exp": .number(expires), "sub": .text(contact)], key)
    }

    /// Returns a token for Apple's service, valid for an hour from `issued` in seconds since 1970.
    package static func apns(
        keyID: String,
        teamID: String,
        issued: Int64,
        key: P256.Signing.PrivateKey
    ) throws -> String {
        try token(["kid": .text(keyID)], ["iss": .text(teamID), "iat": .number(issued)], key)
    }

    private enum Claim: Encodable {
        case text(String)
        case number(Int64)

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .text(let text): try container.encode(text)
            case .number(let number): try container.encode(number)
            }
        }
    }

    private static func token(
        _ header: [String: Claim],
        _ claims: [String: Claim],
        _ key: P256.Signing.PrivateKey
    ) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let head = header.merging(["alg": .text("ES256")]) { $1 }
        let detail = try [head, claims].map { Base64URL.encode(try encoder.encode($0)) }.joined(separator: ".")
        let signature = try key.signature(for: Data(detail.utf8)).rawRepresentation
        return detail + "." + Base64URL.encode(signature)
    }
}
