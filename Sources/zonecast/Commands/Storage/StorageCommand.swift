import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayStore

/// `zonecast storage`: the files of a data folder.
struct StorageCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "storage",
        abstract: "Show what a data folder holds, file by file; make it smaller, move it, bring it up to date.",
        subcommands: [Info.self, Compact.self, Copy.self, Migrate.self],
        defaultSubcommand: Info.self
    )

    struct Info: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show each container's files: records, log, assets, and the layout's version."
        )

        @OptionGroup var options: FolderOptions

        private struct Row: Encodable {
            var container: String
            var environment: String
            var layout: Int
            var recordBytes: Int64
            var logBytes: Int64
            var assets: Int
            var assetBytes: Int64
        }

        private struct Answer: Encodable {
            var folder: String
            var sqlite: String
            var freeBytes: Int64
            var stores: [Row]
        }

        func run() throws {
            let rows = try options.withDirectory { store in
                try store.containers().flatMap { found in
                    try Records.Environment.allCases.compactMap { try row(ContainerEnvironment(found.container, $0)) }
                }
            }
            let free = Int64(clamping: FreeSpace.bytes(in: options.folder) ?? 0)
            let answer = Answer(folder: options.folder, sqlite: StoreFiles.engine, freeBytes: free, stores: rows)
            if options.json { return try Terminal.say(json: answer) }
            Terminal.say("folder  \(answer.folder)")
            Terminal.say("engine  SQLite \(answer.sqlite), \(ByteText.of(free)) free")
            Terminal.say("")
            Terminal.say(
                table: rows.map {
                    [
                        $0.container, $0.environment, ByteText.of($0.recordBytes), ByteText.of($0.logBytes),
                        "\($0.assets)", ByteText.of($0.assetBytes), "\($0.layout)",
                    ]
                },
                heading: ["CONTAINER", "ENVIRONMENT", "RECORDS", "LOG", "ASSETS", "ASSET BYTES", "LAYOUT"],
                empty: "No container has been used yet."
            )
        }

        private func row(_ home: ContainerEnvironment) throws -> Row? {
            guard let files = try StoreFiles(of: home, in: options.folder) else { return nil }
            return Row(
                container: home.container.name,
                environment: home.environment.rawValue,
                layout: files.layout,
                recordBytes: files.bytes,
                logBytes: files.logBytes,
                assets: files.assets.count,
                assetBytes: files.assets.reduce(0) { $0 + $1.bytes }
            )
        }
    }
}
