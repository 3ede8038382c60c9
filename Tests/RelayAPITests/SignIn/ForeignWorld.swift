import Crypto
import CryptoExtras
import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayGateways
import Synchronization
import Testing

/// An issuer of identity tokens with a key of every kind, published or in files.
final class ForeignWorld {
    let world: SignInWorld
    let source = ScriptedKeys()
    var secret = Array("a secret that is long enough for HS256".utf8)
    let p256 = P256.Signing.PrivateKey()
    let ed25519 = Curve25519.Signing.PrivateKey()
    let rsa: _RSA.Signing.PrivateKey
    /// Created once, because creating an RSA key takes half a second.
    private static let oneRSAKey = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }
    static let name = "https://id.example"
    static let address = "https://id.example/keys"

    init() throws {
        world = try SignInWorld()
        rsa = try Self.oneRSAKey.get()
        source.set(Self.address, jwks([("p", .es256), ("e", .edDSA), ("r", .rs256)]))
    }

    func trust(
        _ algorithms: Set<TokenIssuer.Algorithm> = [.es256, .edDSA, .rs256],
        keys: TokenIssuer.KeyLocation = .url(ForeignWorld.address),
        claims: [TokenIssuer.Field: String] = [:],
        trustsContacts: Bool = false
    ) throws {
        try world.store.putIssuer(
            TokenIssuer(
                container: world.home.container,
                issuer: Self.name,
                audiences: ["notes"],
                algorithms: algorithms,
                keys: keys,
                claims: claims,
                trustsContacts: trustsContacts,
                created: world.clock.now
            )
        )
    }

    func relay() throws -> Relay { try world.relay(identityTokens: exchange()) }

    func exchange() throws -> ForeignSignIn {
        ForeignSignIn(
            directory: world.store,
            keys: IssuerKeys(source: source, limits: KeyLimits(), time: world.clock.source),
            time: world.clock.source,
            skew: .seconds(60)
        )
    }

    // MARK: Keys

    private func jwk(_ id: String?, _ algorithm: TokenIssuer.Algorithm) -> String {
        let kid = id.map { #""kid":"\#($0)","# } ?? ""
        switch algorithm {
        case .hs256: return #"{\#(kid)"kty":"oct","k":"\#(Self.text(secret))"}"#
        case .es256:
            let point = Array(p256.publicKey.rawRepresentation)
            let (x, y) = (Self.text(Array(point[..<32])), Self.text(Array(point[32...])))
            return #"{\#(kid)"kty":"EC","crv":"P-256","use":"sig","x":"\#(x)","y":"\#(y)"}"#
        case .edDSA:
            return
                #"{\#(kid)"kty":"OKP","crv":"Ed25519","x":"\#(Self.text(Array(ed25519.publicKey.rawRepresentation)))"}"#
        case .rs256:
            let numbers = (try? rsa.publicKey.getKeyPrimitives())
            let (n, e) = (
                Self.text(Array(numbers?.modulus ?? Data())), Self.text(Array(numbers?.publicExponent ?? Data()))
            )
            return #"{\#(kid)"kty":"RSA","alg":"RS256","n":"\#(n)","e":"\#(e)"}"#
        }
    }

    func jwks(_ keys: [(id: String?, algorithm: TokenIssuer.Algorithm)]) -> String {
        #"{"keys":[\#(keys.map { jwk($0.id, $0.algorithm) }.joined(separator: ","))]}"#
    }

    // MARK: Tokens

    var claims: [String: String] {
        let now = world.clock.now.milliseconds / 1000
        return [
            "iss": #""\#(Self.name)""#, "sub": #""7""#, "aud": #""notes""#, "exp": "\(now + 300)", "iat": "\(now)",
            "email": #""Ada@Example.org""#, "email_verified": "true", "given_name": #""Ada""#,
            "family_name": #""Byron""#,
        ]
    }

    /// Returns a signed token.
    ///
    /// - Parameters:
    ///   - algorithm: The algorithm of the signature.
    ///   - key: The `kid`.
    ///   - changing: Claims as JSON that replace the usual ones; `nil` removes a claim.
    ///   - header: A header that replaces the usual one.
    /// - Returns: Its compact form.
    /// - Throws: Errors of the signing.
    func token(
        _ algorithm: TokenIssuer.Algorithm = .es256,
        key: String? = "p",
        changing: [String: String?] = [:],
        header: String? = nil
    ) throws -> String {
        var claims = claims
        for (name, value) in changing { claims[name] = value }
        let body = "{" + claims.map { #""\#($0.key)":\#($0.value)"# }.joined(separator: ",") + "}"
        let kid = key.map { #","kid":"\#($0)""# } ?? ""
        let head = header ?? #"{"typ":"JWT","alg":"\#(algorithm.rawValue)"\#(kid)}"#
        let message = Self.text(Array(head.utf8)) + "." + Self.text(Array(body.utf8))
        return message + "." + Self.text(try sign(Array(message.utf8), algorithm))
    }

    func token(_ changing: [String: String?]) throws -> String { try token(changing: changing) }

    private func sign(_ message: [UInt8], _ algorithm: TokenIssuer.Algorithm) throws -> [UInt8] {
        switch algorithm {
        case .hs256: Array(HMAC<SHA256>.authenticationCode(for: message, using: SymmetricKey(data: secret)))
        case .es256: Array(try p256.signature(for: message).rawRepresentation)
        case .edDSA: Array(try ed25519.signature(for: message))
        case .rs256:
            Array(
                try rsa.signature(for: SHA256.hash(data: message), padding: .insecurePKCS1v1_5).rawRepresentation
            )
        }
    }

    /// Base64url without padding.
    static func text(_ bytes: [UInt8]) -> String {
        Base64.encode(bytes).replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}

/// Contents of addresses and files, set by a test.
///
/// Counts the requests for them.
final class ScriptedKeys: KeySource {
    private let state = Mutex<(content: [String: [UInt8]], asked: Int)>(([:], 0))

    var asked: Int { state.withLock { $0.asked } }

    func set(_ place: String, _ content: String?) { set(place, bytes: content.map { Array($0.utf8) }) }

    func set(_ place: String, bytes content: [UInt8]?) { state.withLock { $0.content[place] = content } }

    private func get(_ place: String) throws(TokenFault) -> [UInt8] {
        let found = state.withLock { state in
            state.asked += 1
            return state.content[place]
        }
        guard let found else { throw .keys("nothing there") }
        return found
    }

    func fetch(_ address: String) async throws(TokenFault) -> [UInt8] { try get(address) }
    func read(file: String) async throws(TokenFault) -> [UInt8] { try get(file) }
}
