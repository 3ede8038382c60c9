import Foundation
import Logging
import Records
import RelayAPI
import RelayConsole
import RelayCore
import RelayServer
import RelayStore
import ServiceLifecycle
import Synchronization

/// Takes a snapshot of the metrics every 10 seconds, for the console's charts.
struct TelemetrySampler: Service {
    let telemetry: Telemetry
    let metrics: RelayMetrics
    let hub: NoticeHub

    func run() async throws {
        take()
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: .seconds(10))) != nil { take() }
        }
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

extension AccountStore {
    /// Prints a sign-in link for the first operator if the relay has no operator yet.
    ///
    /// With JSON logs, the link is a log line.
    func announceConsole(at url: String, _ settings: ServeSettings, _ logger: Logger) {
        guard (try? operators().isEmpty) == true, let code = try? makeOperatorLink() else { return }
        let link = ConsoleLink.address(settings.signIn.publicURL ?? url, code)
        switch settings.logFormat {
        case .text: Terminal.sayError("console \(link)  (one use, 15 minutes)")
        case .json: logger.notice("The console has no operator yet.", metadata: ["link": "\(link)"])
        }
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
        if let files = settings.server.tls { found.append(checks.certificate(files, now: Date())) }
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
