import Foundation
import Records
import RelayAPI
import RelayCore
import RelayServer
import RelayStore

/// The overview page: the state of the relay and the next steps.
extension ConsoleAPI {
    static let overview: [ConsoleRoute] = [.get("overview") { try Overview($0) }]

    private struct Overview: Encodable {
        struct Step: Encodable {
            var isDone: Bool
            var text: String
            /// The page on which the step is done.
            var page: String
        }

        struct Backups: Encodable {
            var count: Int
            var latest: Int64?
            var schedule: String?
        }

        var version: String
        var containers: [String]
        var started: Int64
        var gauges: [String: Int64]
        var connections: Int
        var devices: Int
        var totals: TotalsAnswer
        var lastHour: TelemetrySummary.Sum
        var backups: Backups
        var steps: [Step]
        var schemaChanges: Int
        var audit: [AuditAnswer]
        /// Problems that require an operator's attention, each as a sentence.
        var problems: [String]
        var findings: [ConsoleParts.Finding]

        init(_ call: ConsoleCall) throws {
            let home = try call.home()
            let parts = call.parts
            version = parts.facts.version
            containers = try parts.accounts.containers().map(\.container.name)
            started = parts.facts.started
            gauges = parts.metrics.gaugeValues()
            connections = parts.hub.connectionCount
            devices = parts.hub.devices(in: home, limit: 0).count
            totals = TotalsAnswer(
                try parts.stores.existingStore(of: home)?.survey { survey throws(RelayError) in
                    try survey.totals()
                } ?? .init()
            )
            lastHour = TelemetrySummary.sum(parts.telemetry.lastHour())
            let folder = BackupSchedule(of: parts.facts.data)
            let place = folder?.folder ?? BackupSchedule.standardFolder(of: parts.facts.data)
            let all = Backup.all(in: place, at: parts.time.now())
            backups = Backups(
                count: all.count,
                latest: all.last?.manifest.made,
                schedule: folder?.interval.rawValue
            )
            let schemas = SchemaFolder(folder: parts.facts.data, container: home.container)
            let development = try schemas.schema(of: .development)
            schemaChanges = try schemas.promoting(applies: false).difference.changes.count
            audit = try parts.accounts.auditEntries(limit: 6).map { AuditAnswer($0) }
            problems = []
            findings = parts.look?() ?? []
            steps = []
            steps = try steps(call, home, hasTypes: development.types.count > 1)
            problems = problems(at: parts.time.now(), folder)
        }

        private func problems(at now: Timestamp, _ schedule: BackupSchedule?) -> [String] {
            var found: [String] = []
            // The doctor reports the same, if it is available.
            if findings.isEmpty, let free = gauges["zonecast_disk_free_bytes"], free < 1_000_000_000 {
                found.append("Less than 1 GB is free on the data folder's disk: writes fail when it is full.")
            }
            if findings.isEmpty, let schedule,
                now.milliseconds - (backups.latest ?? started) > 2 * schedule.interval.milliseconds
            {
                found.append("The \(schedule.interval.rawValue) backup is late; see the log.")
            }
            if lastHour.requests > 100, lastHour.errors * 10 > lastHour.requests {
                found.append("More than a tenth of the last hour's requests were refused.")
            }
            return found
        }

        private func steps(_ call: ConsoleCall, _ home: ContainerEnvironment, hasTypes: Bool) throws -> [Step] {
            let facts = call.parts.facts
            let hasToken = try call.parts.accounts.apiTokens().contains { $0.home == home && $0.revoked == nil }
            return [
                Step(isDone: hasToken, text: "Create an API token for your app", page: "tokens"),
                Step(isDone: hasTypes, text: "Save a first record, or import a schema", page: "schema"),
                Step(isDone: schemaChanges == 0 && hasTypes, text: "Promote the schema to production", page: "schema"),
                Step(isDone: backups.schedule != nil, text: "Set up automatic backups", page: "backups"),
                Step(
                    isDone: facts.publicURL != nil,
                    text: "Set public-url, where browsers reach the relay",
                    page: "configuration"
                ),
            ]
        }
    }

    struct TotalsAnswer: Encodable {
        var users: Int
        var zones: Int
        var recordBytes: Int64
        var assetBytes: Int64
        var publicRecordBytes: Int64
        var publicAssetBytes: Int64
        var shares: Int
        var subscriptions: Int

        init(_ totals: StoreSurvey.Totals) {
            users = totals.users
            zones = totals.zones
            recordBytes = totals.use.records
            assetBytes = totals.use.assets
            publicRecordBytes = totals.publicUse.records
            publicAssetBytes = totals.publicUse.assets
            shares = totals.shares
            subscriptions = totals.subscriptions
        }
    }

    struct AuditAnswer: Encodable {
        var number: Int64
        var at: Int64
        var actor: String
        var action: String
        var container: String?
        var environment: String?
        var subject: String
        var detail: String

        init(_ entry: AuditEntry) {
            number = entry.number
            at = entry.at.milliseconds
            actor = entry.actor
            action = entry.action
            container = entry.home?.container.name
            environment = entry.home?.environment.rawValue
            subject = entry.subject
            detail = entry.detail
        }
    }
}
