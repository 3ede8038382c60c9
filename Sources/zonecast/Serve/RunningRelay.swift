import Foundation
import Logging
import NIOCore
import Records
import RelayAPI
import RelayConsole
import RelayCore
import RelayGateways
import RelayServer
import RelaySystem
import ServiceLifecycle
import UnixSignals

/// The relay of one data folder, from its files to its port.
struct RunningRelay {
    let settings: ServeSettings
    /// What the data folder contains.
    let home: any RelayHome
    let logger: Logger
    let restart: SimulatedCrash
    let failedCommit: FailedCommitHandler
    /// For the relay of `zonecast demo --join`: its container and secrets.
    let guests: DemoGuests.Settings?
    /// The configuration rows that the console displays.
    let rows: [ConsoleFacts.Setting]
    /// This relay among several; `nil` if it is the only one.
    let node: RelayNode?
    /// Called with the relay's URL once it accepts connections.
    let onListening: @Sendable (String) -> Void

    init(
        _ settings: ServeSettings,
        rows: [ConsoleFacts.Setting],
        restart: SimulatedCrash,
        guests: DemoGuests.Settings? = nil,
        onListening: @escaping @Sendable (String) -> Void
    ) {
        self.restart = restart
        self.guests = guests
        self.rows = rows
        self.settings = settings
        home = DataFolder.home(settings.data, creates: true)
        self.onListening = onListening
        logger = Logger(label: "zonecast") { [settings] _ in
            LogLines(format: settings.logFormat, logLevel: settings.logLevel)
        }
        failedCommit = FailedCommitHandler(logger: logger)
        node = RelayNode(home, name: settings.nodeName, logger: logger)
    }

