package import Crypto
import Foundation
import Records

/// Signed words by which a push service knows the relay: JWTs with ES256.
package enum ProviderToken {
    /// VAPID, for one push service: its origin, the operator's `mailto:` or `https:` address, and an end at most a day ahead
    /// in seconds since 1970.
    ///
    /// RFC 8292.
    package static func vapid(
        audience: String,
        contact: String,
        expires: Int64,
        key: P256.Signing.PrivateKey
    ) throws -> String {
        try token(["typ": .text("JWT")], ["aud": .text(audience), "exp": .number(expires), "sub": .text(contact)], key)
    }

    /// Apple's, good for an hour from `issued`, seconds since 1970.
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
        let said = try [head, claims].map { Base64URL.encode(try encoder.encode($0)) }.joined(separator: ".")
        let signature = try key.signature(for: Data(said.utf8)).rawRepresentation
        return said + "." + Base64URL.encode(signature)
    }
}
