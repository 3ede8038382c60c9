import Crypto
import Foundation
import Records
import RelayGateways
import Testing

@Suite struct WebPushMessageTests {
    private func bytes(_ text: String) throws -> [UInt8] { try #require(Base64URL.decode(text.utf8)) }

    /// RFC 8291, appendix A, byte by byte.
    @Test func theExampleOfTheRFCIsReproduced() throws {
        let ours = try P256.KeyAgreement.PrivateKey(
            rawRepresentation: bytes("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw")
        )
        let body = try WebPushMessage.encrypt(
            Array("When I grow up, I want to be a watermelon".utf8),
            key: bytes("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"),
            secret: bytes("BTBZMqHH6r4Tts7J_aSIgg"),
            ours: ours,
            salt: bytes("DGv6ra1nlYgDCS1FRnbzlw")
        )
        let expected = """
            DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27ml\
            mlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT\
            pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN
            """
        #expect(Base64URL.encode(body) == expected)
    }

    @Test func aKeyThatIsNoCurvePointIsRefused() {
        #expect(throws: (any Error).self) {
            try WebPushMessage.encrypt(
                [1],
                key: [4] + [UInt8](repeating: 1, count: 64),
                secret: [UInt8](repeating: 0, count: 16),
                ours: P256.KeyAgreement.PrivateKey(),
                salt: [UInt8](repeating: 0, count: 16)
            )
        }
    }

    @Test func theRelaysKeyIsStable() throws {
        let key = [UInt8](repeating: 7, count: 32)
        let one = try P256.Signing.PrivateKey.webPush(relayKey: key)
        let two = try P256.Signing.PrivateKey.webPush(relayKey: key)
        #expect(one.rawRepresentation == two.rawRepresentation)
    }
}

@Suite struct ProviderTokenTests {
    private let key = P256.Signing.PrivateKey()

    private func read(_ token: String) throws -> (header: String, claims: String) {
        let parts = token.split(separator: ".").map(String.init)
        let decoded = try parts.map { try #require(Base64URL.decode($0.utf8)) }
        let signature = try P256.Signing.ECDSASignature(rawRepresentation: try #require(decoded.last))
        let signed = Data((parts[0] + "." + parts[1]).utf8)
        #expect(key.publicKey.isValidSignature(signature, for: signed))
        return (String(decoding: decoded[0], as: UTF8.self), String(decoding: decoded[1], as: UTF8.self))
    }

    @Test func vapidTokensHaveTheRequiredClaims() throws {
        let token = try ProviderToken.vapid(
            audience: "https://push.example",
            contact: "mailto:ada@example.org",
            expires: 1_700_000_000,
            key: key
        )
        let (header, claims) = try read(token)
        #expect(header == #"{"alg":"ES256","typ":"JWT"}"#)
        #expect(claims == #"{"aud":"https://push.example","exp":1700000000,"sub":"mailto:ada@example.org"}"#)
    }

    @Test func appleTokensHaveTheRequiredClaims() throws {
        let (header, claims) = try read(
            try ProviderToken.apns(keyID: "ABC123DEFG", teamID: "DEF123GHIJ", issued: 1_700_000_000, key: key)
        )
        #expect(header == #"{"alg":"ES256","kid":"ABC123DEFG"}"#)
        #expect(claims == #"{"iat":1700000000,"iss":"DEF123GHIJ"}"#)
    }
}
