import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayServer

/// The API of the console's pages, below `/console/api/`.
enum ConsoleAPI {
    static let routes: [ConsoleRoute] =
        overview + wire + zones + changes + schema + people + acting + keys + devices + pushes + sharing + assets
        + telemetry
        + quotas + upkeep

    /// Wire operations on the public database as an operator, such as `wire/records/query`.
    static let wire: [ConsoleRoute] = [
        ConsoleRoute(method: .post, name: "wire/") { call in
            let home = try call.home()
            let operation = call.request.path.components(after: "/console/api/wire/")
            let changes = operation == "records/modify"
            if changes { try call.confirmInProduction(home) }
            var request = APIRequest(
                method: .post,
                path: "/database/1/\(home.container.name)/\(home.environment.rawValue)/public/\(operation)",
                headers: call.request.headers,
                body: call.request.body,
                remoteAddress: call.request.remoteAddress
            )
            request.headers[.origin] = nil
            let response = await call.parts.relay.respond(to: request, as: call.person)
            if changes, response.status == .ok {
                try call.note("records.modify", call["subject"].map { String($0.prefix(200)) } ?? "records", in: home)
            }
            return .raw(response)
        }
    ]
}

extension String {
    /// Returns the text after the first occurrence of `start`.
    func components(after start: String) -> String {
        firstRange(of: start).map { String(self[$0.upperBound...]) } ?? ""
    }
}

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
        /// The display name of the container, if it has one.
        var title: String?
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
            title = try parts.accounts.title(of: home.container)
            started = parts.facts.started
            gauges = parts.metrics.gaugeValues()
            connections = parts.hub.connectionCount
            devices = parts.hub.devices(in: home, limit: 0).count
            totals = TotalsAnswer(
                try parts.stores.survey(home) { survey throws(RelayError) in
                    try survey.totals()
                } ?? .init()
            )
            lastHour = TelemetrySummary.sum(parts.telemetry.lastHour())
            let schedule = parts.home.backups.knownSchedule
            let all = parts.home.backups.all(in: parts.home.backups.currentFolder, at: parts.time.now())
            backups = Backups(
                count: all.count,
                latest: all.last?.manifest.made,
                schedule: schedule?.interval.rawValue
            )
            let schemas = parts.home.schemas(of: home.container)
            let development = try schemas.schema(of: .development)
            schemaChanges = try schemas.promoting(applies: false).difference.changes.count
            audit = try parts.accounts.auditEntries(limit: 6).map { AuditAnswer($0) }
            problems = []
            findings = parts.runChecks?() ?? []
            steps = []
            steps = try steps(call, home, hasTypes: development.types.count > 1)
            problems = problems(at: parts.time.now(), schedule)
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
                Step(
                    isDone: backups.schedule != nil || call.parts.home.backups.areElsewhere,
                    text: "Set up automatic backups",
                    page: "backups"
                ),
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

        init(_ totals: StoreTotals) {
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

/// The relay's recent metrics and request log.
extension ConsoleAPI {
    static let telemetry: [ConsoleRoute] = [
        .get("telemetry") { call in
            let day = call.parts.telemetry.lastDay()
            guard call["period"] != "day" else { return TelemetrySummary(day) }
            let end = call.parts.time.now() + .seconds(-3_600)
            let before = day.filter { $0.at <= end && $0.at >= end + .seconds(-3_600) }
            return TelemetrySummary(call.parts.telemetry.lastHour(), before: before)
        },
        .get("logs") { call in
            let operation = call["operation"]
            let user = call["user"]
            let wantsErrors = call["errors"] == "1"
            let container = call["container"]
            let environment = call["environment"]
            let all = call["everywhere"] == "1"
            let lines = call.parts.requests.look(
                after: call.number("after", in: 0...Int.max, else: 0),
                limit: call.number("limit", in: 1...500, else: 200)
            ) { line in
                (operation == nil || line.operation == operation) && (!wantsErrors || line.status >= 400)
                    && (user == nil || line.user == user)
                    && (all || (line.container == container && line.environment == environment))
            }
            return ["lines": lines]
        },
    ]
}

/// Backups, configuration and audit log.
extension ConsoleAPI {
    static let upkeep: [ConsoleRoute] = [
        .get("backups") { BackupsAnswer($0.parts.home.backups, at: $0.parts.time.now()) },
        .post("backups/create") { call in
            let (backups, now) = (call.parts.home.backups, call.parts.time.now())
            // The audit entry is written even if the client no longer waits for the response.
            return try await BackgroundQueue.run(.utility) {
                let backup = try backups.create(in: backups.currentFolder, now: now) { _ in }
                try call.note("backup.create", backup.name)
                return BackupAnswer(backup, in: backups)
            }
        },
        .post("backups/verify") { call in
            struct Request: Decodable { var name: String }
            let name = try call.body(Request.self).name
            let (backup, now) = (try backup(name, call.parts), call.parts.time.now())
            let backups = call.parts.home.backups
            return try await BackgroundQueue.run(.utility) {
                let faults = backups.verify(backup, now: now) { _ in }
                try call.note("backup.verify", name, detail: faults.isEmpty ? "good" : "\(faults.count) faults")
                return ["faults": faults]
            }
        },
        .post("backups/schedule") { call in
            struct Request: Decodable { var interval: String, keep: Int }
            let ask = try call.body(Request.self)
            let backups = call.parts.home.backups
            if ask.interval == "off" {
                try backups.setSchedule(nil)
            } else {
                guard let interval = BackupSchedule.Interval(rawValue: ask.interval),
                    BackupSchedule.keepRange.contains(ask.keep)
                else { throw ConsoleRefusal("Choose hourly, daily or weekly, and keep 1 to 1000 backups.") }
                let remote = backups.knownSchedule?.remote
                try backups.setSchedule(
                    BackupSchedule(interval, keep: ask.keep, folder: backups.currentFolder, remote: remote)
                )
            }
            try call.note("backup.schedule", ask.interval)
            return BackupsAnswer(backups, at: call.parts.time.now())
        },
        .get("configuration") { call in ["settings": call.parts.facts.settings] },
        .get("audit") { call in
            let entries = try call.parts.accounts.auditEntries(
                before: call["before"].flatMap { Int64($0) },
                with: call["words"] ?? "",
                limit: call.number("limit", in: 1...1_000, else: 100)
            )
            return ["entries": entries.map { AuditAnswer($0) }]
        },
        .post("explorer/act") { call in
            struct Request: Decodable { var user: String, operation: String }
            let ask = try call.body(Request.self)
            // The text of a token is never logged.
            let isDev = ask.user.hasPrefix("dev-") && call.parts.facts.isDev
            let home = try call.home()
            let subject = isDev ? String(ask.user.prefix(100)) : "by a token"
            try call.note("explorer.act-as-user", subject, in: home, detail: String(ask.operation.prefix(100)))
            return Done()
        },
        .get("operators") { call in
            ["operators": try call.parts.accounts.operators().map { OperatorAnswer($0) }]
        },
        .post("operators/link") { call in
            let code = try call.parts.accounts.makeOperatorLink()
            try call.note("operator.link", "new operator")
            return ["code": code]
        },
        .post("operators/remove") { call in
            struct Request: Decodable { var name: String }
            let name = try call.body(Request.self).name
            guard name != call.person.name else {
                throw ConsoleRefusal("You cannot delete yourself. Another operator must do it.")
            }
            try call.parts.accounts.removeOperator(name)
            try call.note("operator.remove", name)
            return Done()
        },
    ]

    /// Returns the backup with this name in the list.
    static func backup(_ name: String, _ parts: ConsoleParts) throws -> Backup {
        guard !name.contains("/") else { throw ConsoleRefusal("Choose a backup from the list.") }
        let backups = parts.home.backups
        guard let backup = backups.all(in: backups.currentFolder).first(where: { $0.name == name }) else {
            throw BackupFailure.missing(name)
        }
        return backup
    }

    private struct OperatorAnswer: Encodable {
        var name: String
        var created: Int64

        init(_ person: Operator) {
            name = person.name
            created = person.created.milliseconds
        }
    }

    private struct BackupAnswer: Encodable, Sendable {
        var name: String
        var made: Int64
        var bytes: Int64
        var zones: Int
        var records: Int
        var assets: Int
        /// Includes damaged assets.
        var missingAssets: Int
        /// When the backup was last verified, and the number of faults; both `nil` if it was not.
        var verified: Int64?
        var faults: Int?

        init(_ backup: Backup, in backups: any Backups) {
            name = backup.name
            made = backup.manifest.made
            bytes = backup.bytes
            zones = backup.manifest.zones
            records = backup.manifest.records
            assets = backup.manifest.assets
            missingAssets = backup.manifest.lackedAssets
            let verdict = backups.verdict(on: backup)
            verified = verdict?.at
            faults = verdict?.faults
        }
    }

    private struct BackupsAnswer: Encodable {
        var folder: String
        var interval: String?
        var keep: Int?
        /// When the next scheduled backup is due.
        var next: Int64?
        var backups: [BackupAnswer]

        init(_ store: any Backups, at now: Timestamp) {
            let schedule = store.knownSchedule
            folder = store.currentFolder
            interval = schedule?.interval.rawValue
            keep = schedule?.keep
            backups = store.all(in: folder, at: now).map { BackupAnswer($0, in: store) }.reversed()
            next = schedule.flatMap { schedule in backups.first.map { $0.made + schedule.interval.milliseconds } }
        }
    }
}

/// Storage use and quotas, rates, and the callers that exceed them.
extension ConsoleAPI {
    static let quotas: [ConsoleRoute] = [
        .get("quotas") { try QuotaAnswer($0) },
        .post("quotas/container") { call in
            let home = try call.home()
            let quota = try call.body(QuotaChange.self).quota
            try call.confirmInProduction(home)
            try call.parts.accounts.setQuota(quota, of: home)
            try call.note("container.quota", home.container.name, in: home, detail: quota.words)
            return Done()
        },
        .get("rates") { RatesAnswer($0) },
    ]

    /// A missing number means the configured quota; 0 means no limit.
    private struct QuotaChange: Decodable {
        var privateBytes: Int64?
        var publicRecords: Int64?
        var publicAssets: Int64?
        var publicTransfer: Int64?

        var quota: ContainerQuota {
            get throws {
                let sizes = [privateBytes, publicRecords, publicAssets, publicTransfer]
                guard sizes.allSatisfy({ $0 ?? 0 >= 0 }) else {
                    throw ConsoleRefusal("A quota must be a number of bytes or empty.")
                }
                let bounds = sizes.map { $0 == 0 ? .max : $0 }
                return ContainerQuota(
                    privateBytes: bounds[0],
                    publicRecords: bounds[1],
                    publicAssets: bounds[2],
                    publicTransfer: bounds[3]
                )
            }
        }
    }

    private struct QuotaAnswer: Encodable {
        struct Owner: Encodable {
            var user: String
            /// The account's number; `nil` if the account is deleted.
            var id: Int64?
            /// The name used to sign in.
            var name: String?
            var bytes: Int64
            var zones: Int
            /// `nil` for no limit.
            var limit: Int64?
            /// The user's override; `nil` for none; 0 for no limit.
            var own: Int64?
        }

        /// The use and quota of one kind of bytes.
        struct Meter: Encodable {
            /// `nil` if the quota is per user.
            var used: Int64?
            /// `nil` for no limit.
            var limit: Int64?
            /// The container's override; `nil` for the configured quota; 0 for no limit.
            var own: Int64?
            var configured: Int64?
        }

        var users: Int
        var privateBytes: Meter
        var publicRecords: Meter
        var publicAssets: Meter
        var publicTransfer: Meter
        var owners: [Owner]

        init(_ call: ConsoleCall) throws {
            let home = try call.home()
            let configured = call.parts.facts.limits.quota
            let own = try call.parts.accounts.quota(of: home)
            let quota = configured.replaced(by: own)
            let report = try call.parts.home.upkeep.report(
                on: home,
                month: CalendarMonth(of: call.parts.time.now()),
                naming: 100
            )
            let count = report.users
            func meter(
                _ used: Int64,
                _ part: KeyPath<QuotaSettings, QuotaSettings.Growing?>,
                _ own: Int64?
            ) -> Meter {
                Meter(
                    used: used,
                    limit: quota[keyPath: part]?.bytes(forUsers: count),
                    own: own?.orZeroForAny,
                    configured: configured[keyPath: part]?.bytes(forUsers: count)
                )
            }
            users = count
            privateBytes = Meter(
                limit: quota.privateBytes,
                own: own.privateBytes?.orZeroForAny,
                configured: configured.privateBytes
            )
            publicRecords = meter(report.publicUse.records, \.publicRecords, own.publicRecords)
            publicAssets = meter(report.publicUse.assets, \.publicAssets, own.publicAssets)
            publicTransfer = meter(report.sent, \.publicTransfer, own.publicTransfer)
            let single = try call.parts.accounts.ownQuotas().users[home] ?? [:]
            owners = try report.owners.map { owner in
                let account = try call.parts.accounts.profile(of: owner.user, in: home)?.account
                let limit = single[owner.user] ?? quota.privateBytes
                return Owner(
                    user: owner.user.recordName,
                    id: account?.id.number,
                    name: account.map { AccountAnswer($0).name },
                    bytes: owner.use.total,
                    zones: owner.zones,
                    limit: limit == .max ? nil : limit,
                    own: single[owner.user]?.orZeroForAny
                )
            }
        }
    }

    private struct RatesAnswer: Encodable {
        struct Setting: Encodable {
            var key: String
            var value: String
            var unit: String
        }

        struct Row: Encodable {
            var id: String
            var meaning: String
            /// The settings of the rate and their current values.
            var settings: [Setting]
            /// The number of refused requests in the last 24 hours.
            var refused: Int
        }

        struct Hit: Encodable {
            var rate: String
            /// `user`, `address`, `account` or `anyone`.
            var kind: String
            /// A pseudonym as in logs; for `anyone` the container's name.
            var who: String
            var count: Int
            /// Seconds since the last refused request.
            var seconds: Int
        }

        var rates: [Row]
        var hits: [Hit]

        init(_ call: ConsoleCall) {
            let now = call.parts.time.uptime()
            let found = call.parts.relay.rateHits()
            let values = Dictionary(call.parts.facts.settings.map { ($0.key, $0) }) { first, _ in first }
            rates = RateName.allCases.map { rate in
                Row(
                    id: rate.rawValue,
                    meaning: rate.meaning,
                    settings: rate.keys.map {
                        Setting(key: $0, value: values[$0]?.value ?? "", unit: values[$0]?.unit ?? "")
                    },
                    refused: found.reduce(0) { $0 + ($1.rate == rate ? $1.count : 0) }
                )
            }
            hits = found.prefix(200).map { hit in
                Hit(
                    rate: hit.rate.rawValue,
                    kind: hit.subject.kind,
                    who: call.parts.requests.names.of(hit.subject) ?? hit.subject.container ?? "",
                    count: hit.count,
                    seconds: max(0, Int((now - hit.last).inSeconds))
                )
            }
        }
    }
}

extension RateName {
    fileprivate var meaning: String {
        switch self {
        case .requests: "Requests of one user, or of one address without sign-in"
        case .publicRequests: "Requests to a container's public database: the shared rate and each user's own"
        case .failedCredentials: "Invalid tokens or signatures from one address, per minute"
        case .failedSignIns: "Wrong passwords from one address, per minute"
        case .failedSignInsOfAccount: "Wrong passwords for one account, per hour"
        }
    }

    fileprivate var keys: [String] {
        switch self {
        case .requests: ["limits.requests-per-second", "limits.request-burst"]
        case .publicRequests: ["limits.public-requests-per-second", "limits.public-requests-per-user"]
        case .failedCredentials: ["limits.failed-credentials-per-minute"]
        case .failedSignIns: ["limits.failed-sign-ins-per-minute"]
        case .failedSignInsOfAccount: ["limits.failed-sign-ins-per-account"]
        }
    }
}

extension RateSubject {
    fileprivate var kind: String {
        switch self {
        case .user: "user"
        case .address: "address"
        case .account: "account"
        case .anyone: "anyone"
        }
    }

    fileprivate var container: String? {
        if case .anyone(let container) = self { container.name } else { nil }
    }
}

extension Int64 {
    /// The value in responses, where 0 means no limit.
    fileprivate var orZeroForAny: Int64 { self == .max ? 0 : self }
}
