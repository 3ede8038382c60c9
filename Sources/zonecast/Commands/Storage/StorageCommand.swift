import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayStore

/// `zonecast storage`: shows, compacts and copies the files of a data folder.
struct StorageCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "storage",
        abstract: "Show the files of a data folder; compact and copy it.",
        subcommands: [Info.self, Compact.self, Copy.self],
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

        /// A store that cannot be read.
        private struct Failure: Encodable {
            var container: String
            var environment: String
            var reason: String
        }

        private struct Answer: Encodable {
            var folder: String
            var sqlite: String
            var freeBytes: Int64
            var stores: [Row]
            var failures: [Failure]
        }

        func run() throws {
            let free = Int64(clamping: FreeSpace.bytes(in: options.folder) ?? 0)
            var answer = Answer(
                folder: options.folder,
                sqlite: StoreFiles.engine,
                freeBytes: free,
                stores: [],
                failures: []
            )
            for found in try options.withDirectory({ try $0.containers() }) {
                for environment in Records.Environment.allCases {
                    look(ContainerEnvironment(found.container, environment), &answer)
                }
            }
            if options.json { try Terminal.say(json: answer) } else { say(answer) }
            guard let first = answer.failures.first else { return }
            throw CommandFailure(
                .failed,
                (answer.failures.count == 1
                    ? "The \(first.environment) store of \(first.container) cannot be read: "
                    : "\(answer.failures.count) stores cannot be read, the first for this reason: ")
                    + first.reason
            )
        }

        private func say(_ answer: Answer) {
            Terminal.say("folder  \(answer.folder)")
            Terminal.say("engine  SQLite \(answer.sqlite), \(ByteText.of(answer.freeBytes)) free")
            Terminal.say("")
            Terminal.say(
                table: answer.stores.map {
                    [
                        $0.container, $0.environment, ByteText.of($0.recordBytes), ByteText.of($0.logBytes),
                        "\($0.assets)", ByteText.of($0.assetBytes), "\($0.layout)",
                    ]
                } + answer.failures.map { [$0.container, $0.environment, "unknown"] + Array(repeating: "", count: 4) },
                heading: ["CONTAINER", "ENVIRONMENT", "RECORDS", "LOG", "ASSETS", "ASSET BYTES", "LAYOUT"],
                empty: "No container has been used yet."
            )
        }

        private func look(_ home: ContainerEnvironment, _ answer: inout Answer) {
            let (container, environment) = (home.container.name, home.environment.rawValue)
            do {
                guard let files = try StoreFiles(of: home, in: options.folder) else { return }
                answer.stores.append(
                    Row(
                        container: container,
                        environment: environment,
                        layout: files.layout,
                        recordBytes: files.bytes,
                        logBytes: files.logBytes,
                        assets: files.assets.count,
                        assetBytes: files.assets.reduce(0) { $0 + $1.bytes }
                    )
                )
            } catch {
                let reason = (error as? DirectoryError).map { CommandFailure($0, folder: options.folder).description }
                answer.failures.append(
                    Failure(container: container, environment: environment, reason: reason ?? "\(error)")
                )
            }
        }
    }
}
