import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore

/// Passkeys of operators, which replace the password at sign-in; adding one requires the password.
struct ConsolePasskeys: Sendable {
    private let signIn: ConsoleSignIn
    private let parts: ConsoleParts
    private let guardian: ConsoleGuard
    private let request: APIRequest

    init(_ signIn: ConsoleSignIn, _ parts: ConsoleParts, _ guardian: ConsoleGuard, _ request: APIRequest) {
        self.signIn = signIn
        self.parts = parts
        self.guardian = guardian
        self.request = request
    }

    private struct ChallengeAnswer: Encodable {
        var challenge: String
        /// For a new passkey: the operator, the supported algorithms, and the existing passkeys.
        var user: String?
        var name: String?
        var algorithms: [Int]?
        var known: [String]?
    }

    private struct Row: Encodable {
        var id: String
        var name: String
        var created: Int64
        var used: Int64?
    }

    private struct Listed: Encodable {
        var passkeys: [Row]
    }

    /// Byte strings are in Base64URL.
    private struct SignInBody: Decodable {
        var id: String
        var clientData: String
        var authenticatorData: String
        var signature: String
    }

    private struct RegistrationBody: Decodable {
        var name: String
        var password: String
        var algorithm: Int
        var publicKey: String
        var clientData: String
        var authenticatorData: String
    }

    static func endpoints(_ parts: ConsoleParts, _ guardian: ConsoleGuard) -> [ConsoleEndpoint] {
        let passkeys = { @Sendable (request: APIRequest) in
            ConsolePasskeys(ConsoleSignIn(parts, guardian, request), parts, guardian, request)
        }
        return [
            .init(.get, "passkey") { Console.json(ChallengeAnswer(challenge: passkeys($0).challenge())) },
            .init(.post, "passkey", isSignIn: true) { try passkeys($0).signInWithPasskey() },
            .init(.get, "passkeys") { try passkeys($0).list() },
            .init(.post, "passkeys") { try await passkeys($0).register() },
            .init(.delete, "passkeys") { try passkeys($0).remove() },
            .init(.post, "passkeys/begin") { try passkeys($0).begin() },
        ]
    }

    private func challenge() -> String { Base64URL.encode(guardian.challenges.issue(at: parts.time.now())) }

    /// The ceremony for the page's origin as the browser sees it.
    private var ceremony: PasskeyCeremony {
        if let address = parts.facts.publicURL {
            let pieces = address.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
            return PasskeyCeremony(origin: pieces.prefix(3).joined(separator: "/"))
        }
        let host = HTTPField.Name("Host").flatMap { request.headers[$0] } ?? "localhost"
        return PasskeyCeremony(origin: "\(parts.facts.isSecure ? "https" : "http")://\(host)")
    }

    private func isIssued(_ challenge: [UInt8]) -> Bool {
        guardian.challenges.take(challenge, at: parts.time.now()) != nil
    }

    private func bytes(_ text: String) throws -> [UInt8] {
        guard let bytes = Base64URL.decode(text.utf8) else { throw ConsoleRefusal("The browser's data is malformed.") }
        return bytes
    }

    // MARK: Sign-in

    private func signInWithPasskey() throws -> APIResponse {
        let body = try JSONDecoder().decode(SignInBody.self, from: Data(request.body))
        try guardian.charge(from: request.remoteAddress)
        guard let (passkey, person) = try parts.accounts.passkey(try bytes(body.id)) else {
            throw ConsoleRefusal("This passkey is unknown. Sign in with name and password.", status: 403)
        }
        let count: UInt32
        do throws(PasskeyCeremony.Fault) {
            count = try ceremony.verifyAssertion(
                of: passkey,
                clientData: (try? bytes(body.clientData)) ?? [],
                authenticatorData: (try? bytes(body.authenticatorData)) ?? [],
                signature: (try? bytes(body.signature)) ?? [],
                isIssued: isIssued
            )
        } catch {
            throw ConsoleRefusal(error.reason, status: 403)
        }
        guardian.giveBack(from: request.remoteAddress)
        try parts.accounts.usePasskey(passkey.id, signCount: count)
        try signIn.note("operator.sign-in-passkey", person)
        return try signIn.begin(person)
    }

    // MARK: Passkeys of the signed-in operator

    private func list() throws -> APIResponse {
        let person = try signIn.person()
        return Console.json(
            Listed(
                passkeys: try parts.accounts.passkeys(of: person.id).map {
                    Row(
                        id: Base64URL.encode($0.id),
                        name: $0.name,
                        created: $0.created.milliseconds,
                        used: $0.used?.milliseconds
                    )
                }
            )
        )
    }

    private func begin() throws -> APIResponse {
        let person = try signIn.person()
        return Console.json(
            ChallengeAnswer(
                challenge: challenge(),
                user: Base64URL.encode(Array(person.user.recordName.utf8)),
                name: person.name,
                algorithms: PasskeyCeremony.algorithms,
                known: try parts.accounts.passkeys(of: person.id).map { Base64URL.encode($0.id) }
            )
        )
    }

    private func register() async throws -> APIResponse {
        let person = try signIn.person()
        let body = try JSONDecoder().decode(RegistrationBody.self, from: Data(request.body))
        try guardian.charge(name: person.name, from: request.remoteAddress)
        let accounts = parts.accounts
        let isRight = try await guardian.enqueue {
            try accounts.operator(name: person.name, password: body.password) != nil
        }
        guard isRight else { throw ConsoleRefusal("The password is wrong.", status: 403) }
        guardian.giveBack(name: person.name, from: request.remoteAddress)
        let (key, ceremony) = (try bytes(body.publicKey), ceremony)
        let made: (id: [UInt8], signCount: UInt32)
        do throws(PasskeyCeremony.Fault) {
            made = try ceremony.verifyRegistration(
                clientData: (try? bytes(body.clientData)) ?? [],
                authenticatorData: (try? bytes(body.authenticatorData)) ?? [],
                algorithm: body.algorithm,
                publicKey: key,
                isIssued: isIssued
            )
        } catch {
            throw ConsoleRefusal(error.reason)
        }
        try accounts.addPasskey(
            Passkey(
                id: made.id,
                operatorID: person.id,
                name: PersonName.part(body.name) ?? "Passkey",
                algorithm: body.algorithm,
                publicKey: key,
                host: ceremony.host,
                signCount: made.signCount,
                created: parts.time.now()
            )
        )
        try signIn.note("operator.passkey-add", person)
        return Console.json(Done())
    }

    private func remove() throws -> APIResponse {
        let person = try signIn.person()
        let id = FormFields((request.query ?? "").utf8)?["id"] ?? ""
        try parts.accounts.removePasskey(try bytes(id), ofOperator: person.id)
        try signIn.note("operator.passkey-remove", person)
        return Console.json(Done())
    }
}
