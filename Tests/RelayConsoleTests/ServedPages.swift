import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelaySystem
import StoreTesting

/// Pages as a relay serves them.
struct ServedPages: Sendable {
    private let relay: Relay

    init(_ entries: [RouteEntry]) throws {
        let accounts = try TestStore.current.makeHome().accounts()
        relay = Relay(
            authenticator: try Authenticator(
                directory: accounts,
                settings: SignInSettings(),
                time: .system,
                random: .system
            ),
            stores: TestStore.current.makeHome().stores(),
            time: .system,
            random: .system
        )
        relay.router.add(entries)
    }

    /// Returns the response; `nil` if nothing is at the path.
    func answer(_ request: APIRequest) async -> APIResponse? {
        let response = await relay.respond(to: request)
        let isWires = response.errorCode != nil && response.status != .methodNotAllowed
        return isWires ? nil : response
    }
}
