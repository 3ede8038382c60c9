import ArgumentParser
import Records
import Wire

/// `zonecast schema`: what a container's records look like, in each of its environments.
///
/// See SchemaLanguage.md, "Commands".
struct SchemaCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schema",
        abstract: "Export, import, compare and promote a container's schema.",
        discussion: """
            A schema is changed in development, by importing a text or by saving records of new types and fields, and \
            promoted to production from there. All of it works while a relay runs, but for reset; with --url and a management \
            token at a relay elsewhere.
            """,
        subcommands: [
            Export.self, Import.self, Validate.self, Diff.self, Promote.self, Reset.self, Codegen.self,
        ]
    )

    struct Export: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Print the schema as text (.ckdb).")

        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions

        @Option(
            name: [.customLong("output-file"), .customShort("o")],
            help: ArgumentHelp("Write the text to this file instead.", valueName: "file"),
            completion: .file()
        )
        var output: String?

        @OptionGroup var management: ManagementOptions

        func run() async throws {
            if let remote = try management.schema(of: home.container, json: options.json) {
                return try await remote.export(home.environment, to: output)
            }
            try SchemaWork(home.container, options).export(home.environment, to: output)
        }
    }

    struct Import: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Put a text in place of development's schema.",
            discussion: """
                The text is checked first, against production too: where it would lose or change what is there it is \
                refused as a whole, with all that stands in the way. What development alone has may go.
                """
        )

        @OptionGroup var source: SchemaSource
        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions

        @Flag(help: "Check the text before it is imported; that is done in any case.")
        var validate = false

        @OptionGroup var management: ManagementOptions

        func run() async throws {
            guard home.environment == .development else {
                throw CommandFailure(
                    .usage,
                    "A schema is imported into development only. Bring it to production with: zonecast schema promote --container \(home.container)"
                )
            }
            let text = try source.read()
            if let remote = try management.schema(of: home.container, json: options.json) {
                return try await remote.importText(text, applies: true)
            }
            try SchemaWork(home.container, options).importText(text, applies: true)
        }
    }

    struct Validate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check a text as import does, and change nothing.",
            discussion: "Without --container only the text itself is checked."
        )

        @OptionGroup var source: SchemaSource

        @Option(help: ArgumentHelp("The container whose schemas the text is held against.", valueName: "id"))
        var container: ContainerID?

        @Option(help: "development or production; both are looked at.")
        var environment: Records.Environment = .development

        @OptionGroup var options: FolderOptions

        @OptionGroup var management: ManagementOptions

        func run() async throws {
            let text = try source.read()
            if let container {
                if let remote = try management.schema(of: container, json: options.json) {
                    return try await remote.importText(text, applies: false)
                }
                try SchemaWork(container, options).importText(text, applies: false)
            } else {
                try text.requireValid(json: options.json)
                try SchemaReport(isAccepted: true, isApplied: false, issues: text.reported).say(
                    "valid",
                    json: options.json
                )
            }
        }
    }

    struct Diff: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show how development's schema differs from production's, or from a text.",
            discussion: "What a promotion, or with a text its import, would add (+), take away (-) and change (~)."
        )

        @OptionGroup var container: SchemaContainer
        @OptionGroup var options: FolderOptions

        @OptionGroup var source: SchemaSource

        @OptionGroup var management: ManagementOptions

        func run() async throws {
            let text = try source.readIfNamed()
            if let remote = try management.schema(of: container.container, json: options.json) {
                guard let text else { return try await remote.diff() }
                return try await remote.diff(with: text)
            }
            let work = SchemaWork(container.container, options)
            try text.map { try work.diff(with: $0) } ?? work.diff()
        }
    }

    struct Promote: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Bring development's schema to production.",
            discussion: "Types and fields are only added; indexes and rights become development's."
        )

        @OptionGroup var container: SchemaContainer
        @OptionGroup var options: FolderOptions

        @Flag(help: "Only show what would change.")
        var dryRun = false

        @OptionGroup var management: ManagementOptions

        func run() async throws {
            if let remote = try management.schema(of: container.container, json: options.json) {
                return try await remote.promote(applies: !dryRun)
            }
            try SchemaWork(container.container, options).promote(applies: !dryRun)
        }
    }

    struct Reset: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete all of development's records and make its schema a copy of production's.",
            discussion: "No relay may run on the data folder meanwhile. Devices start over with development's data."
        )

        @OptionGroup var container: SchemaContainer
        @OptionGroup var options: FolderOptions

        @Flag(help: "Ask nothing.")
        var yes = false

        func run() throws {
            try SchemaWork(container.container, options).reset(asks: !yes)
        }
    }
}

/// Which container, where the command says the environment.
struct SchemaContainer: ParsableArguments {
    @Option(help: ArgumentHelp("The container, such as iCloud.org.example.notes.", valueName: "id"))
    var container: ContainerID
}

/// Where a schema's text comes from.
struct SchemaSource: ParsableArguments {
    @Option(
        name: .customLong("file"),
        help: ArgumentHelp("The text; - reads standard input.", valueName: "file"),
        completion: .file()
    )
    var option: String?

    @Argument(help: ArgumentHelp("The text, as with --file.", valueName: "file"), completion: .file())
    var argument: String?

    func read() throws -> SchemaFile {
        guard let text = try readIfNamed() else {
            throw CommandFailure(.usage, "Name the schema's text: --file schema.ckdb, or - for standard input.")
        }
        return text
    }

    /// `nil` where no text is named.
    func readIfNamed() throws -> SchemaFile? {
        if let option, let argument {
            throw CommandFailure(.usage, "These are two texts. Name the one that is meant: \(argument) or \(option).")
        }
        return try (option ?? argument).map { try SchemaFile(reading: $0) }
    }
}
