#if Postgres
    import Crypto
    import Records
    import RelayCore
    import Synchronization

    /// Attempts and used values of all relays, in the table `attempt`.
    ///
    /// A row has the time from which it is worth nothing: for a value, when its use is forgotten; for a limit, when its
    /// bucket is full again. Each attempt moves that time forward by the time in which the bucket gains one attempt, which
    /// is refused if it would then be later than the time in which an empty bucket becomes full ("generic cell rate
    /// algorithm").
    ///
    /// The number of rows is limited by removing those that are worth nothing, and all counts if there are too many others.
    /// Of a flood of attempts with one key, only one a second asks the database, and few attempts at a time wait for it.
    final class PostgresAttempts: Attempts {
        private static let mostCounts: Int64 = 100_000
        /// After how many attempts at this relay expired rows are removed.
        private static let attemptsPerRemoval = 1_000
        /// How many threads may wait for the database, of which all requests have a limited number.
        private static let mostWaiting = 8
        private static let mostRefusals = 4_096

        /// How long a refusal is repeated without asking again: another relay may give an attempt back.
        private static let memory: Int64 = 1_000

        /// Times in milliseconds since 1970.
        private struct Refusal {
            var asked: Int64
            var until: Int64
        }

        private struct State {
            var refusals: [[UInt8]: Refusal] = [:]
            var waiting = 0
            var attempts = 0
        }

        private let pool: PostgresPool
        private let time: TimeSource
        private let state = Mutex(State())

        init(_ pool: PostgresPool, _ time: TimeSource) {
            self.pool = pool
            self.time = time
        }

        private var now: Int64 { time.now().milliseconds }

        private enum Kind: UInt8 {
            case count = 0
            case use = 1
        }

        private static func key(_ kind: Kind, _ text: String) -> [UInt8] {
            [kind.rawValue] + SHA256.hash(data: Array(text.utf8)).prefix(16)
        }

        /// Runs the statements, again if the connection turns out to be broken: twice counted is better than not at all.
        private func run(_ pipeline: PostgresPipeline) throws(DirectoryError) -> [PostgresRows] {
            try PostgresAccounts.wrapping { () throws(PostgresError) in
                do throws(PostgresError) {
                    return try pool.use(.writing) { connection throws(PostgresError) in try connection.run(pipeline) }
                } catch {
                    guard error.code == .connectionLost else { throw error }
                    return try pool.use(.writing) { connection throws(PostgresError) in try connection.run(pipeline) }
                }
            }
        }

        package func take(_ key: String, of limit: RateLimit) throws(DirectoryError) -> Duration? {
            let (key, now, cost) = (Self.key(.count, key), now, limit.cost)
            let (refusal, isTime) = state.withLock { state -> (Duration?, Bool) in
                if let refusal = state.refusals[key], refusal.until > now,
                    (refusal.asked..<refusal.asked + Self.memory).contains(now)
                {
                    return (.milliseconds(refusal.until - now), false)
                }
                guard state.waiting < Self.mostWaiting else { return (.seconds(1), false) }
                state.waiting += 1
                state.attempts += 1
                return (nil, state.attempts.isMultiple(of: Self.attemptsPerRemoval))
            }
            if let refusal { return refusal }
            defer { state.withLock { $0.waiting -= 1 } }
            if isTime { try removeExpired() }
            var pipeline = PostgresPipeline()
            let latest = now + limit.window
            // A relay whose clock was ahead must not lock everybody out.
            pipeline.add("UPDATE attempt SET ends = $2 WHERE key = $1 AND ends > $2", .bytes(key), .int(latest))
            let place = pipeline.add(
                """
                INSERT INTO attempt AS a (key, ends) VALUES ($1, $2 + $3)
                ON CONFLICT (key) DO UPDATE SET ends = greatest(a.ends, $2) + $3 WHERE greatest(a.ends, $2) + $3 <= $4
                RETURNING ends
                """,
                .bytes(key),
                .int(now),
                .int(cost),
                .int(latest)
            )
            pipeline.add("SELECT ends FROM attempt WHERE key = $1", .bytes(key))
            let rows = try run(pipeline)
            guard rows[place].isEmpty else { return nil }
            let until = (rows[place + 1].first?.int(0) ?? latest) + cost - limit.window
            guard until > now else { return .milliseconds(cost) }
            noteRefusal(of: key, until: until, at: now)
            return .milliseconds(until - now)
        }

        private func noteRefusal(of key: [UInt8], until end: Int64, at now: Int64) {
            state.withLock { state in
                if state.refusals.count >= Self.mostRefusals {
                    state.refusals = state.refusals.filter { $0.value.asked + Self.memory > now }
                    if state.refusals.count > Self.mostRefusals / 2 { state.refusals = [:] }
                }
                state.refusals[key] = Refusal(asked: now, until: end)
            }
        }

        package func giveBack(_ key: String, of limit: RateLimit) throws(DirectoryError) {
            let key = Self.key(.count, key)
            state.withLock { $0.refusals[key] = nil }
            var pipeline = PostgresPipeline()
            pipeline.add("UPDATE attempt SET ends = ends - $2 WHERE key = $1", .bytes(key), .int(limit.cost))
            _ = try run(pipeline)
        }

        package func isFirstUse(of value: String, within lifetime: Duration) throws(DirectoryError) -> Bool {
            let now = now
            var pipeline = PostgresPipeline()
            pipeline.add(
                """
                INSERT INTO attempt AS a (key, ends) VALUES ($1, $2)
                ON CONFLICT (key) DO UPDATE SET ends = $2 WHERE a.ends <= $3 RETURNING ends
                """,
                .bytes(Self.key(.use, value)),
                .int(now + lifetime.wholeMilliseconds),
                .int(now)
            )
            return try run(pipeline).first?.isEmpty == false
        }

        package func removeExpired() throws(DirectoryError) {
            var pipeline = PostgresPipeline()
            pipeline.add("DELETE FROM attempt WHERE ends <= $1", .int(now))
            pipeline.add(
                """
                DELETE FROM attempt WHERE key < $1 AND (SELECT count(*) FROM attempt WHERE key < $1) > $2
                """,
                .bytes([Kind.use.rawValue]),
                .int(Self.mostCounts)
            )
            _ = try run(pipeline)
        }
    }

    extension RateLimit {
        /// The milliseconds in which a bucket gains one attempt.
        fileprivate var cost: Int64 { max(1, Int64((1_000 / perSecond).rounded())) }

        /// The milliseconds in which an empty bucket becomes full.
        fileprivate var window: Int64 { Int64((Double(cost) * max(1, burst)).rounded()) }
    }
#endif
