import Foundation
import RelayAPI
import RelayServer

/// What `serve` looks at before it starts, and `config check` without starting.
extension ServeSettings {
    /// Throws all that a relay with these settings would say instead of starting: of addresses that are too open, and of
    /// files that keys name and that cannot be used.
    func checkStart() throws {
        let checks: [() throws -> Void] = [
            { try Serve.checkLoopback(self) },
            { try Serve.checkDev(self) },
            { try Serve.checkTestDoor(self) },
            { _ = try server.tls?.end() },
            { _ = try metricsToken() },
            // Any key does: only the files are looked at.
            { _ = try push.settings(relayKey: [UInt8](repeating: 1, count: 32)) },
            { _ = try push.trustRoots() },
            { if traces.endpoint != nil { _ = try traces.tokenFile.map { try Tracing.token(in: $0) } } },
            { _ = try alerts.sender() },
        ]
        let faults = checks.compactMap { check -> String? in
            do {
                try check()
                return nil
            } catch {
                return "\(error)"
            }
        }
        guard faults.isEmpty else { throw CommandFailure(faults) }
    }

    /// What a relay with these settings says at its start, and starts nevertheless; `nil` for nothing.
    ///
    /// To forward a port of one's own network is a way to try an app on a telephone.
    var warning: String? { openness.map { "\($0) Set only one of the two where that matters." } }

    /// Why anybody could be anybody: `dev` where others reach the relay; `nil` where they do not.
    var openness: String? {
        guard isDev, let address = signIn.publicURL, let host = URL(string: address)?.host(),
            !ServerConfiguration.isLoopback(host.trimmingCharacters(in: ["[", "]"]))
        else { return nil }
        return
            "dev takes any dev- token, and public-url says that others reach this relay at \(address): whoever does can be anybody."
    }

    /// What opens `GET /metrics`, from its file; `nil` where the configuration names none.
    func metricsToken() throws -> String? {
        guard let path = metricsTokenFile else { return nil }
        let text = FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) }
        guard let token = text?.trimmingCharacters(in: .whitespacesAndNewlines), token.utf8.count >= 16 else {
            throw CommandFailure(
                .usage,
                "metrics.token-file: \(path) holds no token of 16 characters or more. Make one with: openssl rand -hex 32"
            )
        }
        return token
    }
}
