#if Postgres
    import Foundation
    import Records
    import RelayCore
    package import StoreKit
    import Synchronization

    /// The databases of a cluster, as one process uses them.
    ///
    /// Shard 1 is the database with which the cluster began. It says which others there are, and where every owner is.
    package final class PostgresShards: Sendable {
        /// A database of the cluster.
        package final class Shard: Sendable {
            package let number: Int
            package let database: PostgresDatabase
            fileprivate let health = Mutex(Health())

            init(_ number: Int, _ database: PostgresDatabase) {
                self.number = number
                self.database = database
            }

            /// Why the database cannot be reached; `nil` if it could the last time.
            package var failure: PostgresError? { health.withLock { $0.failure } }
        }

        fileprivate struct Health {
            var failure: PostgresError?
            var askAgain = ContinuousClock.now
            var isWatched = false
        }

        /// Opens the database of another shard; connects when a connection is needed.
        package typealias Opening = @Sendable (_ number: Int, _ url: String) throws(PostgresError) -> PostgresDatabase

        package let control: Shard
        /// For reads of several shards at once, and for what must not run on the thread of a caller.
        let threads: BlockingThreads
        private let open: Opening
        private let state: Mutex<State>

        private struct State {
            var shards: [Int: Shard]
            var urls: [Int: String] = [:]
            var loads: [ShardLoad] = []
            var loadedAt: ContinuousClock.Instant?
            var isClosed = false
            var listeners: [ObjectIdentifier: @Sendable (Int) -> Void] = [:]
        }

        /// How long a shard that could not be reached is not asked, so that requests for its owners fail at once.
        private static let pause = Duration.seconds(1)
        private static let loadAge = Duration.seconds(10)

        package init(control: PostgresDatabase, open: @escaping Opening) {
            let shard = Shard(1, control)
            self.control = shard
            self.open = open
            threads = BlockingThreads(name: "zonecast-shard", count: 0)
            state = Mutex(State(shards: [1: shard]))
        }

        /// Opens the other databases as the first one was opened.
        package convenience init(control: PostgresDatabase) {
            self.init(control: control) { (number, url) throws(PostgresError) in
                let cluster = try control.pool.use(.brief) { connection throws(PostgresError) in
                    try PostgresLayout.cluster(of: connection)
                }
                return PostgresDatabase(
                    try control.pool.address.ofShard(url),
                    cluster: cluster,
                    shard: number,
                    limits: control.pool.limits
                )
            }
        }

        /// Closes the connections to the other databases.
        package func close() {
            let others = state.withLock { state in
                state.isClosed = true
                return state.shards.values.filter { $0.number != 1 }
            }
            for shard in others { shard.database.pool.close() }
        }

        /// Those that are known, in the order of their numbers.
        package var all: [Shard] { state.withLock { $0.shards.values.sorted { $0.number < $1.number } } }

        /// Reads which shards there are; call it when one turns up that is not known.
        @discardableResult
        package func refresh() throws(PostgresError) -> [Shard] {
            let rows = try control.database.pool.use(.brief) { connection throws(PostgresError) in
                try connection.query("SELECT number, url FROM shard WHERE url IS NOT NULL ORDER BY number")
            }
            var news: [(number: Int, url: String)] = []
            let urls = state.withLock { $0.urls }
            for row in rows where urls[Int(row.int(0))] != row.text(1) { news.append((Int(row.int(0)), row.text(1))) }
            for new in news {
                let shard = Shard(new.number, try open(new.number, new.url))
                state.withLock { state in
                    guard state.urls[new.number] != new.url else { return }
                    state.shards[new.number] = shard
                    state.urls[new.number] = new.url
                }
                // A reading of all shards needs one thread for each, and a shard that stands still holds some.
                threads.start(shard.database.pool.limits.reading)
            }
            return all
        }

        package func shard(_ number: Int) throws(PostgresError) -> Shard {
            if let known = state.withLock({ $0.shards[number] }) { return known }
            try refresh()
            guard let found = state.withLock({ $0.shards[number] }) else {
                throw PostgresError(.damaged, "Shard \(number) is not among the shards of the cluster.")
            }
            return found
        }

        /// Returns what is known of a shard without asking for it.
        func state(of shard: Shard) -> ShardState {
            var found = ShardState(
                number: shard.number,
                place: "\(shard.database.pool.address)",
                failure: shard.failure.map { "\($0)" }
            )
            if let load = state.withLock({ $0.loads }).first(where: { $0.number == shard.number }) {
                found.takesOwners = load.takesOwners
                found.room = load.room
                (found.bytes, found.owners) = (load.bytes, load.owners)
            }
            return found
        }

        // MARK: Placement

        /// Returns the shard of a new owner; `random` has 64 random bits.
        func shardForNewOwner(random: UInt64) throws(PostgresError) -> Int {
            let known = state.withLock { state -> [ShardLoad]? in
                guard let at = state.loadedAt, .now - at < Self.loadAge else { return nil }
                return state.loads
            }
            let loads: [ShardLoad]
            if let known { loads = known } else { loads = try readLoads() }
            // Owners of a shard that cannot be reached could not begin.
            let reachable = loads.filter { load in
                state.withLock { $0.shards[load.number] }?.failure == nil
            }
            return ShardPlacement(reachable).shardForNewOwner(random: random)
        }

        /// Returns what shard 1 knows of the load of all shards.
        @discardableResult
        package func readLoads() throws(PostgresError) -> [ShardLoad] {
            let rows = try control.database.pool.use(.brief) { connection throws(PostgresError) in
                try connection.query(
                    """
                    SELECT number, takes_owners, room, bytes, owners, change_rate::bigint,
                    coalesce(measured < now() - make_interval(secs => $1::double precision), true)
                    FROM shard ORDER BY number
                    """,
                    .int(Self.measurementAge)
                )
            }
            var loads: [ShardLoad] = []
            for row in rows {
                var load = ShardLoad(number: Int(row.int(0)), takesOwners: row.bool(1), room: row.optionalInt(2))
                (load.bytes, load.owners) = (row.int(3), row.int(4))
                load.changeRate = Double(row.int(5))
                loads.append(load)
            }
            let read = loads
            state.withLock { ($0.loads, $0.loadedAt) = (read, .now) }
            // Several processes may measure at once, which does no harm.
            if rows.contains(where: { $0.bool(6) }) { threads.add { [weak self] in try? self?.measure() } }
            return loads
        }

        // MARK: Health

        /// Calls `body`, unless the shard could not be reached a moment ago.
        func use<Result>(
            _ shard: Shard,
            _ body: () throws(PostgresError) -> Result
        ) throws(PostgresError) -> Result {
            guard shard.number != 1 else { return try body() }
            let refusal = shard.health.withLock { health in
                health.failure.flatMap { .now < health.askAgain ? $0 : nil }
            }
            if let refusal { throw refusal }
            do throws(PostgresError) {
                let result = try body()
                if shard.failure != nil { returned(shard) }
                return result
            } catch {
                if error.isOfServer { failed(shard, error) }
                throw error
            }
        }

        private func failed(_ shard: Shard, _ error: PostgresError) {
            let isNew = shard.health.withLock { health in
                health.failure = error
                health.askAgain = .now + Self.pause
                defer { health.isWatched = true }
                return !health.isWatched
            }
            guard isNew else { return }
            Thread { [weak self] in
                while self?.isBack(shard) == false { Thread.sleep(forTimeInterval: 0.5) }
            }.start()
        }

        /// Asks a shard that could not be reached; returns whether the watch ends.
        private func isBack(_ shard: Shard) -> Bool {
            if state.withLock({ $0.isClosed }) { return true }
            let answer = try? shard.database.pool.use(.brief) { connection throws(PostgresError) in
                try connection.query("SELECT 1").count
            }
            if answer != nil { returned(shard) }
            return answer != nil
        }

        private func returned(_ shard: Shard) {
            let wasDown = shard.health.withLock { health in
                defer { health = Health() }
                return health.failure != nil
            }
            guard wasDown else { return }
            for listener in state.withLock({ Array($0.listeners.values) }) { listener(shard.number) }
        }

        /// Calls `listener` with the number of each shard that can be reached again.
        func listen(_ owner: AnyObject, _ listener: @escaping @Sendable (Int) -> Void) {
            state.withLock { $0.listeners[ObjectIdentifier(owner)] = listener }
        }

        func stopListening(_ owner: ObjectIdentifier) { state.withLock { $0.listeners[owner] = nil } }
    }

    extension PostgresError {
        /// Whether the server is to blame, and so all requests to it fail.
        fileprivate var isOfServer: Bool {
            switch code {
            case .unreachable, .noPrimary, .connectionLost, .notWritable, .tooManyConnections, .timedOut, .accessDenied,
                .noDatabase, .otherCluster, .noLayout, .foreignLayout, .foreignEncoding, .newerLayout, .serverTooOld:
                true
            default: false
            }
        }
    }
#endif
