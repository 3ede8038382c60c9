import Foundation
import Logging
import Records
import RelayAPI
import RelayConsole
import RelayCore
import RelayServer
import RelaySystem
import ServiceLifecycle
import Synchronization

/// Keeps the console's charts and request log across restarts, in two files of the data folder of at most a few megabytes.
struct MonitoringFiles: Sendable {
    static let names = ["telemetry.json", "requests.json"]

    let data: String
    let telemetry: Telemetry
    let requests: RecentRequests

    private var paths: [String] { Self.names.map { "\(data)/\($0)" } }

    func load() {
        if let saved = FileManager.default.contents(atPath: paths[0]) { telemetry.load(saved) }
        if let saved = FileManager.default.contents(atPath: paths[1]) { requests.load(saved) }
    }

    /// Replaces the files.
    ///
    /// A data folder that takes no writes keeps the old ones.
    func save() {
        for (path, saved) in zip(paths, [telemetry.saved, requests.saved]) {
            guard let saved, (try? saved.write(to: URL(fileURLWithPath: path), options: .atomic)) != nil else {
                continue
            }
            chmod(path, 0o600)
        }
    }
}

/// Takes a snapshot of the metrics every 10 seconds, for the console's charts, and saves the history every 5 minutes.
struct TelemetrySampler: Service {
    private static let pointsPerSave = 30

    let files: MonitoringFiles
    let telemetry: Telemetry
    let metrics: RelayMetrics
    let hub: NoticeHub

    func run() async throws {
        take()
        await cancelWhenGracefulShutdown {
            var points = 0
            while (try? await Task.sleep(for: .seconds(10))) != nil {
                take()
                points += 1
                guard points.isMultiple(of: Self.pointsPerSave) else { continue }
                try? await BackgroundQueue.run(.utility) { files.save() }
            }
        }
        take()
        files.save()
    }

    private func take() {
        telemetry.take(
            Telemetry.Point(
                at: TimeSource.system.now(),
                reading: metrics.reading,
                connections: hub.connectionCount,
                notices: hub.noticeCounts,
                storeBytes: metrics.gauge("zonecast_store_bytes") ?? 0
            )
        )
    }
}

extension ServeSettings {
    /// Returns the facts about the relay that the console displays.
    func consoleFacts(_ rows: [ConsoleFacts.Setting]) -> ConsoleFacts {
        ConsoleFacts(
            version: Zonecast.version,
            isDev: isDev,
            isSecure: signIn.publicURL?.hasPrefix("https://") ?? signIn.endsTLS,
            publicURL: signIn.publicURL,
            data: data,
            started: TimeSource.system.now().milliseconds,
            limits: limits,
            unusedAssetLifetime: assets.unusedLifetime,
            settings: rows,
            pushServices: push.services
        )
    }
}

extension ConfigurationReading {
    /// Every key with its value and origin, for the console's configuration page.
    ///
    /// Values of secret keys are left out; most other secrets are in files of which the keys hold only the path.
    var consoleRows: [ConsoleFacts.Setting] {
        ConfigurationKeys.all.map { key in
            let origin = origins[key.name] ?? .standard
            return ConsoleFacts.Setting(
                key: key.name,
                value: key.isSecret && origin != .standard ? nil : key.read(settings),
                unit: key.unit,
                standard: key.read(ServeSettings()),
                origin: origin.words,
                meaning: key.meaning
            )
        }
    }
}

extension AccountDirectory {
    /// Prints where the data, console and demo are, and how to stop; with JSON logs only the link for the first operator.
    func announce(at url: String, _ settings: ServeSettings, _ logger: Logger) {
        let base = settings.signIn.publicURL ?? url
        let link = settings.servesConsole ? firstOperatorLink(at: base) : nil
        guard settings.logFormat == .text else {
            link.map { logger.notice("The console has no operator yet.", metadata: ["link": "\($0)"]) }
            return
        }
        if let database = DataFolder.database { Terminal.sayError("store   \(database)") }
        Terminal.sayError("data    \(URL(fileURLWithPath: settings.data).standardizedFileURL.path)")
        if settings.servesConsole {
            Terminal.sayError("console \(link.map { "\($0)  (one use, 15 minutes)" } ?? "\(base)/console/")")
        }
        if settings.servesDemo { Terminal.sayError("demo    \(base)/demo/") }
        if isatty(STDERR_FILENO) == 1 { Terminal.sayError("stop    Ctrl-C") }
    }

    /// Returns a sign-in link if the relay has no operator yet.
    private func firstOperatorLink(at url: String) -> String? {
        guard (try? operators().isEmpty) == true, let code = try? makeOperatorLink() else { return nil }
        return ConsoleLink.address(url, code)
    }
}

/// The doctor's findings about the data folder, for the console's start page.
///
/// Cached for 60 seconds, since the checks write and flush a file.
final class DoctorFindingsCache: Sendable {
    private let settings: ServeSettings
    private let last = Mutex<(findings: [ConsoleParts.Finding], at: Duration)?>(nil)

    init(_ settings: ServeSettings) { self.settings = settings }

    @Sendable func findings() -> [ConsoleParts.Finding] {
        let now = TimeSource.system.uptime()
        if let known = last.withLock({ $0 }), now - known.at < .seconds(60) { return known.findings }
        let checks = FolderChecks(folder: settings.data, isThorough: false)
        var found = [checks.storage()]
        if let certificate = checks.certificate(of: settings, now: Date()) { found.append(certificate) }
        found += [checks.backup(now: Date()), checks.push(settings.push)] + [checks.alerts()].compactMap { $0 }
        let files = OpenFiles(limit: Descriptors.limit, count: Descriptors.count ?? Descriptors.limit)
        found.append(files.finding(connections: settings.server.limits.connections, stores: checks.storeCount))
        let findings = found.map {
            ConsoleParts.Finding(
                check: $0.check,
                isProblem: $0.grade == .problem,
                isAdvice: $0.grade == .advice,
                found: $0.found,
                next: $0.next
            )
        }
        last.withLock { $0 = (findings, now) }
        return findings
    }
}
