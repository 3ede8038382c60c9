import Foundation
import Logging
import NIOCore
import Records
import RelayAPI
import RelayConsole
import RelayCore
import RelayServer
import RelayStore
import ServiceLifecycle
import UnixSignals

/// The relay of one data folder, from its files to its port.
struct RunningRelay {
    let settings: ServeSettings
    let logger: Logger
    let restart: SuddenRestart
    let lostWrite: LostWrite
    /// The configuration rows that the console displays.
    let rows: [ConsoleFacts.Setting]
    /// Called with the relay's URL once it accepts connections.
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

    /// Serves until a stop signal arrives, then finishes requests in progress.
    func run() async throws {
        if let warning = settings.warning { logger.warning("\(warning)") }
        try raiseDescriptorLimit()
        Allocator.keepFreedMemory()
        let ground = try ground(on: directory())
        defer { ground.stores.close() }
        ground.stores.removeBrokenUploads()
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
            "Open HTTP and WebSocket connections.",
            count: server.openConnections
        )
        let chosen: [(any Service)?] = [push, ground.tracing]
        let services = keepers(on: ground, relay, admission) + watchers(on: ground, outlook) + chosen.compactMap { $0 }
        // The service group stops services in reverse order and waits for each: first waiting polls are answered, then
        // the server says goodbye to its clients, then the rest stops.
        try await serve(services + [server, PollEnding(relay: relay)])
        try lostWrite.check()
    }

    private func serve(_ services: [any Service]) async throws {
        // At debug level, the service group logs the full description of every service.
        var quiet = logger
        quiet.logLevel = max(logger.logLevel, .info)
        var configuration = ServiceGroupConfiguration(
            services: services.map { .init(service: $0, successTerminationBehavior: .gracefullyShutdownGroup) },
            gracefulShutdownSignals: [.sigterm, .sigint]
                + (restart.stopSignals.contains(SIGHUP) ? [.sighup] : []),
            logger: quiet
        )
        // The server closes late connections itself; this is a fallback.
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
            throw CommandFailure(.failed, "An interrupted restore cannot be completed. \(error)")
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

    /// Raises the soft limit of file descriptors to the hard limit; the soft limit is often 1,024.
    ///
    /// - Throws: `CommandFailure` if even the hard limit is too low for a relay, which would otherwise fail without a
    ///   clear error.
    private func raiseDescriptorLimit() throws {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        // Each event loop uses three; stores, the listener and a few connections need the rest.
        let least = 64 + 3 * (settings.server.loops ?? System.coreCount)
        guard limit.rlim_cur < least else { return }
        throw CommandFailure(
            .failed,
            "The system limits this process to \(limit.rlim_cur) open files and sockets; a relay needs at least \(least). Raise the limit: ulimit -n 4096 (LimitNOFILE in a service)."
        )
    }
}
