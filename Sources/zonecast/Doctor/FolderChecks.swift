import Foundation
import Records
import RelayCore
import RelayGateways
import RelayServer
import RelaySystem

/// The checks of a data folder; they work with and without a running relay.
struct FolderChecks: Sendable {
    /// Free bytes below which a relay will soon refuse writes.
    private static let minimumFree: Int64 = 500_000_000
    private static let recommendedFree: Int64 = 2_000_000_000

    let folder: String
    /// Whether to read every page of every SQLite file.
    var isThorough: Bool
    /// The system calls that write the test file.
    var disk = DiskCalls.system
    private var home: any RelayHome { DataFolder.home(folder, disk: disk) }
    /// The configuration file named on the command line.
    var configuration: String?

    /// The options that name the same folder or configuration, for suggested commands.
    private var folderOption: String {
        configuration.map { "--config \($0.shellWord)" } ?? "--data \(folder.shellWord)"
    }

    /// Checks the database; empty if the data is in the folder.
    func database() -> [Finding] { home.upkeep.checks().map { Finding($0) } }

    /// The worst finding about the database, without backups.
    private func databaseState() -> Finding {
        let all = database().filter { $0.check != "backup" }
        let worst = all.first { $0.grade == .problem } ?? all.first { $0.grade == .advice } ?? all.first
        guard var worst else { return Finding("storage", .problem, "the database cannot be checked") }
        worst.found = worst.check == "database" ? worst.found : "\(worst.check): \(worst.found)"
        worst.check = "storage"
        return worst
    }

    func storage() -> Finding {
        if DataFolder.database != nil { return databaseState() }
        if let refusal = FolderAccess.refusal(folder) {
            return Finding("storage", .problem, refusal, next: "sudo zonecast doctor \(folderOption)")
        }
        if home.upkeep.lacksAccounts {
            return damaged("\(folder)/relay.sqlite is missing or empty; no user can reach their data without it")
        }
        guard FileManager.default.fileExists(atPath: "\(folder)/relay.sqlite") else {
            return Finding(
                "storage",
                .problem,
                "\(folder) contains no relay data",
                next: "name the folder with --data, or create one: zonecast init --data \(folder.shellWord)"
            )
        }
        if home.upkeep.isForeign { return otherProgramsFile() }
        if let fault = FolderStructure(folder: folder).fault {
            return Finding("storage", .problem, fault, next: "move it to another place, then start the relay again")
        }
        do {
            return try checkFiles()
        } catch let error as DirectoryError {
            if let fault = try? home.upkeep.faults(step: { _ in }).first { return damaged("\(fault)") }
            if let inaccessibleFile = inaccessibleFile() { return inaccessibleFile }
            // Without the "See: zonecast doctor" of other commands: the doctor adds its own advice.
            if case .unavailable(let text) = error { return unusable("\(folder) cannot be used: \(text)") }
            return unusable(CommandFailure(error, folder: folder).description)
        } catch {
            return unusable("\(folder)/relay.sqlite cannot be used: \(error)")
        }
    }

    /// Whether the accounts file exists and is readable, so that the other checks are possible.
    var isReadable: Bool { (try? home.upkeep.accountsLayout().file.error == nil) == true }

    private func unusable(_ found: String, _ fault: Int32 = 0) -> Finding {
        let next =
            switch fault {
            case EROFS:
                "the system makes a failing disk read-only: see dmesg. Copy the data to another disk: "
                    + "zonecast backup create --data \(folder.shellWord) --backups DIR; then mount it for writing"
            case EIO: "the disk fails: see dmesg, and restore the newest backup to another disk"
            default: "find the owner: ls -ld \(folder.shellWord); run this as that user"
            }
        return Finding("storage", .problem, found, next: next)
    }

    private func damaged(_ found: String) -> Finding {
        Finding("storage", .problem, found, next: "zonecast backup restore latest --data \(folder.shellWord)")
    }

