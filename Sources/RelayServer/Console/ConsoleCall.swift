import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayStore

/// Why the console did not do what it was asked: a sentence for the person in front of it.
struct ConsoleRefusal: Error, Encodable {
    /// What the page does about it, where it can do something.
    enum Code: String, Encodable {
        case refused
        case signIn
        /// Say the container's name with the same request.
        case confirm
    }

    var status: Int
    var code: Code
    var error: String

    init(_ error: String, status: Int = 400, code: Code = .refused) {
        self.status = status
        self.code = code
        self.error = error
    }

    static let otherPage = ConsoleRefusal(
        "This address is for the console's own page. If this is that page, the proxy before the relay has to pass on the "
            + "Host header, or the relay needs the setting public-url.",
        status: 403
    )
    static let otherSession = ConsoleRefusal(
        "Somebody has signed in anew in this browser since this page was loaded. Load it again.",
        status: 403
    )
    static let signInFirst = ConsoleRefusal("Sign in first.", status: 401, code: .signIn)

    private enum CodingKeys: String, CodingKey { case code, error }

    /// What went wrong beneath, in the console's words.
    init(_ cause: any Error) {
        switch cause {
        case let refusal as ConsoleRefusal: self = refusal
        case DirectoryError.exists(let what): self.init("There is a \(what) already.", status: 409)
        case DirectoryError.missing(let what): self.init("There is no \(what).", status: 404)
        case DirectoryError.invalid(let text): self.init(text)
        case DirectoryError.unavailable: self.init("The data folder cannot be used; the log says why.", status: 503)
        case DirectoryError.damaged:
            self.init("A file of the data folder is damaged; zonecast doctor says which, and what to do.", status: 503)
        case let error as RelayError: self.init(error.reason, status: error.status ?? error.code.status)
        case let failure as BackupFailure: self.init(failure.description, status: 409)
        case is DecodingError: self.init("The console's page and this relay do not fit each other; load it anew.")
        default: self.init("The relay failed at this; its log says more.", status: 500)
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

    /// Without `guardian` nothing is done that wants the person's password once more.
    init(_ parts: ConsoleParts, _ person: Operator, _ request: APIRequest, guardian: ConsoleGuard? = nil) {
        self.guardian = guardian
        self.parts = parts
        self.person = person
        self.request = request
        fields = FormFields((request.query ?? "").utf8)
    }

    /// A parameter of the address; `nil` where it is absent or empty.
    subscript(name: String) -> String? { fields?[name] }

    /// A number among the parameters, held to bounds.
    func number(_ name: String, in bounds: ClosedRange<Int>, else standard: Int) -> Int {
        self[name].flatMap { Int($0) }.map { min(max($0, bounds.lowerBound), bounds.upperBound) } ?? standard
    }

    /// The environment that the page shows.
    func home() throws -> ContainerEnvironment {
        guard let container = self["container"].flatMap({ ContainerID($0) }),
            let environment = self["environment"].flatMap({ Records.Environment(rawValue: $0) })
        else { throw ConsoleRefusal("Choose a container first.") }
        guard try parts.accounts.hasContainer(container) else {
            throw ConsoleRefusal("There is no container \(container).", status: 404)
        }
        return ContainerEnvironment(container, environment)
    }

    /// Calls an operation of the wire on the user's private database, or on what others share with them, as their own.
    ///
    /// Throws what the relay refuses.
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
            throw ConsoleRefusal(reason ?? "The relay refuses this.", status: response.status.code)
        }
        let items = try? decoder.decode(WireItems.self, from: answer)
        if let refused = items?.all.first(where: { $0.serverErrorCode != nil }) {
            throw ConsoleRefusal(refused.reason ?? "The relay refuses this.", status: 409)
        }
        return try decoder.decode(Answer.self, from: answer)
    }

    func body<Body: Decodable>(_ type: Body.Type) throws -> Body {
        try JSONDecoder().decode(type, from: Data(request.body))
    }

    /// Throws unless the person has typed the container's name, which production asks for before anything is destroyed.
    func confirmInProduction(_ home: ContainerEnvironment) throws {
        guard home.environment == .production, self["confirm"] != home.container.name else { return }
        throw ConsoleRefusal(
            "This changes production. Type the container's name to go on.",
            status: 409,
            code: .confirm
        )
    }

    /// Throws unless this is the person's own password: asked for before they could get at private contents.
    func confirm(password: String) async throws {
        guard let guardian else { throw ConsoleRefusal("This is done at the console.", status: 403) }
        try await guardian.confirm(person, password, parts.accounts, from: request.remoteAddress)
    }

    /// Writes down what has been done.
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

/// One address of the console's own API.
struct ConsoleRoute: Sendable {
    enum Answer: Sendable {
        case json(any Encodable & Sendable)
        case raw(APIResponse)
    }

    var method: HTTPRequest.Method
    /// What follows `/console/api/`; a trailing `/` takes all that follows it.
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

/// The answer where there is nothing to tell.
struct Done: Encodable, Sendable {
    var done = true
}

/// What the wire says where it refuses.
struct WireRefusal: Decodable {
    var serverErrorCode: String?
    var reason: String?
}

/// The parts of an answer that may each be refused.
private struct WireItems: Decodable {
    var records: [WireRefusal]?
    var zones: [WireRefusal]?

    var all: [WireRefusal] { (records ?? []) + (zones ?? []) }
}
