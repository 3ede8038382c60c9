import Crypto
import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayStore
import Testing

/// Passkeys at the console's own API, with an authenticator of the test's own; in a real browser they are tried in
/// `ConsoleTests`.
@Suite struct PasskeyTests {
    /// What a phone does.
    private struct Authenticator {
        let key = P256.Signing.PrivateKey()
        let id = Array("a passkey of this test".utf8)
        var host = "sync.example.org"
        var origin = "http://sync.example.org"
        var flags: UInt8 = 0x05
        var count: UInt32 = 0

        private func data(_ more: [UInt8] = [], flags: UInt8) -> [UInt8] {
            Array(SHA256.hash(data: Array(host.utf8))) + [flags] + withUnsafeBytes(of: count.bigEndian) { Array($0) }
                + more
        }

        private func client(_ type: String, _ challenge: String) -> [UInt8] {
            Array(#"{"type":"\#(type)","challenge":"\#(challenge)","origin":"\#(origin)","crossOrigin":false}"#.utf8)
        }

        func made(_ challenge: String, password: String) -> String {
            let attested = [UInt8](repeating: 0, count: 16) + [0, UInt8(id.count)] + id
            return """
                {"name":"phone","password":"\(password)","algorithm":-7,
                "publicKey":"\(Base64URL.encode(key.publicKey.derRepresentation))",
                "clientData":"\(Base64URL.encode(client("webauthn.create", challenge)))",
                "authenticatorData":"\(Base64URL.encode(data(attested, flags: flags | 0x40)))"}
                """
        }

        func used(_ challenge: String, type: String = "webauthn.get") throws -> String {
            let (client, data) = (client(type, challenge), data(flags: flags))
            let signature = try key.signature(for: data + Array(SHA256.hash(data: client))).derRepresentation
            return """
                {"id":"\(Base64URL.encode(id))","clientData":"\(Base64URL.encode(client))",
                "authenticatorData":"\(Base64URL.encode(data))","signature":"\(Base64URL.encode(signature))"}
                """
        }
    }

    private struct Question: Decodable { var challenge: String, algorithms: [Int]?, known: [String]? }
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
        try await world.ask(.get, "/console/api/passkey").json(Question.self).challenge
    }

    private func add(_ phone: Authenticator, password: String = "correct horse") async throws -> HTTPResponse.Status {
        let question = try await world.ask(.post, "/console/api/passkeys/begin", body: "{}").json(Question.self)
        #expect(question.algorithms == [-7, -8, -257])
        return try await world.ask(
            .post,
            "/console/api/passkeys",
            body: phone.made(question.challenge, password: password)
        ).status
    }

    private func signIn(_ body: String) async throws -> APIResponse {
        world.forgetCookie()
        return try await world.ask(.post, "/console/api/passkey", body: body)
    }

    @Test func opensTheConsoleInsteadOfThePassword() async throws {
        try await world.enter()
        var phone = Authenticator()
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

    @Test func refusesWhatIsNotQuiteRight() async throws {
        try await world.enter()
        var phone = Authenticator()
        phone.count = 5
        #expect(try await add(phone) == .ok)
        phone.count = 6
        let old = try phone.used(try await challenge())
        #expect(try await signIn(old).status == .ok)
        #expect(try await signIn(old).status == .forbidden, "a question is answered once")
        #expect(
            try await signIn(try phone.used(Base64URL.encode([UInt8](repeating: 7, count: 56)))).status == .forbidden
        )
        let same = try phone.used(try await challenge())
        #expect(try await signIn(same).status == .forbidden, "the count did not grow: a copy")

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
        let stranger = Authenticator(count: 11)
        #expect(try await signIn(try stranger.used(try await challenge())).status == .forbidden)
        #expect(try await signIn("{}").status == .badRequest)
        phone.count = 12
        #expect(try await signIn(try phone.used(try await challenge())).status == .ok)
    }

    @Test func aNewPasswordByLinkEndsThem() async throws {
        try await world.enter()
        let phone = Authenticator()
        #expect(try await add(phone) == .ok)
        let code = try world.accounts.makeOperatorLink(for: "ada@example.org")
        let body = #"{"code":"\#(code)","name":"ada@example.org","password":"another horse"}"#
        #expect(try await world.ask(.post, "/console/api/setup", body: body).status == .ok)
        #expect(try await signIn(try phone.used(try await challenge())).status == .forbidden)
    }

    @Test func strangersCanAskAndNothingMore() async throws {
        world.forgetCookie()
        #expect(try await world.ask(.get, "/console/api/passkey").status == .ok)
        #expect(try await world.ask(.get, "/console/api/passkeys").status == .unauthorized)
        #expect(try await world.ask(.post, "/console/api/passkeys/begin", body: "{}").status == .unauthorized)
        #expect(try await world.ask(.post, "/console/api/passkeys", body: "{}").status == .unauthorized)
        #expect(try await world.ask(.delete, "/console/api/passkeys", query: "id=YQ").status == .unauthorized)
    }
}
