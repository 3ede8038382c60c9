import Foundation
import RelayCore
import RelaySystem
import SQLiteStore
import Synchronization

#if Postgres
    import PostgresStore
#endif

/// The only place that says in what kind of store a relay keeps its data: in files of the data folder, or in a database.
///
/// Each process works on one of them. A relay on a database has a data folder too, for certificates and caches.
enum DataFolder {
    private struct Choice {
        var address: StoreAddress?
        /// The opened database by data folder, with whether it may create tables.
        var homes: [String: any RelayHome] = [:]
    }

    private static let choice = Mutex(Choice())

    /// The environment variable with the password of the database.
    static let passwordVariable = "ZONECAST_STORE_PASSWORD"

    /// The address of the database; `nil` if the data is in files of the data folder.
    static var database: StoreAddress? { choice.withLock { $0.address } }

    /// Returns what a data folder contains, or the database that was chosen; opens nothing yet.
    ///
    /// `disk` has the calls that write backups, copies and settings, and read backups. `creates` says whether to create
    /// what is missing in an empty database, as a relay does.
    static func home(_ folder: String, disk: DiskCalls = .system, creates: Bool = false) -> any RelayHome {
        let known = choice.withLock { choice in
            choice.address == nil ? nil : choice.homes[folder + (creates ? "+" : "")] ?? choice.homes[""]
        }
        return known ?? FolderHome(folder, disk: disk)
    }

    /// Returns whether there is relay data, as far as can be said without a connection.
    static func hasData(in folder: String) -> Bool {
        database != nil || FileManager.default.fileExists(atPath: "\(folder)/relay.sqlite")
    }

    /// Returns the place of the data, for messages.
    static func place(_ folder: String) -> String { database?.description ?? folder }

    /// Returns the option that names the place, for suggested commands.
    static func option(_ folder: String) -> String {
        database.map { "--store \($0.description.shellWord)" } ?? "--data \(folder.shellWord)"
    }
}

extension DataFolder {
    /// Chooses the database for this process; `nil` chooses the files of data folders.
    ///
    /// - Parameters:
    ///   - address: the address.
    ///   - folder: the data folder, which remembers the cluster.
    ///   - passwordFile: a file with the password.
    ///   - replicas: hot standbys for queries of public databases.
    ///   - assetStorage: the storage for assets, if it is not the database.
    ///   - environment: the environment, which may have the password.
    /// - Throws: `CommandFailure` if this program cannot use the address.
    static func choose(
        _ address: StoreAddress?,
        folder: String,
        passwordFile: String? = nil,
        replicas: StoreAddress? = nil,
        assetStorage: String? = nil,
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws {
        guard let address else { return choice.withLock { $0 = Choice() } }
        #if Postgres
            let database: PostgresAddress
            let standbys: [PostgresAddress]
            do {
                database = try PostgresAddress(
                    address.url,
                    passwordFile: passwordFile,
                    environment: environment
                )
                let named = replicas?.url ?? environment["ZONECAST_PUBLIC_QUERY_REPLICAS"]
                standbys = try named.map { try database.ofReplicas($0) } ?? []
            } catch {
                throw CommandFailure(.usage, "\(error)")
            }
            let objects = try S3AssetObjects.open(
                assetStorage ?? environment["ZONECAST_ASSET_STORAGE"],
                environment: environment
            )
            var new = Choice(address: address)
            for (key, creates) in [("", false), (folder, false), (folder + "+", true)] {
                new.homes[key] = PostgresHome(
                    PostgresCluster(database, folder: folder, creates: creates, replicas: standbys),
                    version: Zonecast.version,
                    objects: objects
                )
            }
            choice.withLock { $0 = new }
        #else
            throw CommandFailure(
                .usage,
                "This zonecast was built without PostgreSQL, so it cannot use \(address). Build it with: swift build --traits Server,Postgres"
            )
        #endif
    }

    /// Chooses what the settings of a relay name.
    static func choose(_ settings: ServeSettings) throws {
        try choose(
            settings.store,
            folder: settings.data,
            passwordFile: settings.storePasswordFile,
            replicas: settings.publicQueryReplicas,
            assetStorage: settings.assetStorage
        )
    }

    /// The sentence that says where the data of a folder moved; `nil` if it is there.
    static func mark(of folder: String) -> String? { MoveFolder.mark(of: folder) }

    /// Throws if the data of the folder moved to a database, or has only partly come from one.
    static func requireNotMoved(_ folder: String) throws {
        guard database == nil, let sentence = MoveFolder.mark(of: folder) else { return }
        throw CommandFailure(.conflict, sentence)
    }

    /// Throws if the folder belongs to another kind of store than the one that was chosen, so that a forgotten option
    /// never begins an empty relay beside the data.
    static func requireMatch(_ folder: String) throws {
        try requireNotMoved(folder)
        if let database {
            guard FileManager.default.fileExists(atPath: "\(folder)/relay.sqlite") else { return }
            throw CommandFailure(
                .conflict,
                "\(folder) has data of its own in SQLite, which a relay on \(database) would not serve. Name another folder with --data, or leave --store out."
            )
        }
        let mark = "\(folder)/cluster"
        guard let name = FileManager.default.contents(atPath: mark).map({ String(decoding: $0, as: UTF8.self) }) else {
            return
        }
        throw CommandFailure(
            .conflict,
            "\(folder) belongs to a relay of the cluster \(name.trimmingCharacters(in: .whitespacesAndNewlines)), whose data is in PostgreSQL. Name the database with --store, or another folder with --data."
        )
    }
}
