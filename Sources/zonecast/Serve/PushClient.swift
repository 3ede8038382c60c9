import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import NIOPosix
import NIOSSL
import RelayAPI
import RelayCore
import RelayGateways
import RelaySystem
import ServiceLifecycle

/// The HTTP client for push services, from the relay's start to its stop.
struct PushClient: Service {
    let service: PushDependencies
    private let client: HTTPClient

    /// Returns `nil` if no push service is configured.
    init?(_ choices: PushOptions, accounts: any AccountDirectory) throws {
        guard let settings = try choices.settings(relayKey: accounts.relayKey()) else { return nil }
        client = try Self.connections(choices)
        service = PushDependencies(
            gateway: PushServices(settings, client: client, time: .system, random: .system),
            register: accounts
        )
    }

    /// Returns a client that the caller must shut down.
    static func connections(_ choices: PushOptions) throws -> HTTPClient {
        var tls = TLSConfiguration.makeClientConfiguration()
        if let roots = try choices.trustRoots() { tls.additionalTrustRoots = [.certificates(roots)] }
        var configuration = HTTPClient.Configuration.outgoing(connect: .seconds(10), read: .seconds(30))
        configuration.tlsConfiguration = tls
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    func run() async throws {
        try? await gracefulShutdown()
        try? await client.shutdown()
    }
}
