import ArgumentParser
import Foundation
import Records
import Synchronization
import Wire
import ZoneKit

/// The options that select a relay, container and user.
struct RelayOptions: ParsableArguments {
    @Option(help: "The relay. (default: $ZONECAST_URL, the profile's, or http://127.0.0.1:8080)")
    var url: String?
    @Option(
        name: .container,
        help: ArgumentHelp(
            "The container, such as iCloud.org.example.notes. (default: $ZONECAST_CONTAINER, or the profile's)",
            valueName: "id"
        )
    )
    var container: ContainerID?
    @Option(
        name: .environment,
        help: "development or production. (default: $ZONECAST_ENVIRONMENT, the profile's, or development)"
    )
    var environment: Records.Environment?
    @Option(
        name: [.customLong("web-token"), .customLong("token")],
        help:
            "The user's web auth token; dev-NAME for a relay with --dev. (default: $ZONECAST_EMAIL with $ZONECAST_PASSWORD, $ZONECAST_DEV_USER, $ZONECAST_KEY_ID with $ZONECAST_KEY_FILE, or $ZONECAST_WEB_TOKEN)"
    )
    var webToken: String?
    @Option(help: "The container's API token; a relay with --dev needs none. (default: $ZONECAST_API_TOKEN)")
    var apiToken: String?
    @Option(help: "The profile saved by zonecast login. (default: $ZONECAST_PROFILE or default)")
    var profile: String?

    /// Calls an operation of the relay's API and returns its response, in which single items may have failed.
    func call(_ operation: String, _ body: String = "{}") async throws -> JSONValue {
        try await Self.call(operation, body, home(), caller(home()))
    }

    /// Returns the container and environment from the options, else from the profile.
    func home() throws -> ContainerEnvironment {
        let saved = try Profile.named(profile)
        let container = container ?? SDKVariables.container
        // The saved environment belongs to the saved container; for another container, the default is development.
        let ofSaved = container == nil || container?.name == saved?.container
        guard let container = container ?? saved?.container.flatMap({ ContainerID($0) }) else {
            throw CommandFailure(
                .usage,
                "Name the container with --container, or set ZONECAST_CONTAINER, or save one for later commands: zonecast login --container ID --url URL"
            )
        }
        let kept = ofSaved ? saved?.environment.flatMap { Records.Environment(rawValue: $0) } : nil
        return ContainerEnvironment(container, environment ?? SDKVariables.environment ?? kept ?? .development)
    }

    /// Returns the address and credentials from the options, else the environment, else the profile.
    ///
    /// An account of the environment signs in first, once per command.
    func caller(_ home: ContainerEnvironment) async throws -> Profile {
        let saved = try Profile.named(profile)
        let address = url ?? SDKVariables.text("ZONECAST_URL")
        // A saved token is sent only to the relay that it was saved for.
        let own = address == nil || address == saved?.url ? saved : nil
        var caller = Profile(
            url: address ?? saved?.url ?? "http://127.0.0.1:8080",
            apiToken: apiToken ?? SDKVariables.text("ZONECAST_API_TOKEN") ?? own?.apiToken
        )
        guard webToken == nil else {
            caller.webToken = webToken
            return caller
        }
        switch SDKVariables.credential {
        case .webToken(let token): caller.webToken = token
        case .account(let email, let password):
            caller.webToken = try await Self.signIn(email, password, home, caller)
        case .serverKey(let id, let file): (caller.keyID, caller.keyFile) = (id, file)
        case nil: caller.webToken = own?.webToken
        }
        return caller
    }

    private static let signedIn = Mutex<String?>(nil)

    /// Returns a web auth token for an account.
    private static func signIn(
        _ email: String,
        _ password: String,
        _ home: ContainerEnvironment,
        _ caller: Profile
    ) async throws -> String {
        if let token = signedIn.withLock({ $0 }) { return token }
        let body = #"{"emailAddress":\#(quoted(email)),"password":\#(quoted(password))}"#
        let answer: JSONValue
        do {
            answer = try await call("public/users/signin", body, home, caller)
        } catch let failure as CommandFailure where failure.exit == .notAllowed && caller.apiToken != nil {
            throw CommandFailure(
                .notAllowed,
                "The relay does not accept ZONECAST_EMAIL and ZONECAST_PASSWORD, or the API token. Check both."
            )
        }
        guard let token = answer.text("ckWebAuthToken") else {
            throw CommandFailure(.failed, "The relay's response to the sign-in has no token. Check the address.")
        }
        signedIn.withLock { $0 = token }
        return token
    }

    /// Returns the headers that sign a request with the caller's server key; none without a key.
    private static func signature(_ caller: Profile, _ path: String, _ body: [UInt8]) throws -> [(String, String)] {
        guard let id = caller.keyID, let file = caller.keyFile else { return [] }
        guard let pem = InputFile.text(file), let key = ServerKey(id: id, pem: pem) else {
            throw CommandFailure(
                .usage,
                "\(file) (ZONECAST_KEY_FILE) is not a readable P-256 private key in PEM form. Create one: zonecast token create --help"
            )
        }
        return try key.headers(path: path, body: body, at: Date()).map { ($0.name, $0.value) }
    }

