import ArgumentParser
import Foundation
import Records
import Wire
import ZoneKit

/// Which relay a command speaks to, and as whom.
struct RelayOptions: ParsableArguments {
    @Option(help: "The relay. (default: $ZONECAST_URL, the profile's, or http://127.0.0.1:8080)")
    var url: String?
    @Option(
        help: ArgumentHelp("The container, such as iCloud.org.example.notes. (default: the profile's)", valueName: "id")
    )
    var container: ContainerID?
    @Option(help: "development or production. (default: the profile's, or development)")
    var environment: Records.Environment?
    @Option(help: "The user's web auth token; dev-NAME for a relay with --dev. (default: $ZONECAST_WEB_TOKEN)")
    var webToken: String?
    @Option(help: "The container's API token; a relay with --dev needs none. (default: $ZONECAST_API_TOKEN)")
    var apiToken: String?
    @Option(help: "What zonecast login saved. (default: $ZONECAST_PROFILE or default)")
    var profile: String?

    /// Calls an operation of the wire and gives its answer, whose items may have failed each for itself.
    func call(_ operation: String, _ body: String = "{}") async throws -> JSONValue {
        try await Self.call(operation, body, home(), caller())
    }

    /// Which container and environment: by flags, else as the profile was made for.
    func home() throws -> ContainerEnvironment {
        let saved = try Profile.named(profile)
        // The environment is that of the saved container; another one begins in development.
        let ofSaved = container == nil || container?.name == saved?.container
        guard let container = container ?? saved?.container.flatMap({ ContainerID($0) }) else {
            throw CommandFailure(
                .usage,
                "Name the container with --container, or save one for later commands: zonecast login --container ID --url URL"
            )
        }
        let kept = ofSaved ? saved?.environment.flatMap { Records.Environment(rawValue: $0) } : nil
        return ContainerEnvironment(container, environment ?? kept ?? .development)
    }

    /// Where the relay is and who speaks to it: by flags, else by the environment, else by what was saved.
    func caller() throws -> Profile {
        let environment = ProcessInfo.processInfo.environment
        let saved = try Profile.named(profile)
        let address = url ?? environment["ZONECAST_URL"]
        // A token is shown to nobody but the relay that it was saved for.
        let own = address == nil || address == saved?.url ? saved : nil
        return Profile(
            url: address ?? saved?.url ?? "http://127.0.0.1:8080",
            apiToken: apiToken ?? environment["ZONECAST_API_TOKEN"] ?? own?.apiToken,
            webToken: webToken ?? environment["ZONECAST_WEB_TOKEN"] ?? own?.webToken
        )
    }

    /// The same for what a profile says.
    static func call(
        _ operation: String,
        _ body: String,
        _ home: ContainerEnvironment,
        _ profile: Profile
    ) async throws -> JSONValue {
        let relay = try RelayAddress(profile.url)
        var query = "ckAPIToken=\(escaped(profile.apiToken ?? ""))"
        if let token = profile.webToken { query += "&ckWebAuthToken=\(escaped(token))" }
        let request = RelayRequest(
            method: .post,
            path: "/database/1/\(home.container)/\(home.environment.rawValue)/\(operation)",
            query: query,
            headers: [("Content-Type", "application/json"), ("X-Zonecast-Device-ID", device)],
            body: Array(body.utf8)
        )
        let response = try await relay.send(request, timeout: 20)
        guard let answer = try? JSONDocument(parsing: response.body, limits: .response).root else {
            throw CommandFailure(.failed, "The answer is none of a relay's (status \(response.status)).")
        }
        // A failed batch names its guilty items.
        if answer["serverErrorCode"] != nil, answer["records"] == nil {
            throw CommandFailure(refusal: answer, to: profile)
        }
        return answer
    }

    /// Each run is a device of its own: of one sign-in a `watch` hears what another command has written.
    private static let device = UUID().uuidString

    private static func escaped(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    }
}

extension CommandFailure {
    /// What a relay said to a request, or to one item of it; `caller` is who it was said to, where that helps.
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

    /// Which token to get; of two that were shown the relay does not tell which it does not take.
    private static func hint(_ code: String, _ caller: Profile?) -> String {
        let webToken = "Set ZONECAST_WEB_TOKEN to a token from: zonecast user sign-in EMAIL"
        guard code == "AUTHENTICATION_FAILED", let caller else { return webToken }
        switch (caller.apiToken, caller.webToken) {
        case (nil, _):
            return "Give the container's API token by --api-token or ZONECAST_API_TOKEN. Get one: "
                + "zonecast token create. A relay with --dev needs none, and takes dev-NAME as the web token."
        case (_, nil):
            return "The API token is not one of this container and environment, or was revoked. See: "
                + "zonecast token list"
        case (_?, _?):
            return "The API token was revoked or is another container's (zonecast token list), or the web token is "
                + "none of this relay's (zonecast user sign-in EMAIL)."
        }
    }
}

extension JSONValue {
    /// The elements of an array member; none where there is no such.
    func list(_ name: StaticString) -> [JSONValue] { (try? self[name]?.elements()) ?? [] }
}

/// Text as a JSON string.
func quoted(_ text: String) -> String {
    var writer = JSONWriter()
    writer.string(text)
    return String(decoding: writer.bytes, as: UTF8.self)
}
