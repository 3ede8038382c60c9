import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayGateways
import StoreKit

#if Postgres
    import PostgresStore
#endif

/// The folder and the database of a move.
struct MoveOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The data folder.", valueName: "dir"), completion: .directory)
    var data: String

    @Option(help: ArgumentHelp("The database: postgres://USER@HOST/DATABASE.", valueName: "url"))
    var store: String

    @Option(
        help: ArgumentHelp(
            "A file with the password of the database. (default: $ZONECAST_STORE_PASSWORD)",
            valueName: "file"
        ),
        completion: .file()
    )
    var storePasswordFile: String?

    @Option(
        help: ArgumentHelp(
            "The storage for the assets of the cluster, if it is not the database: s3://BUCKET/PREFIX.",
            valueName: "s3"
        )
    )
    var assetStorage: String?

    @Flag(help: "Print JSON at the end; progress goes to standard error.") var json = false

    func validate() throws {
        if data.isEmpty { throw ValidationError("--data is empty. Name the data folder.") }
        guard let address = StoreAddress(store) else {
            throw ValidationError("--store is no database. Write postgres://USER@HOST/DATABASE.")
        }
        if let objection = address.objectionToFlag { throw ValidationError(objection) }
        if let assetStorage, S3Address(assetStorage) == nil {
            throw ValidationError("--asset-storage is no S3 storage. Write s3://BUCKET/PREFIX.")
        }
    }

    private struct Answer: Encodable {
        var folder: String
        var database: String
        var containers: Int
        var records: Int64
        var assets: MovedAssets
        var seconds: Double
        var refusedSeconds: Double
    }

    #if Postgres
        /// Moves, and says what was done.
        func run(
            _ route: (_ folder: String, PostgresAddress, (any AssetObjects)?) throws -> any MoveRoute
        ) throws {
            let start = ContinuousClock.now
            func uptime() -> Duration { ContinuousClock.now - start }
            do {
                let address = try PostgresAddress(
                    store,
                    passwordFile: storePasswordFile,
                    environment: ProcessInfo.processInfo.environment
                )
                let summary = try RelayMove(
                    try route(data, address, try S3AssetObjects.open(assetStorage)),
                    uptime: uptime
                ) {
                    Terminal.sayError(Self.words($0))
                }.run()
                let answer = Answer(
                    folder: data,
                    database: "\(address)",
                    containers: summary.containers,
                    records: summary.records,
                    assets: summary.assets,
                    seconds: uptime() / .seconds(1),
                    refusedSeconds: summary.refusal / .seconds(1)
                )
                if json { return try Terminal.say(json: answer) }
                Terminal.say(
                    "moved  \(answer.containers) containers, \(answer.records) records, \(answer.assets.count) assets (\(ByteText.of(answer.assets.bytes))) in \(Self.text(answer.seconds)) s; writes were refused for \(Self.text(answer.refusedSeconds)) s"
                )
            } catch let error as PostgresError {
                throw CommandFailure(.failed, "\(error)")
            } catch let error as MoveFailure {
                throw CommandFailure(error.code == .occupied ? .conflict : .failed, error.description)
            } catch let error as DirectoryError {
                throw CommandFailure(error, folder: data)
            }
        }

        private static func text(_ seconds: Double) -> String { String(format: "%.1f", seconds) }

        private static func words(_ step: RelayMove.Step) -> String {
            func name(_ home: ContainerEnvironment) -> String {
                "\(home.container.name) (\(home.environment.rawValue))"
            }
            return switch step {
            case .accounts: "copying the accounts"
            case .copying(let home, let records): "copying \(name(home)): \(records) records"
            case .assets(let home): "copying the assets of \(name(home))"
            case .changes(let count): "copying what has changed: \(count) records"
            case .comparing(let home): "comparing \(name(home))"
            case .refusingWrites: "refusing writes"
            case .markingSource: "marking the source"
            case .openingTarget: "completing the target"
            }
        }
    #else
        static let lacking = CommandFailure(
            .usage,
            "This zonecast was built without PostgreSQL. Build it with: swift build --traits Server,Postgres"
        )
    #endif
}

extension ClusterCommand {
    struct Import: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Move the data of a folder into a database; a relay may serve the folder meanwhile.",
            discussion: """
                Copies everything, then what has changed meanwhile. At the end the relay on the folder answers TRY_AGAIN_LATER for some \
                seconds, the last changes are copied and compared, the folder is marked, and the relay stops: no relay serves the \
                folder again. Start relays on the database then, with other data folders. Devices keep their tokens and sessions.

                If the command is interrupted before the folder is marked, the folder stays in use. Run it again; it continues.
                """
        )

        @OptionGroup var options: MoveOptions

        func run() throws {
            #if Postgres
                try options.run { try ImportRoute($0, $1, $2) }
            #else
                throw MoveOptions.lacking
            #endif
        }
    }

    struct Export: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Move the data of a database into a new folder; relays may run on the database meanwhile.",
            discussion: """
                The way back from zonecast cluster import; the users of all shards come into one folder. At the end writes to the database wait for some seconds, the last changes are \
                copied and compared, and the database is marked: its relays refuse all requests for data from then on. Stop them, and \
                start one relay on the folder. Devices keep their tokens and sessions.

                If the command is interrupted before the database is marked, the database stays in use. Run it again.
                """
        )

        @OptionGroup var options: MoveOptions

        func run() throws {
            #if Postgres
                try options.run { try ExportRoute($0, $1, $2) }
            #else
                throw MoveOptions.lacking
            #endif
        }
    }
}