    /// Calls an operation with the address and credentials of a profile.
    static func call(
        _ operation: String,
        _ body: String,
        _ home: ContainerEnvironment,
        _ profile: Profile
    ) async throws -> JSONValue {
        let relay = try RelayAddress(profile.url)
        let path = "/database/1/\(home.container)/\(home.environment.rawValue)/\(operation)"
        let signature = try signature(profile, path, Array(body.utf8))
        var query = signature.isEmpty ? "ckAPIToken=\(escaped(profile.apiToken ?? ""))" : ""
        if let token = profile.webToken { query += "&ckWebAuthToken=\(escaped(token))" }
        let request = RelayRequest(
            method: .post,
            path: path,
            query: query,
            headers: [("Content-Type", "application/json"), ("X-Zonecast-Device-ID", device)] + signature,
            body: Array(body.utf8)
        )
        let start = ContinuousClock.now
        let response = try await relay.send(request, timeout: 20)
        Terminal.trace("\(profile.url)\(request.path) \(response.status) in \(ContinuousClock.now - start)")
        guard let answer = try? JSONDocument(parsing: response.body, limits: .response).root else {
            throw CommandFailure(
                .failed,
                "The response is not from a relay (status \(response.status)). Check the address."
            )
        }
        // A failed batch lists the items that failed.
        if answer["serverErrorCode"] != nil, answer["records"] == nil {
            throw CommandFailure(refusal: answer, to: profile)
        }
        return answer
    }

    /// `ZONECAST_DEVICE_ID`; otherwise each run is a device of its own, so that `watch` receives notices of another command's writes in the same
    /// session.
    private static let device = SDKVariables.text("ZONECAST_DEVICE_ID") ?? UUID().uuidString

    private static func escaped(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    }
}

extension CommandFailure {
    /// An error of a request or of one item; `caller` is used for hints about credentials.
    init(refusal: JSONValue, to caller: Profile? = nil) {
        let code = (try? refusal["serverErrorCode"]?.string()) ?? ""
        let reason = (try? refusal["reason"]?.string()) ?? code
        let exit: CommandExit =
            switch code {
            case "ACCESS_DENIED", "AUTHENTICATION_FAILED", "AUTHENTICATION_REQUIRED": .notAllowed
            case "CONFLICT", "EXISTS": .conflict
            case "TRY_AGAIN_LATER", "THROTTLED": .unreachable
            default: .failed
            }
        let hint = exit == .notAllowed && code != "ACCESS_DENIED" ? " " + Self.hint(code, caller) : ""
        let end = hint.isEmpty || reason.hasSuffix(".") ? "" : "."
        self.init(exit, reason + end + hint)
        self.code = code.isEmpty ? nil : code
    }

    /// Returns which token to get; if both were sent, the relay does not report which one is invalid.
    private static func hint(_ code: String, _ caller: Profile?) -> String {
        let webToken = "Set ZONECAST_WEB_TOKEN to a token from: zonecast user sign-in EMAIL"
        guard code == "AUTHENTICATION_FAILED", let caller else { return webToken }
        switch (caller.apiToken, caller.webToken) {
        case (nil, _):
            return "Add the container's API token with --api-token or ZONECAST_API_TOKEN. Create one: "
                + "zonecast token create. A relay with --dev needs none and accepts dev-NAME as the web token."
        case (_, nil):
            return "The API token is of another container or environment, or was revoked. See: "
                + "zonecast token list"
        case (_?, _?):
            return "The API token is revoked or of another container (zonecast token list), or the web token is "
                + "invalid (zonecast user sign-in EMAIL)."
        }
    }
}

extension JSONValue {
    /// Returns the elements of an array member; empty if it is missing.
    func list(_ name: StaticString) -> [JSONValue] { (try? self[name]?.elements()) ?? [] }
}

/// Returns text as a JSON string.
func quoted(_ text: String) -> String {
    var writer = JSONWriter()
    writer.string(text)
    return String(decoding: writer.bytes, as: UTF8.self)
}

/// The address of the relay that a command calls.
struct RelayAddress: Sendable {
    let url: URL
    /// The same address, for diagnosis.
    let place: ProbeAddress

    /// Parses an address.
    ///
    /// - Parameters:
    ///   - text: The address.
    ///   - example: A valid address, for the error text.
    /// - Throws: `CommandFailure` if the text is not an http or https address with a valid port.
    init(_ text: String, like example: String = "http://127.0.0.1:8080") throws(CommandFailure) {
        guard let place = ProbeAddress(text), let url = URL(string: text) else {
            throw CommandFailure(.usage, "'\(text)' is not an address such as \(example).")
        }
        self.url = url
        self.place = place
    }

    /// Sends a request.
    ///
    /// - Throws: `CommandFailure` with the doctor's diagnosis if there is no response.
    func send(_ request: RelayRequest, timeout: TimeInterval) async throws(CommandFailure) -> RelayResponse {
        do throws(TransportError) {
            return try await NetworkTransport.to(url, timeout: timeout).send(request)
        } catch {
            throw await failure()
        }
    }

    /// Returns why there is no response.
    func failure() async -> CommandFailure {
        guard let problem = await problem() else {
            return CommandFailure(.unreachable, "The relay at \(place) does not answer. Check that it is running.")
        }
        return CommandFailure(.unreachable, "The relay at \(problem).")
    }

    /// Returns the problem, beginning with the address.
    ///
    /// `nil` if none is found, and behind a proxy, where a probe from here proves nothing.
    func problem() async -> String? {
        guard ProxyAddress(for: url, environment: ProcessInfo.processInfo.environment) == nil else { return nil }
        return await RelayChecks(address: place).problem()
    }

    /// Like `problem`, for notices.
    func noticeProblem() async -> String? { await RelayChecks(address: place).noticeProblem() }
}