    /// Serves until a stop signal arrives or a command asks for the data folder, then finishes requests in progress.
    ///
    /// Returns whether it was a command.
    func run() async throws -> Bool {
        if let warning = settings.warning { logger.warning("\(warning)") }
        try raiseDescriptorLimit()
        Allocator.keepFreedMemory()
        let coreServices = try coreServices(on: directory())
        let duty = home.duty
        defer {
            duty.resign()
            coreServices.stores.close(patience: .seconds(1))
        }
        coreServices.stores.removeBrokenUploads()
        let push = try PushClient(settings.push, accounts: coreServices.accounts)
        let relay = try relay(on: coreServices, push)
        try relay.beginPushes()
        let sweeps = node?.service(sweeping: coreServices.hub, of: coreServices.stores)
        // Last, so that no client notices whether this relay has left.
        defer { node?.stop() }
        coreServices.metrics.show(relay, coreServices.hub, coreServices.stores)
        coreServices.metrics.showCertificate(settings.server.tls)
        let certificates = try CertificateService(settings, logger: logger)
        let monitoring = try monitoring(on: relay, coreServices)
        let admission = RelayAdmission(relay: relay, hub: coreServices.hub, time: .system)
        try node?.start()
        let server = server(on: coreServices, relay, admission, monitoring.requestMonitor)
        try addEntries(of: server, on: coreServices, relay, monitoring, push)
        // The console's entries retain the relay, and a relay that was asked to pause is followed by another one.
        defer { relay.router.removeAll() }
        coreServices.metrics.show(
            "zonecast_connections",
            "Open HTTP and WebSocket connections.",
            count: server.openConnections
        )
        coreServices.metrics.showCaches([
            ("head", server.headLookups), ("credentials", relay.credentialLookups),
            ("catch_up", coreServices.hub.catchUpLookups),
        ])
        let chosen: [(any Service)?] = [sweeps, push, coreServices.tracing, certificates]
        let services =
            maintenanceServices(on: coreServices, relay, admission, duty)
            + monitoringServices(on: coreServices, monitoring)
            + chosen.compactMap { $0 }
        // The service group stops services in reverse order and waits for each: first waiting polls are answered, then
        // the server says goodbye to its clients, then the rest stops.
        let pause = PauseWatch(of: settings.data)
        let listener: any Service = certificates?.gate(server) ?? server
        try await serve(services + [listener, LongPollShutdown(relay: relay), pause])
        try failedCommit.check()
        return pause.wasRequested
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

    private func directory() throws -> any AccountDirectory {
        do {
            try home.backups.finishRestore()
        } catch {
            throw CommandFailure(.failed, "An interrupted restore cannot be completed. \(error)")
        }
        do {
            let accounts = try home.accounts { [failedCommit] in failedCommit.endProcess() }
            try home.upkeep.finishRemoval(with: accounts)
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

/// The construction of a running relay, in dependency order.
extension RunningRelay {
    // MARK: Stores and their commit listeners

    /// The parts that all others depend on.
    struct CoreServices {
        let accounts: any AccountDirectory
        let metrics: RelayMetrics
        let tracing: Tracing?
        let hub: NoticeHub
        let damage: StoreDamageReporter
        let stores: any ServedStores
    }

    func coreServices(on accounts: any AccountDirectory) throws -> CoreServices {
        let metrics = RelayMetrics(node: node == nil ? nil : settings.nodeName)
        node?.show(in: metrics)
        let tracing = try Tracing(settings.traces, logger: logger)
        Tracing.show(tracing, in: metrics)
        let hub = hub(metrics)
        metrics.showProcess(data: settings.data, version: Zonecast.version)
        let damage = StoreDamageReporter(data: settings.data, upkeep: home.upkeep, logger: logger)
        metrics.show(
            "zonecast_store_damage_total",
            "Requests and daily checks that found a damaged page.",
            kind: .counter
        ) {
            Double(damage.count)
        }
        let stores = stores(hub, metrics, damage, tracing?.tracer)
        if node != nil {
            metrics.show(
                "zonecast_shards",
                "Databases over which the owners are spread; 0 for one.",
                count: {
                    stores.shards.count
                }
            )
            metrics.show(
                "zonecast_shards_down",
                "Databases that cannot be reached; see zonecast doctor.",
                count: {
                    stores.shards.count { $0.failure != nil }
                }
            )
            metrics.show(
                "zonecast_shard_up",
                "Whether a database over which the owners are spread could be reached the last time.",
                by: "shard"
            ) {
                stores.shards.map { ("\($0.number)", $0.failure == nil ? 1 : 0) }
            }
            metrics.show(
                "zonecast_replica_usable",
                "Whether a replica is new enough to answer queries of public databases.",
                by: "replica"
            ) {
                stores.replicas.map { ($0.place, $0.isUsable ? 1 : 0) }
            }
            metrics.show(
                "zonecast_replica_queries_total",
                "Queries of public databases that a replica has answered.",
                kind: .counter,
                by: "replica"
            ) {
                stores.replicas.map { ($0.place, $0.answered) }
            }
        }
        return CoreServices(
            accounts: accounts,
            metrics: metrics,
            tracing: tracing,
            hub: hub,
            damage: damage,
            stores: stores
        )
    }

    private func hub(_ metrics: RelayMetrics) -> NoticeHub {
        let noticeIDs = UUIDSequence(.system)
        return NoticeHub(
            limits: settings.notices,
            relayName: "zonecast \(Zonecast.version)",
            bus: node?.bus ?? InProcessNoticeBus(),
            noticeID: { noticeIDs.next().text },
            timing: .init(
                uptime: TimeSource.system.uptime,
                delivered: { metrics.delivered($0, after: $1) },
                queryDelivered: { metrics.deliveredOfQuery($0, after: $1) }
            )
        )
    }

    private func stores(
        _ hub: NoticeHub,
        _ metrics: RelayMetrics,
        _ damage: StoreDamageReporter,
        _ tracer: Tracer?
    ) -> any ServedStores {
        let shortage = DescriptorShortageLog(logger: logger)
        var options = StoreOptions(draw: { UInt64.random(in: .min ... .max) })
        options.tuning = settings.queries
        options.mostOpen = DescriptorShares(descriptors: Descriptors.limit).stores
        options.events.committed = { [notices = CommitNotices(hub.bus, tracer: tracer)] in notices.publish($1, of: $0) }
        options.events.commitTook = { writes, time in metrics.committed(writes, in: time) }
        options.events.lostWrite = { [failedCommit] in failedCommit.endProcess() }
        options.events.foundDamage = { damage.occurred($0, $1, $2) }
        options.events.lacksDescriptors = { shortage.occurred() }
        options.events.returned = { home, users in
            for user in users { hub.remind(NoticeAddress(store: home, user: user)) }
        }
        return home.stores(options)
    }

    // MARK: Request handling

    func relay(on coreServices: CoreServices, _ push: PushClient?) throws -> Relay {
        Relay(
            authenticator: try Authenticator(
                directory: coreServices.accounts,
                settings: settings.signIn,
                identityTokens: ForeignSignIn(
                    directory: coreServices.accounts,
                    keys: IssuerKeys(source: KeyFetch(), limits: settings.issuerKeys, time: .system),
                    time: .system,
                    skew: settings.issuerClockSkew
                ),
                time: .system,
                random: .system
            ),
            stores: coreServices.stores,
            hub: coreServices.hub,
            limits: settings.limits,
            assets: settings.assets,
            push: push?.service,
            time: .system,
            random: .system,
            onFault: { [logger] id, error in
                // A command has the store: expected, and as many requests as devices send.
                guard error as? RelayError != .storeIsHeld else { return }
                logger.error(
                    "A request failed because of an internal error.",
                    error: error,
                    metadata: ["request": "\(id)"]
                )
            }
        )
    }

    /// Metrics history, alerts, recent requests and the request middleware.
    struct Monitoring {
        let telemetry: Telemetry
        let files: MonitoringFiles
        let alerts: AlertWebhook?
        let requests: RecentRequests
        let requestMonitor: RequestMonitor
    }

    func monitoring(on relay: Relay, _ coreServices: CoreServices) throws -> Monitoring {
        let names = Pseudonyms(relayKey: try coreServices.accounts.relayKey())
        let requests = RecentRequests(names, now: TimeSource.system.now)
        let metrics = coreServices.metrics
        let telemetry = Telemetry()
        let files = MonitoringFiles(data: settings.data, telemetry: telemetry, requests: requests)
        files.load()
        return Monitoring(
            telemetry: telemetry,
            files: files,
            alerts: try AlertWebhook(settings.alerts, relay: nameInAlerts),
            requests: requests,
            requestMonitor: RequestMonitor(
                relay,
                metrics: metrics,
                log: RequestLog(logger, names, of: settings.logsAccess ? .all : .refused),
                recent: settings.servesConsole ? requests : nil,
                tracer: coreServices.tracing?.tracer
            )
        )
    }

    /// All nodes of a cluster have the same URL, so that their alerts also name the node.
    private var nameInAlerts: String {
        let name = settings.signIn.publicURL ?? settings.data
        return node == nil ? name : "\(name) (node \(settings.nodeName))"
    }

    /// Adds the endpoints of the other parts to the relay's table.
    func addEntries(
        of server: RelayServer,
        on coreServices: CoreServices,
        _ relay: Relay,
        _ monitoring: Monitoring,
        _ push: PushClient?
    ) throws {
        let parts = ConsoleParts(
            home: home,
            accounts: coreServices.accounts,
            stores: coreServices.stores,
            relay: relay,
            hub: coreServices.hub,
            metrics: coreServices.metrics,
            telemetry: monitoring.telemetry,
            requests: monitoring.requests,
            facts: settings.consoleFacts(rows),
            time: .system,
            files: WebFiles(folder: settings.webFiles),
            push: push?.service.gateway,
            runChecks: DoctorFindingsCache(settings).findings
        )
        let pages = DemoPages(
            isOpen: settings.servesDemo,
            run: UUID().uuidString,
            files: WebFiles(folder: settings.webFiles),
            restart: settings.isDev ? restart.action : nil,
            guests: guests.flatMap { guests in
                ContainerID(guests.container).map {
                    DemoGuests(
                        guests,
                        in: ContainerEnvironment($0, .development),
                        directory: coreServices.accounts,
                        time: .system,
                        random: .system
                    )
                }
            }
        )
        let metrics = MetricsEndpoint(
            coreServices.metrics,
            token: try settings.metricsToken(),
            isOpen: settings.isDev
        )
        relay.router.add(server.entries + [metrics.entry] + pages.entries + ManagementAPI(parts).entries)
        relay.router.add(Console(settings.servesConsole ? parts : nil).entries)
    }

    func server(
        on coreServices: CoreServices,
        _ relay: Relay,
        _ admission: RelayAdmission,
        _ requestMonitor: RequestMonitor
    ) -> RelayServer {
        RelayServer(
            configuration: settings.server,
            logger: logger,
            notices: NoticeService(hub: coreServices.hub, admission: admission),
            isReady: { [node] in node?.isReady ?? true },
            onListening: { [restart, onListening, settings, logger] address in
                restart.isListening(at: "\(address)")
                let url = "\(settings.server.tls == nil ? "http" : "https")://\(address)"
                onListening(url)
                coreServices.accounts.announce(at: url, settings, logger)
            },
            onShortage: { coreServices.stores.makeRoom() },
            onRefusal: requestMonitor.refused,
            intake: { relay.intake(for: $0) },
            respond: requestMonitor.respond
        )
    }

    // MARK: Background services

    /// Returns the services for maintenance, backups and checks.
    ///
    /// `duty` is for work on what all relays of a database share; each relay keeps its own things in order.
    func maintenanceServices(
        on coreServices: CoreServices,
        _ relay: Relay,
        _ admission: RelayAdmission,
        _ duty: any ScheduledDuty
    ) -> [any Service] {
        [
            RevocationWatch(admission: admission, relay: relay, accounts: coreServices.accounts),
            SignInHousekeeping(relay: relay),
            AssetHousekeeping(
                stores: coreServices.stores,
                duty: duty,
                unusedLifetime: settings.assets.unusedLifetime
            ),
            TombstoneHousekeeping(
                stores: coreServices.stores,
                duty: duty,
                horizon: settings.tombstoneHorizon,
                logger: logger
            ),
            TransferHousekeeping(relay: relay), UploadHousekeeping(relay: relay),
            ScheduledBackups(backups: home.backups, logger: logger),
            DailyStoreCheck(upkeep: home.upkeep, damage: coreServices.damage),
            AlertOverridesCheck(home: home, logger: logger),
            StoreRequestWatch(
                data: settings.data,
                home: home,
                accounts: coreServices.accounts,
                stores: coreServices.stores,
                relay: relay,
                logger: logger
            ),
        ] + (home.shards.map { [MoveHousekeeping(shards: $0, duty: duty, logger: logger)] } ?? [])
    }

    /// Returns the services that collect metrics for the console and for alerts; none if neither is used.
    func monitoringServices(on coreServices: CoreServices, _ monitoring: Monitoring) -> [any Service] {
        guard settings.servesConsole || monitoring.alerts != nil else { return [] }
        let telemetry = TelemetrySampler(
            files: monitoring.files,
            telemetry: monitoring.telemetry,
            metrics: coreServices.metrics,
            hub: coreServices.hub
        )
        guard let alerts = monitoring.alerts else { return [telemetry] }
        return [telemetry, monitor(alerts, monitoring.telemetry, coreServices.metrics)]
    }

    private func monitor(_ webhook: AlertWebhook, _ telemetry: Telemetry, _ metrics: RelayMetrics) -> AlertMonitor {
        let started = TimeSource.system.now().milliseconds
        return AlertMonitor(
            webhook: webhook,
            interval: settings.alerts.interval,
            incidents: home.alertIncidents,
            read: { [home] in
                AlertReading.all(telemetry, metrics, home: home, started: started, now: TimeSource.system.now())
            },
            logger: logger
        )
    }
}
