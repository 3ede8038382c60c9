import ArgumentParser
import Foundation
import Records
import RelayCore
import RelaySystem

/// `zonecast upgrade`: what an upgrade to this version does to a data folder.
struct UpgradeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "upgrade",
        abstract: "Show what an upgrade to this version does to a data folder.",
        subcommands: [Check.self],
        defaultSubcommand: Check.self
    )

    struct Check: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show whether this version can use a data folder, what it migrates, and the newest backup.",
            discussion: """
                Reads the version of each file's layout and changes nothing; a relay of another version may be running. Run it \
                with the new program before it serves the folder. Exits with 1 if this version cannot use the folder.
                """
        )

        @Argument(help: ArgumentHelp("The data folder; same as --data.", valueName: "folder"), completion: .directory)
        var path: String?

        @OptionGroup var options: FolderOptions

        func validate() throws {
            guard path != nil, options.data != nil else { return }
            throw ValidationError("The data folder is named twice. Name it once, as an argument or with --data.")
        }

        func run() throws {
            let folder = path ?? options.folder
            if let refusal = FolderAccess.refusal(folder) { throw CommandFailure(.notAllowed, refusal) }
            FolderOwner.become(ownerOf: folder)
            let check = try UpgradeCheck(of: folder, now: Date())
            if options.json { try Terminal.say(json: check) } else { say(check) }
            guard let reason = check.reason else { return }
            throw CommandFailure(.failed, reason)
        }

        private func say(_ check: UpgradeCheck) {
            let marks = isatty(STDOUT_FILENO) == 1
            for finding in check.findings where !(Terminal.isQuiet && finding.grade == .good) {
                finding.lines(marks: marks).forEach(Terminal.say)
            }
            if check.canUse { Terminal.tell(check.summary) }
        }
    }
}

/// Whether this version can use a data folder, and what it will migrate.
struct UpgradeCheck: Encodable {
    /// A file of the folder.
    struct File: Encodable {
        var path: String
        /// The version of its layout; `nil` if it cannot be read.
        var layout: Int?
        /// The version of the layout that this program writes.
        var newLayout: Int?
        /// Why this version cannot use it.
        var fault: String?

        /// The number of migrations that the file lacks.
        var steps: Int {
            guard fault == nil, let layout, let newLayout, layout > 0 else { return 0 }
            return newLayout - layout
        }
    }

    /// The version of this program.
    let version: String
    let folder: String
    let files: [File]
    private let backup: Finding

    /// - Throws: `CommandFailure` if the folder contains no relay data.
    init(of folder: String, now: Date) throws {
        self.folder = folder
        version = Zonecast.version
        guard DataFolder.hasData(in: folder) else {
            throw CommandFailure(.failed, "There is no relay data in \(folder). Name the relay's data folder.")
        }
        let upkeep = DataFolder.home(folder).upkeep
        var files = [
            Self.file(DataFolder.database?.description ?? "relay.sqlite", in: folder) {
                try upkeep.accountsLayout().file
            }
        ]
        do throws(BackupFailure) {
            files += try upkeep.storeFiles().map { path in
                Self.file(path, in: folder) { try upkeep.layout(of: path) }
            }
        } catch {
            files.append(File(path: "containers", fault: error.description))
        }
        self.files = files
        backup = FolderChecks(folder: folder, isThorough: false).backup(now: now)
    }

    private static func file(_ path: String, in folder: String, _ read: () throws -> LayoutStatus) -> File {
        do {
            let file = try read()
            return File(
                path: path,
                layout: file.version,
                newLayout: file.newVersion,
                fault: file.error?.description
            )
        } catch let error as DirectoryError {
            return File(path: path, fault: CommandFailure(error, folder: folder).description)
        } catch {
            return File(path: path, fault: "\(error)")
        }
    }

    private var unusable: [File] { files.filter { $0.fault != nil } }
    private var migrated: [File] { files.filter { $0.steps > 0 } }
    /// Whether this version can open every file.
    var canUse: Bool { unusable.isEmpty }
    /// Whether there is a recent backup without faults.
    var hasBackup: Bool { backup.grade == .good }

    var findings: [Finding] {
        files.map { file in
            if let fault = file.fault { return Finding(file.path, .problem, fault) }
            let layout = file.layout ?? 0
            let found =
                file.steps > 0
                ? "layout \(layout); the relay migrates it to \(layout + file.steps) when it first opens it"
                : layout == 0 ? "empty" : "layout \(layout), current"
            return Finding(file.path, .good, found)
        } + [backup]
    }

    /// The result, if this version can use the folder.
    var summary: String {
        let result = "zonecast \(version) can use \(folder)"
        guard !migrated.isEmpty else { return "\(result); nothing will be migrated." }
        let create = "zonecast backup create --data \(folder.shellWord)"
        let advice =
            hasBackup || DataFolder.database != nil
            ? "" : " Create a backup first, with the installed version: \(create)"
        return "\(result); \(migrated.count) of \(files.count.of("file")) will be migrated. Older versions cannot use "
            + "them afterwards.\(advice)"
    }

    /// Why this version cannot use the folder; `nil` if it can.
    var reason: String? {
        guard let first = unusable.first, let fault = first.fault else { return nil }
        let others = unusable.count > 1 ? " (and \((unusable.count - 1).of("other file")))" : ""
        return "zonecast \(version) cannot use \(folder). \(first.path)\(others): \(fault)"
            + (fault.hasSuffix(".") ? "" : ".") + " Nothing was changed."
    }

    private enum CodingKeys: CodingKey { case version, folder, canUse, hasBackup, backup, files }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(version, forKey: .version)
        try container.encode(folder, forKey: .folder)
        try container.encode(canUse, forKey: .canUse)
        try container.encode(hasBackup, forKey: .hasBackup)
        try container.encode(backup.found, forKey: .backup)
        try container.encode(files, forKey: .files)
    }
}
