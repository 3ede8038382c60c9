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
        private let options: StoreOptions
        private let scheduler: CommitScheduler?
        private let open = Mutex(OpenStores())
        /// One store is opened or closed at a time; that takes a few round trips.
        private let opening = Mutex(())
        private let readers: BlockingExecutor
        private let cache: AssetCache
        /// The environments whose assets this process has used.
        private let homesWithAssets = Mutex<Set<ContainerEnvironment>>([])

        /// Opens nothing yet.
        ///
        /// - Parameters:
        ///   - database: the database.
        ///   - options: how stores are opened, and what they report.
        ///   - cache: the files of assets on this machine.
        ///   - scheduler: runs commits in place of the stores' own threads.
        package init(
            _ database: PostgresDatabase,
            _ options: StoreOptions,
            cache: AssetCache,
            scheduler: CommitScheduler? = nil
        ) {
            self.database = database
            self.cache = cache
            self.options = options
            self.scheduler = scheduler
            readers = BlockingExecutor(name: "zonecast-read", threads: database.pool.limits.reading)
        }

        package var executor: (any TaskExecutor)? { readers }

        package func store(of home: ContainerEnvironment) throws(RelayError) -> any Store {
            try postgresStore(of: home)
        }

        /// Returns the store as its concrete type.
        package func postgresStore(of home: ContainerEnvironment) throws(RelayError) -> PostgresStore {
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

        private func makeStore(of home: ContainerEnvironment) throws(RelayError) -> PostgresStore {
            let events = options.events
            do throws(PostgresError) {
                return try PostgresStore(
                    home,
                    in: database,
                    draw: options.draw,
                    tuning: options.tuning,
                    onCommit: { events.committed(home, $0) },
                    onCommitTime: events.commitTook,
                    onDamage: { [place = "\(database.pool.address)"] in events.foundDamage(home, place, []) },
                    scheduler: scheduler
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
                return PostgresAssets(database.pool, home: row.number, cache: cache, draw: draw)
            } catch {
                throw error.relayError
            }
        }

        package func survey<Result>(
            _ home: ContainerEnvironment,
            _ body: (any StoreSurvey) throws(RelayError) -> Result
        ) throws(RelayError) -> Result? {
            guard isThere(home) else { return nil }
            return try postgresStore(of: home).survey(body)
        }

        // MARK: Upkeep

        package func removeBrokenUploads() {}

        package func removeUnusedAssets(before limit: Timestamp) async throws(RelayError) -> Int {
            var removed = 0
            var failure: RelayError?
            for home in homesWithAssets.withLock({ $0.union(open.withLock { $0.homes }) }) {
                do throws(RelayError) {
                    removed += try postgresAssets(of: home).removeUnused(before: limit)
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
            try postgresAssets(of: home).removeUnused(before: limit)
        }

        package func forgetTombstones(before limit: Timestamp) async throws(RelayError) -> Int {
            var forgotten = 0
            var failure: RelayError?
            for store in open.withLock({ $0.stores }) {
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
        }
    }

    /// The open stores, in the order of their last use.
    private struct OpenStores: ~Copyable {
        private struct Entry {
            var store: PostgresStore?
            var lastUse: Int
        }

        private var entries: [ContainerEnvironment: Entry] = [:]
        /// The stores that a command uses; `nil` once the store is closed.
        private var held: [ContainerEnvironment: PostgresStore?] = [:]
        private var uses = 0
        /// How many stores have been closed to make room.
        private(set) var closedCount = 0

        var stores: [PostgresStore] { entries.values.compactMap(\.store) }

        var homes: [ContainerEnvironment] { Array(entries.keys) }

        func isOpen(_ home: ContainerEnvironment) -> Bool { entries[home] != nil }

        mutating func use(_ home: ContainerEnvironment) -> PostgresStore? {
            guard let store = entries[home]?.store else { return nil }
            guard !store.isReplaced else {
                entries[home] = nil
                return nil
            }
            uses += 1
            entries[home]?.lastUse = uses
            return store
        }

        mutating func opened(_ store: PostgresStore, of home: ContainerEnvironment) {
            uses += 1
            entries[home] = Entry(store: store, lastUse: uses)
        }

        /// Takes out the store that has not been used for longest, among those to which nothing else has a reference.
        mutating func takeIdle(ifMoreThan count: Int) -> PostgresStore? {
            guard entries.count > count else { return nil }
            for home in entries.keys.sorted(by: { (entries[$0]?.lastUse ?? 0) < (entries[$1]?.lastUse ?? 0) }) {
                guard var store = entries[home]?.store else { continue }
                entries[home]?.store = nil
                if isKnownUniquelyReferenced(&store) {
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
        mutating func takeHeldIfIdle(_ home: ContainerEnvironment) -> (store: PostgresStore?, isInUse: Bool) {
            var store = held.updateValue(nil, forKey: home) ?? nil
            guard store == nil || isKnownUniquelyReferenced(&store) else {
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

        mutating func end() -> [PostgresStore] {
            defer { entries = [:] }
            let held = held.compactMap { $0.value }
            for home in self.held.keys { self.held[home] = .some(nil) }
            return stores + held
        }
    }
#endif
