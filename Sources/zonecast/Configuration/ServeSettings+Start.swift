import Foundation
import RelayAPI
import RelayServer

/// The checks that `serve` makes before it starts, and that `config check` makes without starting.
extension ServeSettings {
    /// Throws all errors that would prevent a relay with these settings from starting.
    ///
    /// These are addresses that are too open, and files of keys that cannot be used.
    func checkStart() throws {
        let checks: [() throws -> Void] = [
            { try Serve.checkLoopback(self) },
            { try Serve.checkDev(self) },
            { try Serve.checkTestDoor(self) },
            { _ = try server.tls?.end() },
            { _ = try metricsToken() },
            // Any key will do, since only the files are checked.
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

    /// The warning that a relay with these settings logs at its start; `nil` if there is none.
    ///
    /// A warning, not an error: forwarding a port of the local network is a way to try an app on a phone.
    var warning: String? { openness.map { "\($0) Set only one of the two to prevent this." } }

    /// Why any client could sign in as any user: `dev` is on and others reach the relay; `nil` if not.
    var openness: String? {
        guard isDev, let address = signIn.publicURL, let host = URL(string: address)?.host(),
            !ServerConfiguration.isLoopback(host.trimmingCharacters(in: ["[", "]"]))
        else { return nil }
        return
            "dev accepts any dev- token, and public-url makes this relay reachable at \(address): any client can sign in as any user."
    }

    /// Reads the bearer token for `GET /metrics` from its file; returns `nil` if none is configured.
    func metricsToken() throws -> String? {
        guard let path = metricsTokenFile else { return nil }
        guard let token = InputFile.word(path), token.utf8.count >= 16 else {
            throw CommandFailure(
                .usage,
                "metrics.token-file: \(path) holds no token of 16 characters or more. Create one with: openssl rand -hex 32"
            )
        }
        return token
    }
}
