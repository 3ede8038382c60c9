import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayStore

/// `zonecast storage`: the files of a data folder.
struct StorageCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "storage",
        abstract: "Show what a data folder holds, file by file.",
        subcommands: [Info.self],
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
            let homes = try options.withDirectory { store in
                try store.containers().flatMap { found in
                    Records.Environment.allCases.map { ContainerEnvironment(found.container, $0) }
                }
            }
            let rows = try homes.compactMap { home -> Row? in
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
            var disk = statvfs()
            let free = statvfs(options.folder, &disk) == 0 ? Int64(disk.f_bavail) * Int64(disk.f_frsize) : 0
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
    }
}

/// `zonecast assets`: what was uploaded.
struct AssetsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "assets",
        abstract: "Count a container's assets, and check them.",
        discussion: """
            An asset is a file named by the hash of its content. What no record uses is removed by the running relay, some
            hours after it came (assets.unused-lifetime).
            """,
        subcommands: [List.self, Verify.self]
    )

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Count them: all, unused, the largest.")

        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions
        @Option(help: ArgumentHelp("How many of the largest to name.", valueName: "count"))
        var largest = 10

        private struct Row: Encodable {
            var checksum: String
            var bytes: Int64
            var isUsed: Bool
        }

        private struct Answer: Encodable {
            var assets: Int
            var bytes: Int64
            var unused: Int
            var unusedBytes: Int64
            var largest: [Row]
        }

        func run() throws {
            let all = try AssetsCommand.files(home, options)?.assets ?? []
            let unused = all.filter { !$0.isUsed }
            let answer = Answer(
                assets: all.count,
                bytes: all.reduce(0) { $0 + $1.bytes },
                unused: unused.count,
                unusedBytes: unused.reduce(0) { $0 + $1.bytes },
                largest: all.sorted { $0.bytes > $1.bytes }.prefix(max(0, largest)).map {
                    Row(checksum: $0.hash, bytes: $0.bytes, isUsed: $0.isUsed)
                }
            )
            if options.json { return try Terminal.say(json: answer) }
            Terminal.say("assets  \(answer.assets)  \(ByteText.of(answer.bytes))")
            Terminal.say("unused  \(answer.unused)  \(ByteText.of(answer.unusedBytes))")
            guard !answer.largest.isEmpty else { return }
            Terminal.say("")
            Terminal.say(
                table: answer.largest.map { [$0.checksum, ByteText.of($0.bytes), $0.isUsed ? "used" : "unused"] },
                heading: ["SHA-256", "BYTES", ""],
                empty: ""
            )
        }
    }

    struct Verify: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Read every asset, and hold it against its name and the records. Exit code 1 if one is wrong."
        )

        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions

        private struct Answer: Encodable {
            var assets: Int
            var damaged: [String]
            var missing: [String]
        }

        func run() throws {
            guard let files = try AssetsCommand.files(home, options) else {
                return try say(Answer(assets: 0, damaged: [], missing: []))
            }
            let damaged = files.assets.filter { !files.isWhole($0) }.map(\.hash)
            try say(Answer(assets: files.assets.count, damaged: damaged, missing: files.missing))
        }

        private func say(_ answer: Answer) throws {
            if options.json {
                try Terminal.say(json: answer)
            } else {
                Terminal.say(
                    "\(answer.assets) assets read, \(answer.damaged.count) damaged, \(answer.missing.count) missing"
                )
                for hash in answer.damaged { Terminal.say("damaged  \(hash)") }
                for hash in answer.missing { Terminal.say("missing  \(hash)") }
            }
            guard answer.damaged.isEmpty, answer.missing.isEmpty else {
                throw CommandFailure(
                    .failed,
                    "Some assets are not what records say. A backup has them: zonecast backup list"
                )
            }
        }
    }

    private static func files(_ home: HomeOptions, _ options: FolderOptions) throws -> StoreFiles? {
        try options.withDirectory { directory in
            guard try directory.hasContainer(home.container) else {
                throw DirectoryError.missing("container \(home.container)")
            }
            return try StoreFiles(of: home.home, in: options.folder)
        }
    }
}
