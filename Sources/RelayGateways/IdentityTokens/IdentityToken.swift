import JWTKit
import Records
package import RelayCore
import Wire

/// A JWT whose signature is not verified yet.
///
/// RFC 7519. Of its header only `alg`, `kid` and `crit` are used; an address or a key in the token itself (`jku`,
/// `x5u`, `jwk`, `x5c`) is ignored.
///
/// jwt-kit verifies the signature. It leaves to its caller what is decided before that: which algorithms an issuer may
/// use, which of its keys fit, and `crit`. Its `JWTHeader` is not used, because it traps on numbers beyond `Int`.
package struct IdentityToken: Sendable {
    /// The maximum length in bytes; longer than a token that fits into a header line.
    static let longest = 16 * 1024

    /// The claim `iss`, which selects the keys for verification.
    package let issuer: String
    private let algorithm: String
    private let keyID: String?
    private let hasCriticalHeader: Bool
    private let bytes: [UInt8]

    package init(_ text: String) throws(TokenFault) {
        bytes = Array(text.utf8)
        let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        // The relay's own parser is stricter than Foundation's: it refuses two members of one name.
        guard bytes.count <= Self.longest, parts.count == 3, Base64URL.decode(parts[2]) != nil,
            let header = Base64URL.decode(parts[0]).flatMap({ try? JSONDocument(parsing: $0).root }), header.isObject,
            let claims = Base64URL.decode(parts[1]).flatMap({ try? JSONDocument(parsing: $0).root }), claims.isObject,
            let algorithm = header["alg"].flatMap({ try? $0.string() })
        else { throw .malformed }
        guard let issuer = claims["iss"].flatMap({ try? $0.string() }) else { throw .claim("iss") }
        self.algorithm = algorithm
        self.issuer = issuer
        keyID = header["kid"].flatMap { try? $0.string() }
        hasCriticalHeader = header.hasMember("crit")
    }

    /// Returns the algorithm if the issuer may use it.
    func allowedAlgorithm(_ issuer: TokenIssuer) throws(TokenFault) -> TokenIssuer.Algorithm {
        guard !hasCriticalHeader else { throw .criticalHeader }
        guard let known = TokenIssuer.Algorithm(named: algorithm), issuer.algorithms.contains(known) else {
            throw .algorithm(algorithm)
        }
        if known == .hs256, case .url = issuer.keys { throw .algorithm(algorithm) }
        return known
    }

    /// Returns the claims if `issuer` signed the token.
    func claims(by issuer: TokenIssuer, keys: IssuerKeySet) async throws(TokenFault) -> IdentityClaims {
        guard self.issuer == issuer.issuer else { throw .unknownIssuer }
        guard let candidates = await keys.candidates(try allowedAlgorithm(issuer), id: keyID) else {
            throw .noKey(keyID)
        }
        do {
            return try await candidates.verify(bytes, as: IdentityClaims.self, iteratingKeys: true)
        } catch let error as JWTError where error.errorType == .malformedToken {
            throw .malformed
        } catch {
            throw .signature
        }
    }
}
