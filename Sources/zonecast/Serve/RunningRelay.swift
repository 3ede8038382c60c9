import Foundation
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
    let settings: ServeSettings
    let logger: Logger
    let restart: SuddenRestart
    let lostWrite: LostWrite
    /// The configuration, as the console shows it.
    let rows: [ConsoleFacts.Setting]
    /// Called with the relay's address once it answers there.
    let onListening: @Sendable (String) -> Void

    init(
        _ settings: ServeSettings,
        rows: [ConsoleFacts.Setting],
        restart: SuddenRestart,
        onListening: @escaping @Sendable (String) -> Void
    ) {
        self.restart = restart
        self.rows = rows
        self.settings = settings
        self.onListening = onListening
        logger = Logger(label: "zonecast") { [settings] _ in
            LogLines(format: settings.logFormat, logLevel: settings.logLevel)
        }
        lostWrite = LostWrite(logger: logger)
    }

    /// Serves until a signal says stop; then finishes what has begun.
    func run() async throws {
        if let warning = settings.warning { logger.warning("\(warning)") }
        try raiseDescriptorLimit()
        Allocator.keepFreedMemory()
        let ground = try ground(on: directory())
        defer { ground.stores.close() }
        ground.stores.removeBrokenUploads()
        ground.stores.markStores()
        let push = try PushClient(settings.push, accounts: ground.accounts)
        let relay = try relay(on: ground, push)
        try relay.beginPushes()
        ground.metrics.show(relay, ground.hub, ground.stores)
        let outlook = try outlook(on: relay, ground)
        let admission = RelayAdmission(relay: relay, hub: ground.hub, time: .system)
        let doors = doors(on: ground, relay, outlook, push)
        let server = server(on: ground, relay, admission, outlook.watch, respond: doors)
        ground.metrics.show(
            "zonecast_connections",
            "Open connections, of requests and of sockets.",
            count: server.openConnections
        )
        let chosen: [(any Service)?] = [push, ground.tracing]
        let services = keepers(on: ground, relay, admission) + watchers(on: ground, outlook) + chosen.compactMap { $0 }
        // They are told to stop from the last to the first, and each is waited for: nobody keeps the server from its
        // farewells, and those who wait for news get their answer before it waits for them.
        try await serve(services + [server, PollEnding(relay: relay)])
        try lostWrite.check()
    }

    private func serve(_ services: [any Service]) async throws {
        // At debug it writes down every service with all that is in it.
        var quiet = logger
        quiet.logLevel = max(logger.logLevel, .info)
        var configuration = ServiceGroupConfiguration(
            services: services.map { .init(service: $0, successTerminationBehavior: .gracefullyShutdownGroup) },
            gracefulShutdownSignals: [.sigterm, .sigint]
                + (restart.stopSignals.contains(SIGHUP) ? [.sighup] : []),
            logger: quiet
        )
        // The server cuts what is late by itself; this is for the case that it does not.
        configuration.maximumGracefulShutdownDuration =
            .nanoseconds(settings.server.limits.shutdown.nanoseconds) + .seconds(2)
        do {
            try await ServiceGroup(configuration: configuration).run()
        } catch let error as ListenError {
            throw CommandFailure(.failed, error.description)
        } catch let fault as TLSFault {
            throw CommandFailure(.failed, fault.description)
        }
    }

    private func directory() throws -> AccountStore {
        do {
            try Backup.finishRestore(in: settings.data)
        } catch {
            throw CommandFailure(.failed, "A restore was broken off and cannot be brought to its end. \(error)")
        }
        do {
            let accounts = try AccountStore(
                folder: settings.data,
                onLostWrite: { [lostWrite] in lostWrite.endProcess() }
            )
            try ContainerRemoval(in: settings.data).finish(with: accounts)
            return accounts
        } catch let error as DirectoryError {
            throw CommandFailure(error, folder: settings.data)
        }
    }

    /// Ten thousand sockets need as many descriptors; the system's soft limit is often 1,024.
    ///
    /// - Throws: where even the hard limit lets no relay start, which would end without a word that helps.
    private func raiseDescriptorLimit() throws {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        // Each loop has three of its own; stores, the listener and a few connections take the rest.
        let least = 64 + 3 * (settings.server.loops ?? System.coreCount)
        guard limit.rlim_cur < least else { return }
        throw CommandFailure(
            .failed,
            "The system lets this process open \(limit.rlim_cur) files and sockets, and a relay takes at least \(least). Try: ulimit -n 4096 (LimitNOFILE in a service)"
        )
    }
}
