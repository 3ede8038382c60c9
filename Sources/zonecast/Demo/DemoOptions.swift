import Foundation
import ZoneKit

/// What `zonecast demo` was asked for.
struct DemoOptions: Sendable {
    /// A relay elsewhere; `nil` starts one.
    var url: URL?
    var container: String?
    var apiToken: String?
    /// Web auth tokens by user, for a relay that takes no dev tokens.
    var webTokens: [String: String] = [:]
    var clients = 3

    func endpoint(_ url: URL, user: String, device: String) -> RelayEndpoint {
        guard let token = webTokens[user] else { return .dev(url, user: user, deviceID: device) }
        return RelayEndpoint(url: url, apiToken: apiToken, webAuthToken: token, deviceID: device)
    }
}
