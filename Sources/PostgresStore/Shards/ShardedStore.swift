#if Postgres
    package import Records
    package import RelayCore
    package import StoreKit
    import Synchronization

    /// The records of one container in one environment whose owners are spread over several databases.
    ///
    /// Each shard has a `PostgresStore` of its own. Shard 1 also has the public database, the schema, the subscriptions of
    /// all users and the assets, and its rows in `owner` are the map: where each owner's data is. This process remembers
    /// what it has read of the map. The row of the owner on the shard itself decides: every write reads it under its lock
    /// and every read reads it first, so that an old map does no harm.
    package final class ShardedStore: Store {
        private let container: ContainerEnvironment
        let shards: PostgresShards
        let control: PostgresStore
        private let peers: ShardPeers.WeakContainer
        private let epochOfNewOwners: UInt64
        private let makeStore: StoreMaking
        private let draw: @Sendable () -> UInt64
        private let returned: @Sendable (Set<UserID>) -> Void
        /// Whether writes are routed on the caller's thread, for tests that say when commits run.
        private let isSynchronous: Bool
        private let others = Mutex<[Int: PostgresStore]>([:])
        /// One store is opened at a time.
        private let opening = Mutex(())
        private let known = Mutex(Known())

        typealias StoreMaking = @Sendable (PostgresDatabase, ShardPeers) throws(PostgresError) -> PostgresStore

        private struct Known {
            var owners: [UserID: Int] = [:]
            var visitors: Set<Visitor> = []
            /// The users whose answers lacked a shard.
            var missed: [Int: Set<UserID>] = [:]
            /// The shards on which queries lack indexes.
            var missingIndexes: [WantedIndex: Set<Int>] = [:]
            /// The schema that all shards were brought up to.
            var followed = -1
        }

        private struct Visitor: Hashable {
            var user: UserID
            var shard: Int
        }

        private static let mostKnown = 200_000

        /// - Parameters:
        ///   - container: the container and environment.
        ///   - shards: the databases.
        ///   - draw: returns 64 random bits.
        ///   - isSynchronous: whether writes are routed on the caller's thread.
        ///   - returned: called with the users whose answers lacked a shard that can be reached again.
        ///   - makeStore: opens the store of one shard.
        /// - Throws: if shard 1 cannot be reached or used.
        init(
            _ container: ContainerEnvironment,
            in shards: PostgresShards,
            draw: @escaping @Sendable () -> UInt64,
            isSynchronous: Bool,
            returned: @escaping @Sendable (Set<UserID>) -> Void,
            makeStore: @escaping StoreMaking
        ) throws(PostgresError) {
            let peers = ShardPeers.WeakContainer()
            self.container = container
            self.shards = shards
            self.peers = peers
            self.draw = draw
            self.isSynchronous = isSynchronous
            self.returned = returned
            self.makeStore = makeStore
            let control = try makeStore(
                shards.control.database,
                ShardPeers(1, of: peers, epochOfNewOwners: nil)
            )
            self.control = control
            epochOfNewOwners = try control.database.pool.use(.brief) { connection throws(PostgresError) in
                try connection.query("SELECT epoch FROM home WHERE id = $1", .int(control.home.number)).first?
                    .unsigned(0) ?? 0
            }
            peers.set(self)
            shards.listen(self) { [peers] number, event in
                switch event {
                case .returned: peers.container?.cameBack(number)
                case .moved: peers.container?.reopen(number)
                }
            }
        }

        deinit {
            shards.stopListening(ObjectIdentifier(self))
            close()
        }

        /// Whether the container was deleted or replaced.
        var isReplaced: Bool { control.isReplaced || others.withLock { $0.values.contains(where: \.isReplaced) } }

        /// Finishes the queued writes.
        package func close() {
            control.close()
            for store in others.withLock({ Array($0.values) }) { store.close() }
        }

        /// Drops the queued writes without answering them, as the end of the process would.
        func abandon() {
            control.abandon()
            for store in others.withLock({ Array($0.values) }) { store.abandon() }
        }

        package var waitingWrites: Int {
            others.withLock { Array($0.values) }.reduce(control.waitingWrites) { $0 + $1.waitingWrites }
        }

        // MARK: Shards

        /// Returns the store of a shard, opening it if necessary.
        func store(_ number: Int) throws(PostgresError) -> PostgresStore {
            guard number != 1 else { return control }
            if let open = others.withLock({ $0[number] }) { return open }
            return try opening.withLock { _ throws(PostgresError) in
                if let open = others.withLock({ $0[number] }) { return open }
                let shard = try shards.shard(number)
                let store = try makeStore(
                    shard.database,
                    ShardPeers(number, of: peers, epochOfNewOwners: epochOfNewOwners)
                )
                try follow(shard)
                others.withLock { $0[number] = store }
                return store
            }
        }

        /// Returns the stores of all shards that can be reached.
        func reachableStores() -> [PostgresStore] {
            shards.all.compactMap { shard in
                try? shards.use(shard) { () throws(PostgresError) in try store(shard.number) }
            }
        }

        /// Closes the store of a shard that has another address; the next request opens it there.
        private func reopen(_ number: Int) {
            let former = others.withLock { $0.removeValue(forKey: number) }
            // Waits for writes that run, perhaps on this thread.
            shards.threads.add { former?.close() }
            cameBack(number)
        }

        private func cameBack(_ number: Int) {
            try? follow(number)
            let users = known.withLock { $0.missed.removeValue(forKey: number) } ?? []
            if !users.isEmpty { returned(users) }
        }

        func note(missing shards: [Int], for user: UserID) {
            known.withLock { known in
                for shard in shards where known.missed[shard, default: []].count < Self.mostKnown {
                    known.missed[shard, default: []].insert(user)
                }
            }
            // One may have come back meanwhile.
            for number in shards where (try? self.shards.shard(number))?.failure == nil { cameBack(number) }
        }

        // MARK: The map

        /// Returns the shard of an owner; an owner without data is read from shard 1.
        func shard(of owner: UserID) throws(PostgresError) -> Int {
            if owner == Zone.publicOwner { return 1 }
            if let number = known.withLock({ $0.owners[owner] }) { return number }
            return try lookUp(owner) ?? 1
        }

        /// Forgets what is known of an owner, so that the map is read again.
        func forget(_ owner: UserID) {
            let number = known.withLock { $0.owners.removeValue(forKey: owner) }
            if let number { others.withLock { $0[number] }?.forgetEpochs(of: owner) }
        }

        private func lookUp(_ owner: UserID) throws(PostgresError) -> Int? {
            let row = try control.database.pool.use(.brief) { connection throws(PostgresError) in
                try connection.query(
                    """
                    SELECT \(OwnerPlace.columns) FROM person p JOIN owner o ON o.id = p.id WHERE p.home = $1 AND p.name = $2
                    """,
                    .int(control.home.number),
                    .text(owner.recordName)
                ).first
            }
            guard let row else { return nil }
            var number = 1
            // One that arrives at shard 1 is on the shard that this row names until the move is done.
            if case .moved(let to) = OwnerPlace(state: row.int(0), movedTo: row.optionalInt(1)) { number = to }
            known.withLock { known in
                if known.owners.count >= Self.mostKnown { known.owners = [:] }
                known.owners[owner] = number
            }
            return number
        }

        /// Returns the shard of an owner; one without data gets a place.
        private func shard(forWritesTo owner: UserID) throws(PostgresError) -> Int {
            if owner == Zone.publicOwner { return 1 }
            if let number = known.withLock({ $0.owners[owner] }) { return number }
            if let number = try lookUp(owner) { return number }
            let number = try shards.shardForNewOwner(random: draw())
            let person = try control.insertNames([owner], []).users[owner]
            _ = try control.database.pool.use(.brief) { connection throws(PostgresError) in
                try connection.query(
                    """
                    INSERT INTO owner (id, epoch, state, moved_to) SELECT $2, epoch, $3, $4 FROM home WHERE id = $1
                    ON CONFLICT DO NOTHING
                    """,
                    .int(control.home.number),
                    .int(person),
                    .int(number == 1 ? 0 : 2),
                    number == 1 ? .int(Int64?.none) : .int(Int64(number))
                )
            }
            // Another process may have chosen another place.
            guard let placed = try lookUp(owner) else { throw .missing("an owner") }
            return placed
        }

        // MARK: Epochs and the schema

        package func epochs(of owner: UserID) throws(RelayError) -> Epochs {
            do throws(PostgresError) {
                let shard = try shards.shard(try shard(of: owner))
                if let store = others.withLock({ $0[shard.number] }), let known = store.knownEpochs(of: owner) {
                    return known
                }
                if shard.number == 1, let known = control.knownEpochs(of: owner) { return known }
                return try shards.use(shard) { () throws(PostgresError) in
                    try store(shard.number).learnEpochs(of: owner)
                }
            } catch {
                throw error.relayError
            }
        }

        package var currentSchema: Schema {
            let schema = control.currentSchema
            if known.withLock({ $0.followed }) < schema.version { followAll() }
            return schema
        }

        func schema(atLeast version: Int) throws(PostgresError) -> Schema {
            let schema = control.knownSchema
            return schema.version >= version ? schema : try control.readSchema()
        }

        /// Brings all shards that can be reached up to the versions of shard 1; the others follow when they come back.
        private func followAll() {
            let version = control.knownSchema.version
            for shard in shards.all where shard.number != 1 {
                _ = try? shards.use(shard) { () throws(PostgresError) in try follow(shard) }
            }
            known.withLock { $0.followed = max($0.followed, version) }
        }

        func subscriptionsChanged() { followAll() }

        func follow(_ number: Int) throws(PostgresError) {
            if number != 1 { try follow(shards.shard(number)) }
        }

        private func follow(_ shard: PostgresShards.Shard) throws(PostgresError) {
            let versions = try control.versions()
            let old = others.withLock { $0[shard.number] }?.knownSchema
            try ShardVersions(schema: schema(atLeast: versions.schema), subscriptions: versions.subscriptions)
                .apply(to: container, over: old, in: shard.database)
        }

        func watchedTypes() throws(PostgresError) -> Set<String> {
            try control.database.pool.use(.brief) { connection throws(PostgresError) in
                try control.watchedTypes(in: connection)
            }
        }

        // MARK: Visitors and assets

        /// Lets the shared databases of users look at a shard from now on; doing it again changes nothing.
        func admit(_ users: Set<UserID>, to number: Int) throws(PostgresError) {
            let new = known.withLock { known in
                users.filter { !known.visitors.contains(Visitor(user: $0, shard: number)) }
            }
            guard number != 1, !new.isEmpty else { return }
            let numbers = try control.insertNames(Array(new), []).users
            _ = try control.database.pool.use(.brief) { connection throws(PostgresError) in
                try connection.query(
                    "INSERT INTO visitor_shard (person, shard) SELECT unnest($1::bigint[]), $2 ON CONFLICT DO NOTHING",
                    .ints(numbers.values.sorted()),
                    .int(Int64(number))
                )
            }
            known.withLock { known in
                if known.visitors.count >= Self.mostKnown { known.visitors = [] }
                known.visitors.formUnion(new.map { Visitor(user: $0, shard: number) })
            }
        }

        /// Notes on shard 1 whether an owner elsewhere has a default zone.
        func note(_ owner: UserID, isUser: Bool) throws(PostgresError) {
            _ = try control.database.pool.use(.brief) { connection throws(PostgresError) in
                try connection.query(
                    """
                    UPDATE owner o SET is_user = $3 FROM person p
                    WHERE p.home = $1 AND p.name = $2 AND o.id = p.id AND o.is_user <> $3
                    """,
                    .int(control.home.number),
                    .text(owner.recordName),
                    .bool(isUser)
                )
            }
        }

        func renewStored(_ hashes: Set<AssetHash>) throws(PostgresError) -> Set<AssetHash> {
            let rows = try control.database.pool.use(.brief) { connection throws(PostgresError) in
                try connection.query(
                    """
                    WITH found AS (\(PostgresSharingRows.lockedAssets("NO KEY UPDATE")))
                    UPDATE asset a SET touched_at = now() FROM found f WHERE a.home = f.home AND a.hash = f.hash
                    RETURNING a.hash
                    """,
                    .int(control.home.number),
                    .blobs(hashes.map(\.bytes))
                )
            }
            return Set(rows.compactMap { AssetHash($0.bytes(0)) })
        }

        // MARK: Reading

        package func read<Result>(
            _ body: (any StoreReader) throws(RelayError) -> Result
        ) throws(RelayError) -> Result {
            var work = QueryWork(tuning: tuning)
            return try read(&work, body)
        }

        func note(missing indexes: Set<WantedIndex>, on number: Int) {
            guard !indexes.isEmpty else { return }
            known.withLock { known in
                for index in indexes { known.missingIndexes[index, default: []].insert(number) }
            }
        }

        // MARK: Writing

        package func write(_ write: any StoreWrite) {
            guard let owner = write.owner, owner != Zone.publicOwner else { return control.write(write) }
            let isForControl = write.prefetch.subscriptions != nil
            if isForControl, known.withLock({ $0.owners[owner] }) != nil { return control.write(ControlWrite(write)) }
            if !isForControl, let number = known.withLock({ $0.owners[owner] }),
                let store = number == 1 ? control : others.withLock({ $0[number] })
            {
                return store.write(write)
            }
            later { $0.route(write, owner) }
        }

        /// Runs what may block.
        private func later(_ body: @escaping @Sendable (ShardedStore) -> Void) {
            guard !isSynchronous else { return body(self) }
            shards.threads.add { body(self) }
        }

        private func route(_ write: any StoreWrite, _ owner: UserID) {
            do throws(PostgresError) {
                let shard = try shards.shard(shard(forWritesTo: owner))
                if write.prefetch.subscriptions != nil { return control.write(ControlWrite(write)) }
                try shards.use(shard) { () throws(PostgresError) in try store(shard.number) }.write(write)
            } catch {
                write.finish(error.relayError)
            }
        }

        /// Passes on a write that shard `number` does not accept.
        func handOver(_ write: any StoreWrite, from number: Int, _ destination: ShardPeers.Destination) {
            guard case .owner = destination, let owner = write.owner else {
                return control.write(ControlWrite(write))
            }
            forget(owner)
            later { store in
                do throws(PostgresError) {
                    guard try store.shard(of: owner) != number else { return write.finish(.ownerIsMoving) }
                    store.route(write, owner)
                } catch {
                    write.finish(error.relayError)
                }
            }
        }
    }

    extension PostgresShards {
        /// Opens the store of one container that is spread over these databases, in no catalog.
        package func store(
            of home: ContainerEnvironment,
            _ options: StoreOptions,
            idempotencyRecordLimit: Int = 4_096,
            onCommit: @escaping @Sendable (Commit) -> Void = { _ in },
            onForeignOwner: @escaping @Sendable (String) -> Void = { assertionFailure($0) },
            scheduler: CommitScheduler? = nil,
            replicas: PostgresReplicas? = nil
        ) throws(PostgresError) -> ShardedStore {
            let count = try refresh().count
            return try ShardedStore(
                home,
                in: self,
                draw: options.draw,
                isSynchronous: scheduler != nil,
                returned: { [events = options.events] in events.returned(home, $0) },
                makeStore: { [weak self] (database, peers) throws(PostgresError) in
                    try PostgresStore(
                        home,
                        in: database,
                        draw: options.draw,
                        tuning: options.tuning,
                        idempotencyRecordLimit: idempotencyRecordLimit,
                        onCommit: onCommit,
                        onCommitTime: options.events.commitTook,
                        onDamage: { [place = "\(database.pool.address)"] in
                            options.events.foundDamage(home, place, [])
                        },
                        onForeignOwner: onForeignOwner,
                        scheduler: scheduler,
                        peers: peers,
                        knownShards: count,
                        onMoreShards: { [weak self] in _ = try? self?.refresh() },
                        replicas: peers.number == 1 ? replicas : nil
                    )
                }
            )
        }
    }

    extension ShardedStore: IndexedStore {
        package var tuning: QueryTuning { control.tuning }

        package var hasOwnThreads: Bool { control.hasOwnThreads }

        package func read<Result>(
            _ work: inout QueryWork,
            _ body: (any StoreReader) throws(RelayError) -> Result
        ) throws(RelayError) -> Result {
            let reading = ShardReading(self, work: work)
            defer { reading.end(&work) }
            return try body(ShardedReader(reading))
        }

        /// Asks shard 1 alone, or its replicas.
        package func publicQuery<Result>(
            _ body: (any StoreReader) throws(RelayError) -> Result
        ) async throws(RelayError) -> Result {
            try await control.publicQuery(body)
        }

        /// Builds the indexes on the shards whose queries have lacked them.
        package func build(_ wanted: Set<WantedIndex>, limit: Int) async throws(RelayError) -> Bool {
            let places = known.withLock { known in
                wanted.reduce(into: Set<Int>()) { $0.formUnion(known.missingIndexes[$1] ?? []) }
            }
            var isComplete = true
            for number in places.sorted() {
                let store: PostgresStore
                do throws(PostgresError) { store = try self.store(number) } catch { throw error.relayError }
                if try await !store.build(wanted, limit: limit) { isComplete = false }
            }
            if isComplete { known.withLock { known in wanted.forEach { known.missingIndexes[$0] = nil } } }
            return isComplete
        }
    }

    /// The versions of the schema and of the subscriptions, which shard 1 has and all others follow.
    struct ShardVersions {
        var schema: Schema
        var subscriptions: UInt64

        /// Brings the versions of a container on another shard up to these.
        ///
        /// A write there that has begun with an older schema is committed before; no other one is afterwards. `old` is the
        /// schema that the shard's indexes were made for, if it is known. A container that the shard does not know follows
        /// when it is opened.
        func apply(
            to container: ContainerEnvironment,
            over old: Schema?,
            in database: PostgresDatabase
        ) throws(PostgresError) {
            let connection = try database.pool.take(.writing)
            defer { database.pool.put(back: connection, .writing) }
            // One that stands still would hold up the request that noticed the change.
            connection.limitAnswers(to: PostgresShards.usualPatience)
            guard let home = try HomeRow.find(container, connection) else { return }
            let known = try HomeVersions(try connection.query(HomeVersions.select, .int(home.number)))
            connection.endLimit()
            var update = PostgresPipeline()
            if known.schema < schema.version {
                var lock = PostgresPipeline()
                lock.add("SELECT pg_advisory_xact_lock($1)", .int(home.schemaLock))
                _ = try connection.begin(lock)
                let transaction = PostgresTransaction(on: connection, of: home)
                _ = try PostgresIndexes.drop(from: old ?? schema, to: schema, in: transaction)
                update = transaction.takeWaiting()
            } else if known.subscriptions < subscriptions {
                _ = try connection.begin(PostgresPipeline())
            } else {
                return
            }
            update.add(
                """
                UPDATE home SET schema_version = greatest(schema_version, $2),
                    subscriptions_version = greatest(subscriptions_version, $3) WHERE id = $1
                """,
                .int(home.number),
                .int(Int64(schema.version)),
                .unsigned(subscriptions)
            )
            try connection.commit(update)
        }
    }
#endif