    private func checkFiles() throws -> Finding {
        if let fault = writeFault() {
            let found = "\(folder) cannot be written: \(String(cString: strerror(fault)))"
            guard fault == ENOSPC || fault == EDQUOT else { return unusable(found, fault) }
            return Finding(
                "storage",
                .problem,
                found,
                next: "free disk space: until then the relay refuses writes; reads still work"
            )
        }
        if let inaccessibleFile = inaccessibleFile() { return inaccessibleFile }
        let accounts = try home.upkeep.accountsLayout()
        if let unopenable = unopenable(accounts.file) { return unopenable }
        guard accounts.journal == "wal" else {
            let next = "the relay sets it when it starts: \(PackageFiles.start(on: folder, by: configuration))"
            return Finding("storage", .problem, "relay.sqlite is not in WAL mode", next: next)
        }
        if isThorough, let fault = try home.upkeep.faults(step: { _ in }).first { return damaged("\(fault)") }
        let free = Int64(clamping: FreeSpace.bytes(in: folder) ?? 0)
        let engine = home.upkeep.engine
        let found =
            "\(engine.name.lowercased()) \(engine.version), \(accounts.journal), \(ByteText.of(free)) free, writable"
        guard free >= Self.minimumFree else {
            return Finding(
                "storage",
                .problem,
                found,
                next: "free disk space: below 0.5 GB the relay will soon refuse writes"
            )
        }
        guard free >= Self.recommendedFree else {
            return Finding("storage", .advice, found, next: "free disk space before it is below 0.5 GB")
        }
        guard Self.isPrivate(folder) else {
            return Finding("storage", .advice, found + ", readable by others", next: "chmod 700 \(folder.shellWord)")
        }
        return Finding("storage", .good, found)
    }

    /// Writes and flushes a test file as the relay does; returns the system's error, or `nil` on success.
    private func writeFault() -> Int32? {
        let path = "\(folder)/doctor-\(getpid()).tmp"
        let descriptor = disk.open(path, O_CREAT | O_RDWR | O_CLOEXEC | O_EXCL)
        guard descriptor >= 0 else { return errno }
        defer {
            close(descriptor)
            unlink(path)
        }
        let bytes = [UInt8](repeating: 0, count: 4096)
        errno = 0
        guard bytes.withUnsafeBytes({ disk.write(descriptor, $0) }) == bytes.count, disk.sync(descriptor) == 0 else {
            // A short write means that there is no room for the rest.
            return errno == 0 ? ENOSPC : errno
        }
        return nil
    }

    private static func isPrivate(_ folder: String) -> Bool {
        let facts = try? FileManager.default.attributesOfItem(atPath: folder)
        return ((facts?[.posixPermissions] as? NSNumber)?.intValue ?? 0) & 0o007 == 0
    }

    // MARK: TLS

    /// Checks whether a relay could start with these TLS files, and when the certificate expires.
    func certificate(_ files: TLSFiles, now: Date) -> Finding {
        do throws(TLSFault) {
            return RelayChecks.certificate(
                "certificate",
                of: files.certificates,
                seconds: try files.end().timeIntervalSince(now)
            )
        } catch {
            return Finding("certificate", .problem, "\(error)", next: "check tls-cert and tls-key in the configuration")
        }
    }

    // MARK: Alerts

    /// Returns a finding if the operators' alert limits and mutes cannot be read; `nil` otherwise.
    func alerts() -> Finding? {
        do throws(BackupFailure) {
            _ = try home.alertOverrides()
            return nil
        } catch {
            return Finding("alerts", .problem, "\(error)")
        }
    }

    // MARK: Pushes

    /// Checks whether the files of the push settings can be read.
    func push(_ choices: PushOptions) -> Finding {
        do {
            // Any key will do, since only the files are checked.
            guard let found = try choices.settings(relayKey: [UInt8](repeating: 1, count: 32)) else {
                return Finding(
                    "push",
                    .advice,
                    "no push service: devices without a connection sync when they next connect",
                    next: "zonecast push --help"
                )
            }
            let services = [
                found.apns.map { _ in "Apple" }, found.fcm.map { _ in "Firebase" },
                found.webPush.map { _ in "Web Push" }, found.sendsToNtfy ? "ntfy" : nil,
            ]
            return Finding("push", .good, services.compactMap { $0 }.joined(separator: ", "))
        } catch {
            return Finding("push", .problem, "\(error)", next: "zonecast push --help")
        }
    }

    // MARK: Traces

