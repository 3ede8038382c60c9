#if Postgres
    import Crypto
    import Foundation
    import Records
    import RelayCore
    import StoreKit

    /// Inspection of a cluster's database.
    ///
    /// There are no files to name: PostgreSQL checks, compacts and copies its own.
    struct PostgresUpkeep: StorageUpkeep {
        let cluster: PostgresCluster
        var objects: (any AssetObjects)?

        var engine: (name: String, version: String) {
            let version = try? cluster.control.use(.reading) { connection throws(PostgresError) in
                try connection.query("SELECT current_setting('server_version')").first?.text(0)
            }
            return ("PostgreSQL", (version ?? nil)?.split(separator: " ").first.map(String.init) ?? "?")
        }

        // MARK: Layout

        var lacksAccounts: Bool { false }

        var isForeign: Bool {
            do throws(PostgresError) {
                try cluster.control.use(.reading) { _ throws(PostgresError) in }
                return false
            } catch {
                return error.code == .foreignLayout
            }
        }

        func accountsLayout() throws(DirectoryError) -> (file: LayoutStatus, journal: String) {
            try PostgresAccounts.wrapping {
                try cluster.control.use(.reading) { connection throws(PostgresError) in
                    let row = try connection.query(
                        "SELECT version, current_setting('synchronous_commit') FROM zonecast_layout"
                    ).first
                    let (version, newest) = (Int(row?.int(0) ?? 0), Int(PostgresLayout.version))
                    let file = LayoutStatus(
                        path: cluster.address.description,
                        version: version,
                        newVersion: newest,
                        error: version > newest ? LayoutError(found: version, known: 1...newest) : nil
                    )
                    return (file, row?.text(1) ?? "")
                }
            }
        }

        func storeFiles() throws(BackupFailure) -> [String] { [] }

        func layout(of file: String) throws(DirectoryError) -> LayoutStatus { throw .missing("file \(file)") }

        // MARK: Damage

        func faults(step: (String) -> Void) throws -> [StorageFault] { [] }

        var remedy: String {
            "Restore a backup of PostgreSQL: its log names the damaged table. Until then, a standby may have the data intact."
        }

        func checks() -> [StoreFinding] { PostgresChecks(cluster: cluster, objects: objects).all() }

        // MARK: Figures

        private func read<Value>(
            _ body: (PostgresConnection) throws(PostgresError) -> Value
        ) throws(DirectoryError) -> Value {
            try PostgresAccounts.wrapping { try cluster.stores.pool.use(.reading, body) }
        }

        /// The number of the environment; `nil` if it is unused.
        private static func number(
            of home: ContainerEnvironment,
            _ connection: PostgresConnection
        ) throws(PostgresError) -> Int64? {
            try connection.query(
                "SELECT id FROM home WHERE container = $1 AND environment = $2",
                .text(home.container.name),
                .text(home.environment.rawValue)
            ).first?.int(0)
        }

        /// Returns what `body` returns for the home's number on each shard that has one.
        private func each<Value>(
            _ home: ContainerEnvironment,
            _ body: (PostgresConnection, Int64) throws(PostgresError) -> Value
        ) throws(DirectoryError) -> [Value] {
            try PostgresAccounts.wrapping { () throws(PostgresError) in
                var found: [Value] = []
                for shard in try cluster.shards.refresh() {
                    let value = try shard.database.pool.use(.reading) { connection throws(PostgresError) -> Value? in
                        guard let number = try Self.number(of: home, connection) else { return nil }
                        return try body(connection, number)
                    }
                    if let value { found.append(value) }
                }
                return found
            }
        }

        func files(of home: ContainerEnvironment) throws -> StoreFiles? {
            guard var files = try ownFiles(of: home) else { return nil }
            // A command has not read yet which shards there are.
            let shards = try PostgresAccounts.wrapping { () throws(PostgresError) in try cluster.shards.refresh() }
            guard shards.count > 1 else { return files }
            let parts = try each(home) { connection, number throws(PostgresError) in
                let bytes = try connection.query(
                    "SELECT coalesce(sum(record_bytes), 0)::bigint FROM zone WHERE home = $1",
                    .int(number)
                ).first?.int(0)
                let used = try connection.query(
                    "SELECT DISTINCT u.hash FROM zone z JOIN asset_use u ON u.zone = z.id WHERE z.home = $1",
                    .int(number)
                )
                return (bytes: bytes ?? 0, used: used.map { Hex.encode($0.borrowedBytes(0)) })
            }
            files.bytes = parts.reduce(0) { $0 + $1.bytes }
            let used = Set(parts.flatMap(\.used))
            let stored = Set(files.assets.map(\.hash))
            files.assets = files.assets.map { asset in
                var asset = asset
                asset.isUsed = used.contains(asset.hash)
                return asset
            }
            files.missing = used.subtracting(stored).sorted()
            return files
        }

        /// Returns what the first database has.
        private func ownFiles(of home: ContainerEnvironment) throws -> StoreFiles? {
            try read { connection throws(PostgresError) in
                guard let number = try Self.number(of: home, connection) else { return nil }
                var queries = PostgresPipeline()
                queries.add("SELECT coalesce(sum(record_bytes), 0)::bigint FROM zone WHERE home = $1", .int(number))
                queries.add(
                    """
                    SELECT a.hash, a.size, (extract(epoch FROM a.touched_at) * 1000)::bigint, EXISTS (
                        SELECT 1 FROM asset_use u JOIN zone z ON z.id = u.zone WHERE u.hash = a.hash AND z.home = $1
                    ) FROM asset a WHERE a.home = $1 ORDER BY a.hash
                    """,
                    .int(number)
                )
                queries.add(
                    """
                    SELECT DISTINCT u.hash FROM asset_use u JOIN zone z ON z.id = u.zone
                    WHERE z.home = $1 AND NOT EXISTS (SELECT 1 FROM asset a WHERE a.home = $1 AND a.hash = u.hash)
                    ORDER BY u.hash
                    """,
                    .int(number)
                )
                let rows = try connection.run(queries)
                var files = StoreFiles()
                files.layout = Int(PostgresLayout.version)
                files.bytes = rows[0].first?.int(0) ?? 0
                files.assets = rows[1].map { row in
                    StoreFiles.Asset(
                        hash: Hex.encode(row.borrowedBytes(0)),
                        bytes: row.int(1),
                        isUsed: row.bool(3),
                        came: row.timestamp(2)
                    )
                }
                files.missing = rows[2].map { Hex.encode($0.borrowedBytes(0)) }
                return files
            }
        }

        func isWhole(_ asset: StoreFiles.Asset, of home: ContainerEnvironment) -> Bool {
            let digest = try? cluster.stores.pool.use(.reading) { connection throws(PostgresError) -> String? in
                guard let number = try Self.number(of: home, connection) else { return nil }
                let row = try connection.query(
                    "SELECT content FROM asset WHERE home = $1 AND hash = decode($2, 'hex') AND is_object",
                    .int(number),
                    .text(asset.hash)
                ).first
                if let row {
                    // Without the storage nothing can be said against it; the checks say that the storage is missing.
                    guard let objects else { return asset.hash }
                    return StoredObjects(objects, cluster.stores.pool).checksum(of: row.int(0))
                }
                var sum = SHA256()
                var next: Int64 = -1
                // Piece by piece, since the whole may be large.
                while let row = try connection.query(
                    """
                    SELECT c.n, c.bytes FROM asset a JOIN asset_chunk c ON c.content = a.content
                    WHERE a.home = $1 AND a.hash = decode($2, 'hex') AND c.n > $3 ORDER BY c.n LIMIT 1
                    """,
                    .int(number),
                    .text(asset.hash),
                    .int(next)
                ).first {
                    next = row.int(0)
                    sum.update(bufferPointer: UnsafeRawBufferPointer(row.borrowedBytes(1)))
                }
                return Hex.encode(sum.finalize())
            }
            return (digest ?? nil)?.hasPrefix(asset.hash) ?? false
        }

        func path(ofAsset hash: String, in home: ContainerEnvironment) -> String? { nil }

        func report(
            on home: ContainerEnvironment,
            month: CalendarMonth,
            naming count: Int
        ) throws -> StorageReport {
            let parts = try each(home) { connection, number throws(PostgresError) in
                try report(on: number, month: month, naming: count, connection)
            }
            guard var report = parts.first else { return StorageReport() }
            for part in parts.dropFirst() {
                report.owners += part.owners
                report.users += part.users
            }
            report.owners.sort {
                let (a, b) = ($0.use.records + $0.use.assets, $1.use.records + $1.use.assets)
                return a == b ? $0.user.recordName < $1.user.recordName : a > b
            }
            report.owners.removeLast(max(0, report.owners.count - count))
            return report
        }

        /// Returns the report on what one database has.
        private func report(
            on number: Int64,
            month: CalendarMonth,
            naming count: Int,
            _ connection: PostgresConnection
        ) throws(PostgresError) -> StorageReport {
            var report = StorageReport()
            var queries = PostgresPipeline()
            queries.add(
                """
                SELECT p.name, sum(z.record_bytes)::bigint, sum(z.asset_bytes)::bigint, count(*)
                FROM zone z JOIN person p ON p.id = z.owner
                WHERE z.home = $1 AND NOT z.deleted GROUP BY p.id, p.name
                ORDER BY sum(z.record_bytes) + sum(z.asset_bytes) DESC, p.name LIMIT $2
                """,
                .int(number),
                // One more, since the public database is among them.
                .int(Int64(clamping: count) &+ 1)
            )
            queries.add(
                """
                SELECT coalesce(sum(z.record_bytes), 0)::bigint, coalesce(sum(z.asset_bytes), 0)::bigint
                FROM zone z JOIN person p ON p.id = z.owner WHERE z.home = $1 AND NOT z.deleted AND p.name = $2
                """,
                .int(number),
                .text(Zone.publicOwner.recordName)
            )
            queries.add(
                """
                SELECT count(*) FROM zone z JOIN person p ON p.id = z.owner
                WHERE z.home = $1 AND z.name = $2 AND NOT z.deleted AND p.name <> $3
                """,
                .int(number),
                .text(ZoneID.defaultName),
                .text(Zone.publicOwner.recordName)
            )
            queries.add(
                "SELECT bytes FROM transfer WHERE home = $1 AND month = $2",
                .int(number),
                .int(Int64(month.number))
            )
            let rows = try connection.run(queries)
            report.owners = rows[0].map { row in
                StorageReport.Owner(
                    user: UserID(row.text(0)),
                    use: StorageUse(records: row.int(1), assets: row.int(2)),
                    zones: Int(row.int(3))
                )
            }.filter { $0.user != Zone.publicOwner }
            report.owners.removeLast(max(0, report.owners.count - count))
            if let row = rows[1].first { report.publicUse = StorageUse(records: row.int(0), assets: row.int(1)) }
            report.users = Int(rows[2].first?.int(0) ?? 0)
            report.sent = rows[3].first?.int(0) ?? 0
            return report
        }

        func use(of user: UserID, in home: ContainerEnvironment) throws -> (bytes: Int64, zones: Int) {
            let parts = try each(home) { connection, number throws(PostgresError) in
                let row = try connection.query(
                    """
                    SELECT coalesce(sum(z.record_bytes + z.asset_bytes), 0)::bigint, count(*)
                    FROM zone z JOIN person p ON p.id = z.owner WHERE p.home = $1 AND p.name = $2 AND NOT z.deleted
                    """,
                    .int(number),
                    .looked(user.recordName)
                ).first
                return (bytes: row?.int(0) ?? 0, zones: Int(row?.int(1) ?? 0))
            }
            return (parts.reduce(0) { $0 + $1.bytes }, parts.reduce(0) { $0 + $1.zones })
        }

        func defaultZoneNames(of user: UserID, in home: ContainerEnvironment) throws -> [String] {
            try names(
                """
                SELECT r.name FROM person p JOIN zone z ON z.owner = p.id JOIN record r ON r.zone = z.id
                WHERE p.home = $1 AND p.name = $2 AND z.name = $3 AND NOT z.deleted AND NOT r.deleted ORDER BY r.name
                """,
                [.looked(user.recordName), .text(ZoneID.defaultName)],
                in: home
            )
        }

        func publicNames(madeBy user: UserID, in home: ContainerEnvironment) throws -> [String] {
            try names(
                """
                SELECT r.name FROM person o JOIN zone z ON z.owner = o.id JOIN record r ON r.zone = z.id
                JOIN person p ON p.id = r.created_by
                WHERE o.home = $1 AND o.name = $3 AND p.name = $2 AND NOT z.deleted AND NOT r.deleted ORDER BY r.name
                """,
                [.looked(user.recordName), .text(Zone.publicOwner.recordName)],
                in: home
            )
        }

        private func names(
            _ sql: String,
            _ values: [PostgresValue],
            in home: ContainerEnvironment
        ) throws -> [String] {
            try each(home) { connection, number throws(PostgresError) in
                try connection.query(sql, [.int(number)] + values).map { $0.text(0) }
            }.flatMap(\.self).sorted()
        }

        // MARK: Space

        func rooms() throws -> [CompactionRoom] { [] }

        private static let compaction = BackupFailure.elsewhere(
            "The data is in PostgreSQL, which returns free space by itself (autovacuum): there is no file to compact."
        )

        func compact(_ file: String) throws { throw Self.compaction }

        func compactStepwise(_ file: String, _ step: (_ done: Int64, _ all: Int64) -> Void) throws {
            throw Self.compaction
        }

        // MARK: Whole containers, whole stores

        func remove(_ container: ContainerID, from accounts: any AccountDirectory) throws {
            guard let accounts = accounts as? PostgresAccounts else {
                throw DirectoryError.unavailable("the accounts are not in this database")
            }
            try accounts.revoke { connection in
                // The first database last: if this process ends before, the removal can be repeated.
                for shard in try cluster.shards.refresh() where shard.number != 1 {
                    for environment in Environment.allCases {
                        let home = ContainerEnvironment(container, environment)
                        try shard.database.pool.use(.writing) { connection throws(PostgresError) in
                            _ = try connection.begin(PostgresPipeline())
                            try HomeContent(home, connection)?.remove(connection)
                            try connection.commit()
                        }
                    }
                }
                for environment in Environment.allCases {
                    try HomeContent(ContainerEnvironment(container, environment), connection)?.remove(connection)
                }
                try PostgresAccounts.require(container, connection)
                try PostgresAccounts.remove(container, connection)
            }
            accounts.forgetSeen(container)
        }

        /// One transaction removes a container, so that there is never a rest.
        func finishRemoval(with accounts: any AccountDirectory) throws {}

        func copy(to target: String, step: (String) -> Void) throws(BackupFailure) -> CopySummary {
            throw .elsewhere(
                "The data is in PostgreSQL: copy it with pg_dump, or with pg_basebackup for a whole server."
            )
        }
    }
#endif
