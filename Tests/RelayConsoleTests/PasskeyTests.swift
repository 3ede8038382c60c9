import Crypto
import CryptoExtras
import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayConsole
import RelayCore
import Testing

/// Passkeys at the console's API, with an authenticator in the test.
///
/// `ConsoleTests` uses a real browser.
@Suite struct PasskeyTests {
    /// The kinds of keys that the console accepts, in its order of preference.
    enum Kind: Int, CaseIterable, Sendable {
        case es256 = -7
        case edDSA = -8
        case rs256 = -257
    }

    /// A key of each kind, from swift-crypto, which is based on BoringSSL.
    private enum Key {
        case es256(P256.Signing.PrivateKey)
        case edDSA(Curve25519.Signing.PrivateKey)
        case rs256(_RSA.Signing.PrivateKey)

        init(_ kind: Kind) throws {
            switch kind {
            case .es256: self = .es256(P256.Signing.PrivateKey())
            case .edDSA: self = .edDSA(Curve25519.Signing.PrivateKey())
            case .rs256: self = .rs256(try _RSA.Signing.PrivateKey(keySize: .bits2048))
            }
        }

        var algorithm: Int {
            switch self {
            case .es256: -7
            case .edDSA: -8
            case .rs256: -257
            }
        }

        /// The result of a browser's `getPublicKey()`: a SubjectPublicKeyInfo.
        var info: [UInt8] {
            switch self {
            case .es256(let key): Array(key.publicKey.derRepresentation)
            case .edDSA(let key):
                // RFC 8410, section 10.1.
                Array(Base64URL.decode("MCowBQYDK2VwAyEA".utf8) ?? []) + Array(key.publicKey.rawRepresentation)
            case .rs256(let key): Array(key.publicKey.derRepresentation)
            }
        }

        func signature(_ data: [UInt8]) throws -> [UInt8] {
            switch self {
            case .es256(let key): Array(try key.signature(for: data).derRepresentation)
            case .edDSA(let key): Array(try key.signature(for: data))
            case .rs256(let key):
                Array(try key.signature(for: SHA256.hash(data: data), padding: .insecurePKCS1v1_5).rawRepresentation)
            }
        }
    }

    /// Acts as a phone's authenticator.
    private struct Authenticator {
        var key: Key
        let id = Array("a passkey of this test".utf8)
        var host = "sync.example.org"
        var origin = "http://sync.example.org"
        var flags: UInt8 = 0x05
        var count: UInt32 = 0
        /// Damages the signature.
        var damage: @Sendable ([UInt8]) -> [UInt8] = { $0 }

        init(_ kind: Kind, count: UInt32 = 0) throws {
            key = try Key(kind)
            self.count = count
        }

        private func data(_ more: [UInt8] = [], flags: UInt8) -> [UInt8] {
            Array(SHA256.hash(data: Array(host.utf8))) + [flags] + withUnsafeBytes(of: count.bigEndian) { Array($0) }
                + more
        }

        private func client(_ type: String, _ challenge: String) -> [UInt8] {
            Array(#"{"type":"\#(type)","challenge":"\#(challenge)","origin":"\#(origin)","crossOrigin":false}"#.utf8)
        }

        func made(_ challenge: String, password: String, algorithm: Int? = nil, info: [UInt8]? = nil) -> String {
            let attested = [UInt8](repeating: 0, count: 16) + [0, UInt8(id.count)] + id
            return """
                {"name":"phone","password":"\(password)","algorithm":\(algorithm ?? key.algorithm),
                "publicKey":"\(Base64URL.encode(info ?? key.info))",
                "clientData":"\(Base64URL.encode(client("webauthn.create", challenge)))",
                "authenticatorData":"\(Base64URL.encode(data(attested, flags: flags | 0x40)))"}
                """
        }

        func used(_ challenge: String, type: String = "webauthn.get") throws -> String {
            let (client, data) = (client(type, challenge), data(flags: flags))
            let signature = damage(try key.signature(data + Array(SHA256.hash(data: client))))
            return """
                {"id":"\(Base64URL.encode(id))","clientData":"\(Base64URL.encode(client))",
                "authenticatorData":"\(Base64URL.encode(data))","signature":"\(Base64URL.encode(signature))"}
                """
        }
    }