    /// Checks whether the trace collector accepts connections; `nil` if tracing is disabled.
    func traces(_ choices: TraceOptions) async -> Finding? {
        guard let endpoint = choices.endpoint else { return nil }
        guard let address = ProbeAddress(endpoint) else {
            return Finding(
                "traces",
                .problem,
                "\(endpoint) is not an address",
                next: "correct traces.endpoint in the configuration"
            )
        }
        do throws(ProbeFault) {
            try await Probe.connect(to: address).close()
            return Finding("traces", .good, "\(choices.permille) of 1000 requests to \(address)")
        } catch {
            return Finding(
                "traces",
                .advice,
                "the collector at \(address) \(error)",
                next: "start it, or remove traces.endpoint from the configuration"
            )
        }
    }

    // MARK: Words

    /// Returns a duration as text, like `3 h`.
    static func words(seconds: Int64) -> String {
        switch seconds {
        case ..<120: "\(seconds) s"
        case ..<7200: "\(seconds / 60) min"
        case ..<172_800: "\(seconds / 3600) h"
        default: "\(seconds / 86_400) days"
        }
    }
}

extension FolderChecks {
    /// Returns a finding for a file or folder that the relay's user cannot use, such as one created by root; `nil` if
    /// there is none.
    ///
    /// Uses `access(2)`: opening and closing a file of SQLite would release the locks of a relay in this process.
    func inaccessibleFile() -> Finding? {
        guard let path = used.first(where: isInaccessible) else { return nil }
        let (owner, relay) = (Self.owner(of: path), Self.owner(of: folder))
        guard owner != relay else {
            return Finding(
                "storage",
                .problem,
                "\(path) is not readable and writable for its owner",
                next: "chmod -R u+rwX \(folder.shellWord)"
            )
        }
        return Finding(
            "storage",
            .problem,
            "\(path) belongs to \(owner), so a relay that runs as \(relay) cannot use it",
            next: "sudo chown -R \(relay): \(folder.shellWord)"
        )
    }

    /// The files and folders that a relay reads and writes, except assets.
    private var used: [String] {
        let own =
            [
                "relay.sqlite", "relay.sqlite-wal", "relay.sqlite-shm", "relay.lock", "store.request", "assets.lock",
                "alerts.json",
            ]
            + MonitoringFiles.names
        let containers = "\(folder)/containers"
        let places = Self.contents(containers).map { "\(containers)/\($0)" }
        return own.map { "\(folder)/\($0)" } + [containers] + places + places.flatMap(Self.databases)
    }

    private static func databases(in place: String) -> [String] {
        contents(place).filter { $0.contains(".sqlite") }.map { "\(place)/\($0)" }
    }

    private static func contents(_ folder: String) -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).sorted()
    }

    private func isInaccessible(_ path: String) -> Bool {
        guard let status = FileStatus(path: path) else { return false }
        return access(path, R_OK | W_OK | (status.kind == S_IFDIR ? X_OK : 0)) != 0 && errno == EACCES
    }

    private static func owner(of path: String) -> String {
        let facts = try? FileManager.default.attributesOfItem(atPath: path)
        return facts?[.ownerAccountName] as? String
            ?? (facts?[.ownerAccountID] as? NSNumber).map { "\($0)" } ?? "another user"
    }
}

/// Checks of the files' layout versions.
///
/// The files are only read here, since opening them for use would migrate them.
extension FolderChecks {
    /// Returns a finding for the first file that this version cannot open; `nil` if there is none.
    func unopenable(_ accounts: LayoutStatus) -> Finding? {
        let files = [accounts] + (isThorough ? storeLayouts : [])
        guard let file = files.first(where: { $0.error != nil }), let error = file.error else { return nil }
        guard error.isNewer else {
            return Finding("storage", .problem, "\(folder)/\(file.path) cannot be opened: \(error)")
        }
        return Finding(
            "storage",
            .problem,
            "\(folder) was written by a newer zonecast: \(file.path) has layout \(error.found), and this zonecast, "
                + "\(Zonecast.version), knows \(error.known.upperBound)",
            next: "install the newer version again, or restore a backup from before the upgrade: "
                + "zonecast backup list --data \(folder.shellWord)"
        )
    }

