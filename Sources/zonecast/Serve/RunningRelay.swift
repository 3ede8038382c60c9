import Foundation
import HTTPTypes
import Logging
import NIOCore
import Records
import RelayAPI
import RelayCore
import RelayServer
import RelayStore
import ServiceLifecycle
import UnixSignals

/// The relay of one data folder, from its files up to its port.
struct RunningRelay {
    private let settings: ServeSettings
    private let logger: Logger

    init(_ settings: ServeSettings) {
        self.settings = settings
        var logger = Logger(label: "zonecast") { StreamLogHandler.standardError(label: $0) }
        logger.logLevel = settings.logLevel
        self.logger = logger
    }

    /// Serves until a signal says stop; then finishes what has begun.
    func run() async throws {
        Self.raiseDescriptorLimit()
        Allocator.keepFreedMemory()
        let accounts = try directory()
        let hub = NoticeHub(
            limits: settings.notices,
            relayName: "zonecast \(Zonecast.version)",
            noticeID: { UUID().uuidString.lowercased() }
        )
        let stores = StoreFolder(
            folder: settings.data,
            draw: { UInt64.random(in: .min ... .max) },
            onCommit: { home, changes in hub.publish(changes, of: home) },
            onLostWrite: { [logger] in Self.endAfterLostWrite(logger) }
        )
        defer { stores.close() }
        let relay = Relay(
            authenticator: try Authenticator(
                directory: accounts,
                settings: settings.signIn,
                keySource: KeyFetch(),
                time: .system,
                random: .system
            ),
            stores: stores,
            hub: hub,
            limits: settings.limits,
            assets: settings.assets,
            time: .system,
            random: .system
        )
        let admission = RelayAdmission(relay: relay, hub: hub, time: .system)
        let server = RelayServer(
            configuration: settings.server,
            logger: logger,
            notices: NoticeService(hub: hub, admission: admission),
            onListening: { address in Terminal.say("ready http://\(address)") },
            intake: { relay.intake(for: $0) },
            answer: directResponder(relay),
            respond: responder(relay)
        )
        let housekeeping = SignInHousekeeping(authenticator: relay.authenticator)
        let clearing = AssetHousekeeping(stores: stores, unusedLifetime: settings.assets.unusedLifetime)
        let backups = ScheduledBackups(data: settings.data, logger: logger)
        let watch = RevocationWatch(admission: admission, relay: relay)
        try await serve([server, watch, housekeeping, clearing, TransferKeeping(relay: relay), backups])
    }

    private func serve(_ services: [any Service]) async throws {
        var configuration = ServiceGroupConfiguration(
            services: services.map { .init(service: $0, successTerminationBehavior: .gracefullyShutdownGroup) },
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger
        )
        // The server cuts what is late by itself; this is for the case that it does not.
        configuration.maximumGracefulShutdownDuration =
            .nanoseconds(settings.server.limits.shutdown.nanoseconds) + .seconds(2)
        do {
            try await ServiceGroup(configuration: configuration).run()
        } catch let error as ListenError {
            throw CommandFailure(.failed, error.description)
        }
    }

    private func directory() throws -> AccountStore {
        do throws(DirectoryError) {
            return try AccountStore(folder: settings.data)
        } catch {
            throw CommandFailure(error, folder: settings.data)
        }
    }

    private func responder(_ relay: Relay) -> RelayServer.Responder {
        guard settings.logsAccess else { return { await relay.respond(to: $0) } }
        return { [logger] request in
            let start = ContinuousClock.now
            let response = await relay.respond(to: request)
            Self.log(response, to: request, since: start, logger)
            return response
        }
    }

    private func directResponder(_ relay: Relay) -> RelayServer.DirectResponder {
        guard settings.logsAccess else { return { relay.answer($0, on: $1, then: $2) } }
        return { [logger] request, lane, then in
            let start = ContinuousClock.now
            return relay.answer(request, on: lane) { response in
                Self.log(response, to: request, since: start, logger)
                then(response)
            }
        }
    }

    private static func log(
        _ response: APIResponse,
        to request: APIRequest,
        since start: ContinuousClock.Instant,
        _ logger: Logger
    ) {
        let took = String(format: "%.1f", (ContinuousClock.now - start) / .milliseconds(1))
        // The query holds tokens and stays out.
        logger.info("\(request.method) \(loggable(request.path)) \(response.status.code) \(took) ms")
    }

    /// An asset's address is as good as a key, so it is cut.
    private static func loggable(_ path: String) -> String {
        guard let start = path.firstRange(of: "/asset/1/") else { return path }
        let rest = path[start.upperBound...].prefix { $0 != "/" }
        return path[..<start.upperBound] + rest + "/…"
    }

    /// Ten thousand sockets need as many descriptors; the system's soft limit is often 1,024.
    private static func raiseDescriptorLimit() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    /// A commit that may or may not be on the disk: only reading the disk anew can tell, so the process ends.
    private static func endAfterLostWrite(_ logger: Logger) {
        logger.critical(
            "The disk failed to keep a commit. Stopping, so that the next start reads what is really there."
        )
        kill(getpid(), SIGTERM)
    }
}
