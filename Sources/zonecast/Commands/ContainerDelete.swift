import ArgumentParser
import Records
import RelayCore
import RelayStore

/// `zonecast container delete`: a container with all that is in it.
struct ContainerDelete: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Delete a container: records, assets and schema of both environments, its tokens and keys.",
        discussion: """
            The relay has to be stopped. There is no way back but a backup, so one is made first, unless --no-backup says \
            otherwise. Accounts stay: they belong to the relay.
            """
    )

    @Argument(help: ArgumentHelp("The container.", valueName: "id"))
    var container: ContainerID

    @Flag(help: "Ask nothing.")
    var yes = false

    @Flag(help: "Make no backup before.")
    var noBackup = false

    @OptionGroup var options: FolderOptions

    func run() throws {
        guard try options.withDirectory({ try $0.hasContainer(container) }) else {
            throw CommandFailure(.failed, "There is no container \(container) in \(options.folder).")
        }
        // Held to the end, so that no relay starts in between.
        let lock = try FolderLock(
            forCommandIn: options.folder,
            refusal: "A relay runs on \(options.folder). Stop it first: it has these files open."
        )
        defer { withExtendedLifetime(lock) {} }
        if !yes {
            try Terminal.confirm("This deletes all of \(container).", byTyping: container.name, called: "its name")
        }
        var backup: String?
        if !noBackup {
            let folder = BackupSchedule.standardFolder(of: options.folder)
            backup = try Backup.create(of: options.folder, in: folder, now: TimeSource.system.now()).name
        }
        try options.change("container.delete", container.name) {
            try ContainerRemoval(in: options.folder).remove(container, from: $0)
        }
        if options.json { return try Terminal.say(json: ["deleted": container.name, "backup": backup ?? ""]) }
        Terminal.tell("deleted  \(container)")
        if let backup { Terminal.tell("before   \(backup), for: zonecast backup restore") }
    }
}