    /// The layouts of the stores, without those that cannot be read.
    private var storeLayouts: [LayoutStatus] {
        ((try? home.upkeep.storeFiles()) ?? []).compactMap { try? home.upkeep.layout(of: $0) }
    }

    /// Whether the accounts file has this version's layout; otherwise opening it would migrate it.
    var isCurrent: Bool { (try? home.upkeep.accountsLayout().file.isCurrent) == true }

    func otherProgramsFile() -> Finding {
        Finding(
            "storage",
            .problem,
            "\(folder)/relay.sqlite is not a relay's file: another program created it",
            next: "name the relay's folder with --data; if it is this folder: "
                + "zonecast backup restore latest --data \(folder.shellWord)"
        )
    }
}

/// Checks for usable recent backups and a working schedule.
extension FolderChecks {
    func backup(now: Date) -> Finding {
        if DataFolder.database != nil {
            return database().first { $0.check == "backup" } ?? Finding("backup", .problem, "not known")
        }
        let schedule: BackupSchedule?
        do throws(BackupFailure) { schedule = try home.backups.schedule() } catch {
            return Finding("backup", .problem, "no scheduled backup is created: \(error)", next: scheduleCommand)
        }
        if let schedule, let fault = fault(of: schedule) { return fault }
        let place = schedule?.folder ?? home.backups.standardFolder
        let timestamp = Timestamp(milliseconds: Int64(now.timeIntervalSince1970 * 1_000))
        if let newest = home.backups.newestUnusable(in: place, at: timestamp) {
            let found = "the newest is unusable: \(newest.reason)"
            return Finding("backup", .problem, found, next: "create another: \(createCommand)")
        }
        guard let latest = home.backups.all(in: place, at: timestamp).last else { return none(schedule, now) }
        guard latest.manifest.made <= timestamp.milliseconds + 3_600_000 else {
            return Finding(
                "backup",
                .advice,
                "the existing ones were created with a clock that was ahead",
                next: createCommand
            )
        }
        if let fault = fault(of: latest) { return fault }
        let age = max(0, Int64(now.timeIntervalSince1970) - latest.manifest.made / 1000)
        let found = "the newest is \(Self.words(seconds: age)) old"
        guard let schedule else {
            return Finding("backup", age > 172_800 ? .advice : .good, found + ", no schedule", next: scheduleCommand)
        }
        guard age * 1000 <= schedule.interval.milliseconds * 2 else { return overdue(found, schedule) }
        let kept = found + ", \(schedule.interval.rawValue), \(schedule.keep) kept"
        guard let remote = schedule.remote else { return Finding("backup", .good, kept) }
        return copied(to: remote, schedule, latest, timestamp, kept)
    }

    /// Checks that the newest backup was copied away from the machine, or will be soon.
    private func copied(
        to remote: String,
        _ schedule: BackupSchedule,
        _ latest: Backup,
        _ now: Timestamp,
        _ kept: String
    ) -> Finding {
        if RemoteCopy(of: latest, to: remote) != nil { return Finding("backup", .good, "\(kept), copied to \(remote)") }
        let isLate = now.milliseconds - latest.manifest.made > 2 * 3_600_000
        return Finding(
            "backup",
            isLate ? .problem : .good,
            "\(kept), but the newest is not yet copied to \(remote)",
            next: isLate ? "see the relay's log; by hand: \(createCommand) --remote \(remote)" : nil
        )
    }

    private var scheduleCommand: String { "zonecast backup schedule daily --keep 7 --data \(folder.shellWord)" }
    private var createCommand: String { "zonecast backup create --data \(folder.shellWord)" }

    /// Returns a finding for data that a restore of this backup would lack.
    private func fault(of latest: Backup) -> Finding? {
        let (manifest, faults) = (latest.manifest, home.backups.verdict(on: latest)?.faults ?? 0)
        if faults > 0 {
            let found = "the newest, \(latest.name), has \(faults.of("fault"))"
            return Finding("backup", .problem, found, next: "create another: \(createCommand)")
        }
        let command = "zonecast asset verify --container ID --data \(folder.shellWord)"
        if manifest.lackedAssets > 0 {
            let found = "the newest lacks \(manifest.lackedAssets.of("asset")) of which no intact copy existed"
            return Finding("backup", .problem, found, next: command)
        }
        guard let count = manifest.rescuedAssets, count > 0 else { return nil }
        let found = "\(count.of("asset")) missing or damaged in the data folder; backups have them"
        return Finding("backup", .problem, found, next: command)
    }

