import ArgumentParser
import Records
import RelayStore

/// `zonecast container`: manages containers, each with both environments.
struct ContainerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "container",
        abstract: "Create, list and delete containers; show their usage and set quotas.",
        subcommands: [Create.self, List.self, ContainerUsage.self, ContainerQuotaCommand.self, ContainerDelete.self]
    )

    struct Create: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Create a container, with both its environments.")

        @Argument(
            help: ArgumentHelp("Such as iCloud.org.example.notes: letters, digits, '.', '-' and '_'.", valueName: "id")
        )
        var container: ContainerID

        @OptionGroup var options: FolderOptions

        func run() throws {
            try options.change("container.create", container.name, creates: true) {
                try $0.addContainer(container)
            }
            if options.json {
                try Terminal.say(json: ["container": container.name])
            } else {
                Terminal.tell("created  \(container), development and production")
                Terminal.tell(
                    "next     zonecast token create --container \(container) --data \(options.folder.shellWord)"
                )
            }
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the containers.")

        @OptionGroup var options: FolderOptions

        private struct Row: Encodable {
            var container: String
            var created: String
        }

        func run() throws {
            let rows = try options.withDirectory { try $0.containers() }
                .map { Row(container: $0.container.name, created: $0.created.iso8601) }
            try options.list(
                rows,
                as: "containers",
                heading: ["CONTAINER", "CREATED"],
                empty: "There are no containers yet. Create one: zonecast container create ID"
            ) { [$0.container, $0.created] }
        }
    }
}
