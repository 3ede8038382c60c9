import ArgumentParser
import Foundation
import Records
import RelayCore
import RelaySystem

/// `zonecast container`: manages containers, each with both environments.
struct ContainerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "container",
        abstract: "Create, list, show, edit and delete containers, and set their quotas.",
        subcommands: [
            Create.self, List.self, ContainerShow.self, ContainerEdit.self, ContainerDelete.self,
            ContainerQuotaCommand.self,
        ]
    )

    struct Create: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Create a container, with both its environments.")

        @Argument(
            help: ArgumentHelp("Such as iCloud.org.example.notes: letters, digits, '.', '-' and '_'.", valueName: "id")
        )
        var container: ContainerID

        @Option(help: ArgumentHelp("The name that sign-in and share pages show.", valueName: "text"))
        var displayName: String?

        @OptionGroup var options: FolderOptions

        func run() throws {
            try options.change("container.create", container.name, creates: true) {
                try $0.addContainer(container)
                if let displayName { try $0.setTitle(displayName, of: container) }
            }
            if options.json {
                try Terminal.say(json: ["container": container.name])
            } else {
                Terminal.tell("created  \(container), development and production")
                Terminal.tell(
                    "next     zonecast token create --container \(container) \(DataFolder.option(options.folder))"
                )
            }
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the containers.")

        @OptionGroup var options: FolderOptions

        private struct Row: Encodable {
            var container: String
            var displayName: String?
            var created: String
        }

        func run() throws {
            let rows = try options.withDirectory { store in
                try store.containers().map {
                    Row(
                        container: $0.container.name,
                        displayName: try store.title(of: $0.container),
                        created: $0.created.iso8601
                    )
                }
            }
            try options.list(
                rows,
                as: "containers",
                heading: ["CONTAINER", "CREATED", "DISPLAY NAME"],
                empty: "There are no containers yet. Create one: zonecast container create ID"
            ) { [$0.container, $0.created, $0.displayName ?? ""] }
        }
    }
}

/// `zonecast container show`: shows the storage that quotas count, by user.
struct ContainerShow: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show how much a container stores, in total and by user.",
        discussion: "Bytes as quotas count them (zonecast config reference, quota.…); works while a relay is running."
    )

    @Argument(help: ArgumentHelp("The container.", valueName: "id"))
    var container: ContainerID

    @Option(name: .environment, help: "development or production.")
    var environment: Records.Environment = SDKVariables.environment ?? .development

    @Option(name: .count, help: ArgumentHelp("How many users to list, largest first.", valueName: "count"))
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
            return try options.home.upkeep.report(
                on: ContainerEnvironment(container, environment),
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

/// `zonecast container quota`: overrides the configured quotas for one container.
struct ContainerQuotaCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quota",
        abstract: "Show or set a container's quotas, which override those of the configuration (quota.…).",
        discussion: """
            Each environment has its own quotas. Without options, shows them. A running relay applies a change within a second; \
            users above the new quota keep their data but cannot store more. These quotas do not grow with the number of users.
            For one user: zonecast user edit EMAIL --quota.
            """
    )

    @Argument(help: ArgumentHelp("The container.", valueName: "id"))
    var container: ContainerID

    @Option(name: .environment, help: "development or production.")
    var environment: Records.Environment = SDKVariables.environment ?? .development

    @Option(
        name: .customLong("private"),
        help: ArgumentHelp(
            "Each user's private database: 500MB, 5GB; 0: no limit; or 'configured'.",
            valueName: "size"
        )
    )
    var ofPrivate: String?

    @Option(help: ArgumentHelp("Records of the public database, in the same form.", valueName: "size"))
    var publicRecords: String?

    @Option(help: ArgumentHelp("Assets of the public database, in the same form.", valueName: "size"))
    var publicAssets: String?

    @Option(help: ArgumentHelp("Bytes sent by the public database per month, in the same form.", valueName: "size"))
    var publicTransfer: String?

    @Flag(help: "Reset all to the configured quotas.")
    var reset = false

    @OptionGroup var options: FolderOptions

    private struct Answer: Encodable {
        var container: String
        var environment: String
        var privateBytes: Int64?
        var publicRecords: Int64?
        var publicAssets: Int64?
        var publicTransfer: Int64?
    }

    private var sizes: [String?] { [ofPrivate, publicRecords, publicAssets, publicTransfer] }

    func validate() throws {
        if reset, sizes.contains(where: { $0 != nil }) { throw ValidationError("Use sizes or --reset, not both.") }
        for text in sizes.compactMap(\.self) where text != "configured" && ByteSize(text) == nil {
            throw ValidationError("'\(text)' is not a size. Write it like 500MB, 5GB or 1000000, or 'configured'.")
        }
    }

    func run() throws {
        let home = ContainerEnvironment(container, environment)
        let old = try options.withDirectory { directory in
            try directory.requireContainer(container)
            return try directory.quota(of: home)
        }
        let new = reset ? ContainerQuota() : changed(old)
        if reset || sizes.contains(where: { $0 != nil }) {
            try options.change("container.quota", container.name, in: home) { try $0.setQuota(new, of: home) }
        }
        if options.json { return try Terminal.say(json: answer(new)) }
        let rows: [(String, Int64?)] = [
            ("private", new.privateBytes), ("public records", new.publicRecords),
            ("public assets", new.publicAssets), ("public transfer", new.publicTransfer),
        ]
        for (name, bytes) in rows {
            let words = bytes.map { $0 == .max ? "no limit" : ByteText.of($0) } ?? "as configured"
            Terminal.say(name.filled(to: 17) + words)
        }
    }

    private func changed(_ old: ContainerQuota) -> ContainerQuota {
        func value(_ text: String?, _ old: Int64?) -> Int64? {
            guard let text else { return old }
            return ByteSize(text).map { $0.bytes == 0 ? .max : $0.bytes }
        }
        return ContainerQuota(
            privateBytes: value(ofPrivate, old.privateBytes),
            publicRecords: value(publicRecords, old.publicRecords),
            publicAssets: value(publicAssets, old.publicAssets),
            publicTransfer: value(publicTransfer, old.publicTransfer)
        )
    }

    /// No limit is written as 0.
    private func answer(_ quota: ContainerQuota) -> Answer {
        func shown(_ bytes: Int64?) -> Int64? { bytes == .max ? 0 : bytes }
        return Answer(
            container: container.name,
            environment: environment.rawValue,
            privateBytes: shown(quota.privateBytes),
            publicRecords: shown(quota.publicRecords),
            publicAssets: shown(quota.publicAssets),
            publicTransfer: shown(quota.publicTransfer)
        )
    }
}

