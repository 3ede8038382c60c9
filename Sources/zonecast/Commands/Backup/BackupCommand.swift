import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayGateways
import RelaySystem

/// `zonecast backup`: backups of a data folder, made while the relay runs.
struct BackupCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Create, verify and restore backups of a data folder.",
        discussion: """
            A backup is a folder with everything: records, assets, accounts, keys and tokens (as hashes). It is created while the \
            relay runs and is consistent. Keep copies away from the machine: a backup on the same disk does not survive the disk. \
            --remote s3://BUCKET/PREFIX copies backups to S3-compatible storage, and lists, verifies and restores the copies there. \
            The keys are in the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and AWS_ENDPOINT_URL for a \
            service other than Amazon's.
            """,
        subcommands: [Create.self, List.self, Verify.self, Restore.self, Schedule.self]
    )
}

/// The options that select the data folder and the backup folder.
struct BackupOptions: ParsableArguments {
    @OptionGroup var folder: FolderOptions

    @Option(
        help: ArgumentHelp("The folder of the backups. (default: backups, in the data folder)", valueName: "dir"),
        completion: .directory
    )
    var backups: String?

    @Option(
        help: ArgumentHelp("Copies of backups in S3-compatible storage: s3://BUCKET/PREFIX.", valueName: "address")
    )
    var remote: String?

    var place: String { backups ?? store.standardFolder }

    /// The backups of the data folder.
    var store: any Backups { folder.home.backups }

    /// The options that name both folders again, for suggested commands.
    var again: String {
        "--data \(folder.folder.shellWord)" + (backups.map { " --backups \($0.shellWord)" } ?? "")
            + (remote.map { " --remote \($0.shellWord)" } ?? "")
    }

    /// The command that creates a backup here.
    private var making: String { "zonecast backup create \(again)" }

    /// Throws if the data is in a database, which makes its own backups; says whether they work.
    func needOwnBackups() throws {
        guard DataFolder.database != nil else { return }
        do throws(BackupFailure) {
            _ = try store.named("latest", in: place, at: TimeSource.system.now())
        } catch {
            let checks = folder.home.upkeep.checks()
            let state = checks.first { $0.check == "backup" } ?? checks.first
            let found = state.map { " Now: \($0.found)." } ?? ""
            throw CommandFailure(.failed, error.description + found)
        }
    }

    /// Throws if the folder contains no relay data.
    func needData() throws {
        guard DataFolder.hasData(in: folder.folder) else {
            throw CommandFailure(.noData(in: folder.folder))
        }
    }

    /// Returns the text for an empty list.
    ///
    /// - Throws: `CommandFailure` if a folder does not exist or is not accessible.
    func none() throws -> String {
        for path in [folder.folder, place] {
            if let refusal = FolderAccess.refusal(path) { throw CommandFailure(.notAllowed, refusal) }
        }
        if let backups {
            guard (try? FileManager.default.contentsOfDirectory(atPath: backups)) != nil else {
                throw CommandFailure(.failed, "There is no folder \(backups). Name the backup folder with --backups.")
            }
        } else if !DataFolder.hasData(in: folder.folder) {
            throw CommandFailure(.noData(in: folder.folder))
        }
        return "There are no backups in \(place) yet. Create one: \(making)"
    }

    /// Returns the named backup; root may read backups that the data folder's owner cannot.
    func backup(named name: String) throws -> Backup {
        if name == "latest", store.all(in: place).isEmpty, store.unusable(in: place).isEmpty {
            throw CommandFailure(.failed, try none())
        }
        let now = TimeSource.system.now()
        let find = {
            // An unusable newest backup is an error; "latest" must not silently mean an older one.
            if name == "latest", let newest = store.newestUnusable(in: place, at: now) {
                let others = "It is the newest. Name another: zonecast backup list \(again)"
                throw CommandFailure(.failed, "\(newest.reason) \(others)")
            }
            return try store.named(name, in: place, at: now)
        }
        return try run { backups == nil && !name.contains("/") ? try find() : try FolderOwner.asCaller(find) }
    }

