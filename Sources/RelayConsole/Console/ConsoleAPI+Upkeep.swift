import Foundation
import Records
import RelayCore
import RelayServer
import RelayStore

/// Backups, configuration and audit log.
extension ConsoleAPI {
    static let upkeep: [ConsoleRoute] = [
        .get("backups") { BackupsAnswer($0.parts.facts.data, at: $0.parts.time.now()) },
        .post("backups/create") { call in
            let (data, now) = (call.parts.facts.data, call.parts.time.now())
            // The audit entry is written even if the client no longer waits for the response.
            return try await OwnQueue.run(.utility) {
                let backup = try Backup.create(of: data, in: BackupsAnswer.folder(of: data), now: now)
                try call.note("backup.create", backup.name)
                return BackupAnswer(backup)
            }
        },
        .post("backups/verify") { call in
            struct Request: Decodable { var name: String }
            let name = try call.body(Request.self).name
            let (backup, now) = (try backup(name, call.parts), call.parts.time.now())
            return try await OwnQueue.run(.utility) {
                let faults = backup.verify(now: now)
                try call.note("backup.verify", name, detail: faults.isEmpty ? "good" : "\(faults.count) faults")
                return ["faults": faults]
            }
        },
        .post("backups/schedule") { call in
            struct Request: Decodable { var interval: String, keep: Int }
            let ask = try call.body(Request.self)
            let data = call.parts.facts.data
            if ask.interval == "off" {
                BackupSchedule.remove(from: data)
            } else {
                guard let interval = BackupSchedule.Interval(rawValue: ask.interval),
                    BackupSchedule.keepRange.contains(ask.keep)
                else { throw ConsoleRefusal("Choose hourly, daily or weekly, and keep 1 to 1000 backups.") }
                try BackupSchedule(interval, keep: ask.keep, folder: BackupsAnswer.folder(of: data)).save(to: data)
            }
            try call.note("backup.schedule", ask.interval)
            return BackupsAnswer(data, at: call.parts.time.now())
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
        let folder = BackupsAnswer.folder(of: parts.facts.data)
        guard let backup = Backup.all(in: folder).first(where: { $0.name == name }) else {
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

        init(_ backup: Backup) {
            name = backup.name
            made = backup.manifest.made
            bytes = backup.bytes
            zones = backup.manifest.zones
            records = backup.manifest.records
            assets = backup.manifest.assets
            missingAssets = backup.manifest.lackedAssets
            let verdict = backup.verdict
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

        init(_ data: String, at now: Timestamp) {
            let schedule = BackupSchedule(of: data)
            folder = Self.folder(of: data)
            interval = schedule?.interval.rawValue
            keep = schedule?.keep
            backups = Backup.all(in: folder, at: now).map { BackupAnswer($0) }.reversed()
            next = schedule.flatMap { schedule in backups.first.map { $0.made + schedule.interval.milliseconds } }
        }

        static func folder(of data: String) -> String {
            BackupSchedule(of: data)?.folder ?? BackupSchedule.standardFolder(of: data)
        }
    }
}
