import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayStore

/// `zonecast backup`: backups of a data folder, made while the relay runs.
struct BackupCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Create, verify and restore backups of a data folder.",
        discussion: """
            A backup is a folder with everything: records, assets, accounts, keys and tokens (as hashes). It is created while the \
            relay runs and is consistent. Copy it to another machine: a backup on the same disk does not survive the disk.
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

    var place: String { backups ?? BackupSchedule.standardFolder(of: folder.folder) }

    /// The options that name both folders again, for suggested commands.
    var again: String { "--data \(folder.folder.shellWord)" + (backups.map { " --backups \($0.shellWord)" } ?? "") }

    /// The command that creates a backup here.
    private var making: String { "zonecast backup create \(again)" }

    /// Throws if the folder contains no relay data.
    func needData() throws {
        guard FileManager.default.fileExists(atPath: folder.folder + "/relay.sqlite") else {
            throw CommandFailure(.nothingThere(folder.folder))
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
        } else if !FileManager.default.fileExists(atPath: folder.folder + "/relay.sqlite") {
            throw CommandFailure(.nothingThere(folder.folder))
        }
        return "There are no backups in \(place) yet. Create one: \(making)"
    }

    /// Returns the named backup; root may read backups that the data folder's owner cannot.
    func backup(named name: String) throws -> Backup {
        if name == "latest", Backup.all(in: place).isEmpty, Backup.unusable(in: place).isEmpty {
            throw CommandFailure(.failed, try none())
        }
        let now = TimeSource.system.now()
        let find = {
            // An unusable newest backup is an error; "latest" must not silently mean an older one.
            if name == "latest", let newest = Backup.newestUnusable(in: place, at: now) {
                let others = "It is the newest. Name another: zonecast backup list \(again)"
                throw CommandFailure(.failed, "\(newest.reason) \(others)")
            }
            return try Backup.named(name, in: place, at: now)
        }
        return try run { backups == nil && !name.contains("/") ? try find() : try FolderOwner.asCaller(find) }
    }

    /// Reads a backup, as root if only root can.
    static func reading<Value>(_ backup: Backup, _ body: () -> Value) -> Value {
        access(backup.path, R_OK | X_OK) == 0 ? body() : FolderOwner.asCaller(body)
    }

    /// Returns the system calls that write backups; called as the data folder's owner.
    ///
    /// - Throws: `CommandFailure` if the owner may not write there.
    func disk() throws -> DiskCalls {
        guard let backups else { return .system }
        if let refusal = FolderOwner.refusal(writingIn: backups) { throw CommandFailure(.notAllowed, refusal) }
        return FolderOwner.disk(to: backups, besides: folder.folder)
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

    /// Prints progress on a terminal.
    func step(_ words: String) {
        if !folder.json, !Terminal.isQuiet, isatty(STDERR_FILENO) == 1 { Terminal.complain("  \(words)") }
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

    init(_ backup: Backup) {
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
        let verdict = backup.verdict
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
        let see = "To list them and their intact copies: zonecast assets verify --container ID"
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