    /// Reads a backup, as root if only root can.
    static func reading<Value>(_ backup: Backup, _ body: () -> Value) -> Value {
        access(backup.path, R_OK | X_OK) == 0 ? body() : FolderOwner.asCaller(body)
    }

    /// Returns the data folder's backups with the rights to write them; called as the data folder's owner.
    ///
    /// - Throws: `CommandFailure` if the owner may not write there.
    func writableStore() throws -> any Backups {
        guard let backups else { return store }
        if let refusal = FolderOwner.refusal(writingIn: backups) { throw CommandFailure(.notAllowed, refusal) }
        return DataFolder.home(folder.folder, disk: FolderOwner.disk(to: backups, besides: folder.folder)).backups
    }

    /// Runs `body` as the data folder's owner and translates its errors.
    func run<Value>(_ body: () throws -> Value) throws -> Value {
        FolderOwner.become(ownerOf: folder.folder)
        do {
            return try body()
        } catch let failure as BackupFailure {
            throw CommandFailure(failure)
        }
    }

    /// Runs `body` with the storage of `--remote` as the data folder's owner, and translates its errors.
    func runRemote<Value>(_ text: String, _ body: (RemoteBackups) async throws -> Value) async throws -> Value {
        FolderOwner.become(ownerOf: folder.folder)
        do {
            return try await RemoteStorage.use(text, body)
        } catch let failure as BackupFailure {
            throw CommandFailure(failure)
        }
    }

    /// Copies a backup of the storage to a folder and returns it.
    func fetch(_ name: String, from remote: String, into folder: String) async throws -> Backup {
        try await runRemote(remote) { storage in
            let path = try await storage.download(name, into: folder) { step("fetching \($0)") }
            return try store.named(path, in: folder, at: TimeSource.system.now())
        }
    }

    /// Prints progress on a terminal.
    func step(_ words: String) {
        if !folder.json, !Terminal.isQuiet, isatty(STDERR_FILENO) == 1 { Terminal.sayError("  \(words)") }
    }
}

/// A backup as a row of output.
struct BackupRow: Encodable {
    var backup: String
    var made: String
    var bytes: Int64
    var zones: Int
    var records: Int
    var assets: Int
    var missingAssets: Int
    var damagedAssets: Int
    var rescuedAssets: Int
    /// When it was last verified, and the number of faults found.
    var verified: String?
    var faults: Int?

    init(_ backup: Backup, in backups: any Backups) {
        let manifest = backup.manifest
        self.backup = backup.path
        made = Date(timeIntervalSince1970: Double(manifest.made / 1000)).formatted(.iso8601)
        bytes = backup.bytes
        zones = manifest.zones
        records = manifest.records
        assets = manifest.assets
        missingAssets = manifest.missingAssets
        damagedAssets = manifest.damagedAssets ?? 0
        rescuedAssets = manifest.rescuedAssets ?? 0
        let verdict = backups.verdict(on: backup)
        verified = verdict.map { Timestamp(milliseconds: $0.at).iso8601 }
        faults = verdict?.faults
    }

    var cells: [String] {
        [
            made, ByteText.of(bytes), "\(zones)", "\(records)", lacks.isEmpty ? "\(assets)" : "\(assets), \(lacks)",
            verified.map { (faults ?? 0) == 0 ? $0 : "\($0), \((faults ?? 0).of("fault"))" } ?? "no",
            (backup as NSString).lastPathComponent,
        ]
    }

    /// A summary like `18 MB  312 zones  2041 records  17 assets, 0 missing`.
    var summary: String {
        let counts = [ByteText.of(bytes), zones.of("zone"), records.of("record"), assets.of("asset")]
        return counts.joined(separator: "  ") + ", \(lacks.isEmpty ? "0 missing" : lacks)"
    }

