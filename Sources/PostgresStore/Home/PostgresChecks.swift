#if Postgres
    import Foundation
    import Records
    import RelayCore
    import RelaySystem
    import StoreKit

    /// What the doctor wants to know of a cluster's database: whether it keeps what it has confirmed, and whether relays can
    /// work on it.
    struct PostgresChecks {
        /// The largest difference between the clocks of a relay and the database: tokens, limits and times of records
        /// come from the clocks of several relays.
        static let mostSkew = Duration.seconds(5)

        let cluster: PostgresCluster
        /// The database to check; `nil` for the first one.
        var address: PostgresAddress?
        var time = TimeSource.system
        var objects: (any AssetObjects)?

        func all() -> [StoreFinding] {
            let connection: PostgresConnection
            do throws(PostgresError) {
                connection = try cluster.control.take(.reading)
            } catch {
                return [StoreFinding("database", .problem, error.detail, next: error.remedy)]
            }
            defer { cluster.control.put(back: connection, .reading) }
            let checks: [Check] = [
                server, standby, archiving, clock, layout, notices,
            ]
            return run(checks, connection) + [storage(connection)].compactMap { $0 } + replicas(connection) + shards()
        }

        private typealias Check = (PostgresConnection) throws(PostgresError) -> StoreFinding

        private func run(_ checks: [Check], _ connection: PostgresConnection) -> [StoreFinding] {
            checks.map { check in
                do throws(PostgresError) { return try check(connection) } catch {
                    return StoreFinding("database", .problem, error.detail, next: error.remedy)
                }
            }
        }

        /// Checks the storage for assets; `nil` if all are in the database.
        private func storage(_ connection: PostgresConnection) -> StoreFinding? {
            guard let objects else {
                let row = try? connection.query("SELECT EXISTS (SELECT FROM asset WHERE is_object)").first
                guard (row ?? nil)?.bool(0) == true else { return nil }
                return StoreFinding(
                    "asset storage",
                    .problem,
                    "assets are in S3 storage, and this relay does not know which",
                    next: "set asset-storage as on the other relays"
                )
            }
            guard let failure = objects.probe() else {
                return StoreFinding("asset storage", .good, "\(objects.place): stores, reads and deletes")
            }
            return StoreFinding(
                "asset storage",
                .problem,
                failure,
                next: "correct the bucket, the keys or the endpoint"
            )
        }

        /// Checks the standbys that answer queries of public databases; without them the primary answers.
        private func replicas(_ primary: PostgresConnection) -> [StoreFinding] {
            (cluster.replicas?.addresses ?? []).map { address in
                let name = "replica \(address.servers.joined(separator: ","))"
                do throws(PostgresError) {
                    guard let time = try lag(of: address, behind: primary) else {
                        return StoreFinding(
                            name,
                            .problem,
                            "more than \(PostgresReplicas.usualBound.components.seconds) s behind the primary, which answers its queries",
                            next: "read the log of the replica, and SELECT * FROM pg_stat_replication on the primary"
                        )
                    }
                    return StoreFinding(
                        name,
                        .good,
                        "has replayed what the primary wrote \(time.wholeMilliseconds) ms ago"
                    )
                } catch {
                    let next = error.code == .otherCluster ? "correct public-query-replicas" : error.remedy
                    return StoreFinding(name, .problem, "\(error.detail) The primary answers its queries.", next: next)
                }
            }
        }

        /// Returns how long a standby took to replay the end of the primary's log; `nil` if it took too long.
        private func lag(
            of address: PostgresAddress,
            behind primary: PostgresConnection
        ) throws(PostgresError) -> Duration? {
            var timeouts = PostgresConnection.Timeouts()
            (timeouts.statement, timeouts.answer) = (.seconds(5), .seconds(5))
            let connection = try PostgresConnection(to: address, for: .reading, timeouts: timeouts)
            try PostgresReplicas.check(connection, of: cluster.stores)
            let start = ContinuousClock.now
            let end = try primary.query("SELECT pg_current_wal_flush_lsn()::text").first?.text(0)
            while ContinuousClock.now - start < PostgresReplicas.usualBound {
                let row = try connection.query("SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn", .text(end)).first
                if row?.bool(0) == true { return ContinuousClock.now - start }
                Thread.sleep(forTimeInterval: 0.02)
            }
            return nil
        }

        /// Checks the databases after the first, whose failures concern their own users only.
        private func shards() -> [StoreFinding] {
            guard let shards = try? cluster.shards.refresh(), shards.count > 1 else { return [] }
            var findings: [StoreFinding] = []
            for shard in shards where shard.number != 1 {
                let name = "shard \(shard.number)"
                var checks = self
                checks.address = shard.database.pool.address
                let found: [StoreFinding]
                do throws(PostgresError) {
                    found = try shard.database.pool.use(.reading) { connection throws(PostgresError) in
                        run([checks.server, standby, archiving, clock], connection)
                    }
                } catch {
                    findings.append(
                        StoreFinding(
                            name,
                            .problem,
                            "\(error.detail) Only its own users wait for it.",
                            next: error.remedy
                        )
                    )
                    continue
                }
                findings += found.map {
                    StoreFinding("\(name): \($0.check)", $0.grade, $0.found, next: $0.next)
                }
            }
            guard let moves = try? PostgresClusterShards(cluster.shards).unfinishedMoves(), let move = moves.first
            else {
                return findings
            }
            findings.append(
                StoreFinding(
                    "moves",
                    .advice,
                    "\(moves.count) moves of users have begun and not ended; their writes may be refused",
                    next: "zonecast cluster move \(move.user.recordName) --to \(move.target) completes the first one"
                )
            )
            return findings
        }

        private func server(_ connection: PostgresConnection) throws(PostgresError) -> StoreFinding {
            let row = try connection.query(
                """
                SELECT split_part(current_setting('server_version'), ' ', 1), pg_is_in_recovery(),
                current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean
                """
            ).first
            guard let row else { return StoreFinding("database", .problem, "the server answers nothing") }
            let name = "PostgreSQL \(row.text(0)), \(address ?? cluster.address)"
            guard !row.bool(1) else {
                return StoreFinding(
                    "database",
                    .problem,
                    "\(name): the server is a standby",
                    next: "name all servers of the cluster in the address, and promote one of them"
                )
            }
            guard row.bool(2), row.bool(3) else {
                return StoreFinding(
                    "database",
                    .problem,
                    "\(name): a loss of power destroys the database, since it does not write to disk in time",
                    next: "set fsync = on and full_page_writes = on in postgresql.conf"
                )
            }
            return StoreFinding("database", .good, "\(name), primary")
        }

        private func standby(_ connection: PostgresConnection) throws(PostgresError) -> StoreFinding {
            let row = try connection.query(
                """
                SELECT count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')),
                count(*) FILTER (WHERE sync_state IS NULL), current_setting('synchronous_commit'),
                current_setting('synchronous_standby_names') FROM pg_stat_replication
                """
            ).first
            guard let row else { return StoreFinding("standby", .problem, "the server does not say its standbys") }
            let (all, synchronous, hidden) = (row.int(0), row.int(1), row.int(2))
            let commit = row.text(3)
            guard commit != "off" else {
                return StoreFinding(
                    "standby",
                    .problem,
                    "a crash of the server loses writes that devices were told are stored (synchronous_commit is off)",
                    next: "set synchronous_commit = on in postgresql.conf"
                )
            }
            if row.text(4).isEmpty, all == 0 {
                return StoreFinding(
                    "standby",
                    .advice,
                    "none: if the server's disk is lost, everything since the last backup is lost",
                    next: "add a standby and name it in synchronous_standby_names"
                )
            }
            if row.text(4).isEmpty {
                return StoreFinding(
                    "standby",
                    .problem,
                    "asynchronous: a failover loses writes that devices were told are stored",
                    next:
                        "set synchronous_standby_names; with Patroni, synchronous_mode and synchronous_mode_strict: true"
                )
            }
            guard commit != "local" else {
                return StoreFinding(
                    "standby",
                    .problem,
                    "not waited for: a failover loses writes that devices were told are stored (synchronous_commit is local)",
                    next: "set synchronous_commit = on in postgresql.conf"
                )
            }
            if synchronous == 0, hidden > 0 {
                return StoreFinding(
                    "standby",
                    .advice,
                    "synchronous, but the relay's user may not see whether one is connected",
                    next: "GRANT pg_monitor TO the relay's user"
                )
            }
            guard synchronous > 0 else {
                return StoreFinding(
                    "standby",
                    .problem,
                    "none of the synchronous standbys is connected, so that every write waits",
                    next: "start the standby, or correct synchronous_standby_names (\(row.text(4)))"
                )
            }
            return StoreFinding("standby", .good, "\(synchronous) synchronous of \(all)")
        }

        private func archiving(_ connection: PostgresConnection) throws(PostgresError) -> StoreFinding {
            let row = try connection.query(
                """
                SELECT current_setting('archive_mode') <> 'off', coalesce(last_failed_time > last_archived_time, \
                last_failed_time IS NOT NULL), last_archived_time IS NOT NULL,
                coalesce(extract(epoch FROM now() - last_archived_time), 0)::bigint FROM pg_stat_archiver
                """
            ).first
            let next = "set archive_mode and archive_command, and make base backups (pg_basebackup or pgBackRest)"
            guard let row, row.bool(0) else {
                return StoreFinding("backup", .advice, "PostgreSQL archives no log, so there is no backup", next: next)
            }
            guard !row.bool(1) else {
                return StoreFinding(
                    "backup",
                    .problem,
                    "PostgreSQL's latest attempt to archive its log failed",
                    next: "read the server's log, and correct archive_command"
                )
            }
            guard row.bool(2) else {
                return StoreFinding("backup", .advice, "PostgreSQL archives its log, and has archived nothing yet")
            }
            return StoreFinding("backup", .good, "PostgreSQL archived its log \(row.int(3)) s ago")
        }

        /// Returns how far the database's clock is ahead of this machine's.
        func skew(_ connection: PostgresConnection) throws(PostgresError) -> Duration {
            let sent = time.now()
            let row = try connection.query("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").first
            let back = time.now()
            // The answer took a while, and was true in the middle of it.
            let middle = (sent.milliseconds + back.milliseconds) / 2
            return .milliseconds((row?.int(0) ?? middle) - middle)
        }

        /// - Throws: `clockSkew` if the two clocks differ too much.
        func requireClock(_ connection: PostgresConnection) throws(PostgresError) {
            let skew = try skew(connection)
            guard skew > Self.mostSkew || skew < .zero - Self.mostSkew else { return }
            throw PostgresError(.clockSkew, Self.words(skew))
        }

        private static func words(_ skew: Duration) -> String {
            let seconds = (skew < .zero ? .zero - skew : skew).components.seconds
            return "The clock of this machine is \(seconds) s \(skew < .zero ? "ahead of" : "behind") the database's."
        }

        private func clock(_ connection: PostgresConnection) throws(PostgresError) -> StoreFinding {
            let skew = try skew(connection)
            guard skew <= Self.mostSkew, skew >= .zero - Self.mostSkew else {
                let error = PostgresError(.clockSkew, Self.words(skew))
                return StoreFinding("database clock", .problem, error.detail, next: error.remedy)
            }
            return StoreFinding("database clock", .good, "\(abs(skew.wholeMilliseconds)) ms from this machine's")
        }

        private func layout(_ connection: PostgresConnection) throws(PostgresError) -> StoreFinding {
            let row = try connection.query("SELECT version, cluster FROM zonecast_layout").first
            return StoreFinding("layout", .good, "version \(row?.int(0) ?? 0), cluster \(row?.text(1) ?? "")")
        }

        /// Checks that the connection is to the server itself: a pooler such as PgBouncer drops LISTEN.
        private func notices(_ connection: PostgresConnection) throws(PostgresError) -> StoreFinding {
            var statements = PostgresPipeline()
            statements.add("LISTEN zonecast_doctor")
            try connection.run(statements)
            let row = try connection.query(
                "SELECT pg_backend_pid(), EXISTS (SELECT 1 FROM pg_listening_channels() c WHERE c = 'zonecast_doctor')"
            ).first
            try connection.query("UNLISTEN zonecast_doctor")
            guard let row, row.int(0) == Int64(connection.serverProcess), row.bool(1) else {
                return StoreFinding(
                    "LISTEN",
                    .problem,
                    "another program is between relay and server, and drops LISTEN",
                    next: "name the servers themselves in the address, not a pooler such as PgBouncer"
                )
            }
            return StoreFinding("LISTEN", .good, "the server keeps it")
        }
    }
#endif