    private struct Challenge: Decodable { var challenge: String, algorithms: [Int]?, known: [String]? }
    private struct Listed: Decodable {
        struct Row: Decodable { var id: String, name: String, used: Int64? }
        var passkeys: [Row]
    }

    private let world: ConsoleWorld

    init() throws {
        world = try ConsoleWorld()
        world.host = "sync.example.org"
    }

    private func challenge() async throws -> String {
        try await world.ask(.get, "/console/api/passkey").json(Challenge.self).challenge
    }

    private func add(
        _ phone: Authenticator,
        password: String = "correct horse",
        algorithm: Int? = nil,
        info: [UInt8]? = nil
    ) async throws -> HTTPResponse.Status {
        let question = try await world.ask(.post, "/console/api/passkeys/begin", body: "{}").json(Challenge.self)
        #expect(question.algorithms == Kind.allCases.map(\.rawValue))
        return try await world.ask(
            .post,
            "/console/api/passkeys",
            body: phone.made(question.challenge, password: password, algorithm: algorithm, info: info)
        ).status
    }

    private func signIn(_ body: String) async throws -> APIResponse {
        world.forgetCookie()
        return try await world.ask(.post, "/console/api/passkey", body: body)
    }

    @Test(arguments: Kind.allCases) func aPasskeyOpensTheConsoleInsteadOfThePassword(_ kind: Kind) async throws {
        try await world.enter()
        var phone = try Authenticator(kind)
        #expect(try await add(phone, password: "wrong horse") == .forbidden)
        #expect(try await add(phone) == .ok)
        #expect(try await add(phone) == .conflict)
        phone.count = 1
        let answer = try await signIn(try phone.used(try await challenge()))
        #expect(answer.status == .ok, "\(answer.text)")
        #expect(answer.text.contains("ada@example.org"))
        #expect(try await world.ask(.get, "/console/api/session").status == .ok)
        let listed = try await world.ask(.get, "/console/api/passkeys").json(Listed.self).passkeys
        #expect(listed.map(\.name) == ["phone"] && listed.first?.used != nil)
        let audit = try world.accounts.auditEntries(limit: 10).map(\.action)
        #expect(audit.contains("operator.passkey-add") && audit.contains("operator.sign-in-passkey"))

        let id = try #require(listed.first?.id)
        #expect(try await world.ask(.delete, "/console/api/passkeys", query: "id=\(id)").status == .ok)
        #expect(try await signIn(try phone.used(try await challenge())).status == .forbidden)
    }

    @Test(arguments: Kind.allCases) func anInvalidAssertionIsRefused(_ kind: Kind) async throws {
        try await world.enter()
        var phone = try Authenticator(kind)
        phone.count = 5
        #expect(try await add(phone) == .ok)
        phone.count = 6
        let old = try phone.used(try await challenge())
        #expect(try await signIn(old).status == .ok)
        #expect(try await signIn(old).status == .forbidden, "a challenge is used once")
        #expect(
            try await signIn(try phone.used(Base64URL.encode([UInt8](repeating: 7, count: 56)))).status == .forbidden
        )
        let same = try phone.used(try await challenge())
        #expect(try await signIn(same).status == .forbidden, "the counter did not grow, so the key was copied")

        phone.count = 10
        var elsewhere = phone
        elsewhere.origin = "https://evil.example"
        #expect(try await signIn(try elsewhere.used(try await challenge())).status == .forbidden)
        elsewhere = phone
        elsewhere.host = "evil.example"
        #expect(try await signIn(try elsewhere.used(try await challenge())).status == .forbidden)
        var unasked = phone
        unasked.flags = 0x01
        #expect(try await signIn(try unasked.used(try await challenge())).status == .forbidden)
        let other = try phone.used(try await challenge(), type: "webauthn.create")
        #expect(try await signIn(other).status == .forbidden)
        let stranger = try Authenticator(kind, count: 11)
        #expect(try await signIn(try stranger.used(try await challenge())).status == .forbidden)
        phone.count = 12
        #expect(try await signIn(try phone.used(try await challenge())).status == .ok)
    }