    /// The missing and damaged assets.
    private var lacks: String {
        let counts = [(missingAssets, "missing"), (damagedAssets, "damaged")].filter { $0.0 > 0 }
        return counts.map { "\($0.0) \($0.1)" }.joined(separator: ", ")
    }

    /// The problem of the data folder that the backup shows; `nil` if there is none.
    var complaint: String? {
        let see = "To list them and their intact copies: zonecast asset verify --container ID"
        if missingAssets + damagedAssets > 0 {
            return
                "The backup was created, but some assets have no intact copy, neither in the data folder nor in an earlier "
                + "backup: \(lacks). \(see)"
        }
        guard rescuedAssets > 0 else { return nil }
        return
            "The backup is complete, but \(rescuedAssets.of("asset")) of the data folder \(rescuedAssets == 1 ? "is" : "are") "
            + "missing or damaged and was taken from an earlier backup. \(see)"
    }
}

extension BackupCommand {
    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Create a backup now.")

        @OptionGroup var options: BackupOptions

        func run() async throws {
            try options.needOwnBackups()
            let backup = try options.run {
                try options.writableStore().create(in: options.place, now: TimeSource.system.now()) {
                    options.step("copying \($0)")
                }
            }
            let row = BackupRow(backup, in: options.store)
            if let remote = options.remote {
                do {
                    _ = try await RemoteStorage.copy(backup, to: remote) { options.step("sending \($0)") }
                } catch let failure as BackupFailure {
                    throw CommandFailure(.failed, "\(backup.path) was created, but not copied. \(failure)")
                }
            }
            if options.folder.json {
                try Terminal.say(json: row)
            } else {
                say(row)
            }
            if let complaint = row.complaint { throw CommandFailure(.failed, complaint) }
        }

        private func say(_ row: BackupRow) {
            Terminal.tell("created  \(row.made)  \(row.summary)")
            Terminal.say(row.backup, as: "         ")
            if let remote = options.remote { Terminal.tell("copied   to \(remote)") }
            Terminal.tell("next     zonecast backup verify latest \(options.again)")
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the backups, oldest first.")

        @OptionGroup var options: BackupOptions

        private struct Unusable: Encodable {
            var backup: String
            var reason: String
        }

        private struct Answer: Encodable {
            var backups: [BackupRow]
            var unusable: [Unusable]
        }

        func run() async throws {
            try options.needOwnBackups()
            if let remote = options.remote { return try await list(remote) }
            let rows = options.store.all(in: options.place).map { BackupRow($0, in: options.store) }
            let unusable = options.store.unusable(in: options.place).map {
                Unusable(backup: $0.name, reason: $0.reason.description)
            }
            let none = try rows.isEmpty && unusable.isEmpty ? options.none() : ""
            if options.folder.json { return try Terminal.say(json: Answer(backups: rows, unusable: unusable)) }
            show(rows, none)
            for backup in unusable { Terminal.say("fault    \(backup.reason)") }
        }

        /// Lists the copies in the storage.
        private func list(_ remote: String) async throws {
            let copies = try await options.runRemote(remote) { try await $0.all() }
            let rows = copies.map {
                BackupRow(Backup(path: "\(remote)/\($0.name)", manifest: $0.manifest), in: options.store)
            }
            if options.folder.json { return try Terminal.say(json: Answer(backups: rows, unusable: [])) }
            show(rows, "There are no backups in \(remote) yet. Create one: zonecast backup create \(options.again)")
        }

        private func show(_ rows: [BackupRow], _ none: String) {
            Terminal.say(
                table: rows.map(\.cells),
                heading: ["CREATED", "SIZE", "ZONES", "RECORDS", "ASSETS", "VERIFIED", "NAME"],
                empty: none
            )
        }
    }

