import ArgumentParser
import Records
import RelayCore
import RelayStore

/// `zonecast container delete`: deletes a container with all its data.
struct ContainerDelete: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Delete a container: records, assets and schema of both environments, its tokens and keys.",
        discussion: """
            Stop the relay first. Only a backup can undo this, so the command creates one first, unless --no-backup is \
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
            throw CommandFailure(.failed, "There is no container \(container) in \(options.folder).")
        }
        // Held until the end, so that no relay starts meanwhile.
        let lock = try FolderLock(
            forCommandIn: options.folder,
            refusal: "A relay is running on \(options.folder). Stop it first: it has these files open."
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
        if let backup { Terminal.tell("backup   \(backup), for: zonecast backup restore") }
    }
}
