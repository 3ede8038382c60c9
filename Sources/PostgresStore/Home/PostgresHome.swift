#if Postgres
    import Foundation
    package import Records
    package import RelayCore
    package import RelaySystem
    package import StoreKit

    /// The database of a cluster of relays.
    package struct PostgresHome: RelayHome {
        package let cluster: PostgresCluster
        private let time: TimeSource
        private let random: RandomSource
        private let cost: ScryptCost
        private let version: String
        private let objects: (any AssetObjects)?

        /// Connects when something is needed.
        package init(
            _ cluster: PostgresCluster,
            time: TimeSource = .system,
            random: RandomSource = .system,
            cost: ScryptCost = .usual,
            version: String = "",
            objects: (any AssetObjects)? = nil
        ) {
            self.cluster = cluster
            self.time = time
            self.random = random
            self.cost = cost
            self.version = version
            self.objects = objects
        }

        /// - Throws: `unavailable` for a relay, which passes `onLostWrite`, if its clock is not the database's. The closure
        ///   is never called: PostgreSQL itself stops when its disk fails to keep a write.
        package func accounts(onLostWrite: (@Sendable () -> Void)?) throws(DirectoryError) -> any AccountDirectory {
            if onLostWrite != nil {
                let checks = PostgresChecks(cluster: cluster, time: time)
                try PostgresAccounts.wrapping { try cluster.control.use(.reading, checks.requireClock) }
                try PostgresAccounts.wrapping { try cluster.control.use(.reading, PostgresMove.requireComplete) }
            }
            return try PostgresAccounts(cluster.control, time: time, random: random, cost: cost)
        }

        package func stores(_ options: StoreOptions) -> any ServedStores {
            // What a relay without a folder has fetched, it has for a while.
            let folder = cluster.folder ?? NSTemporaryDirectory() + "zonecast-assets-\(options.draw())"
            let cache = AssetCache(folder: "\(folder)/cache", draw: options.draw)
            return PostgresStores(
                cluster.stores,
                options,
                cache: cache,
                objects: objects,
                shards: cluster.shards,
                replicas: cluster.replicas
            )
        }

        package func link(of node: String, run: UInt64, log: @escaping @Sendable (String) -> Void) -> (any NodeLink)? {
            PostgresNodeLink(
                node: node,
                run: run,
                version: version,
                address: cluster.address,
                time: time,
                log: log,
                prepare: cluster.prepare
            )
        }

        package func schemas(of container: ContainerID) -> any ContainerSchemas {
            PostgresSchemas(shards: cluster.shards, container: container) { [random] in
                random.bytes(8).reduce(0) { $0 << 8 | UInt64($1) }
            }
        }

        package var upkeep: any StorageUpkeep { PostgresUpkeep(cluster: cluster, objects: objects) }

        package var backups: any Backups { PostgresBackups() }

        package var shards: (any ClusterShards)? { PostgresClusterShards(cluster.shards) }

        package var alertIncidents: (any AlertIncidents)? { PostgresAlertIncidents(cluster.control) }

        package var duty: any ScheduledDuty { PostgresDuty(cluster.address) }

        // MARK: Settings

        private static let alerts = "alerts"

        package func alertOverrides() throws(BackupFailure) -> AlertOverrides {
            let text = try setting { connection throws(PostgresError) in
                try connection.query("SELECT value FROM setting WHERE name = $1", .text(Self.alerts)).first?.bytes(0)
            }
            guard let text else { return AlertOverrides() }
            guard let overrides = try? JSONDecoder().decode(AlertOverrides.self, from: Data(text)) else {
                throw .unreadable(
                    "The alert settings in the database",
                    "their content is invalid, so alerts use their default limits. Set the limits again: zonecast alert edit --help"
                )
            }
            return overrides
        }

        package func setAlertOverrides(_ overrides: AlertOverrides) throws(BackupFailure) {
            let encoder = JSONEncoder()
            encoder.outputFormatting = .sortedKeys
            guard let text = try? encoder.encode(overrides) else { return }
            _ = try setting { connection throws(PostgresError) in
                try connection.query(
                    """
                    INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = $2
                    """,
                    .text(Self.alerts),
                    .bytes([UInt8](text))
                ).changed
            }
        }

        private func setting<Value>(
            _ body: (PostgresConnection) throws(PostgresError) -> Value
        ) throws(BackupFailure) -> Value {
            do throws(PostgresError) { return try cluster.control.use(.writing, body) } catch {
                throw .unreadable("The database \(cluster.address)", "\(error)")
            }
        }
    }
#endif
