import ArgumentParser
import Foundation
import Records
import RelayCore

/// `zonecast cluster shard`: the databases of a cluster, over which its users are spread.
struct ShardCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "shard",
        abstract: "List, add and edit the databases of a cluster.",
        discussion: """
            A cluster begins with one database, shard 1. Each further one takes a part of the users: new ones by itself, others \
            with  zonecast cluster move  and  zonecast cluster balance. Relays find a new shard themselves.
            """,
        subcommands: [List.self, Add.self, Edit.self]
    )

    /// Throws if a text is not the address of a shard, or has a password.
    fileprivate static func check(_ url: String, _ name: String) throws {
        guard let address = StoreAddress(url) else { throw ValidationError("\(name) is \(StoreAddress.form).") }
        if address.hasPassword {
            throw ValidationError("Leave the password out: the shard has the one of the first database.")
        }
    }

    fileprivate struct Row: Encodable {
        var number: Int
        var place: String
        var failure: String?
        var takesOwners: Bool
        var roomBytes: Int64?
        var bytes: Int64
        var owners: Int64

        init(_ state: ShardState) {
            number = state.number
            place = state.place
            failure = state.failure
            takesOwners = state.takesOwners
            roomBytes = state.room
            bytes = state.bytes
            owners = state.owners
        }

        var cells: [String] {
            [
                "\(number)", place, failure == nil ? takesOwners ? "open" : "closed" : "down", "\(owners)",
                ByteText.of(bytes), roomBytes.map { ByteText.of($0) } ?? "-",
            ]
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the databases: where they are, what they contain, and whether they can be reached."
        )

        @OptionGroup var options: FolderOptions

        private struct Answer: Encodable {
            var shards: [Row]
            var unfinishedMoves: [MoveRow]
        }

        func run() throws {
            let (states, moves) = try options.withShards { try ($0.all(), $0.unfinishedMoves()) }
            let rows = states.map(Row.init)
            if options.json {
                return try Terminal.say(json: Answer(shards: rows, unfinishedMoves: moves.map(MoveRow.init)))
            }
            Terminal.say(
                table: rows.map(\.cells),
                heading: ["SHARD", "DATABASE", "STATE", "USERS", "BYTES", "ROOM"],
                empty:
                    "There is one database. Add another one: zonecast cluster shard add postgres://user@host/database"
            )
            for row in rows { if let failure = row.failure { Terminal.say("shard \(row.number)  \(failure)") } }
            for move in moves {
                Terminal.say(
                    "unfinished  zonecast cluster move \(move.user.recordName) --container \(move.home.container.name) --environment \(move.home.environment.rawValue) --to \(move.target)"
                )
            }
        }
    }

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make an empty database the next shard.",
            discussion: """
                Creates the tables. New users come to it from then on; those that are there stay. If the command is interrupted, \
                run it again. The shard has the password of the first database (ZONECAST_STORE_PASSWORD).
                """
        )

        @Argument(help: ArgumentHelp("The database, like postgres://user@host/database.", valueName: "url"))
        var url: String
        @OptionGroup var options: FolderOptions
        @Option(help: ArgumentHelp("How many bytes its disk has for data, such as 500GB.", valueName: "size"))
        var room: ByteSize?

        func validate() throws {
            try ShardCommand.check(url, "The argument")
        }

        func run() throws {
            let added = try options.withShards { try $0.add(url, room: room?.bytes) }
            if options.json { return try Terminal.say(json: Row(added)) }
            Terminal.say("\(added.number)", as: "added  shard ")
        }
    }

    struct Edit: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Say whether new users come to a shard, how much room it has, and where it is.",
            discussion: """
                When the servers of a shard have moved, stop the old ones first, and name the new address with --url. Relays find it \
                themselves when the old address no longer answers. An address that does not lead to this shard is refused.
                """
        )

        @Argument(help: ArgumentHelp("The shard's number.", valueName: "shard"))
        var number: Int
        @OptionGroup var options: FolderOptions
        @Option(help: ArgumentHelp("How many bytes its disk has for data, such as 500GB.", valueName: "size"))
        var room: ByteSize?
        @Option(help: ArgumentHelp("Where the shard is now, like postgres://user@host/database."))
        var url: String?
        @Flag(help: "New users come to it.") var open = false
        @Flag(help: "No new users come to it; cluster balance empties it.") var closed = false

        func validate() throws {
            if open, closed { throw ValidationError("--open and --closed exclude each other.") }
            if !open, !closed, room == nil, url == nil {
                throw ValidationError("Name what to change: --open, --closed, --room or --url.")
            }
            if let url { try ShardCommand.check(url, "--url") }
        }

        func run() throws {
            let shard = try options.withShards { shards in
                if let url { try shards.set(number, url: url) }
                if open || closed || room != nil {
                    try shards.set(number, takesOwners: open ? true : closed ? false : nil, room: room?.bytes)
                }
                return try shards.all().first { $0.number == number }
            }
            guard let shard else { return }
            if options.json { return try Terminal.say(json: Row(shard)) }
            Terminal.say(Row(shard).cells.joined(separator: "  "), as: "shard  ")
        }
    }
}

