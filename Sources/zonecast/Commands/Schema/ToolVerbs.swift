import ArgumentParser
import Foundation
import Records

/// The commands of Apple's `cktool`, with its options, for existing scripts.
///
/// Hidden, since people use `zonecast schema`. See SchemaLanguage.md, "Commands".
enum ToolVerbs {
    static let all: [any ParsableCommand.Type] = [
        ExportSchema.self, ImportSchema.self, ValidateSchema.self, ResetSchema.self, DeploySchema.self,
    ]

    struct Options: ParsableArguments {
        @Option(help: ArgumentHelp("Ignored: a relay has no teams.", valueName: "id"))
        var teamId: String?

        @Option(name: [.customLong("container-id"), .customLong("container")], help: "The container.")
        var container: ContainerID

        @Option(help: "development or production.")
        var environment: Records.Environment = .development

        @Option(help: "With --url: a management token. Commands on the data folder need none.")
        var token: String?

        @Option(help: "The remote relay; by default the command uses the data folder.")
        var url: String?

        @OptionGroup var folder: FolderOptions

        var work: SchemaWork { SchemaWork(container, folder) }

        /// Returns the remote schema; `nil` if the command uses the data folder.
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

        @Flag(help: "Check the text before the import (always done).")
        var validate = false

        func run() async throws {
            guard options.environment == .development else {
                throw CommandFailure(
                    .usage,
                    "Schemas can be imported into development only. Promote it to production: zonecast schema promote --container \(options.container)"
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
                    "A remote relay cannot be reset. Stop it and run on its machine, without --url: zonecast schema reset --container \(options.container)"
                )
            }
            guard options.environment == .development else {
                throw CommandFailure(
                    .usage,
                    "Only development can be reset. Omit --environment, or set it to development."
                )
            }
            // cktool has no --yes, so scripts are not asked.
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
