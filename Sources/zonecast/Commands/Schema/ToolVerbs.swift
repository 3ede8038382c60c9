import ArgumentParser
import Foundation
import Records

/// The verbs of Apple's `cktool`, with its options, for scripts that were written for it.
///
/// Hidden, for `zonecast schema` is the place for people. See SchemaLanguage.md, "Commands".
enum ToolVerbs {
    static let all: [any ParsableCommand.Type] = [
        ExportSchema.self, ImportSchema.self, ValidateSchema.self, ResetSchema.self, DeploySchema.self,
    ]

    struct Options: ParsableArguments {
        @Option(help: ArgumentHelp("Not looked at: a relay has no teams.", valueName: "id"))
        var teamId: String?

        @Option(name: [.customLong("container-id"), .customLong("container")], help: "The container.")
        var container: ContainerID

        @Option(help: "development or production.")
        var environment: Records.Environment = .development

        @Option(help: "With --url: a management token. Whoever may write the data folder needs none.")
        var token: String?

        @Option(help: "The relay, where it is not the data folder's.")
        var url: String?

        @OptionGroup var folder: FolderOptions

        var work: SchemaWork { SchemaWork(container, folder) }

        /// `nil` where the data folder is meant.
        func remote() throws -> RemoteSchema? {
            try ManagementOptions(url: url, token: token).schema(of: container, json: folder.json)
        }
    }

    struct ExportSchema: AsyncParsableCommand {
        static let configuration = hidden("export-schema", "As: zonecast schema export")

        @OptionGroup var options: Options

        @Option(help: "Write the text to this file instead.")
        var outputFile: String?

        func run() async throws {
            if let remote = try options.remote() {
                return try await remote.export(options.environment, to: outputFile)
            }
            try options.work.export(options.environment, to: outputFile)
        }
    }

    struct ImportSchema: AsyncParsableCommand {
        static let configuration = hidden("import-schema", "As: zonecast schema import")

        @OptionGroup var source: SchemaSource
        @OptionGroup var options: Options

        @Flag(help: "Check the text before it is imported; that is done in any case.")
        var validate = false

        func run() async throws {
            guard options.environment == .development else {
                throw CommandFailure(
                    .usage,
                    "A schema is imported into development only. Bring it to production with: zonecast schema promote --container \(options.container)"
                )
            }
            if let remote = try options.remote() {
                return try await remote.importText(try source.read(), applies: true)
            }
            try options.work.importText(try source.read(), applies: true)
        }
    }

    struct ValidateSchema: AsyncParsableCommand {
        static let configuration = hidden("validate-schema", "As: zonecast schema validate")

        @OptionGroup var source: SchemaSource
        @OptionGroup var options: Options

        func run() async throws {
            if let remote = try options.remote() {
                return try await remote.importText(try source.read(), applies: false)
            }
            try options.work.importText(try source.read(), applies: false)
        }
    }

    struct ResetSchema: ParsableCommand {
        static let configuration = hidden("reset-schema", "As: zonecast schema reset")

        @OptionGroup var options: Options

        func run() throws {
            guard options.url == nil else {
                throw CommandFailure(
                    .usage,
                    "A relay elsewhere cannot be reset from here. On its own machine, while it is stopped, and without --url: zonecast schema reset --container \(options.container)"
                )
            }
            guard options.environment == .development else {
                throw CommandFailure(
                    .usage,
                    "Production is never reset, only development is: leave out --environment, or say development."
                )
            }
            // cktool has no --yes, and scripts that were written for it go on.
            try options.work.reset(asks: isatty(STDIN_FILENO) == 1)
        }
    }

    struct DeploySchema: AsyncParsableCommand {
        static let configuration = hidden("deploy-schema", "As: zonecast schema promote")

        @OptionGroup var options: Options

        @Flag(help: "Only show what would change.")
        var dryRun = false

        func run() async throws {
            if let remote = try options.remote() { return try await remote.promote(applies: !dryRun) }
            try options.work.promote(applies: !dryRun)
        }
    }

    static func hidden(_ name: String, _ abstract: String) -> CommandConfiguration {
        CommandConfiguration(commandName: name, abstract: abstract, shouldDisplay: false)
    }
}