extension ByteSize: ExpressibleByArgument {
    init?(argument: String) { self.init(argument) }
}

struct MoveRow: Encodable {
    var user: String
    var container: String
    var environment: String
    var from: Int
    var to: Int
    var bytes: Int64

    init(_ move: OwnerMove) {
        user = move.user.recordName
        container = move.home.container.name
        environment = move.home.environment.rawValue
        (from, to, bytes) = (move.source, move.target, move.bytes)
    }
}

extension ClusterCommand {
    /// `zonecast cluster move`.
    struct Move: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Move a user's data to another database, while the relays run.",
            discussion: """
                The user's devices notice nothing but a second or two in which they have to repeat writes. If the command is \
                interrupted, run it again: it goes on where it has come to.
                """
        )

        @Argument(help: ArgumentHelp("The user's record name, as zonecast user show prints it.", valueName: "user"))
        var user: String
        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions
        @Option(help: ArgumentHelp("The number of the shard to move to.", valueName: "shard"))
        var to: Int

        private struct Answer: Encodable {
            var rows: Int64
            var refusedMilliseconds: Int64
        }

        func run() throws {
            let summary = try options.withShards { shards in
                try ClusterCommand.move(UserID(user), in: home.home, to: to, of: shards)
            }
            let refused = Int64((summary.refused / .milliseconds(1)).rounded())
            if options.json { return try Terminal.say(json: Answer(rows: summary.rows, refusedMilliseconds: refused)) }
            Terminal.tell("moved  \(summary.rows) rows; writes were refused for \(refused) ms")
        }
    }

    /// `zonecast cluster balance`.
    struct Balance: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Move users until all databases are about equally full.",
            discussion: "With --plan, only shows which users would move."
        )

        @OptionGroup var options: FolderOptions
        @Flag(help: "Show the moves, and move nobody.") var plan = false
        @Option(help: ArgumentHelp("The most users to move.", valueName: "count"))
        var most = 100

        func run() throws {
            try options.withShards { shards in
                let moves = try shards.unfinishedMoves() + shards.plan(atMost: most)
                if options.json { try Terminal.say(json: moves.map(MoveRow.init)) }
                guard !plan else {
                    guard !options.json else { return }
                    return Terminal.say(
                        table: moves.map {
                            [
                                $0.user.recordName, $0.home.container.name, $0.home.environment.rawValue,
                                "\($0.source)",
                                "\($0.target)", ByteText.of($0.bytes),
                            ]
                        },
                        heading: ["USER", "CONTAINER", "ENVIRONMENT", "FROM", "TO", "BYTES"],
                        empty: "The databases are about equally full."
                    )
                }
                for (place, move) in moves.enumerated() {
                    Terminal.sayError("\(place + 1) of \(moves.count): \(move.user.recordName) to shard \(move.target)")
                    _ = try ClusterCommand.move(move.user, in: move.home, to: move.target, of: shards)
                }
                if !options.json { Terminal.tell("moved  \(moves.count) users") }
            }
        }
    }

    /// Moves a user, and says on standard error how far that has come.
    fileprivate static func move(
        _ user: UserID,
        in home: ContainerEnvironment,
        to target: Int,
        of shards: any ClusterShards
    ) throws -> OwnerMove.Summary {
        var latest = OwnerMove.Progress(.copying, rows: -1)
        return try shards.move(user, in: home, to: target) { progress in
            guard progress.step != latest.step || progress.rows >= latest.rows + 100_000 else { return }
            latest = progress
            Terminal.sayError("\(progress.step.rawValue)  \(progress.rows) rows")
        }
    }
}

extension FolderOptions {
    /// Runs `body` with the databases of the cluster.
    ///
    /// - Throws: `CommandFailure` if the data is in files.
    func withShards<Value>(_ body: (any ClusterShards) throws -> Value) throws -> Value {
        guard let shards = home.shards else {
            throw CommandFailure(
                .usage,
                "The data in \(folder) is in SQLite. Name the database of your relays with --store."
            )
        }
        do { return try body(shards) } catch let error as DirectoryError {
            throw CommandFailure(error, folder: folder)
        }
    }
}
