#if Postgres
    import Foundation
    package import Records
    package import RelayCore
    package import StoreKit
    import Synchronization

    /// The stores of all containers in one database, opened on demand.
    ///
    /// An open store uses threads and memory, but no connection of its own, so the number of open stores is limited by what
    /// the options say alone. To open another one, the least recently used store that is idle is closed.
    package final class PostgresStores: ServedStores {
        package let database: PostgresDatabase
        /// The databases; the first one is `database`.
        package let databases: PostgresShards
        private let standbys: PostgresReplicas?
        private let options: StoreOptions
        private let scheduler: CommitScheduler?
        private let open = Mutex(OpenStores())
        /// One store is opened or closed at a time; that takes a few round trips.
        private let opening = Mutex(())
        private let readers: BlockingExecutor
        private let cache: AssetCache
        /// The greatest number of databases so far.
        private let numberOfShards = Mutex(1)
        private let objects: (any AssetObjects)?
        /// The environments whose assets this process has used.
        private let homesWithAssets = Mutex<Set<ContainerEnvironment>>([])

        /// Opens nothing yet.
        ///
        /// - Parameters:
        ///   - database: the database.
        ///   - options: how stores are opened, and what they report.
        ///   - cache: the files of assets on this machine.
        ///   - objects: the storage for the contents of new assets; `nil` keeps them in the database.
        ///   - scheduler: runs commits in place of the stores' own threads; reads run on the caller's thread then.
        ///   - shards: all databases of the cluster; `nil` opens the others as `database` was opened.
        ///   - replicas: standbys of `database` that answer queries of public databases.
        package init(
            _ database: PostgresDatabase,
            _ options: StoreOptions,
            cache: AssetCache,
            objects: (any AssetObjects)? = nil,
            scheduler: CommitScheduler? = nil,
            shards: PostgresShards? = nil,
            replicas: PostgresReplicas? = nil
        ) {
            standbys = replicas
            self.database = database
            self.databases = shards ?? PostgresShards(control: database)
            self.cache = cache
            self.objects = objects
            self.options = options
            self.scheduler = scheduler
            readers = BlockingExecutor(name: "zonecast-read", threads: database.pool.limits.reading)
        }

        /// Threads for what may block; `nil` if the caller runs the commits too, and decides on which threads.
        package var executor: (any TaskExecutor)? { scheduler == nil ? readers : nil }

        package func store(of home: ContainerEnvironment) throws(RelayError) -> any Store {
            try openedStore(of: home).store
        }

        private func openedStore(of home: ContainerEnvironment) throws(RelayError) -> OpenedStore {
            if let store = open.withLock({ $0.use(home) }) { return store }
            return try opening.withLock { _ throws(RelayError) in
                // Another thread may have opened it meanwhile.
                if let store = open.withLock({ $0.use(home) }) { return store }
                if open.withLock({ $0.isHeld(home) }) { throw .storeIsHeld }
                closeIdle(downTo: options.mostOpen - 1)
                let store = try makeStore(of: home)
                open.withLock { $0.opened(store, of: home) }
                return store
            }
        }

        private func makeStore(of home: ContainerEnvironment) throws(RelayError) -> OpenedStore {
            do throws(PostgresError) {
                let count = try databases.refresh().count
                guard count > 1 else {
                    let events = options.events
                    return OpenedStore(
                        one: try PostgresStore(
                            home,
                            in: database,
                            draw: options.draw,
                            tuning: options.tuning,
                            onCommit: { events.committed(home, $0) },
                            onCommitTime: events.commitTook,
                            onDamage: { [place = "\(database.pool.address)"] in events.foundDamage(home, place, []) },
                            scheduler: scheduler,
                            replicas: standbys
                        )
                    )
                }
                // Reads of shards that stand still keep some threads busy.
                let known = numberOfShards.withLock { known in
                    defer { known = max(known, count) }
                    return known
                }
                if count > known { readers.addThreads((count - known) * database.pool.limits.reading) }
                let events = options.events
                return OpenedStore(
                    many: try databases.store(
                        of: home,
                        options,
                        onCommit: { events.committed(home, $0) },
                        scheduler: scheduler,
                        replicas: standbys
                    )
                )
            } catch {
                throw error.relayError
            }
        }

        package func isThere(_ home: ContainerEnvironment) -> Bool {
            if open.withLock({ $0.isOpen(home) }) { return true }
            let row = try? database.pool.use(.brief) { connection throws(PostgresError) in
                try HomeRow.find(home, connection)
            }
            return row.flatMap { $0 } != nil
        }

        package func assets(of home: ContainerEnvironment) throws(RelayError) -> any AssetStore {
            try postgresAssets(of: home)
        }

        private func postgresAssets(of home: ContainerEnvironment) throws(RelayError) -> PostgresAssets {
            homesWithAssets.withLock { _ = $0.insert(home) }
            do throws(PostgresError) {
                let draw = options.draw
                // Read each time, since a command of another process may have replaced the container.
                let row = try database.pool.use(.brief) { connection throws(PostgresError) in
                    try HomeRow.ensure(home, draw: draw, connection)
                }
                return PostgresAssets(database.pool, home: row.number, cache: cache, objects: objects, draw: draw)
            } catch {
                throw error.relayError
            }
        }

        package func survey<Result>(
            _ home: ContainerEnvironment,
            _ body: (any StoreSurvey) throws(RelayError) -> Result
        ) throws(RelayError) -> Result? {
            guard isThere(home) else { return nil }
            let opened = try openedStore(of: home)
            if let store = opened.many { return try store.survey(body) }
            return try opened.one?.survey(body)
        }

        // MARK: Upkeep

        package func removeBrokenUploads() {}

        package func removeUnusedAssets(before limit: Timestamp) async throws(RelayError) -> Int {
            var removed = 0
            var failure: RelayError?
            for home in homesWithAssets.withLock({ $0.union(open.withLock { $0.homes }) }) {
                do throws(RelayError) {
                    removed += try removeUnused(of: home, before: limit)
                } catch {
                    // A failure in one store does not affect the others.
                    failure = failure ?? error
                }
            }
            if let failure { throw failure }
            return removed
        }

        package func removeUnusedAssets(
            of home: ContainerEnvironment,
            before limit: Timestamp
        ) async throws(RelayError) -> Int {
            try removeUnused(of: home, before: limit)
        }

        private func removeUnused(of home: ContainerEnvironment, before limit: Timestamp) throws(RelayError) -> Int {
            // A shard that cannot be reached may use any of them.
            let others: [PostgresShards.Shard]
            do throws(PostgresError) { others = try databases.refresh().filter { $0.number != 1 } } catch {
                throw error.relayError
            }
            return try postgresAssets(of: home).removeUnused(before: limit) { hashes throws(PostgresError) in
                var used: Set<[UInt8]> = []
                for shard in others {
                    let rows = try databases.use(shard) { () throws(PostgresError) in
                        try shard.database.pool.use(.brief) { connection throws(PostgresError) in
                            try connection.query(
                                """
                                SELECT DISTINCT u.hash FROM home h JOIN zone z ON z.home = h.id
                                JOIN asset_use u ON u.zone = z.id
                                WHERE h.container = $1 AND h.environment = $2 AND u.hash = ANY($3)
                                """,
                                .text(home.container.name),
                                .text(home.environment.rawValue),
                                .blobs(hashes)
                            )
                        }
                    }
                    used.formUnion(rows.map { $0.bytes(0) })
                }
                return used
            }
        }

        package func forgetTombstones(before limit: Timestamp) async throws(RelayError) -> Int {
            var forgotten = 0
            var failure: RelayError?
            for store in open.withLock({ $0.stores }).flatMap(\.reachable) {
                do throws(RelayError) {
                    forgotten += try await store.forgetTombstones(before: limit)
                } catch {
                    // A failure in one store does not affect the others.
                    failure = failure ?? error
                }
            }
            if let failure { throw failure }
            return forgotten
        }

        package var waitingWrites: Int { open.withLock { $0.stores }.reduce(0) { $0 + $1.waitingWrites } }

        package var shards: [ShardState] {
            let all = databases.all
            return all.count > 1 ? all.map { databases.state(of: $0) } : []
        }

        package var replicas: [ReplicaState] { standbys?.states ?? [] }

        package var counts: (open: Int, closed: Int) { open.withLock { ($0.stores.count, $0.closedCount) } }

        /// Does nothing: stores have no file descriptors.
        package func makeRoom() {}

        /// Closes idle stores, least recently used first, until only `count` are open.
        private func closeIdle(downTo count: Int) {
            while let idle = open.withLock({ $0.takeIdle(ifMoreThan: max(count, 0)) }) { idle.close() }
        }

        // MARK: Stores of commands

        package func hold(
            _ home: ContainerEnvironment,
            patience: Duration,
            whenRefusing: () -> Void
        ) async throws(RelayError) {
            // A thread that is opening the store finishes that first.
            opening.withLock { _ in open.withLock { $0.hold(home) } }
            whenRefusing()
            let end = ContinuousClock.now + patience
            while true {
                let (store, isInUse) = open.withLock { $0.takeHeldIfIdle(home) }
                guard isInUse else {
                    store?.close()
                    return
                }
                guard ContinuousClock.now < end, (try? await Task.sleep(for: .milliseconds(5))) != nil else {
                    release(home)
                    throw RelayError(
                        .tryAgainLater,
                        "A request has used the container for \(patience.components.seconds) s."
                    )
                }
            }
        }

        package func release(_ home: ContainerEnvironment) { open.withLock { $0.release(home) } }

        package func close(patience: Duration) {
            let stores = opening.withLock { _ in open.withLock { $0.end() } }
            for store in stores { store.close() }
            databases.close()
        }

        /// Ends every store as the end of the process would.
        package func abandon() {
            let stores = opening.withLock { _ in open.withLock { $0.end() } }
            for store in stores { store.abandon() }
        }
    }

    /// The store of one container: in one database, or in several.
    ///
    /// Has the only reference to it, apart from those of the requests that use it.
    private struct OpenedStore {
        var one: PostgresStore?
        var many: ShardedStore?

        var store: any Store {
            get throws(RelayError) {
                if let store: any Store = many ?? one { return store }
                throw .notCarriedOut
            }
        }

        var isReplaced: Bool { many?.isReplaced ?? one?.isReplaced ?? true }
        var waitingWrites: Int { many?.waitingWrites ?? one?.waitingWrites ?? 0 }
        /// The stores of all databases that can be reached.
        var reachable: [PostgresStore] { many?.reachableStores() ?? one.map { [$0] } ?? [] }

        func close() {
            many?.close()
            one?.close()
        }

        func abandon() {
            many?.abandon()
            one?.abandon()
        }

        mutating func isUnused() -> Bool {
            if many != nil { return isKnownUniquelyReferenced(&many) }
            return one == nil || isKnownUniquelyReferenced(&one)
        }
    }

    /// The open stores, in the order of their last use.
    private struct OpenStores: ~Copyable {
        private struct Entry {
            var store: OpenedStore?
            var lastUse: Int
        }

        private var entries: [ContainerEnvironment: Entry] = [:]
        /// The stores that a command uses; `nil` once the store is closed.
        private var held: [ContainerEnvironment: OpenedStore?] = [:]
        private var uses = 0
        /// How many stores have been closed to make room.
        private(set) var closedCount = 0

        var stores: [OpenedStore] { entries.values.compactMap(\.store) }

        var homes: [ContainerEnvironment] { Array(entries.keys) }

        func isOpen(_ home: ContainerEnvironment) -> Bool { entries[home] != nil }

        mutating func use(_ home: ContainerEnvironment) -> OpenedStore? {
            guard let store = entries[home]?.store else { return nil }
            guard !store.isReplaced else {
                entries[home] = nil
                return nil
            }
            uses += 1
            entries[home]?.lastUse = uses
            return store
        }

        mutating func opened(_ store: OpenedStore, of home: ContainerEnvironment) {
            uses += 1
            entries[home] = Entry(store: store, lastUse: uses)
        }

        /// Takes out the store that has not been used for longest, among those to which nothing else has a reference.
        mutating func takeIdle(ifMoreThan count: Int) -> OpenedStore? {
            guard entries.count > count else { return nil }
            for home in entries.keys.sorted(by: { (entries[$0]?.lastUse ?? 0) < (entries[$1]?.lastUse ?? 0) }) {
                guard var store = entries[home]?.store else { continue }
                entries[home]?.store = nil
                if store.isUnused() {
                    entries[home] = nil
                    closedCount += 1
                    return store
                }
                entries[home]?.store = store
            }
            return nil
        }

        // MARK: Stores of commands

        func isHeld(_ home: ContainerEnvironment) -> Bool { held[home] != nil }

        /// Begins to refuse requests for a store; those in progress keep it open.
        mutating func hold(_ home: ContainerEnvironment) {
            guard !isHeld(home) else { return }
            held[home] = .some(entries.removeValue(forKey: home)?.store)
        }

        /// Takes out a held store that no request uses any more.
        mutating func takeHeldIfIdle(_ home: ContainerEnvironment) -> (store: OpenedStore?, isInUse: Bool) {
            var store = held.updateValue(nil, forKey: home) ?? nil
            guard store?.isUnused() != false else {
                held[home] = .some(store)
                return (nil, true)
            }
            return (store, false)
        }

        /// Serves a store again; one that is still open continues.
        mutating func release(_ home: ContainerEnvironment) {
            guard let last = held.removeValue(forKey: home), let store = last else { return }
            opened(store, of: home)
        }

        mutating func end() -> [OpenedStore] {
            defer { entries = [:] }
            let held = held.compactMap { $0.value }
            for home in self.held.keys { self.held[home] = .some(nil) }
            return stores + held
        }
    }
#endif
