import ArgumentParser
import Foundation
import Records
import Wire
import ZoneKit

/// Which relay, container and database a command speaks to, and as whom.
struct RemoteOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The relay. (default: $ZONECAST_URL or http://127.0.0.1:8080)", valueName: "address"))
    var url: String?
    @OptionGroup var home: HomeOptions
    @Option(help: "public or private, or shared.")
    var database: DatabaseScope = .private
    @Option(
        help: ArgumentHelp(
            "The user's web auth token, dev-NAME on a --dev relay. (default: $ZONECAST_WEB_TOKEN)",
            valueName: "token"
        )
    )
    var webToken: String?
    @Option(help: ArgumentHelp("The container's API token. (default: $ZONECAST_API_TOKEN)", valueName: "token"))
    var apiToken: String?
    @Flag(help: "Answer with JSON as it is on the wire, one line for each thing.")
    var json = false

    private var environment: [String: String] { ProcessInfo.processInfo.environment }

    /// Sends one call and gives the answer; failures come as what a person can do about them.
    func call(_ operation: String, _ body: borrowing JSONWriter) async throws -> JSONDocument {
        let address = url ?? environment["ZONECAST_URL"] ?? "http://127.0.0.1:8080"
        guard let base = URL(string: address), base.host != nil else {
            throw CommandFailure(.usage, "'\(address)' is not an address such as http://127.0.0.1:8080.")
        }
        let connection = RelayConnection(
            container: home.container.name,
            endpoint: RelayEndpoint(
                url: base,
                environment: home.environment == .production ? .production : .development,
                apiToken: apiToken ?? environment["ZONECAST_API_TOKEN"],
                webAuthToken: webToken ?? environment["ZONECAST_WEB_TOKEN"]
            )
        )
        do {
            return try await connection.send(RelayCall(database, operation, body.bytes, isWrite: true))
        } catch {
            throw failure(error, address: address)
        }
    }

    private func failure(_ failure: CallFailure, address: String) -> CommandFailure {
        guard let answer = failure.failure else {
            return CommandFailure(
                .unreachable,
                "The relay at \(address) does not answer: \(failure.error.localizedDescription) "
                    + "Is it running, and is --url right?"
            )
        }
        switch answer.error.code {
        case .authenticationRequired:
            return CommandFailure(
                .notAllowed,
                "The relay wants to know who asks. Set ZONECAST_WEB_TOKEN to a token from: zonecast user sign-in EMAIL"
            )
        case .authenticationFailed, .accessDenied: return CommandFailure(.notAllowed, answer.error.reason)
        case .conflict, .exists: return CommandFailure(.conflict, answer.error.reason)
        default: return CommandFailure(.failed, answer.error.reason)
        }
    }
}

extension DatabaseScope: ExpressibleByArgument {
    package init?(argument: String) { self.init(pathName: argument) }
}

/// Which zone a command works in.
struct ZoneOptions: ParsableArguments {
    @Option(help: "The zone.")
    var zone = ZoneID.defaultName
    @Option(help: ArgumentHelp("Whose zone it is, in the shared database.", valueName: "record name"))
    var owner: String?

    func write(to writer: inout JSONWriter) { Self.write(zone, owner: owner, to: &writer) }

    static func write(_ zone: String, owner: String? = nil, to writer: inout JSONWriter) {
        writer.key("zoneID")
        writer.object {
            $0.member("zoneName", zone)
            if let owner { $0.member("ownerRecordName", owner) }
        }
    }
}

extension JSONValue {
    /// The value as one line of JSON.
    var line: String { String(decoding: rawBytes, as: UTF8.self) }

    func text(_ name: StaticString) -> String? { try? self[name]?.string() }

    /// The elements of a member; none where it is missing.
    func items(_ name: StaticString) throws -> [JSONValue] { try self[name]?.elements() ?? [] }
}
