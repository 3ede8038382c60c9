import ArgumentParser
import Records
import RelayCore
import RelayStore

/// `zonecast container usage`: shows the storage that quotas count, by user.
struct ContainerUsage: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "usage",
        abstract: "Show how much a container stores, in total and by user.",
        discussion: "Bytes as quotas count them (zonecast config reference, quota.…); works while a relay is running."
    )

    @Argument(help: ArgumentHelp("The container.", valueName: "id"))
    var container: ContainerID

    @Option(help: "development or production.")
    var environment: Records.Environment = .development

    @Option(help: ArgumentHelp("How many users to list, largest first.", valueName: "count"))
    var users = 10

    @OptionGroup var options: FolderOptions

    private struct Row: Encodable {
        var userRecordName: String
        var recordBytes: Int64
        var assetBytes: Int64
        var zones: Int
    }

    private struct Answer: Encodable {
        var container: String
        var environment: String
        var users: Int
        var publicRecordBytes: Int64
        var publicAssetBytes: Int64
        var publicBytesSentThisMonth: Int64
        var owners: [Row]
    }

    func validate() throws {
        guard (0...10_000).contains(users) else { throw ValidationError("--users is a number from 0 to 10000.") }
    }

    func run() throws {
        let report = try options.withDirectory { directory in
            try directory.requireContainer(container)
            return try StorageReport(
                folder: options.folder,
                home: ContainerEnvironment(container, environment),
                month: CalendarMonth(of: TimeSource.system.now()),
                naming: users
            )
        }
        let rows = report.owners.map {
            Row(
                userRecordName: $0.user.recordName,
                recordBytes: $0.use.records,
                assetBytes: $0.use.assets,
                zones: $0.zones
            )
        }
        if options.json { return try Terminal.say(json: answer(report, rows)) }
        Terminal.say("public records   \(ByteText.of(report.publicUse.records))")
        Terminal.say("public assets    \(ByteText.of(report.publicUse.assets))")
        Terminal.say("sent this month  \(ByteText.of(report.sent))")
        Terminal.say("users            \(report.users)")
        Terminal.say("")
        Terminal.say(
            table: rows.map {
                [$0.userRecordName, ByteText.of($0.recordBytes), ByteText.of($0.assetBytes), "\($0.zones)"]
            },
            heading: ["USER", "RECORDS", "ASSETS", "ZONES"],
            empty: "No user has stored data here."
        )
    }

    private func answer(_ report: StorageReport, _ rows: [Row]) -> Answer {
        Answer(
            container: container.name,
            environment: environment.rawValue,
            users: report.users,
            publicRecordBytes: report.publicUse.records,
            publicAssetBytes: report.publicUse.assets,
            publicBytesSentThisMonth: report.sent,
            owners: rows
        )
    }
}
