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
            /// Set until a thread that watches the shard has got an answer.
            var failure: PostgresError?
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
            var listeners: [ObjectIdentifier: Listener] = [:]
        }

        enum Event {
            /// The shard can be reached again.
            case returned
            /// The shard has another address.
            case moved
        }

        typealias Listener = @Sendable (_ shard: Int, Event) -> Void

        /// How long a read waits for an answer of a shard other than the first one; the shard counts as down then.
        ///
        /// Requests that concern several shards need the others' answers meanwhile.
        let patience: Duration
        /// How often a shard that is down is asked whether it is back.
        private static let pause = 0.5
        private static let loadAge = Duration.seconds(10)

        /// The usual `patience`.
        package static let usualPatience = Duration.seconds(4)

        package init(
            control: PostgresDatabase,
            patience: Duration = PostgresShards.usualPatience,
            open: @escaping Opening
        ) {
            self.patience = patience
            let shard = Shard(1, control)
            self.control = shard
            self.open = open
            threads = BlockingThreads(name: "zonecast-shard", count: 0)
            state = Mutex(State(shards: [1: shard]))
        }

        /// Opens the other databases as the first one was opened.
        package convenience init(
            control: PostgresDatabase,
            patience: Duration = PostgresShards.usualPatience
        ) {
            self.init(control: control, patience: patience) { (number, url) throws(PostgresError) in
                let cluster = try control.pool.use(.brief) { connection throws(PostgresError) in
                    try PostgresLayout.cluster(of: connection)
                }
                return PostgresDatabase(
                    try control.pool.address.ofShard(url),
                    cluster: cluster,
                    shard: number,
                    limits: control.pool.limits,
                    timeouts: .ofShard(patience)
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
                let (isNew, former) = state.withLock { state -> (Bool, Shard?) in
                    guard state.urls[new.number] != new.url else { return (false, nil) }
                    defer { (state.shards[new.number], state.urls[new.number]) = (shard, new.url) }
                    return (true, state.shards[new.number])
                }
                if let former {
                    tell(former.number, .moved)
                    former.database.pool.close()
                } else if isNew {
                    // A reading of all shards needs one thread for each, and a shard that stands still holds some.
                    threads.start(shard.database.pool.limits.reading)
                }
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
            return placement(by: loads).shardForNewOwner(random: random)
        }

        /// Returns what decides about places, with what is known of the shards that do not answer.
        func placement(by loads: [ShardLoad]) -> ShardPlacement {
            ShardPlacement(
                loads.map { load in
                    var load = load
                    load.isReachable = state.withLock { $0.shards[load.number] }?.failure == nil
                    return load
                }
            )
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

        /// Calls `body`, unless the shard is down.
        ///
        /// Requests for its owners fail at once then, until a thread that watches it has got an answer.
        func use<Result>(
            _ shard: Shard,
            _ body: () throws(PostgresError) -> Result
        ) throws(PostgresError) -> Result {
            guard shard.number != 1 else { return try body() }
            if let failure = shard.failure { throw failure }
            do throws(PostgresError) { return try body() } catch {
                if error.isOfServer { failed(shard, error) }
                throw error
            }
        }

        /// Lets a shard count as down if an error in the middle of a read says that its server is gone or stands still.
        func note(_ error: PostgresError, of shard: Shard) {
            switch error.code {
            case .connectionLost, .unreachable: failed(shard, error)
            // The server stops, and says so.
            case .notWritable where error.sqlState != nil: failed(shard, error)
            default: break
            }
        }

        private func failed(_ shard: Shard, _ error: PostgresError) {
            let isNew = shard.health.withLock { health in
                defer { health.failure = error }
                return health.failure == nil
            }
            guard isNew else { return }
            Thread { [weak self] in
                while self?.isBack(shard) == false { Thread.sleep(forTimeInterval: Self.pause) }
            }.start()
        }

        /// Asks a shard that is down; returns whether the watch ends.
        private func isBack(_ shard: Shard) -> Bool {
            // It may have moved.
            _ = try? refresh()
            guard state.withLock({ !$0.isClosed && $0.shards[shard.number] === shard }) else { return true }
            let answer = try? shard.database.pool.use(.brief) { connection throws(PostgresError) in
                try connection.limitAnswers(to: patience) { () throws(PostgresError) in
                    try connection.query("SELECT 1").count
                }
            }
            guard answer != nil else { return false }
            shard.health.withLock { $0.failure = nil }
            tell(shard.number, .returned)
            return true
        }

        private func tell(_ number: Int, _ event: Event) {
            for listener in state.withLock({ Array($0.listeners.values) }) { listener(number, event) }
        }

        /// Calls `listener` with each event.
        func listen(_ owner: AnyObject, _ listener: @escaping Listener) {
            state.withLock { $0.listeners[ObjectIdentifier(owner)] = listener }
        }

        func stopListening(_ owner: ObjectIdentifier) { state.withLock { $0.listeners[owner] = nil } }
    }

    extension PostgresConnection.Timeouts {
        /// Those of a shard other than the first one, which must not hold up requests for the others.
        static func ofShard(_ patience: Duration = PostgresShards.usualPatience) -> PostgresConnection.Timeouts {
            var timeouts = PostgresConnection.Timeouts()
            timeouts.briefAnswer = patience
            return timeouts
        }
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
