#if Postgres
    import Foundation
    package import Records
    package import RelayCore
    package import StoreKit
    import Synchronization

    /// The records of one container in one environment, stored in a PostgreSQL database.
    ///
    /// Any number of processes may have the same store open. A write locks the rows of its owners, reads what it needs in
    /// the same round trip, and takes a second one to write and commit.
    package final class PostgresStore: Store {
        let database: PostgresDatabase
        let home: HomeRow
        package let tuning: QueryTuning
        private let idempotencyRecordLimit: Int
        private let onCommit: @Sendable (Commit) -> Void
        private let onDamage: @Sendable () -> Void
        private let onForeignOwner: @Sendable (String) -> Void
        let draw: @Sendable () -> UInt64
        private let scheduler: CommitScheduler?
        /// The other databases of the container; `nil` while there is one.
        private let peers: ShardPeers?
        /// Called if shard 1 says that there are more shards.
        private let onMoreShards: @Sendable () -> Void
        private let queue = Mutex<CommitQueue?>(nil)
        private let known: Mutex<KnownState>
        private let indexes = PostgresIndexes()
        private let knownShards: Atomic<Int>
        /// Standbys that answer queries of the public database.
        private let replicas: PostgresReplicas?
        /// Whether the container was deleted or replaced, or got a second shard, so that the store has to be opened anew.
        var isReplaced: Bool { hasVanished.load(ordering: .relaxed) }
        private let hasVanished = Atomic(false)
        private let epochsKnown = Mutex<[UserID: KnownEpochs]>([:])

        /// What this process knows of the store.
        private struct KnownState {
            var state: PostgresState
            var names = StoreNames()
            /// The types that query subscriptions watch, as of a version of the subscriptions.
            var watchedTypes: (version: UInt64, types: Set<String>)
            /// When a read last checked whether another process has changed the schema.
            var checkedAt = ContinuousClock.now
            /// The value of `PostgresSchemaRows.changes` at that time.
            var schemaChanges: UInt64 = 0
            /// The users who have a row in `owner`.
            var owners: Set<UserID> = []
        }

        private struct KnownEpochs {
            var epochs: Epochs
            /// The generation of the database in which they were read.
            var generation: Int
        }

        /// How long a request may be decoded with a cached schema after another process has changed it; no write or read is
        /// carried out with an old one.
        private static let schemaAge = Duration.milliseconds(20)

        /// How many commits run at once, and the most owners in one of them.
        ///
        /// Two commits at once use all of a server that has two cores and shares them with the relay. Further ones are for
        /// servers with more cores, and for the time while commits wait for locks of another node.
        private static let lanes = CommitLanes(count: 6, eager: 2, ownersAtOnce: 256)

        /// Opens the store, creating it if necessary.
        ///
        /// - Parameters:
        ///   - container: the container and environment.
        ///   - database: the database.
        ///   - draw: returns 64 random bits, for epochs and zone identities.
        ///   - tuning: the thresholds for query plans.
        ///   - idempotencyRecordLimit: the number of idempotency records that are kept for each owner.
        ///   - onCommit: called with each commit's changes, before its writes are answered; by several threads at once, but
        ///     for one owner in the order of the commits. Must not block. First called on the caller's thread with the
        ///     query subscriptions that are stored.
        ///   - onCommitTime: called with the number of writes in a commit and its duration.
        ///   - onDamage: called for each request that needs damaged rows.
        ///   - onForeignOwner: called if a write touches an owner that it does not name. The write has failed then.
        ///   - scheduler: runs commits in place of the store's own threads.
        ///   - replicas: standbys that answer queries of the public database.
        /// - Throws: if the database cannot be reached or used.
        package convenience init(
            _ container: ContainerEnvironment,
            in database: PostgresDatabase,
            draw: @escaping @Sendable () -> UInt64,
            tuning: QueryTuning = QueryTuning(),
            idempotencyRecordLimit: Int = 4_096,
            onCommit: @escaping @Sendable (Commit) -> Void = { _ in },
            onCommitTime: @escaping @Sendable (Int, Duration) -> Void = { _, _ in },
            onDamage: @escaping @Sendable () -> Void = {},
            onForeignOwner: @escaping @Sendable (String) -> Void = { assertionFailure($0) },
            scheduler: CommitScheduler? = nil,
            replicas: PostgresReplicas? = nil
        ) throws(PostgresError) {
            try self.init(
                container,
                in: database,
                draw: draw,
                tuning: tuning,
                idempotencyRecordLimit: idempotencyRecordLimit,
                onCommit: onCommit,
                onCommitTime: onCommitTime,
                onDamage: onDamage,
                onForeignOwner: onForeignOwner,
                scheduler: scheduler,
                peers: nil,
                knownShards: 1,
                onMoreShards: {},
                replicas: replicas
            )
        }

        /// Does the same for one of several shards.
        ///
        /// `peers` are the other databases of the container, and which of them this is. `onMoreShards` is called if there are
        /// more shards than `knownShards`.
        init(
            _ container: ContainerEnvironment,
            in database: PostgresDatabase,
            draw: @escaping @Sendable () -> UInt64,
            tuning: QueryTuning,
            idempotencyRecordLimit: Int = 4_096,
            onCommit: @escaping @Sendable (Commit) -> Void,
            onCommitTime: @escaping @Sendable (Int, Duration) -> Void,
            onDamage: @escaping @Sendable () -> Void,
            onForeignOwner: @escaping @Sendable (String) -> Void = { assertionFailure($0) },
            scheduler: CommitScheduler?,
            peers: ShardPeers?,
            knownShards: Int,
            onMoreShards: @escaping @Sendable () -> Void,
            replicas: PostgresReplicas? = nil
        ) throws(PostgresError) {
            self.replicas = replicas
            self.peers = peers
            self.onMoreShards = onMoreShards
            self.knownShards = Atomic(knownShards)
            self.database = database
            self.draw = draw
            self.tuning = tuning
            self.idempotencyRecordLimit = idempotencyRecordLimit
            self.onCommit = onCommit
            self.onDamage = onDamage
            self.onForeignOwner = onForeignOwner
            self.scheduler = scheduler
            let (home, state, queries) = try database.pool.use(.brief) { connection throws(PostgresError) in
                let home = try HomeRow.ensure(container, epoch: peers?.epochOfNewOwners, draw: draw, connection)
                // A transaction of one statement each: what changes meanwhile is noticed by its version.
                let transaction = PostgresTransaction(on: connection, of: home)
                let versions = try HomeVersions(try transaction.query(HomeVersions.select, .int(home.number)))
                let state = PostgresState(
                    schema: try ShardPeers.schema(of: peers, versions, transaction),
                    subscriptionsVersion: versions.subscriptions,
                    indexesVersion: versions.indexes
                )
                return (home, state, try PostgresReader.querySubscriptions(transaction))
            }
            self.home = home
            let watched = Set(queries.compactMap { $0.subscription?.query?.recordType })
            // The subscriptions are on shard 1: another one asks there with its first write.
            let isRead = peers.map { $0.number == 1 } ?? true
            known = Mutex(KnownState(state: state, watchedTypes: (isRead ? state.subscriptionsVersion : 0, watched)))
            if !queries.isEmpty { onCommit(Commit(subscriptions: queries, schema: state.schema)) }
            let queue = CommitQueue(
                name: "zonecast-commit",
                lanes: Self.lanes,
                // Weak: callers that write keep the store alive, the threads must not.
                commit: { [weak self] in self?.commit($0) },
                onCommitTime: onCommitTime,
                idle: { [weak self] in self?.purge() ?? false },
                scheduler: scheduler
            )
            self.queue.withLock { $0 = queue }
        }

        deinit { close() }

        /// Finishes the queued writes.
        package func close() { queue.withLock { $0.take() }?.close() }

        /// Drops the queued writes without answering them, as the end of the process would.
        package func abandon() { queue.withLock { $0.take() }?.abandon() }

        /// The number of writes that wait for a commit.
        package var waitingWrites: Int { queue.withLock { $0 }?.depth ?? 0 }

        /// Whether a query that proves long may continue on another thread.
        package var hasOwnThreads: Bool { scheduler == nil }

        // MARK: Epochs

        package func epochs(of owner: UserID) throws(RelayError) -> Epochs {
            if let known = knownEpochs(of: owner) { return known }
            do throws(PostgresError) { return try learnEpochs(of: owner) } catch { throw error.relayError }
        }

        /// Returns an owner's epochs from memory; `nil` if they have to be read.
        func knownEpochs(of owner: UserID) -> Epochs? {
            guard let known = epochsKnown.withLock({ $0[owner] }), known.generation == database.generation else {
                return nil
            }
            return known.epochs
        }

        /// Reads an owner's epochs.
        func learnEpochs(of owner: UserID) throws(PostgresError) -> Epochs {
            let generation = database.generation
            let read = try readEpochs(of: owner)
            epochsKnown.withLock { known in
                if known.count >= Self.mostEpochs { known = [:] }
                known[owner] = KnownEpochs(epochs: read, generation: generation)
            }
            return read
        }

        private static let mostEpochs = 100_000

        /// Forgets an owner's epochs, which may have come from another shard.
        func forgetEpochs(of owner: UserID) { epochsKnown.withLock { $0[owner] = nil } }

        private func readEpochs(of owner: UserID) throws(PostgresError) -> Epochs {
            try database.pool.use(.brief) { connection throws(PostgresError) in
                var query = PostgresPipeline()
                query.add(
                    """
                    SELECT coalesce(o.epoch, h.epoch) FROM home h LEFT JOIN person p ON p.home = h.id AND p.name = $2
                    LEFT JOIN owner o ON o.id = p.id WHERE h.id = $1
                    """,
                    .int(home.number),
                    .text(owner.recordName)
                )
                query.add(
                    """
                    SELECT epoch, last_change FROM home_epoch WHERE home = $1
                    UNION ALL
                    SELECT e.epoch, e.last_change FROM person p JOIN owner_epoch e ON e.owner = p.id
                    WHERE p.home = $1 AND p.name = $2
                    """,
                    .int(home.number),
                    .text(owner.recordName)
                )
                let rows = try connection.run(query)
                guard let current = rows[0].first else { throw .missing("the container") }
                return Epochs(
                    current: current.unsigned(0),
                    // An owner's own end of an epoch comes second, and may be an earlier one.
                    ends: Dictionary(rows[1].map { ($0.unsigned(0), $0.unsigned(1)) }) { $1 }
                )
            }
        }

        // MARK: Schema

        package var currentSchema: Schema {
            let (now, changes) = (ContinuousClock.now, PostgresSchemaRows.changes)
            let state = known.withLock { $0 }
            guard state.schemaChanges != changes || now - state.checkedAt > Self.schemaAge else {
                return state.state.schema
            }
            let versions = try? database.pool.use(.brief) { connection throws(PostgresError) in
                try self.homeVersions(try connection.query(HomeVersions.select, .int(home.number)))
            }
            guard let versions else { return state.state.schema }
            if versions.schema != state.state.schema.version {
                _ = try? read { reader throws(RelayError) in try reader.schema }
            }
            return known.withLock {
                ($0.checkedAt, $0.schemaChanges) = (now, changes)
                return $0.state.schema
            }
        }

        private func homeVersions(_ rows: PostgresRows) throws(PostgresError) -> HomeVersions {
            let versions: HomeVersions
            do throws(PostgresError) { versions = try HomeVersions(rows) } catch {
                hasVanished.store(true, ordering: .relaxed)
                throw error
            }
            if versions.shards > knownShards.load(ordering: .relaxed) {
                knownShards.store(versions.shards, ordering: .relaxed)
                onMoreShards()
            }
            // One that knows of no other shard would look here for every owner.
            if versions.shards > 1, peers == nil {
                hasVanished.store(true, ordering: .relaxed)
                throw PostgresError(.conflict, "The cluster has more shards.")
            }
            return versions
        }

        /// Returns the state of the container that a transaction sees, from memory where the versions allow it.
        private func state(_ versions: HomeVersions, in transaction: PostgresTransaction) throws(PostgresError)
            -> PostgresState
        {
            let known = known.withLock { $0.state }
            var state = known
            let isOutdated: Bool
            if let peers, peers.number > 1 {
                // Only the version is here. A schema that is newer than that is on its way to all shards.
                isOutdated = max(versions.schema, peers.newestSchema) > known.schema.version
            } else {
                isOutdated = versions.schema != known.schema.version
            }
            if isOutdated, !PostgresFault.schemaKept.isPlanted {
                state.schema = try ShardPeers.schema(of: peers, versions, transaction)
                self.known.withLock {
                    if $0.state.schema.version < state.schema.version { $0.state.schema = state.schema }
                }
            }
            state.subscriptionsVersion = versions.subscriptions
            state.indexesVersion = versions.indexes
            return state
        }

        private func watchedTypes(
            _ version: UInt64,
            in transaction: PostgresTransaction
        ) throws(PostgresError) -> Set<String> {
            let known = known.withLock { $0.watchedTypes }
            guard known.version != version else { return known.types }
            let types: Set<String>
            if let found = try peers?.watchedTypes() {
                types = found
            } else {
                types = try watchedTypes(in: transaction.connection)
            }
            self.known.withLock { if $0.watchedTypes.version < version { $0.watchedTypes = (version, types) } }
            return types
        }

        /// Returns the record types that query subscriptions watch.
        func watchedTypes(in connection: PostgresConnection) throws(PostgresError) -> Set<String> {
            let rows = try connection.query(
                "SELECT DISTINCT record_type FROM subscription WHERE home = $1 AND kind = 4 AND record_type IS NOT NULL",
                .int(home.number)
            )
            return Set(rows.map { $0.text(0) })
        }

        /// Returns the versions of the schema and of what else other processes change.
        func versions() throws(PostgresError) -> HomeVersions {
            try database.pool.use(.brief) { connection throws(PostgresError) in
                try self.homeVersions(try connection.query(HomeVersions.select, .int(home.number)))
            }
        }

        /// Reads the schema anew.
        func readSchema() throws(PostgresError) -> Schema {
            let schema = try database.pool.use(.brief) { connection throws(PostgresError) in
                try PostgresSchemaRows(PostgresTransaction(on: connection, of: home)).read()
            }
            return learn(schema)
        }

        /// Replaces the definitions of types; `nil` if the schema is no longer the one of this version.
        func define(_ types: [String: RecordType], over version: Int) throws(PostgresError) -> Schema? {
            try database.pool.use(.writing) { connection throws(PostgresError) in
                var lock = PostgresPipeline()
                lock.add("SELECT pg_advisory_xact_lock($1)", .int(home.schemaLock))
                _ = try connection.begin(lock)
                let transaction = PostgresTransaction(on: connection, of: home)
                let rows = PostgresSchemaRows(transaction)
                let old = try rows.read()
                guard old.version == version else {
                    learn(old)
                    return nil
                }
                var new = old
                new.types.merge(types) { $1 }
                try rows.replace(old, by: new)
                new.version += 1
                try connection.commit(transaction.takeWaiting())
                return learn(new)
            }
        }

        @discardableResult
        private func learn(_ schema: Schema) -> Schema {
            known.withLock {
                if $0.state.schema.version < schema.version { $0.state.schema = schema }
                return $0.state.schema
            }
        }

        /// The schema that this process knows.
        var knownSchema: Schema { known.withLock { $0.state.schema } }

        // MARK: Reading

        package func read<Result>(
            _ body: (any StoreReader) throws(RelayError) -> Result
        ) throws(RelayError) -> Result {
            try readRows { reader throws(RelayError) in try body(reader) }
        }

        /// Does the same for code of this store, which may also read rows.
        func readRows<Result>(_ body: (PostgresReader) throws(RelayError) -> Result) throws(RelayError) -> Result {
            var work = QueryWork(tuning: tuning)
            if let pool = PostgresFault.feedFromReplica.isPlanted ? nextReplica?.pool : nil {
                return try readRows(&work, on: pool, body)
            }
            return try readRows(&work, body)
        }

        /// A standby that may answer a query of the public database; `nil` if there is none.
        var nextReplica: PostgresReplicas.Replica? { replicas?.next() }

        private static let beginReading = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

        /// Reads with a bound on the cost of queries, and returns in `work` what they cost; `replica` has the connections to
        /// a standby to read from.
        func readRows<Result>(
            _ work: inout QueryWork,
            on replica: PostgresPool? = nil,
            _ body: (PostgresReader) throws(RelayError) -> Result
        ) throws(RelayError) -> Result {
            let reading: OpenReading
            do throws(PostgresError) { reading = try beginReading(work, on: replica) } catch { throw error.relayError }
            defer {
                work = reading.reader.queryWork
                reading.end()
            }
            return try body(reading.reader)
        }

        /// A read that has begun; used by one thread at a time.
        struct OpenReading {
            let reader: PostgresReader
            /// Must be called once.
            let end: () -> Void
        }

        /// Begins a read; sends nothing yet.
        func beginReading(_ work: QueryWork, on replica: PostgresPool? = nil) throws(PostgresError) -> OpenReading {
            let pool = replica ?? database.pool
            let connection = try pool.take(.reading)
            var opening = PostgresPipeline()
            opening.add(Self.beginReading)
            opening.add(HomeVersions.select, .int(home.number))
            let names = known.withLock { $0.names }
            let transaction = transaction(on: connection, names: names, opening: opening)
            // What a standby says of the container may be out of date: nothing follows from it but this answer.
            func versions(_ rows: PostgresRows) throws(PostgresError) -> HomeVersions {
                replica == nil ? try homeVersions(rows) : try HomeVersions(rows)
            }
            transaction.checkOpening = { rows throws(PostgresError) in _ = try versions(rows[1]) }
            var state: PostgresState?
            let reader = PostgresReader(transaction) { () throws(PostgresError) in
                if let state { return state }
                if transaction.openingRows.isEmpty { _ = try transaction.run(PostgresPipeline()) }
                let read = try self.state(try versions(transaction.openingRows[1]), in: transaction)
                state = read
                return read
            }
            reader.queryWork = work
            return OpenReading(reader: reader) { [self] in
                // A standby may show numbers that are lost when another one is promoted.
                if replica == nil { learn(transaction.names, since: names) }
                connection.endReading()
                pool.put(back: connection, .reading)
                if reader.hasMetDamage, replica == nil { onDamage() }
            }
        }

        private func transaction(
            on connection: PostgresConnection,
            names: StoreNames,
            opening: PostgresPipeline = PostgresPipeline()
        ) -> PostgresTransaction {
            PostgresTransaction(
                on: connection,
                of: home,
                names: names,
                insertNames: { (users, types) throws(PostgresError) in try self.insertNames(users, types) },
                opening: opening
            )
        }

        /// Keeps the names that a transaction looked up, for the next ones.
        private func learn(_ names: StoreNames, since before: StoreNames) {
            guard names.count > before.count else { return }
            known.withLock { $0.names.merge(names) }
        }

        func insertNames(
            _ users: [UserID],
            _ types: [String]
        ) throws(PostgresError) -> (users: [UserID: Int64], types: [String: Int64]) {
            try database.pool.use(.brief) { connection throws(PostgresError) in
                try PostgresTransaction.insert(users, types, of: home, on: connection)
            }
        }

        // MARK: Writing

        package func write(_ write: any StoreWrite) {
            let isQueued = queue.withLock { $0 }?.add(write) ?? false
            if !isQueued { write.finish(RelayError(.tryAgainLater, "The relay is stopping.", retryAfter: .seconds(2))) }
        }

        /// Runs `body`, upkeep of this store, while no other write of the container runs in any process.
        func writeRows<Value: Sendable>(
            _ body: @escaping @Sendable (PostgresWriter) throws(RelayError) -> Value
        ) async throws(RelayError) -> Value {
            try await maintain { writer throws(RelayError) in
                // The commit queue passes on what `commit` gave it.
                guard let writer = writer as? PostgresWriter else { throw .notCarriedOut }
                return try body(writer)
            }
        }

        /// Commits as many writes of `batch` as fit into one commit.
        ///
        /// If one of the writes is at fault when that commit fails, each write gets a commit of its own.
        ///
        /// - Returns: the writes that did not fit; `nil` if all are done.
        private func commit(_ batch: consuming [any StoreWrite]) -> BatchRemainder? {
            // A write of no owner may touch the data of all.
            commit(batch, exclusively: batch.contains { $0.owner == nil }, attempts: 2)
        }

        private func commit(
            _ batch: consuming [any StoreWrite],
            exclusively isExclusive: Bool,
            attempts: Int
        ) -> BatchRemainder? {
            var remainder: BatchRemainder?
            var need: PostgresWriter.Need?
            do {
                let done = try transaction(for: batch, exclusively: isExclusive) { writer in
                    remainder = BatchRemainder.run(&batch) { write in
                        // Nothing of this transaction is kept; the write runs again.
                        guard writer.failure == nil else { return writer.recordBytes }
                        writer.begin(for: write.owner)
                        write.run(in: writer)
                        return writer.recordBytes
                    }
                    need = writer.need
                }
                if !done.subscriptions.isEmpty { peers?.subscriptionsChanged(to: done.subscriptionsVersion) }
                if !done.isEmpty { onCommit(done) }
                finish(batch, nil)
            } catch {
                if let again = commitAgain(batch, error, need, isExclusive, attempts) {
                    return merge(again, remainder)
                }
            }
            return remainder
        }

        /// Tries a failed commit again where that may help; otherwise answers its writes.
        ///
        /// - Returns: the writes that did not fit into the repetition.
        private func commitAgain(
            _ batch: consuming [any StoreWrite],
            _ error: any Error,
            _ need: PostgresWriter.Need?,
            _ isExclusive: Bool,
            _ attempts: Int
        ) -> BatchRemainder? {
            if let elsewhere = error as? OwnersElsewhere {
                let rest = handOver(batch, elsewhere)
                return rest.isEmpty ? nil : commit(rest, exclusively: isExclusive, attempts: attempts)
            }
            let code = (error as? PostgresError)?.code
            switch need {
            case .exclusion where !isExclusive: return commit(batch, exclusively: true, attempts: attempts)
            case .newerSchema where attempts > 0:
                peers?.followSchema()
                return commit(batch, exclusively: isExclusive, attempts: attempts - 1)
            case .control where batch.count == 1:
                batch.forEach { peers?.handOver($0, .control) ?? $0.finish(.notCarriedOut) }
                return nil
            case .control:
                batch.forEach { _ = commit([$0]) }
                return nil
            default: break
            }
            if attempts > 1, code == .conflict || code == .connectionLost {
                return commit(batch, exclusively: isExclusive, attempts: attempts - 1)
            }
            let isOfOneWrite: Bool =
                switch code {
                case nil, .failed, .duplicate, .damaged, .foreignOwner: true
                default: false
                }
            if isOfOneWrite, batch.count > 1 {
                batch.forEach { _ = commit([$0]) }
                return nil
            }
            if code == nil || code == .damaged { onDamage() }
            if code == .foreignOwner { onForeignOwner("\(error)") }
            finish(batch, PostgresError.relayError(for: error))
            return nil
        }

        /// Passes on the writes of owners whose data is not here; returns the others.
        private func handOver(_ batch: consuming [any StoreWrite], _ elsewhere: OwnersElsewhere) -> [any StoreWrite] {
            var rest: [any StoreWrite] = []
            for write in batch {
                guard let place = elsewhere.place(of: write) else {
                    rest.append(write)
                    continue
                }
                if let peers { peers.handOver(write, .owner(place)) } else { write.finish(.ownerIsMoving) }
            }
            // A process that does not know the other shards has to look for them.
            if peers == nil { hasVanished.store(true, ordering: .relaxed) }
            return rest
        }

        private func merge(_ first: BatchRemainder, _ second: BatchRemainder?) -> BatchRemainder {
            guard let second else { return first }
            return BatchRemainder(
                rest: first.rest + second.rest,
                spent: first.spent.merging(second.spent, uniquingKeysWith: +)
            )
        }

        /// Finishes each write and releases it at once.
        ///
        /// The last reference is then dropped by the thread that sends the response, which also allocated the write.
        private func finish(_ batch: consuming [any StoreWrite], _ failure: RelayError?) {
            batch.reverse()
            while let write = batch.popLast() { write.finish(failure) }
        }

        /// Runs `body` in a transaction that holds the locks of these writes, and commits it.
        private func transaction(
            for writes: [any StoreWrite],
            exclusively isExclusive: Bool,
            _ body: (PostgresWriter) -> Void
        ) throws -> Commit {
            let opening = try WriteOpening(writes, ensureOwners: ensureOwners)
            let connection = try database.pool.take(.writing)
            defer { database.pool.put(back: connection, .writing) }
            let names = known.withLock { $0.names }
            let transaction = transaction(on: connection, names: names)
            let rows = try connection.begin(opening.statements(of: home, exclusively: isExclusive))
            let answer = try WriteOpening.Answer(rows, of: opening, versions: homeVersions)
            guard answer.owners.count == opening.owners.count else {
                known.withLock { $0.owners.subtract(opening.owners.keys) }
                throw PostgresError(.conflict, "An owner's row has vanished.")
            }
            if !answer.elsewhere.isEmpty {
                let elsewhere = OwnersElsewhere(places: answer.elsewhere)
                if writes.contains(where: { elsewhere.place(of: $0) != nil }) { throw elsewhere }
            }
            if let peers, peers.number > 1 { transaction.peers = peers }
            let writer = PostgresWriter(
                transaction,
                known: .init(
                    state: try state(answer.versions, in: transaction),
                    watchedTypes: try watchedTypes(answer.versions.subscriptions, in: transaction),
                    indexes: try indexes.read(answer.versions.indexes, in: transaction)
                ),
                isExclusive: isExclusive,
                idempotencyRecordLimit: idempotencyRecordLimit,
                drawIdentity: draw
            )
            try answer.enter(into: writer, opening)
            body(writer)
            if let failure = writer.failure { throw failure }
            try writer.finish()
            try connection.commit(transaction.takeWaiting())
            learn(from: writer, since: names)
            return writer.commit
        }

        /// Runs `body` in a transaction that holds the lock of the schema, shared, and no owner's, and commits it.
        func upkeepTransaction<Result>(
            _ opening: PostgresPipeline,
            _ body: (PostgresReader) throws -> Result
        ) throws -> Result {
            let connection = try database.pool.take(.writing)
            defer { database.pool.put(back: connection, .writing) }
            let names = known.withLock { $0.names }
            let transaction = transaction(on: connection, names: names)
            var statements = PostgresPipeline()
            statements.add("SELECT pg_advisory_xact_lock_shared($1)", .int(home.schemaLock))
            statements.append(opening)
            statements.add(HomeVersions.select, .int(home.number))
            guard let row = try connection.begin(statements).last else { throw PostgresError.missing("the container") }
            let state = try state(try homeVersions(row), in: transaction)
            let result = try body(PostgresReader(transaction) { state })
            try connection.commit(transaction.takeWaiting())
            learn(transaction.names, since: names)
            return result
        }

        /// Keeps what a committed transaction learned.
        private func learn(from writer: PostgresWriter, since names: StoreNames) {
            let schema = writer.known.state.schema
            known.withLock {
                if writer.transaction.names.count > names.count { $0.names.merge(writer.transaction.names) }
                if schema.version > $0.state.schema.version { $0.state.schema = schema }
            }
            epochsKnown.withLock { known in
                for (owner, locked) in writer.owners
                where known[owner].map({ $0.epochs.current != locked.epoch }) ?? false {
                    known[owner] = nil
                }
            }
            if writer.leavesIdleWork { queue.withLock { $0 }?.leaveIdleWork() }
        }

        /// Returns the numbers of users, who all have a row in `owner` then.
        private func ensureOwners(_ users: Set<UserID>) throws(PostgresError) -> [UserID: Int64] {
            var (names, owners) = known.withLock { ($0.names, $0.owners) }
            let new = users.subtracting(owners)
            if !new.isEmpty {
                let numbers = try insertNames(Array(new), []).users
                _ = try database.pool.use(.brief) { connection throws(PostgresError) in
                    try connection.query(
                        """
                        INSERT INTO owner (id, epoch) SELECT n, h.epoch FROM unnest($2::bigint[]) AS n, home h WHERE h.id = $1
                        ORDER BY n ON CONFLICT DO NOTHING
                        """,
                        .int(home.number),
                        .ints(Array(numbers.values))
                    )
                }
                for (user, number) in numbers { names.add(user: user, number: number) }
                known.withLock { known in
                    known.owners.formUnion(numbers.keys)
                    for (user, number) in numbers { known.names.add(user: user, number: number) }
                }
            }
            var found: [UserID: Int64] = [:]
            for user in users {
                guard let number = names.number(of: user) else { throw .missing("a user") }
                found[user] = number
            }
            return found
        }

        /// Removes some of the rows that deleted zones and dropped indexes left; returns whether there are more.
        ///
        /// Needs no lock of an owner: these rows are no longer read, and other relays skip the zone meanwhile.
        private func purge() -> Bool {
            let limit: Int64 = 1_000
            let hasMore = try? database.pool.use(.writing) { connection throws(PostgresError) in
                var choice = PostgresPipeline()
                choice.add(
                    "SELECT id FROM zone WHERE home = $1 AND deleted AND NOT purged LIMIT 1 FOR UPDATE SKIP LOCKED",
                    .int(home.number)
                )
                guard let zone = try connection.begin(choice).last?.first?.int(0) else {
                    connection.rollBack()
                    return try PostgresIndexes.purgeDropped(of: home.number, limit: limit, connection)
                }
                var removal = PostgresPipeline()
                removal.add(
                    "DELETE FROM record WHERE (zone, name) IN (SELECT zone, name FROM record WHERE zone = $1 LIMIT $2)",
                    .int(zone),
                    .int(limit)
                )
                // By the indexes, since the entries are found by the number of one.
                removal.add(
                    """
                    DELETE FROM field_value WHERE (field, zone, value, name) IN (
                        SELECT v.field, v.zone, v.value, v.name
                        FROM field_index i CROSS JOIN \(LookUp.rows(of: "field_value", where: "field = i.id AND zone = $1")) v
                        WHERE i.home = $3 LIMIT $2)
                    """,
                    .int(zone),
                    .int(limit),
                    .int(home.number)
                )
                let isDone = try connection.run(removal).allSatisfy { Int64($0.changed) < limit }
                var end = PostgresPipeline()
                if isDone {
                    end.add("DELETE FROM asset_use WHERE zone = $1", .int(zone))
                    end.add("DELETE FROM reference WHERE zone = $1", .int(zone))
                    end.add("UPDATE zone SET purged = true WHERE id = $1", .int(zone))
                }
                try connection.commit(end)
                return true
            }
            // The next write meets the same error and reports it to its caller.
            return hasMore ?? false
        }
    }
#endif
