import ArgumentParser
import Records
import RelayCore

/// `zonecast container edit`: sets the display name.
struct ContainerEdit: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "edit",
        abstract: "Set the name that sign-in and share pages show for a container.",
        discussion: "A running relay shows it at once. An empty name shows the container's ID again."
    )

    @Argument(help: ArgumentHelp("The container.", valueName: "id"))
    var container: ContainerID

    @Option(help: ArgumentHelp("Such as \"Family notes\".", valueName: "text"))
    var displayName: String

    @OptionGroup var options: FolderOptions

    func run() throws {
        try options.change("container.edit", container.name) { try $0.setTitle(displayName, of: container) }
        if options.json {
            try Terminal.say(json: ["container": container.name, "displayName": displayName])
        } else {
            Terminal.tell("set  \(container)  \(displayName)")
        }
    }
}
