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
import Synchronization
import UnixSignals

/// The relay of one data folder, from its files up to its port.
struct RunningRelay {
    private let settings: ServeSettings
    private let logger: Logger
    private let restart: SuddenRestart
    private let lostWrite: LostWrite
    /// The configuration, as the console shows it.
    private let rows: [ConsoleFacts.Setting]
    /// Called with the relay's address once it answers there.
    private let onListening: @Sendable (String) -> Void

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
        let accounts = try directory()
        let metrics = RelayMetrics()
        let tracing = try Tracing(settings.traces, logger: logger)
        Tracing.show(tracing, in: metrics)
        let noticeIDs = UUIDSequence(.system)
        let hub = NoticeHub(
            limits: settings.notices,
            relayName: "zonecast \(Zonecast.version)",
            noticeID: { noticeIDs.next().text },
            timing: .init(
                uptime: TimeSource.system.uptime,
                delivered: { metrics.delivered($0, after: $1) },
                queryDelivered: { metrics.deliveredOfQuery($0, after: $1) }
            )
        )
        metrics.showProcess(data: settings.data, version: Zonecast.version)
        let damage = StoreDamage(data: settings.data, logger: logger)
        metrics.show("zonecast_store_damage_total", "Requests and daily looks that met a damaged page.", kind: .counter)
        {
            Double(damage.count)
        }
        let shortage = DescriptorShortage(logger: logger)
        let stores = StoreFolder(
            folder: settings.data,
            draw: { UInt64.random(in: .min ... .max) },
            mostOpen: DescriptorShares(descriptors: Descriptors.limit).stores,
            onCommit: Self.publish(to: hub, tracing?.tracer),
            onCommitTime: { writes, time in metrics.committed(writes, in: time) },
            onLostWrite: { [lostWrite] in lostWrite.endProcess() },
            onDamage: { damage.met($0, $1, $2) },
            onShortage: { shortage.met() }
        )
        defer { stores.close() }
        stores.removeBrokenUploads()
        stores.markStores()
        let push = try PushClient(settings.push, accounts: accounts)
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
            push: push?.service,
            time: .system,
            random: .system,
            onFault: { [logger] id, error in
                logger.error(
                    "A request failed by no fault of its client's.",
                    error: error,
                    metadata: ["request": "\(id)"]
                )
            }
        )
        try relay.beginPushes()
        let admission = RelayAdmission(relay: relay, hub: hub, time: .system)
        metrics.show(relay, hub, stores)
        let telemetry = Telemetry()
        let alerts = try AlertPost(settings.alerts, relay: settings.signIn.publicURL ?? settings.data)
        let sendAlert = alerts?.sending
        let names = Pseudonyms(relayKey: try accounts.relayKey())
        let requests = RecentRequests(names, now: TimeSource.system.now)
        let watch = RequestWatch(
            relay,
            metrics: metrics,
            door: try metricsDoor(metrics),
            log: RequestLog(logger, names, of: settings.logsAccess ? .all : .refused),
            recent: settings.servesConsole ? requests : nil,
            tracer: tracing?.tracer
        )
        let parts = ConsoleParts(
            accounts: accounts,
            stores: stores,
            relay: relay,
            hub: hub,
            metrics: metrics,
            telemetry: telemetry,
            requests: requests,
            facts: settings.consoleFacts(rows),
            time: .system,
            sendAlert: sendAlert,
            push: push?.service.gateway,
            look: DoctorLook(settings).findings
        )
        let console = ConsoleDoor(settings.servesConsole ? parts : nil)
        let management = ManagementDoor(parts)
        let pages = DemoPages(
            isOpen: settings.servesDemo,
            run: UUID().uuidString,
            restart: settings.isDev ? restart.action : nil
        )
        let server = RelayServer(
            configuration: settings.server,
            logger: logger,
            notices: NoticeService(hub: hub, admission: admission),
            onListening: { [restart, onListening, settings, logger] address in
                restart.isListening(at: "\(address)")
                let url = "\(settings.server.tls == nil ? "http" : "https")://\(address)"
                onListening(url)
                if settings.servesConsole { accounts.tellOfConsole(at: url, settings, logger) }
            },
            onShortage: { stores.makeRoom() },
            onRefusal: watch.refused,
            intake: { relay.intake(for: $0) },
            answer: watch.answer,
            respond: console.before(management.before(pages.before(watch.respond)))
        )
        metrics.show(
            "zonecast_connections",
            "Open connections, of requests and of sockets.",
            count: server.openConnections
        )
        let housekeeping = SignInHousekeeping(relay: relay)
        let clearing = AssetHousekeeping(stores: stores, unusedLifetime: settings.assets.unusedLifetime)
        let forgetting = TombstoneHousekeeping(stores: stores, horizon: settings.tombstoneHorizon, logger: logger)
        let backups = ScheduledBackups(data: settings.data, logger: logger)
        let revocations = RevocationWatch(admission: admission, relay: relay, accounts: accounts)
        var services: [any Service] = [
            revocations, housekeeping, clearing, forgetting, TransferKeeping(relay: relay), UploadKeeping(relay: relay),
            backups, StoreLook(data: settings.data, damage: damage), AlertBookLook(data: settings.data, logger: logger),
        ]
        if settings.servesConsole || alerts != nil {
            services.append(TelemetryKeeping(telemetry: telemetry, metrics: metrics, hub: hub))
        }
        if let alerts { services.append(keeping(alerts, telemetry, metrics)) }
        if let push { services.append(push) }
        if let tracing { services.append(tracing) }
        // They are told to stop from the last to the first, and each is waited for: nobody keeps the server from its
        // farewells, and those who wait for news get their answer before it waits for them.
        services += [server, PollEnding(relay: relay)]
        try await serve(services)
        try lostWrite.check()
    }

    /// Commits become notices; where requests are traced, their commits' notices are part of the trace.
    private static func publish(to hub: NoticeHub, _ tracer: Tracer?) -> StoreFolder.CommitListener {
        guard let tracer else { return { home, commit in hub.publish(commit, of: home) } }
        return { home, commit in hub.publish(commit, of: home, traces: tracer.writes(in: home)) }
    }

    private func keeping(_ alerts: AlertPost, _ telemetry: Telemetry, _ metrics: RelayMetrics) -> AlertKeeping {
        let started = TimeSource.system.now().milliseconds
        return AlertKeeping(
            post: alerts,
            interval: settings.alerts.interval,
            look: { [data = settings.data] in
                AlertReading.all(telemetry, metrics, data: data, started: started, now: TimeSource.system.now())
            },
            logger: logger
        )
    }

    private func metricsDoor(_ metrics: RelayMetrics) throws -> MetricsDoor {
        MetricsDoor(metrics, token: try settings.metricsToken(), isOpen: settings.isDev)
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
        do throws(DirectoryError) {
            return try AccountStore(
                folder: settings.data,
                onLostWrite: { [lostWrite] in lostWrite.endProcess() }
            )
        } catch {
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

/// A commit that may or may not be on the disk: only reading the disk anew can tell, so the process ends.
private final class LostWrite: Sendable {
    private let logger: Logger
    private let happened = Mutex(false)

    init(logger: Logger) { self.logger = logger }

    /// Has the relay stop as if it were told to: what has been answered goes out, and no write is taken any more.
    func endProcess() {
        happened.withLock { $0 = true }
        logger.critical(
            "The disk failed to keep a commit. Stopping, so that the next start reads what is really there."
        )
        kill(getpid(), SIGTERM)
    }

    /// Throws after one: whoever watches over the relay starts it again only when it has failed.
    func check() throws {
        guard happened.withLock({ $0 }) else { return }
        throw CommandFailure(
            .failed,
            "The disk failed to keep a commit. Look at the disk, then start the relay again: all that was answered is there."
        )
    }
}