    struct Schedule: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Schedule backups that the running relay creates.",
            discussion: """
                A running relay applies a change within a minute. 'off' removes the schedule. Without an argument, shows it, or with \
                --keep changes only how many backups are kept. With --remote, the relay also copies each backup to that storage and \
                keeps as many there; the keys must be in its environment. '--remote none' ends that.
                """
        )

        @Argument(help: "hourly, daily, weekly, or off.")
        var interval: String?

        @Option(help: "How many backups are kept, up to 1000. (default: 7)")
        var keep: Int?

        @OptionGroup var options: BackupOptions

        func validate() throws {
            guard let keep, !BackupSchedule.keepRange.contains(keep) else { return }
            throw ValidationError("--keep is a number from 1 to 1000.")
        }

        func run() async throws {
            let data = options.folder.folder
            try options.needOwnBackups()
            try options.needData()
            if let remote = options.remote, remote != "none" {
                // Report unusable storage now instead of in a log at night.
                _ = try await options.runRemote(remote) { try await $0.all() }
            }
            if let interval {
                try set(interval, data)
            } else if keep != nil || options.remote != nil {
                try change(data)
            }
            let schedule = try options.run { try options.store.schedule() }
            if options.folder.json { return try Terminal.say(json: ["schedule": schedule]) }
            guard let schedule else {
                return Terminal.say("There is no schedule. Set one: zonecast backup schedule daily")
            }
            Terminal.say("\(schedule.interval.rawValue)  into \(schedule.folder), the newest \(schedule.keep) are kept")
            if let remote = schedule.remote { Terminal.say("copies   to \(remote), as many") }
        }

        private func set(_ word: String, _ data: String) throws {
            if word == "off" { return try options.run { try options.store.setSchedule(nil) } }
            guard let interval = BackupSchedule.Interval(rawValue: word) else {
                throw CommandFailure(.usage, "'\(word)' is not an interval. Use hourly, daily, weekly or off.")
            }
            // A damaged schedule is replaced.
            let known = options.store.knownSchedule?.remote
            let folder = Self.absolute(options.place)
            try save(BackupSchedule(interval, keep: keep ?? 7, folder: folder, remote: remote(known)), data)
        }

        /// Returns the storage that `--remote` names, or the known one.
        private func remote(_ known: String?) -> String? {
            options.remote.map { $0 == "none" ? nil : $0 } ?? known
        }

        /// Changes only what the options name: how many backups the schedule keeps, and where copies go.
        private func change(_ data: String) throws {
            guard var schedule = try options.run({ try options.store.schedule() }) else {
                throw CommandFailure(
                    .failed,
                    "There is no schedule to change. "
                        + "Set one: zonecast backup schedule daily --keep \(keep ?? 7) \(options.again)"
                )
            }
            schedule.keep = keep ?? schedule.keep
            schedule.remote = remote(schedule.remote)
            if let place = options.backups { schedule.folder = Self.absolute(place) }
            try save(schedule, data)
        }

        private func save(_ schedule: BackupSchedule, _ data: String) throws {
            do {
                // Report an unusable folder now instead of in a log at night.
                try options.run { try options.writableStore().tryFolder(of: schedule) }
            } catch let failure as CommandFailure {
                throw CommandFailure(failure.exit, "\(failure) Choose another folder with --backups.")
            }
            try options.run { try options.store.setSchedule(schedule) }
            Self.hint(at: schedule.folder, besides: data)
        }

        private static func absolute(_ path: String) -> String { URL(fileURLWithPath: path).standardizedFileURL.path }

        /// Prints a hint about systemd, under which the relay may write only to its data folder.
        private static func hint(at place: String, besides data: String) {
            let data = absolute(data)
            guard !place.hasPrefix(data + "/"), FileManager.default.fileExists(atPath: "/run/systemd/system") else {
                return
            }
            Terminal.sayError(
                "A relay that runs as a systemd service needs permission to write to \(place): run systemctl edit zonecast, "
                    + "add the lines [Service] and ReadWritePaths=\(SetupFiles.word(place)), and restart the relay."
            )
        }
    }
}

