import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore

/// Why the console refused a request: a sentence for the operator.
package struct ConsoleRefusal: Error, Encodable {
    /// How the page reacts.
    enum Code: String, Encodable {
        case refused
        case signIn
        /// Repeat the request with the container's name as confirmation.
        case confirm
    }

    package var status: Int
    var code: Code
    var error: String

    init(_ error: String, status: Int = 400, code: Code = .refused) {
        self.status = status
        self.code = code
        self.error = error
    }

    static let otherPage = ConsoleRefusal(
        "This address is for the console's own page only. If this is that page, the proxy must forward the "
            + "Host header, or the relay needs the setting public-url.",
        status: 403
    )
    static let otherSession = ConsoleRefusal(
        "There was a new sign-in in this browser after this page was loaded. Reload the page.",
        status: 403
    )
    static let signInFirst = ConsoleRefusal("Sign in first.", status: 401, code: .signIn)

    private enum CodingKeys: String, CodingKey { case code, error }

    /// Converts an error into a refusal with a text for the operator.
    init(_ cause: any Error) {
        switch cause {
        case let refusal as ConsoleRefusal: self = refusal
        case DirectoryError.exists(let what): self.init("There is a \(what) already.", status: 409)
        case DirectoryError.missing(let what): self.init("There is no \(what).", status: 404)
        case DirectoryError.invalid(let text): self.init(text)
        case DirectoryError.unavailable: self.init("The data folder cannot be used; see the log.", status: 503)
        case DirectoryError.damaged:
            self.init("A file of the data folder is damaged; run zonecast doctor for details.", status: 503)
        case let error as RelayError: self.init(error.reason, status: error.status ?? error.code.status)
        case let failure as BackupFailure: self.init(failure.description, status: 409)
        case is DecodingError: self.init("The page does not match this version of the relay; reload it.")
        default: self.init("The request failed in the relay; see its log.", status: 500)
        }
    }
}

/// One request of a signed-in operator.
struct ConsoleCall: Sendable {
    let parts: ConsoleParts
    let person: Operator
    let request: APIRequest
    private let guardian: ConsoleGuard?
    private let fields: FormFields?

    /// Creates a call; without `guardian`, operations that require the operator's password are refused.
    init(_ parts: ConsoleParts, _ person: Operator, _ request: APIRequest, guardian: ConsoleGuard? = nil) {
        self.guardian = guardian
        self.parts = parts
        self.person = person
        self.request = request
        fields = FormFields((request.query ?? "").utf8)
    }

    /// A query parameter; `nil` if absent or empty.
    subscript(name: String) -> String? { fields?[name] }

    /// Returns a numeric query parameter, clamped to the bounds.
    func number(_ name: String, in bounds: ClosedRange<Int>, else standard: Int) -> Int {
        self[name].flatMap { Int($0) }.map { min(max($0, bounds.lowerBound), bounds.upperBound) } ?? standard
    }

    /// Returns the environment that the page shows.
    func home() throws -> ContainerEnvironment {
        guard let container = self["container"].flatMap({ ContainerID($0) }),
            let environment = self["environment"].flatMap({ Records.Environment(rawValue: $0) })
        else { throw ConsoleRefusal("Choose a container first.") }
        guard try parts.accounts.hasContainer(container) else {
            throw ConsoleRefusal("There is no container \(container).", status: 404)
        }
        return ContainerEnvironment(container, environment)
    }

    /// Calls a wire operation on a user's private or shared database on behalf of the user.
    ///
    /// Throws the relay's error if it refuses.
    func ask<Answer: Decodable>(
        _ operation: String,
        _ body: some Encodable,
        for user: UserID,
        in home: ContainerEnvironment,
        database: String = "private"
    ) async throws -> Answer {
        let response = await parts.relay.respond(
            to: APIRequest(
                method: .post,
                path: "/database/1/\(home.container.name)/\(home.environment.rawValue)/\(database)/\(operation)",
                body: Array(try JSONEncoder().encode(body))
            ),
            for: user
        )
        let decoder = JSONDecoder()
        let answer = Data(response.body)
        guard response.status == .ok else {
            let reason = try? decoder.decode(WireRefusal.self, from: answer).reason
            throw ConsoleRefusal(reason ?? "The relay refused the request.", status: response.status.code)
        }
        let items = try? decoder.decode(WireItems.self, from: answer)
        if let refused = items?.all.first(where: { $0.serverErrorCode != nil }) {
            throw ConsoleRefusal(refused.reason ?? "The relay refused the request.", status: 409)
        }
        return try decoder.decode(Answer.self, from: answer)
    }

    func body<Body: Decodable>(_ type: Body.Type) throws -> Body {
        try JSONDecoder().decode(type, from: Data(request.body))
    }

    /// Throws unless the operator has typed the container's name, which is required for destructive changes in
    /// production.
    func confirmInProduction(_ home: ContainerEnvironment) throws {
        guard home.environment == .production, self["confirm"] != home.container.name else { return }
        throw ConsoleRefusal(
            "This changes production. Type the container's name to confirm.",
            status: 409,
            code: .confirm
        )
    }

    /// Throws unless this is the operator's password, which is required before access to private records is possible.
    func confirm(password: String) async throws {
        guard let guardian else { throw ConsoleRefusal("This is possible in the console only.", status: 403) }
        try await guardian.confirm(person, password, parts.accounts, from: request.remoteAddress)
    }

    /// Writes an entry to the audit log.
    func note(
        _ action: String,
        _ subject: String,
        in home: ContainerEnvironment? = nil,
        detail: String = ""
    ) throws {
        try parts.accounts.note(
            AuditEntry(
                at: parts.time.now(),
                actor: person.name,
                action: action,
                home: home,
                subject: subject,
                detail: detail
            )
        )
    }
}

/// One route of the console's API.
struct ConsoleRoute: Sendable {
    enum Answer: Sendable {
        case json(any Encodable & Sendable)
        case raw(APIResponse)
    }

    var method: HTTPRequest.Method
    /// The path after `/console/api/`; with a trailing `/`, all paths that begin with it.
    var name: String
    var run: @Sendable (ConsoleCall) async throws -> Answer

    static func get(
        _ name: String,
        _ run: @escaping @Sendable (ConsoleCall) async throws -> any Encodable & Sendable
    ) -> ConsoleRoute {
        ConsoleRoute(method: .get, name: name) { .json(try await run($0)) }
    }

    static func post(
        _ name: String,
        _ run: @escaping @Sendable (ConsoleCall) async throws -> any Encodable & Sendable
    ) -> ConsoleRoute {
        ConsoleRoute(method: .post, name: name) { .json(try await run($0)) }
    }
}

/// The response of operations without a result.
struct Done: Encodable, Sendable {
    var done = true
}

/// An error on the wire.
struct WireRefusal: Decodable {
    var serverErrorCode: String?
    var reason: String?
}

/// The elements of a response that may contain errors.
private struct WireItems: Decodable {
    var records: [WireRefusal]?
    var zones: [WireRefusal]?

    var all: [WireRefusal] { (records ?? []) + (zones ?? []) }
}
