import ArgumentParser
import Foundation
import Records
import Wire

/// `zonecast schema`: manages a container's schema in both environments.
///
/// See SchemaLanguage.md, "Commands".
struct SchemaCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schema",
        abstract: "Export, import, compare and promote a container's schema.",
        discussion: """
            A schema changes in development, by an import or by saving records with new types and fields, and is then \
            promoted to production. All commands work while a relay is running; with --url and a management token, all except \
            reset use a remote relay.
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
            try LocalSchema(home.container, options).export(home.environment, to: output)
        }
    }

    struct Import: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Replace development's schema with a text.",
            discussion: """
                The text is checked first, also against production: if it would remove or change something there, it is \
                refused as a whole and all reasons are listed. Elements that only development has may be removed.
                """
        )

        @OptionGroup var source: SchemaSource
        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions

        @Flag(help: "Check the text before the import (always done).")
        var validate = false

        @OptionGroup var management: ManagementOptions

        func run() async throws {
            guard home.environment == .development else {
                throw CommandFailure(
                    .usage,
                    "Schemas can be imported into development only. Promote it to production: zonecast schema promote --container \(home.container)"
                )
            }
            let text = try source.read()
            if let remote = try management.schema(of: home.container, json: options.json) {
                return try await remote.importText(text, applies: true)
            }
            try LocalSchema(home.container, options).importText(text, applies: true)
        }
    }

    struct Validate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check a text as import does, without changes.",
            discussion: "Without --container, only the text itself is checked."
        )

        @OptionGroup var source: SchemaSource

        @Option(
            name: .container,
            help: ArgumentHelp("The container whose schemas the text is compared with.", valueName: "id")
        )
        var container: ContainerID?

        @Option(name: .environment, help: "development or production (both are checked).")
        var environment: Records.Environment = SDKVariables.environment ?? .development

        @OptionGroup var options: FolderOptions

        @OptionGroup var management: ManagementOptions

        func run() async throws {
            let text = try source.read()
            if let container {
                if let remote = try management.schema(of: container, json: options.json) {
                    return try await remote.importText(text, applies: false)
                }
                try LocalSchema(container, options).importText(text, applies: false)
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
            abstract: "Compare development's schema with production's, or with a text.",
            discussion: "Shows what a promotion, or the import of the text, would add (+), remove (-) and change (~)."
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
            let work = LocalSchema(container.container, options)
            try text.map { try work.diff(with: $0) } ?? work.diff()
        }
    }

    struct Promote: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Promote development's schema to production.",
            discussion: "Types and fields are only added; indexes and permissions become those of development."
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
            try LocalSchema(container.container, options).promote(applies: !dryRun)
        }
    }

    struct Reset: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete all of development's records and replace its schema with production's.",
            discussion: """
                A running relay refuses requests for this container's development with TRY_AGAIN_LATER until it is done; everything \
                else goes on. Devices fetch development's data again.
                """
        )

        @OptionGroup var container: SchemaContainer
        @OptionGroup var options: FolderOptions

        @Flag(help: "Do not ask for confirmation.")
        var yes = false

        func run() throws {
            try LocalSchema(container.container, options).reset(asks: !yes)
        }
    }
}

/// The container, for commands that imply the environment.
struct SchemaContainer: ParsableArguments {
    @Option var container: ContainerID

    init() { _container = .container }
}

/// The options that name a schema's text.
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

    /// Returns the text; `nil` if none is named.
    func readIfNamed() throws -> SchemaFile? {
        if let option, let argument {
            throw CommandFailure(.usage, "Two texts are named. Name only one of them: \(argument) or \(option).")
        }
        return try (option ?? argument).map { try SchemaFile(reading: $0) }
    }
}

extension SchemaCommand {
    struct Codegen: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Generate Swift for a schema: structs around records, or a mirror's model.",
            discussion: """
                Uses a container's schema, or with --file a text. records generates structs around CKRecord for ZoneKit, or with \
                --module CloudKit for Apple's framework; mirror generates ZoneMirror's structs and their model.

                A name that Swift or the generated text uses for something else, and one that two types or fields would share, \
                gets "Record" or "Field" appended, and a number if that name is taken too.
                """
        )

        @Option(
            name: .container,
            help: ArgumentHelp("The container, such as iCloud.org.example.notes.", valueName: "id")
        )
        var container: ContainerID?

        @Option(name: .environment, help: "development or production.")
        var environment: Records.Environment = SDKVariables.environment ?? .development

        @Option(
            help: ArgumentHelp("The schema's text instead; - reads standard input.", valueName: "file"),
            completion: .file()
        )
        var file: String?

        @Option(help: "records or mirror.")
        var form: SchemaCode.Form = .records

        @Option(help: "The access level of all declarations: internal, package or public.")
        var access: SchemaCode.Access = .internal

        @Option(help: "For records: ZoneKit or CloudKit.")
        var module = "ZoneKit"

        @Option(
            name: [.customLong("output-file"), .customShort("o")],
            help: ArgumentHelp("Write the Swift to this file instead.", valueName: "file"),
            completion: .file()
        )
        var output: String?

        @OptionGroup var options: FolderOptions

        func validate() throws {
            guard (container == nil) != (file == nil) else {
                throw ValidationError("Name a container with --container, or a schema's text with --file.")
            }
            guard ["ZoneKit", "CloudKit"].contains(module) else {
                throw ValidationError("--module is ZoneKit or CloudKit.")
            }
        }

        func run() throws {
            let (schema, source) = try read()
            let text = SchemaCode(schema, from: source, access: access, module: module).text(form)
            if let output { try OutputFile.write(text, to: output) }
            if options.json {
                try Terminal.say(json: ["source": source, "form": form.rawValue, "swift": text])
            } else if output == nil {
                Terminal.deliver(text)
            }
        }

        private func read() throws -> (Schema, String) {
            guard let container else {
                let text = try SchemaFile(reading: file ?? "-")
                try text.requireValid(json: options.json)
                return (text.text.schema, text.name)
            }
            let schema = try LocalSchema(container, options).schema(environment)
            return (schema, "\(container), \(environment.rawValue)")
        }
    }
}

extension SchemaCode.Form: ExpressibleByArgument {}
extension SchemaCode.Access: ExpressibleByArgument {}