    /// Returns a finding if backups cannot be written; only a thorough check tries it.
    private func fault(of schedule: BackupSchedule) -> Finding? {
        guard isThorough else { return nil }
        do throws(BackupFailure) {
            try home.backups.tryFolder(of: schedule)
            return nil
        } catch {
            return Finding(
                "backup",
                .problem,
                "no backup can be created: \(error)",
                next: "fix that, or choose another place: zonecast backup schedule \(schedule.interval.rawValue) "
                    + "--keep \(schedule.keep) --backups DIR --data \(folder.shellWord)"
            )
        }
    }

    private func none(_ schedule: BackupSchedule?, _ now: Date) -> Finding {
        guard let schedule else { return Finding("backup", .advice, "none yet", next: scheduleCommand) }
        let age = home.backups.scheduleChanged.map { Int64(now.timeIntervalSince1970) - $0 / 1000 } ?? 0
        guard age * 1000 <= schedule.interval.milliseconds else {
            return overdue("none yet, although the schedule is \(Self.words(seconds: age)) old", schedule)
        }
        return Finding("backup", .advice, "none yet", next: "a running relay creates the first one within a minute")
    }

    private func overdue(_ found: String, _ schedule: BackupSchedule) -> Finding {
        Finding(
            "backup",
            .problem,
            found + ", although the schedule is \(schedule.interval.rawValue)",
            next:
                "check that the relay is running and read its log for the reason; create one now: \(createCommand)"
        )
    }
}

/// The limit and the number of open files and sockets of a relay.
struct OpenFiles: Sendable {
    var limit: Int
    /// The number of open descriptors; `nil` if this user may not read it.
    var count: Int?

    /// How to raise the limit.
    static let remedy = "LimitNOFILE=65536 in the service, or ulimit -n 65536 before serve"

    init(limit: Int, count: Int?) {
        self.limit = limit
        self.count = count
    }

    /// Returns `nil` if the system does not report the limit of that process.
    init?(process: Int32) {
        let path = "/proc/\(process)"
        guard let text = FileManager.default.contents(atPath: path + "/limits") else { return nil }
        let line = String(decoding: text, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix("Max open files") }
        guard let soft = line?.split(separator: " ").dropFirst(3).first else { return nil }
        limit = Int(soft) ?? .max
        count = try? FileManager.default.contentsOfDirectory(atPath: path + "/fd").count
    }

    /// Checks whether the limit suffices for this many connections and stores.
    func finding(connections: Int, stores: Int) -> Finding {
        let shares = DescriptorShares(descriptors: limit)
        let used = count.map { "\($0) of \(limit)" } ?? "at most \(limit)"
        if let count, count >= limit - limit / 20 {
            return finding(.problem, "\(used) in use: new connections wait, and requests may be refused with 503")
        }
        if shares.connections < connections {
            let room = "\(used), enough for \(shares.connections) connections instead of \(connections)"
            return finding(.advice, stores > shares.stores ? "\(room), and \(storeLimit(stores, shares))" : room)
        }
        if stores > shares.stores { return Finding("open files", .good, "\(used); \(storeLimit(stores, shares))") }
        return Finding("open files", .good, used)
    }

    private func storeLimit(_ stores: Int, _ shares: DescriptorShares) -> String {
        "at most \(shares.stores) of \(stores) stores are open at a time"
    }

    private func finding(_ grade: Finding.Grade, _ found: String) -> Finding {
        Finding("open files", grade, found, next: Self.remedy)
    }
}

extension FolderChecks {
    /// The number of stores in the folder, open or not.
    var storeCount: Int {
        let containers = "\(folder)/containers"
        let folders = (try? FileManager.default.contentsOfDirectory(atPath: containers)) ?? []
        return folders.reduce(0) { sum, name in
            let files = (try? FileManager.default.contentsOfDirectory(atPath: "\(containers)/\(name)")) ?? []
            return sum + files.count { $0.hasSuffix(".sqlite") }
        }
    }
}