extension BackupCommand {
    struct Verify: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Verify a backup: every file, every zone's log, every asset.",
            discussion: """
                Lists each fault and each missing asset; exits with 1 if there are any. With --remote, fetches the whole copy into a \
                temporary folder and verifies that.
                """
        )

        @Argument(help: "The backup's name or path, or latest.")
        var name = "latest"

        @OptionGroup var options: BackupOptions

        private struct Answer: Encodable {
            var backup: BackupRow
            var faults: [String]
            /// Assets that were missing or damaged when the backup was made.
            var missing: [String]
        }

        func run() async throws {
            try options.needOwnBackups()
            guard let remote = options.remote else { return try verify(options.backup(named: name), isCopy: false) }
            let folder = "\(options.place)/verify-\(getpid())"
            defer { try? FileManager.default.removeItem(atPath: folder) }
            try verify(await options.fetch(name, from: remote, into: folder), isCopy: true)
        }

        private func verify(_ backup: Backup, isCopy: Bool) throws {
            let (faults, missing) = BackupOptions.reading(backup) {
                let faults = options.store.verify(backup, now: isCopy ? nil : TimeSource.system.now()) {
                    options.step("verifying \($0)")
                }
                return (faults, options.store.lackedAssets(of: backup))
            }
            let row = BackupRow(backup, in: options.store)
            if options.folder.json {
                try Terminal.say(json: Answer(backup: row, faults: faults, missing: missing))
            } else {
                faults.forEach { Terminal.say("fault    \($0)") }
                missing.forEach { Terminal.say("missing  \($0)") }
                let word = faults.isEmpty ? missing.isEmpty ? "good     " : "partly   " : nil
                if let word { Terminal.tell("\(word)\(row.made)  \(row.summary)") }
            }
            guard faults.isEmpty else {
                throw CommandFailure(.failed, "\(backup.name) is damaged. Create another: zonecast backup create")
            }
            guard missing.isEmpty else {
                throw CommandFailure(
                    .failed,
                    "\(backup.name) can be restored, but lacks \(missing.count.of("asset")) that records use. An earlier backup "
                        + "may contain them: zonecast backup list"
                )
            }
        }
    }

    struct Restore: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Replace the contents of the data folder with a backup.",
            discussion: """
                The old data is moved aside, not deleted. Devices whose change tokens are newer than the backup fetch everything again \
                and resend their own changes that the backup lacks, if they still have them. A running relay pauses meanwhile.

                With --container, only the records and assets of one container are replaced; accounts and tokens stay. A running relay \
                refuses requests for it with TRY_AGAIN_LATER until it is done, and serves all others.

                With --remote, the copy is fetched into the folder of the backups first, and restored from there.
                """
        )

        @Argument(help: "The backup's name or path, or latest.")
        var name: String

        @Flag(help: "Restore the backup even if it has faults.")
        var force = false

        @Option(
            name: .container,
            help: ArgumentHelp("Restore only this container. (default: everything)", valueName: "id")
        )
        var container: ContainerID?

        @Option(
            name: .environment,
            help: "With --container: development or production. (default: both)"
        )
        var environment: Records.Environment?

        @OptionGroup var options: BackupOptions

        func validate() throws {
            if environment != nil, container == nil { throw ValidationError("--environment needs --container.") }
        }

        func run() async throws {
            let data = options.folder.folder
            try options.needOwnBackups()
            let backup: Backup
            if let remote = options.remote {
                backup = try await options.fetch(name, from: remote, into: options.place)
            } else {
                backup = try options.backup(named: name)
            }
            try restore(backup, data)
        }

        private func restore(_ backup: Backup, _ data: String) throws {
            let faults = BackupOptions.reading(backup) {
                options.store.verify(backup, now: nil) { options.step("verifying \($0)") }
            }
            guard faults.isEmpty || force else {
                faults.forEach { Terminal.sayError("fault    \($0)") }
                throw CommandFailure(.failed, "The backup has faults. Restore another one, or use --force.")
            }
            if let container { return try restore(container, from: backup) }
            let isRunning = FolderLock.runningRelay(in: data) != nil
            let lock = try FolderLock(pausingRelayIn: data)
            defer { withExtendedLifetime(lock) {} }
            let old = try options.run {
                try DataFolder.home(data, disk: FolderOwner.disk(from: backup.path)).backups.restore(
                    backup,
                    nil,
                    now: TimeSource.system.now(),
                    draw: { UInt64.random(in: .min ... .max) },
                    step: { options.step("restoring \($0)") }
                )
            }
            do {
                try options.folder.change("backup.restore", backup.name) { _ in }
            } catch {
                let before = old.map { " To undo this, move the contents of \($0) into \(data)." } ?? ""
                throw CommandFailure(.failed, "The backup was restored but is unusable. \(error)\(before)")
            }
            if options.folder.json {
                return try Terminal.say(json: ["restored": backup.path, "data": data, "before": old ?? ""])
            }
            let row = BackupRow(backup, in: options.store)
            Terminal.tell("restored  \(row.made)  \(row.summary)")
            if let old { Terminal.tell("before    \(old)  (delete it when everything works)") }
            if options.store.knownSchedule == nil {
                Terminal.tell("backups   zonecast backup schedule daily --keep 7 --data \(data.shellWord)")
            }
            Terminal.tell("next      \(isRunning ? "nothing: the relay continues" : PackageFiles.start(on: data))")
        }

        /// Restores one container while a relay serves the others.
        private func restore(_ container: ContainerID, from backup: Backup) throws {
            let data = options.folder.folder
            let row = try options.folder.withDirectory { try $0.containers().first { $0.container == container } }
            guard let row else {
                throw CommandFailure(
                    .failed,
                    "There is no container \(container) in \(data). To bring back a deleted one, restore everything: leave --container out."
                )
            }
            let homes = try BackupOptions.reading(backup) {
                Result { try options.store.stores(in: backup, of: container, created: row.created) }
            }
            .mapError { error in (error as? BackupFailure).map { CommandFailure($0) } ?? error }.get()
            .filter { environment == nil || $0.environment == environment }
            guard !homes.isEmpty else {
                let what = environment.map { "\(container), \($0.rawValue)" } ?? "\(container)"
                throw CommandFailure(
                    .failed,
                    "\(backup.name) has no data of this \(what): it was not used yet, or was deleted and created again since. For other backups: zonecast backup list"
                )
            }
            let hold = try StoreHold(homes, in: data)
            let isBesideRelay = hold.isBesideRelay
            // Also after an error, which leaves the old data.
            let restoring = Result {
                try options.run {
                    try DataFolder.home(data, disk: FolderOwner.disk(from: backup.path)).backups.restore(
                        backup,
                        homes,
                        now: TimeSource.system.now(),
                        draw: { UInt64.random(in: .min ... .max) },
                        step: { options.step("restoring \($0)") }
                    )
                }
            }
            hold.end()
            let old = try restoring.get()
            for home in homes { try options.folder.change("backup.restore", backup.name, in: home) { _ in } }
            let environments = homes.map(\.environment.rawValue)
            if options.folder.json {
                struct Answer: Encodable {
                    var restored: String
                    var data: String
                    var container: String
                    var environments: [String]
                    var before: String
                }
                return try Terminal.say(
                    json: Answer(
                        restored: backup.path,
                        data: data,
                        container: container.name,
                        environments: environments,
                        before: old ?? ""
                    )
                )
            }
            Terminal.tell(
                "restored  \(container), \(environments.joined(separator: " and "))  as of \(BackupRow(backup, in: options.store).made)"
            )
            if let old { Terminal.tell("before    \(old)  (delete it when everything works)") }
            Terminal.tell("next      \(isBesideRelay ? "nothing: the relay continues" : PackageFiles.start(on: data))")
        }
    }
}
