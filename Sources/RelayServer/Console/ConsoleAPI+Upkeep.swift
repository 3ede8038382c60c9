import Foundation
import Records
import RelayCore
import RelayStore

/// Quotas, backups, configuration, audit log.
extension ConsoleAPI {
    static let upkeep: [ConsoleRoute] = [
        .get("quotas") { try QuotaAnswer($0) },
        .get("backups") { BackupsAnswer($0.parts.facts.data) },
        .post("backups/create") { call in
            let data = call.parts.facts.data
            let backup = try Backup.create(of: data, in: BackupsAnswer.folder(of: data), now: call.parts.time.now())
            try call.note("backup.create", backup.name)
            return BackupAnswer(backup)
        },
        .post("backups/verify") { call in
            struct Request: Decodable { var name: String }
            let name = try call.body(Request.self).name
            guard !name.contains("/") else { throw ConsoleRefusal("Name a backup of the list.") }
            let backup = try Backup.named(name, in: BackupsAnswer.folder(of: call.parts.facts.data))
            let faults = backup.verify()
            try call.note("backup.verify", name, detail: faults.isEmpty ? "good" : "\(faults.count) faults")
            return ["faults": faults]
        },
        .post("backups/schedule") { call in
            struct Request: Decodable { var interval: String, keep: Int }
            let ask = try call.body(Request.self)
            let data = call.parts.facts.data
            if ask.interval == "off" {
                BackupSchedule.remove(from: data)
            } else {
                guard let interval = BackupSchedule.Interval(rawValue: ask.interval), (1...1_000).contains(ask.keep)
                else { throw ConsoleRefusal("Choose hourly, daily or weekly, and keep 1 to 1000 backups.") }
                try BackupSchedule(interval, keep: ask.keep, folder: BackupsAnswer.folder(of: data)).save(to: data)
            }
            try call.note("backup.schedule", ask.interval)
            return BackupsAnswer(data)
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
            guard name != call.person.name else { throw ConsoleRefusal("Another operator has to remove you.") }
            try call.parts.accounts.removeOperator(name)
            try call.note("operator.remove", name)
            return Done()
        },
    ]

    private struct OperatorAnswer: Encodable {
        var name: String
        var created: Int64

        init(_ person: Operator) {
            name = person.name
            created = person.created.milliseconds
        }
    }

    private struct QuotaAnswer: Encodable {
        struct Owner: Encodable {
            var user: String
            var bytes: Int64
            var zones: Int
        }

        var users: Int
        var privateLimit: Int64?
        var publicRecords: Int64
        var publicRecordsLimit: Int64?
        var publicAssets: Int64
        var publicAssetsLimit: Int64?
        var sent: Int64
        var sentLimit: Int64?
        var owners: [Owner]

        init(_ call: ConsoleCall) throws {
            let home = try call.home()
            let quota = call.parts.facts.limits.quota
            let report = try StorageReport(
                folder: call.parts.facts.data,
                home: home,
                month: CalendarMonth(of: call.parts.time.now()),
                naming: 100
            )
            users = report.users
            privateLimit = quota.privateBytes
            publicRecords = report.publicUse.records
            publicRecordsLimit = quota.publicRecords?.bytes(forUsers: report.users)
            publicAssets = report.publicUse.assets
            publicAssetsLimit = quota.publicAssets?.bytes(forUsers: report.users)
            sent = report.sent
            sentLimit = quota.publicTransfer?.bytes(forUsers: report.users)
            owners = report.owners.map {
                Owner(user: $0.user.recordName, bytes: $0.use.records + $0.use.assets, zones: $0.zones)
            }
        }
    }

    private struct BackupAnswer: Encodable {
        var name: String
        var made: Int64
        var bytes: Int64
        var zones: Int
        var records: Int
        var assets: Int
        var missingAssets: Int

        init(_ backup: Backup) {
            name = backup.name
            made = backup.manifest.made
            bytes = backup.manifest.files.reduce(0) { $0 + $1.bytes }
            zones = backup.manifest.zones
            records = backup.manifest.records
            assets = backup.manifest.assets
            missingAssets = backup.manifest.missingAssets
        }
    }

    private struct BackupsAnswer: Encodable {
        var folder: String
        var interval: String?
        var keep: Int?
        var backups: [BackupAnswer]

        init(_ data: String) {
            let schedule = BackupSchedule(of: data)
            folder = Self.folder(of: data)
            interval = schedule?.interval.rawValue
            keep = schedule?.keep
            backups = Backup.all(in: folder).map { BackupAnswer($0) }.reversed()
        }

        static func folder(of data: String) -> String {
            BackupSchedule(of: data)?.folder ?? BackupSchedule.standardFolder(of: data)
        }
    }
}
