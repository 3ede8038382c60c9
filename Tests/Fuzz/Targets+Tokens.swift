import HTTPTypes
import Records
import RelayAPI
import RelayGateways
import Wire

/// Tokens that the relay gives to clients and that clients send back, possibly altered.
extension FuzzTarget {
    static let tokens: [FuzzTarget] = [changeToken, base64, identityToken, issuerKeys]

    private static let changeToken = FuzzTarget(
        "change-token",
        seeds: [ChangeToken(kind: .zone, log: 1, epoch: 2, position: 3).encoded, "", "AAAA"]
    ) { input in
        let text = String(decoding: input, as: UTF8.self)
        guard let token = ChangeToken(encoded: text) else { return Finding("refused") }
        let again = ChangeToken(encoded: token.encoded)
        return Finding("read \(token.kind)", objection: again == token ? nil : "the re-encoded value differs")
    }

    private static let base64 = FuzzTarget("base64", seeds: ["AAECAwQFBgc=", "AA==", "A", "AA\n=="]) { input in
        guard let bytes = Base64.decode(input) else { return Finding("refused") }
        let again = Base64.decode(Base64.encode(bytes))
        return Finding("read \(bytes.count % 3)", objection: again == bytes ? nil : "the re-encoded value differs")
    }

    /// Identity tokens of external issuers, before their signature is checked.
    private static let identityToken = FuzzTarget(
        "identity-token",
        seeds: [
            "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ.eyJpc3MiOiJodHRwczovL2kuZXhhbXBsZSIsInN1YiI6InMiLCJhdWQiOiJhIiwiZXhwIjoxfQ.AAAA",
            "a.b.c", "..", "e30.e30.",
        ],
        words: [".", "eyJhbGciOiJub25lIn0", "e30", "="]
    ) { input in
        do {
            _ = try IdentityToken(String(decoding: input, as: UTF8.self))
            return Finding("read")
        } catch {
            return Finding("refused \("\(error)".prefix(40))")
        }
    }

    /// The keys that an issuer publishes.
    private static let issuerKeys = FuzzTarget(
        "issuer-keys",
        seeds: [
            #"{"keys":[{"kty":"RSA","kid":"1","alg":"RS256","use":"sig","n":"AQAB","e":"AQAB"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"},{"kty":"oct","k":"AAAA"}]}"#
        ],
        words: [#""kty":"OKP""#, #""crv":"P-521""#, #""e":"AQAB""#, #""n":"""#, #""keys":"#]
    ) { input in
        do {
            _ = try IssuerKeySet(published: input)
            return Finding("read")
        } catch {
            return Finding("refused \("\(error)".prefix(60))")
        }
    }
}