/// `zonecast container delete`: deletes a container with all its data.
struct ContainerDelete: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Delete a container: records, assets and schema of both environments, its tokens and keys.",
        discussion: """
            A running relay refuses requests for this container with TRY_AGAIN_LATER until it is done, and serves all others \
            meanwhile. Only a backup can undo this, so the command creates one first, unless --no-backup is \
            set. Accounts stay, since they belong to the relay.
            """
    )

    @Argument(help: ArgumentHelp("The container.", valueName: "id"))
    var container: ContainerID

    @Flag(help: "Do not ask for confirmation.")
    var yes = false

    @Flag(help: "Do not create a backup first.")
    var noBackup = false

    @OptionGroup var options: FolderOptions

    func run() throws {
        guard try options.withDirectory({ try $0.hasContainer(container) }) else {
            throw CommandFailure(DirectoryError.missing("container \(container)"), folder: options.folder)
        }
        if !yes {
            try Terminal.confirm("This deletes all of \(container).", byTyping: container.name, called: "its name")
        }
        let homes = Records.Environment.allCases.map { ContainerEnvironment(container, $0) }
        // Relays on a database notice a deletion by themselves.
        var hold = DataFolder.database == nil ? try StoreHold(homes, in: options.folder) : nil
        // Also after an error, which leaves the container as it was.
        let deletion = Result { try delete() }
        hold.take()?.end()
        let backup = try deletion.get()
        if options.json { return try Terminal.say(json: ["deleted": container.name, "backup": backup ?? ""]) }
        Terminal.tell("deleted  \(container)")
        if let backup { Terminal.tell("backup   \(backup), for: zonecast backup restore") }
    }

    /// Returns the name of the backup that was created before, if one was wanted.
    private func delete() throws -> String? {
        var backup: String?
        if !noBackup, DataFolder.database == nil {
            let backups = options.home.backups
            backup = try backups.create(in: backups.standardFolder, now: TimeSource.system.now()) { _ in }.name
        }
        try options.change("container.delete", container.name) { accounts in
            do {
                try options.home.upkeep.remove(container, from: accounts)
            } catch {
                try? options.home.upkeep.finishRemoval(with: accounts)
                throw error
            }
        }
        return backup
    }
}
