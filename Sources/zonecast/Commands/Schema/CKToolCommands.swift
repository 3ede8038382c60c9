import ArgumentParser
import Foundation
import Records
import Wire

/// The commands of Apple's `cktool`, with its options, for existing scripts.
///
/// Hidden, since people use `zonecast schema`. See SchemaLanguage.md, "Commands".
enum CKToolCommands {
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

        var work: LocalSchema { LocalSchema(container, folder) }

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

/// `cktool`'s commands for records, translated to `zonecast record`.
extension CKToolCommands {
    static let records: [any ParsableCommand.Type] = [
        QueryRecords.self, GetRecord.self, CreateRecord.self, UpdateRecord.self, DeleteRecord.self, DeleteRecords.self,
    ]

    struct RecordOptions: ParsableArguments {
        @Option(help: ArgumentHelp("Ignored: a relay has no teams.", valueName: "id"))
        var teamId: String?
        @Option(name: [.customLong("container-id"), .customLong("container")], help: "The container.")
        var container: String
        @Option(help: "development or production.")
        var environment = "development"
        @Option(name: [.customLong("database-type"), .customLong("database")], help: "public, private or shared.")
        var database = "public"
        @Option(name: [.customLong("zone-name"), .customLong("zone")], help: "The zone.")
        var zone = ZoneID.defaultName
        @Option(help: "The user's web auth token. (default: $ZONECAST_WEB_TOKEN)")
        var token: String?
        @Option(help: "The container's API token. (default: $ZONECAST_API_TOKEN)")
        var apiToken: String?
        @Option(help: "The relay. (default: $ZONECAST_URL, or http://127.0.0.1:8080)")
        var url: String?

        var arguments: [String] {
            ["--container", container, "--environment", environment, "--database", database, "--zone", zone, "--json"]
                + (token.map { ["--web-token", $0] } ?? []) + (apiToken.map { ["--api-token", $0] } ?? [])
                + (url.map { ["--url", $0] } ?? [])
        }
    }

    struct QueryRecords: AsyncParsableCommand {
        static let configuration = hidden("query-records", "As: zonecast record query")

        @Option var recordType: String
        @Option(parsing: .upToNextOption) var filters: [String] = []
        @Option var limit: Int?
        @OptionGroup var options: RecordOptions

        func run() async throws {
            let filters = filters.flatMap { ["--filter", $0] }
            let limit = limit.map { ["--limit", "\($0)"] } ?? []
            try await RecordCommand.Query.parse([recordType] + filters + limit + options.arguments).run()
        }
    }

    struct GetRecord: AsyncParsableCommand {
        static let configuration = hidden("get-record", "As: zonecast record show")

        @Option var recordName: String
        @OptionGroup var options: RecordOptions

        func run() async throws { try await RecordCommand.Show.parse([recordName] + options.arguments).run() }
    }

    struct CreateRecord: AsyncParsableCommand {
        static let configuration = hidden("create-record", "As: zonecast record create")

        @Option var recordType: String
        @Option var recordName: String?
        @Option var fieldsJson: String
        @OptionGroup var options: RecordOptions

        func run() async throws {
            let name = recordName.map { ["--name", $0] } ?? []
            let fields = try CKToolCommands.fields(fieldsJson)
            try await RecordCommand.Create.parse([recordType] + fields + name + options.arguments).run()
        }
    }

    struct UpdateRecord: AsyncParsableCommand {
        static let configuration = hidden("update-record", "As: zonecast record edit")

        @Option var recordName: String
        @Option var recordType: String?
        @Option var fieldsJson: String
        @OptionGroup var options: RecordOptions

        func run() async throws {
            let type = recordType.map { ["--type", $0] } ?? []
            let fields = try CKToolCommands.fields(fieldsJson)
            try await RecordCommand.Edit.parse([recordName] + fields + type + options.arguments).run()
        }
    }

    struct DeleteRecord: AsyncParsableCommand {
        static let configuration = hidden("delete-record", "As: zonecast record delete")

        @Option var recordName: String
        @OptionGroup var options: RecordOptions

        func run() async throws { try await RecordCommand.Delete.parse([recordName] + options.arguments).run() }
    }

    struct DeleteRecords: AsyncParsableCommand {
        static let configuration = hidden("delete-records", "As: zonecast record delete --type")

        @Option var recordType: String
        @Option(parsing: .upToNextOption) var filters: [String] = []
        @OptionGroup var options: RecordOptions

        func run() async throws {
            let filters = filters.flatMap { ["--filter", $0] }
            try await RecordCommand.Delete.parse(["--type", recordType] + filters + options.arguments).run()
        }
    }

    /// Converts `{"name": {"type": "stringType", "value": "Ada"}}` to arguments of `zonecast record`.
    private static func fields(_ json: String) throws -> [String] {
        guard let document = try? JSONDocument(parsing: Array(json.utf8)), let members = try? document.root.members()
        else {
            throw CommandFailure(.usage, #"--fields-json takes {"name": {"type": "stringType", "value": "Ada"}}."#)
        }
        return try members.map { name, field in
            let type = try field.text("type").map { word in
                guard let type = FieldType(toolWord: word) else {
                    throw CommandFailure(
                        .usage,
                        "\(name) in --fields-json: \(word) is not a type. Use \(FieldType.toolWords), or a list of one."
                    )
                }
                return type
            }
            return "\(name):\(type?.tag ?? "")=\((field["value"] ?? field).line)"
        }
    }
}

extension FieldType {
    fileprivate static let toolWords = Scalar.allCases.map { $0.toolWord + "Type" }.joined(separator: ", ")

    /// Parses `stringType`, or `stringListType` for a list; accepts the names used in requests too.
    fileprivate init?(toolWord word: String) {
        if let type = FieldType(tag: word) {
            self = type
            return
        }
        let base = word.replacing("List", with: "").replacing("Type", with: "")
        guard word.contains("Type"), let scalar = Scalar.allCases.first(where: { $0.toolWord == base }) else {
            return nil
        }
        self = word.contains("List") ? .list(scalar) : .scalar(scalar)
    }
}

extension FieldType.Scalar {
    fileprivate var toolWord: String { self == .asset ? "asset" : rawValue.lowercased() }
}