    /// There are fewer damaged signatures than attempts before throttling.
    @Test(arguments: Kind.allCases) func aDamagedSignatureIsRefused(_ kind: Kind) async throws {
        try await world.enter()
        var phone = try Authenticator(kind)
        #expect(try await add(phone) == .ok)
        phone.count = 1
        for (number, damage) in Self.damages.enumerated() {
            var damaged = phone
            damaged.damage = damage
            let answer = try await signIn(try damaged.used(try await challenge()))
            #expect(
                answer.status == .forbidden && answer.text.contains("signature is wrong"),
                "\(number): \(answer.text)"
            )
        }
        #expect(try await signIn(try phone.used(try await challenge())).status == .ok)
    }

    private static let damages: [@Sendable ([UInt8]) -> [UInt8]] = [
        { Array($0.dropLast()) + [($0.last ?? 0) ^ 1] }, { [($0.first ?? 0) ^ 1] + Array($0.dropFirst()) },
        { Array($0.dropLast()) }, { $0 + [0] }, { _ in [] }, { [UInt8](repeating: 0, count: $0.count) },
    ]

    /// A key is accepted only as the kind that its browser names.
    @Test func keysOfAnotherKindAndWeakOnesAreRefused() async throws {
        try await world.enter()
        for kind in Kind.allCases {
            let phone = try Authenticator(kind)
            for other in Kind.allCases.map(\.rawValue) + [-37, -35, 0, 7] where other != kind.rawValue {
                #expect(try await add(phone, algorithm: other) != .ok, "\(kind) as \(other)")
            }
            for broken in [[], Array(phone.key.info.dropLast()), Array(phone.key.info.dropFirst())] {
                #expect(try await add(phone, info: broken) != .ok, "\(kind), \(broken.count) bytes")
            }
        }
        // Half the minimum length of today.
        let weak = try _RSA.Signing.PrivateKey(unsafeKeySize: .init(bitCount: 1024))
        let phone = try Authenticator(.rs256)
        #expect(try await add(phone, info: Array(weak.publicKey.derRepresentation)) != .ok)
    }

    /// RSA has a second padding scheme, which passkeys do not use.
    @Test func aSignatureWithPSSPaddingIsRefused() async throws {
        try await world.enter()
        var phone = try Authenticator(.rs256)
        #expect(try await add(phone) == .ok)
        phone.count = 1
        guard case .rs256(let key) = phone.key else { return }
        var other = phone
        other.damage = { _ in
            (try? key.signature(for: SHA256.hash(data: [1]), padding: .PSS)).map { Array($0.rawRepresentation) } ?? []
        }
        #expect(try await signIn(try other.used(try await challenge())).status == .forbidden)
        #expect(try await signIn(try phone.used(try await challenge())).status == .ok)
    }

    @Test func aNewPasswordByLinkRemovesPasskeys() async throws {
        try await world.enter()
        let phone = try Authenticator(.es256)
        #expect(try await add(phone) == .ok)
        let code = try world.accounts.makeOperatorLink(for: "ada@example.org")
        let body = #"{"code":"\#(code)","name":"ada@example.org","password":"another horse"}"#
        #expect(try await world.ask(.post, "/console/api/setup", body: body).status == .ok)
        #expect(try await signIn(try phone.used(try await challenge())).status == .forbidden)
    }

    @Test func withoutASessionOnlyAChallengeIsAvailable() async throws {
        world.forgetCookie()
        #expect(try await world.ask(.get, "/console/api/passkey").status == .ok)
        #expect(try await world.ask(.get, "/console/api/passkeys").status == .unauthorized)
        #expect(try await world.ask(.post, "/console/api/passkeys/begin", body: "{}").status == .unauthorized)
        #expect(try await world.ask(.post, "/console/api/passkeys", body: "{}").status == .unauthorized)
        #expect(try await world.ask(.delete, "/console/api/passkeys", query: "id=YQ").status == .unauthorized)
    }
}
