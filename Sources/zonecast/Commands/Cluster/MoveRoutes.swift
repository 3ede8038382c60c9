#if Postgres
    import Foundation
    import PostgresStore
    import Records
    import RelayCore
    import RelaySystem
    import SQLiteStore
    import StoreKit

    // The only file of the commands that knows both kinds of stores at once: a move is between them.

    /// From a data folder into a database.
    final class ImportRoute: MoveRoute {
        private let folder: String
        private let files: MoveFolder
        private let database: PostgresMove
        private let cluster: PostgresCluster
        private let cache: AssetCache
        private let objects: (any AssetObjects)?
        private var hold: StoreHold?

        /// - Throws: `CommandFailure` if the folder or the database cannot be used for this.
        init(_ folder: String, _ address: PostgresAddress, _ objects: (any AssetObjects)?) throws {
            self.folder = folder
            self.objects = objects
            guard FileManager.default.fileExists(atPath: "\(folder)/relay.sqlite") else {
                throw CommandFailure(.failed, "There is no relay data in \(folder). Name the data folder with --data.")
            }
            FolderOwner.become(ownerOf: folder)
            files = MoveFolder(folder)
            cluster = PostgresCluster(address, folder: nil, creates: true)
            database = try PostgresMove(cluster, hasRelays: false, draw: Self.draw)
            cache = AssetCache(folder: NSTemporaryDirectory() + "zonecast-import", draw: Self.draw)
            if let mark = MoveFolder.mark(of: folder), try !database.isBegun { throw CommandFailure(.conflict, mark) }
            try database.begin("the data folder \(URL(fileURLWithPath: folder).standardizedFileURL.path)")
        }

        fileprivate static let draw: @Sendable () -> UInt64 = { UInt64.random(in: .min ... .max) }

        func homes() throws -> [ContainerEnvironment] { try files.homes() }

        func relayEnds() throws -> (source: any MoveSource, sink: any MoveSink) {
            (try files.relaySource(), try database.relaySink())
        }

        func ends(of home: ContainerEnvironment) throws -> (source: any MoveSource, sink: any MoveSink) {
            (try files.source(of: home), try database.sink(of: home))
        }

        func copyAssets(of home: ContainerEnvironment) throws -> MovedAssets {
            guard let assets = try database.assets(of: home, cache: cache, objects: objects) else {
                return MovedAssets()
            }
            return try files.copyAssets(of: home, to: assets, except: try database.storedAssets(of: home))
        }

        func refuseWrites() throws {
            for _ in 0..<3 {
                let before = try files.homes()
                hold = try StoreHold(nil, in: folder)
                try files.lockAccounts()
                // Nobody can create a container now; one may have been created since the relay closed the others.
                if try Set(files.homes()).isSubset(of: before) { return }
                files.unlockAccounts()
                if let hold = hold.take() { hold.end() }
            }
            throw MoveFailure(.refused, "Containers are created all the time. Run the import again later.")
        }

        func markSource() throws {
            for home in try files.homes() {
                let missing = try StoreFiles(of: home, in: folder)?.missing.count ?? 0
                let lacking = try database.missingAssets(of: home)
                guard lacking <= Int64(missing) else {
                    throw MoveFailure(
                        .different,
                        "\(lacking) assets of \(home.container.name) have not come. Run the import again."
                    )
                }
            }
            let overrides = try FolderHome(folder).alertOverrides()
            if overrides != AlertOverrides() { try PostgresHome(cluster).setAlertOverrides(overrides) }
            let place = "\(cluster.address)"
            try files.mark(
                "The data of \(folder) moved to the database \(place) at \(Self.now) (zonecast cluster import), so no relay serves this folder again. Serve the database: zonecast serve --store postgres://… --data ANOTHER_FOLDER"
            )
        }

        fileprivate static var now: String { Date().formatted(.iso8601) }

        func openTarget() throws {
            try database.end()
            // A running relay finds the mark, and ends.
            if let hold = hold.take() { hold.end() }
        }
    }

    /// From a database into a new data folder.
    final class ExportRoute: MoveRoute {
        private static let partial = "The data of this folder has not completely come from its database"

        private let folder: String
        private let files: MoveFolder
        private let database: PostgresMove
        private let cluster: PostgresCluster
        private let cache: AssetCache
        private let objects: (any AssetObjects)?

        /// - Throws: `CommandFailure` if the folder or the database cannot be used for this.
        init(_ folder: String, _ address: PostgresAddress, _ objects: (any AssetObjects)?) throws {
            self.objects = objects
            let folder = URL(fileURLWithPath: folder).standardizedFileURL.path
            self.folder = folder
            let isPartial = MoveFolder.mark(of: folder)?.hasPrefix(Self.partial) ?? false
            let content = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
            guard isPartial || content.isEmpty else {
                throw CommandFailure(.conflict, "\(folder) is not empty. Name a new folder with --data.")
            }
            cluster = PostgresCluster(address, folder: nil, creates: false)
            database = try PostgresMove(cluster, hasRelays: true, draw: ImportRoute.draw)
            if let sentence = try database.movedText(), !sentence.contains(" \(folder) ") {
                throw CommandFailure(.conflict, sentence)
            }
            guard try !database.isBegun else {
                throw CommandFailure(.conflict, "An import into \(address) has not ended. Run it again first.")
            }
            try database.openShards()
            try FileManager.default.createDirectory(
                atPath: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
            files = MoveFolder(folder)
            try files.mark("\(Self.partial). Wait for zonecast cluster export to end, or run it again.")
            cache = AssetCache(folder: "\(folder)/cache", draw: ImportRoute.draw)
        }

        func homes() throws -> [ContainerEnvironment] { try database.homesWithData() }

        func relayEnds() throws -> (source: any MoveSource, sink: any MoveSink) {
            (database.relaySource(), try files.relaySink())
        }

        func ends(of home: ContainerEnvironment) throws -> (source: any MoveSource, sink: any MoveSink) {
            (try database.source(of: home), try files.sink(of: home))
        }

        func copyAssets(of home: ContainerEnvironment) throws -> MovedAssets {
            guard let assets = try database.assets(of: home, cache: cache, objects: objects) else {
                return MovedAssets()
            }
            return try files.takeAssets(
                try database.storedAssets(of: home),
                of: home,
                from: assets,
                draw: ImportRoute.draw
            )
        }

        func refuseWrites() throws { try database.refuseWrites() }

        func markSource() throws {
            let overrides = try PostgresHome(cluster).alertOverrides()
            if overrides != AlertOverrides() { try FolderHome(folder).setAlertOverrides(overrides) }
            try database.markMoved(
                "The data of this database moved to the folder \(folder) at \(ImportRoute.now) (zonecast cluster export), so no relay uses the database again. Serve the folder: zonecast serve --data \(folder)"
            )
        }

        func openTarget() throws {
            try? FileManager.default.removeItem(atPath: "\(folder)/cache")
            try files.removeMark()
        }
    }
#endif
