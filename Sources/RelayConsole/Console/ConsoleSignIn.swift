import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelaySystem

/// Sign-in of operators: with a one-time link the first time, then with name and password, or with a passkey.
struct ConsoleSignIn: Sendable {
    private let parts: ConsoleParts
    private let guardian: ConsoleGuard
    private let request: APIRequest

    init(_ parts: ConsoleParts, _ guardian: ConsoleGuard, _ request: APIRequest) {
        self.parts = parts
        self.guardian = guardian
        self.request = request
    }

    private struct SessionAnswer: Encodable {
        struct Container: Encodable {
            var name: String
            var created: Int64
        }

        var name: String
        var version: String
        var isDev: Bool
        /// The data folder quoted for a shell, for the commands that pages show.
        var data: String
        var containers: [Container]
        /// The session token for the header of changes.
        var token: String
    }

    private struct Link: Encodable {
        var name: String?
    }

    private struct Attempt: Decodable {
        var code: String?
        var name: String?
        var password: String
        var newPassword: String?
    }

    static func endpoints(_ parts: ConsoleParts, _ guardian: ConsoleGuard) -> [ConsoleEndpoint] {
        let signIn = { @Sendable (request: APIRequest) in ConsoleSignIn(parts, guardian, request) }
        return [
            .init(.get, "session") { try signIn($0).session() },
            .init(.post, "session", isSignIn: true) { try await signIn($0).signIn() },
            .init(.delete, "session") { try signIn($0).signOut() },
            .init(.get, "setup") { try signIn($0).checkLink() },
            .init(.post, "setup", isSignIn: true) { try await signIn($0).setUp() },
            .init(.post, "password") { try await signIn($0).changePassword() },
        ]
    }

    private func session() throws -> APIResponse {
        Console.json(try sessionAnswer(try person(), ConsoleGuard.secret(of: request) ?? ""))
    }

    func person() throws -> Operator { try Self.person(of: request, parts) }

    /// Returns the operator who is signed in; throws if there is none.
    static func person(of request: APIRequest, _ parts: ConsoleParts) throws -> Operator {
        guard let secret = ConsoleGuard.secret(of: request),
            let person = try parts.accounts.operatorSession(secret, OperatorSessionRules())
        else { throw ConsoleRefusal.signInFirst }
        return person
    }

    private func sessionAnswer(_ person: Operator, _ secret: String) throws -> SessionAnswer {
        SessionAnswer(
            name: person.name,
            version: parts.facts.version,
            isDev: parts.facts.isDev,
            data: URL(fileURLWithPath: parts.facts.data).standardizedFileURL.path.shellWord,
            containers: try parts.accounts.containers().map {
                .init(name: $0.container.name, created: $0.created.milliseconds)
            },
            token: ConsoleGuard.token(ofSession: secret)
        )
    }

    private func checkLink() throws -> APIResponse {
        let fields = FormFields((request.query ?? "").utf8)
        let code = fields?["code"] ?? ""
        try guardian.charge(from: request.remoteAddress)
        let link = try parts.accounts.operatorLink(code)
        guard link.isGood else {
            throw ConsoleRefusal(
                "This link was already used or has expired. Create another one with: zonecast user operator create",
                status: 404
            )
        }
        guardian.giveBack(from: request.remoteAddress)
        return Console.json(Link(name: link.name))
    }

    private func setUp() async throws -> APIResponse {
        let attempt = try JSONDecoder().decode(Attempt.self, from: Data(request.body))
        try guardian.charge(from: request.remoteAddress)
        let accounts = parts.accounts
        let person = try await guardian.enqueue {
            try accounts.useOperatorLink(
                attempt.code ?? "",
                name: attempt.name ?? "",
                password: attempt.password
            )
        }
        guardian.giveBack(from: request.remoteAddress)
        try note("operator.setup", person)
        return try begin(person)
    }

    private func signIn() async throws -> APIResponse {
        let attempt = try JSONDecoder().decode(Attempt.self, from: Data(request.body))
        let name = attempt.name ?? ""
        try guardian.charge(name: name, from: request.remoteAddress)
        let accounts = parts.accounts
        let found = try await guardian.enqueue { try accounts.operator(name: name, password: attempt.password) }
        guard let found else {
            throw ConsoleRefusal("The name or the password is wrong.", status: 403)
        }
        guardian.giveBack(name: name, from: request.remoteAddress)
        try note("operator.sign-in", found)
        return try begin(found)
    }

    func begin(_ person: Operator) throws -> APIResponse {
        let secret = try parts.accounts.startOperatorSession(person.id)
        var response = Console.json(try sessionAnswer(person, secret))
        response.headers[.setCookie] = ConsoleGuard.cookie(secret, isSecure: parts.facts.isSecure)
        return response
    }

    private func signOut() throws -> APIResponse {
        if let secret = ConsoleGuard.secret(of: request) { try parts.accounts.endOperatorSession(secret) }
        var response = Console.json(Done())
        response.headers[.setCookie] = ConsoleGuard.cookie(nil, isSecure: parts.facts.isSecure)
        return response
    }

    private func changePassword() async throws -> APIResponse {
        let person = try person()
        guard let secret = ConsoleGuard.secret(of: request) else { throw ConsoleRefusal.signInFirst }
        let attempt = try JSONDecoder().decode(Attempt.self, from: Data(request.body))
        try guardian.charge(name: person.name, from: request.remoteAddress)
        let accounts = parts.accounts
        try await guardian.enqueue {
            guard try accounts.operator(name: person.name, password: attempt.password) != nil else {
                throw ConsoleRefusal("The current password is wrong.", status: 403)
            }
            try accounts.setPassword(attempt.newPassword ?? "", ofOperator: person.id, keeping: secret)
        }
        guardian.giveBack(name: person.name, from: request.remoteAddress)
        try note("operator.password", person)
        return Console.json(Done())
    }

    func note(_ action: String, _ person: Operator) throws {
        try parts.accounts.note(
            AuditEntry(at: parts.time.now(), actor: person.name, action: action, subject: person.name)
        )
    }
}
