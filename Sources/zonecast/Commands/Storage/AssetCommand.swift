import ArgumentParser
import Foundation
import Records
import RelayCore
import RelaySystem

/// `zonecast asset`: lists, verifies and removes assets.
struct AssetCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "asset",
        abstract: "List and verify a container's assets.",
        discussion: """
            An asset is a file named by the hash of its content. The running relay deletes assets that no record uses, an hour \
            after assets.upload-lifetime and assets.receipt-lifetime have expired; clean does so while no relay is running.
            """,
        subcommands: [List.self, Verify.self, Clean.self]
    )

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Count assets: all, unused, the largest.")

        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions
        @Option(name: .count, help: ArgumentHelp("How many of the largest assets to list.", valueName: "count"))
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
            let all = try AssetCommand.files(home, options)?.assets ?? []
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
                heading: ["SHA-256 (FIRST 40 DIGITS)", "BYTES", ""],
                empty: ""
            )
        }
    }

    struct Verify: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Read every asset and compare it with its name and the records. Exits with 1 if one differs."
        )

        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions

        private struct Answer: Encodable {
            var assets: Int
            var damaged: [String]
            var missing: [String]
            /// The path of an intact copy in a backup, by asset.
            var copies: [String: String]
        }

        func run() throws {
            let data = options.home
            guard let files = try AssetCommand.files(home, options) else {
                return try say(Answer(assets: 0, damaged: [], missing: [], copies: [:]))
            }
            let damaged = files.assets.filter { !data.upkeep.isWhole($0, of: home.home) }.map(\.hash)
            let backups = data.backups.currentFolder
            let copies = (damaged + files.missing).map { hash in
                (hash, data.backups.copies(ofAsset: hash, in: home.home, among: backups).first)
            }
            let found = Dictionary(copies.compactMap { hash, path in path.map { (hash, $0) } }) { first, _ in first }
            try say(Answer(assets: files.assets.count, damaged: damaged, missing: files.missing, copies: found))
        }

        private func say(_ answer: Answer) throws {
            if options.json {
                try Terminal.say(json: answer)
            } else {
                Terminal.say(
                    "\(answer.assets.of("asset")) read, \(answer.damaged.count) damaged, \(answer.missing.count) missing"
                )
                for hash in answer.damaged { say("damaged", hash, answer) }
                for hash in answer.missing { say("missing", hash, answer) }
            }
            let bad = answer.damaged.count + answer.missing.count
            guard bad > 0 else { return }
            let lost = bad - answer.copies.count
            throw CommandFailure(
                .failed,
                "\(bad.of("asset")) \(bad == 1 ? "is" : "are") damaged or missing. "
                    + (lost == 0
                        ? "The backups contain intact copies: restore them as shown."
                        : "The backups contain no intact copy of \(lost); an app that has one can save it again.")
            )
        }

        private func say(_ word: String, _ hash: String, _ answer: Answer) {
            Terminal.say("\(word)  \(hash)")
            guard let copy = answer.copies[hash],
                let live = options.home.upkeep.path(ofAsset: hash, in: home.home)
            else { return }
            // Replaces the file instead of writing into it, since a relay may be sending it.
            Terminal.tell("         cp -p --remove-destination \(copy.shellWord) \(live.shellWord)")
        }
    }

    struct Clean: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete the assets that no record uses. A running relay does this itself.",
            discussion: """
                Deletes only assets older than --older-than, since an asset is uploaded before its record is saved. While a relay \
                is running, the console's Assets page deletes them at once.
                """
        )

        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions
        @Option(help: ArgumentHelp("The minimum age of an asset, such as 6h.", valueName: "duration"))
        var olderThan = CommandDuration(seconds: 6 * 3_600)
        @Flag(help: "Only show what would be deleted.")
        var dryRun = false

        private struct Answer: Encodable {
            var removed: Int
            var bytes: Int64
            var isDone: Bool
        }

        func validate() throws {
            guard olderThan.seconds <= 876_000 * 3_600 else {
                throw ValidationError("--older-than takes 0 to 36500d.")
            }
        }

        func run() async throws {
            let limit = TimeSource.system.now() + .seconds(-olderThan.seconds)
            let before = try unused(until: limit)
            guard !dryRun, !before.isEmpty else {
                return try say(before.count, before.reduce(0) { $0 + $1.bytes }, isDone: !dryRun)
            }
            let lock = try FolderLock.forMaintenance(
                of: options.folder,
                "deletes unused assets itself; the console's Assets page does so at once"
            )
            defer { withExtendedLifetime(lock) {} }
            let stores = options.home.stores(StoreOptions(draw: { UInt64.random(in: .min ... .max) }))
            defer { stores.close(patience: .seconds(1)) }
            do throws(RelayError) {
                _ = try stores.store(of: home.home)
                _ = try await stores.removeUnusedAssets(before: limit)
            } catch {
                guard error.code != .tryAgainLater else { throw CommandFailure(.conflict, error.reason) }
                throw CommandFailure(.failed, "The store cannot be used: \(error.reason)")
            }
            let after = try unused(until: limit)
            let left = after.reduce(0) { $0 + $1.bytes }
            try say(before.count - after.count, before.reduce(0) { $0 + $1.bytes } - left, isDone: true)
        }

        private func unused(until limit: Timestamp) throws -> [StoreFiles.Asset] {
            try AssetCommand.files(home, options)?.assets.filter { !$0.isUsed && $0.came < limit } ?? []
        }

        private func say(_ count: Int, _ bytes: Int64, isDone: Bool) throws {
            if options.json { return try Terminal.say(json: Answer(removed: count, bytes: bytes, isDone: isDone)) }
            let what = "\(count == 1 ? "1 unused asset" : "\(count) unused assets"), \(ByteText.of(bytes))"
            Terminal.tell(isDone ? "deleted  \(what)" : "would delete  \(what)")
        }
    }

    private static func files(_ home: HomeOptions, _ options: FolderOptions) throws -> StoreFiles? {
        try options.withDirectory { directory in
            try directory.requireContainer(home.container)
            return try options.home.upkeep.files(of: home.home)
        }
    }
}
