#if Postgres
    import Foundation
    import RelayCore
    import Synchronization

    /// Hot standbys of the first database that answer queries of public databases, and nothing else.
    ///
    /// What a standby shows is what the primary showed some time ago, in another order of commits. A query bears that, for
    /// which CloudKit promises no more. A feed does not: its token would skip what the standby has not replayed yet.
    ///
    /// A replica answers while what it shows is at most `bound` old. Its age is measured without the clocks of servers: about
    /// once a second this process asks the primary for the end of its log, and remembers when. A replica that has replayed the
    /// log up to there is at least as new as that moment, however long the primary has written nothing.
    package final class PostgresReplicas: Sendable {
        /// One standby.
        final class Replica: Sendable {
            let pool: PostgresPool
            fileprivate let state = Mutex(State())
            private let count = Atomic(0)

            fileprivate struct State {
                /// The latest moment whose commits it is known to show.
                var showsAll: ContinuousClock.Instant?
                var failure: PostgresError?
            }

            fileprivate init(_ pool: PostgresPool) { self.pool = pool }

            /// The number of queries that it has answered.
            var answered: Int { count.load(ordering: .relaxed) }

            func noteAnswer() { count.add(1, ordering: .relaxed) }

            fileprivate func isUsable(_ bound: Duration) -> Bool {
                state.withLock { state in state.showsAll.map { .now - $0 <= bound } ?? false }
            }
        }

        /// How old the answers of a replica may be.
        package static let usualBound = Duration.seconds(5)

        private let primary: PostgresDatabase
        private let replicas: [Replica]
        private let bound: Duration
        private let interval: Duration
        private let turn = Atomic(0)
        private let log = Mutex(PrimaryLog())
        private let watch = Mutex((isStarted: false, isClosed: false))

        /// Where the primary's log ended, and when.
        private struct PrimaryLog {
            struct End {
                var at: ContinuousClock.Instant
                var position: Int64
            }

            /// The latest ones, the oldest first.
            var ends: [End] = []
            /// The generation of the primary that they belong to.
            var generation = 0
        }

        /// Connects when the first query is to be answered.
        ///
        /// - Parameters:
        ///   - addresses: one for each standby: see `PostgresAddress.ofReplicas`.
        ///   - primary: the database that they follow.
        ///   - limits: how many connections there may be to each.
        ///   - bound: how old answers may be.
        ///   - interval: how often the age of each replica is measured.
        package init(
            _ addresses: [PostgresAddress],
            of primary: PostgresDatabase,
            limits: PostgresPool.Limits = .init(),
            bound: Duration = PostgresReplicas.usualBound,
            interval: Duration = .seconds(1)
        ) {
            (self.primary, self.bound, self.interval) = (primary, bound, interval)
            var limits = limits
            (limits.brief, limits.wait) = (2, .seconds(1))
            replicas = addresses.map { address in
                Replica(
                    PostgresPool(address, limits: limits) { connection throws(PostgresError) in
                        try Self.check(connection, of: primary)
                    }
                )
            }
        }

        /// Closes all connections.
        package func close() {
            watch.withLock { $0.isClosed = true }
            for replica in replicas { replica.pool.close() }
        }

        /// Throws if a server is no copy of the primary.
        static func check(_ connection: PostgresConnection, of primary: PostgresDatabase) throws(PostgresError) {
            let row = try connection.query(
                """
                SELECT pg_is_in_recovery(), l.server = c.system_identifier, l.shard, l.cluster
                FROM zonecast_layout l, pg_control_system() c
                """
            ).first
            let cluster = try primary.pool.use(.brief) { connection throws(PostgresError) in
                try PostgresLayout.cluster(of: connection)
            }
            guard let row, row.bool(0), row.bool(1), row.int(2) == 1, row.text(3) == cluster else {
                throw PostgresError(
                    .otherCluster,
                    "The server at \(connection.serverName) is no standby of the relays' database."
                )
            }
        }

        // MARK: Choice

        /// Returns one of the replicas that are new enough, in rotation; `nil` if there is none.
        func next() -> Replica? {
            start()
            let usable = replicas.filter { $0.isUsable(bound) }
            guard !usable.isEmpty else { return nil }
            return usable[Int(turn.add(1, ordering: .relaxed).oldValue.magnitude % UInt(usable.count))]
        }

        var addresses: [PostgresAddress] { replicas.map(\.pool.address) }

        /// What is known of all replicas, without asking them.
        var states: [ReplicaState] {
            replicas.map { replica in
                ReplicaState(
                    place: replica.pool.address.servers.joined(separator: ","),
                    isUsable: replica.isUsable(bound),
                    answered: replica.answered
                )
            }
        }

        // MARK: Age

        private func start() {
            let isFirst = watch.withLock { watch in
                defer { watch.isStarted = true }
                return !watch.isStarted && !watch.isClosed
            }
            guard isFirst else { return }
            // A replica that stands still keeps its own thread waiting.
            for replica in replicas {
                let pause = interval / .seconds(1)
                Thread { [weak self] in
                    while self?.measure(replica) == true { Thread.sleep(forTimeInterval: pause) }
                }.start()
            }
        }

        /// How long a replica may take to say how far it is.
        private static let patience = Duration.seconds(2)

        /// Finds out how new a replica is; returns `false` at the end.
        private func measure(_ replica: Replica) -> Bool {
            guard !watch.withLock({ $0.isClosed }) else { return false }
            do throws(PostgresError) {
                let end = try endOfLog(notBefore: .now - interval / 2)
                let replayed = try replica.pool.use(.brief) { connection throws(PostgresError) in
                    try connection.limitAnswers(to: Self.patience) { () throws(PostgresError) in
                        try connection.query(
                            "SELECT pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint WHERE pg_is_in_recovery()"
                        ).first?.int(0)
                    }
                }
                guard let replayed else {
                    throw PostgresError(.noPrimary, "The replica at \(replica.pool.address) is no standby.")
                }
                // A former primary, or a standby of one, may have what the present one has not.
                if replayed > end.position, replayed > (try endOfLog(notBefore: .now)).position {
                    throw PostgresError(.otherCluster, "\(replica.pool.address) does not follow the primary.")
                }
                let shown = log.withLock { log in log.ends.last { $0.position <= replayed }?.at }
                replica.state.withLock { ($0.showsAll, $0.failure) = (shown, nil) }
            } catch {
                replica.state.withLock { ($0.showsAll, $0.failure) = (nil, error) }
                // Its queries would wait for answers that do not come, instead of asking the primary.
                replica.pool.cutAll()
            }
            return true
        }

        /// Returns where the primary's log ended at a moment, which must not be older than `limit`.
        private func endOfLog(notBefore limit: ContinuousClock.Instant) throws(PostgresError) -> PrimaryLog.End {
            let generation = primary.generation
            let known = log.withLock { log in log.generation == generation ? log.ends.last : nil }
            if let known, known.at >= limit { return known }
            let start = ContinuousClock.now
            let position = try primary.pool.use(.brief) { connection throws(PostgresError) in
                try connection.query("SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint").first?.int(0)
            }
            guard let position else { throw PostgresError(.failed, "The primary does not say how long its log is.") }
            let end = PrimaryLog.End(at: start, position: position)
            log.withLock { log in
                // Positions of another timeline say nothing.
                if log.generation != generation { log = PrimaryLog(generation: generation) }
                // Two threads may have asked, and the later one been faster.
                guard log.ends.last.map({ $0.at < start && $0.position <= position }) ?? true else { return }
                log.ends.append(end)
                log.ends.removeAll { start - $0.at > bound * 2 }
            }
            return end
        }
    }

    extension PostgresAddress {
        /// Returns the addresses of standbys of this database, one for each host of the URL.
        ///
        /// Without a user or password of its own, a standby has those of the database; a standby is a copy of them.
        package func ofReplicas(_ url: String) throws(PostgresError) -> [PostgresAddress] {
            try ofShard(url).each.map { $0.accepting("standby") }
        }
    }
#endif
