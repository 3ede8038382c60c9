import Foundation
import GRDB
package import Records
package import RelayCore
package import RelaySystem
package import StoreKit
import Synchronization

/// The records of one container in one environment, stored in one SQLite file.
///
/// Uses a write-ahead log, flushes before it answers a write, and puts many writes into one commit.
package final class SQLiteStore: Store {
    package enum Place: Sendable {
        case file(path: String)
        /// Removed with the process; for tests and previews.
        case memory
    }

    /// The epochs of the file, which are those of all owners.
    package var epochs: Epochs { epochsNow.withLock { $0 } }
    package func epochs(of owner: UserID) -> Epochs { epochs }
    private let epochsNow: Mutex<Epochs>
    /// Whether this run of the process has started its epoch; set by the thread that commits.
    let hasBegun: Atomic<Bool>
    package let tuning: QueryTuning
    private let idempotencyRecordLimit: Int

    /// How long a read may use a cached schema after another process has changed it; a write never does.
    ///
    /// Shorter than a command takes to exit after its commit, so that a script never sees the old schema.
    private static let schemaAge = Duration.milliseconds(20)

    package let connections: StoreConnections
    /// Whether other processes may change the file.
    private let isShared: Bool
    /// Whether reads may run on any thread.
    ///
    /// `false` for a store in memory, which has one connection, and for tests that run everything on one thread.
    package var hasOwnThreads: Bool { isShared && scheduler == nil }
    private let committed: Mutex<CommittedState>
    let onCommit: @Sendable (Commit) -> Void
    private let onLostWrite: @Sendable () -> Void
    private let onDamage: @Sendable () -> Void
    private let onForeignOwner: @Sendable (String) -> Void
    private let draw: @Sendable () -> UInt64
    package let assets: AssetFolder
    /// The writer's caches between two transactions; `nil` while a transaction uses them.
    let cache: Mutex<SQLiteWriter.Cache?>
    let isStopped = Mutex(false)
    /// Runs commits in place of the queue's thread.
    let scheduler: CommitScheduler?
    let queue = Mutex<CommitQueue?>(nil)

    /// Opens the file, creating it and its folder if necessary.
    ///
    /// - Parameters:
    ///   - place: the file, or memory.
    ///   - draw: returns 64 random bits, for epochs and zone identities.
    ///   - tuning: the thresholds for query plans.
    ///   - idempotencyRecordLimit: the least number of idempotency records that are kept; at most three times as many are
    ///     kept.
    ///   - disk: the calls that write assets.
    ///   - checkpointPages: the number of log pages that are copied into the file at once.
    ///   - onCommit: called with each commit's changes, before its writes are answered. Must not block. First called on
    ///     the caller's thread with the query subscriptions in the file.
    ///   - onCommitTime: called with the number of writes in a commit and its duration.
    ///   - onLostWrite: called once if the disk fails to keep a commit; the process should exit and start again.
    ///   - onDamage: called for each request that needs a damaged part of the file.
    ///   - onForeignOwner: called if a write touches an owner that it does not name. The write has failed then.
    ///   - scheduler: runs commits in place of the store's own thread.
    ///   - pause: the state in which this process last closed the file; `onCommit` then knows its subscriptions
    ///     already.
    /// - Throws: GRDB's error if the file cannot be opened.
    package init(
        _ place: Place,
        draw: @escaping @Sendable () -> UInt64,
        tuning: QueryTuning = QueryTuning(),
        idempotencyRecordLimit: Int = 65_536,
        disk: DiskCalls = .system,
        checkpointPages: Int = 8_000,
        onCommit: @escaping @Sendable (Commit) -> Void = { _ in },
        onCommitTime: @escaping @Sendable (Int, Duration) -> Void = { _, _ in },
        onLostWrite: @escaping @Sendable () -> Void = {},
        onDamage: @escaping @Sendable () -> Void = {},
        onForeignOwner: @escaping @Sendable (String) -> Void = { assertionFailure($0) },
        scheduler: CommitScheduler? = nil,
        after pause: PausedStore? = nil
    ) throws {
        self.tuning = tuning
        self.idempotencyRecordLimit = idempotencyRecordLimit
        self.scheduler = scheduler
        connections = try StoreConnections(place, checkpointPages: checkpointPages, disk: disk, scheduler: scheduler)
        if case .file(let path) = place { try connections.flushLog(path, by: disk) }
        isShared = if case .file = place { true } else { false }
        assets = pause?.assets ?? place.assetFolder(draw, disk)
        let state = try connections.write { database in try StoredState(database, draw: draw) }
        let snapshot = pause?.snapshot(continuing: state)
        epochsNow = Mutex(state.epochs)
        hasBegun = Atomic(snapshot?.hasBegun ?? state.isNew)
        committed = Mutex(CommittedState(names: state.names, schema: state.schema))
        var cache = SQLiteWriter.Cache(schema: state.schema, lastChange: snapshot?.lastChange ?? state.lastChange)
        for watcher in state.queries {
            cache.watchedTypes[watcher.subscription?.query?.recordType ?? "", default: 0] += 1
        }
        self.cache = Mutex(cache)
        if !state.queries.isEmpty, snapshot == nil {
            onCommit(Commit(subscriptions: state.queries, schema: state.schema))
        }
        self.draw = draw
        self.onCommit = onCommit
        self.onLostWrite = onLostWrite
        self.onDamage = onDamage
        self.onForeignOwner = onForeignOwner
        let queue = CommitQueue(
            name: "zonecast-commit",
            // Weak: callers that write keep the store alive, the thread must not.
            commit: { [weak self] in self?.commit($0) },
            onCommitTime: onCommitTime,
            idle: { [weak self] in self?.purge() ?? false },
            scheduler: scheduler
        )
        self.queue.withLock { $0 = queue }
    }

    /// Finishes the queued writes and closes the file.
    ///
    /// - Parameter end: the log is copied into the file only if that can be done by this time; `nil` means always.
    package func close(by end: ContinuousClock.Instant? = nil) {
        let commit = queue.withLock { $0.take() }?.close() ?? .zero
        // Copying takes one flush of the log and one of the file.
        connections.close(leavesLog: end.map { ContinuousClock.now + commit * 2 > $0 } ?? false)
        assets.removeIfTemporary()
    }

    /// Closes the file as a crash would: queued writes are dropped and not answered.
    package func abandon() {
        queue.withLock { $0.take() }?.abandon()
        connections.close()
    }

    deinit { close() }

    /// Reads take microseconds.
    package var currentSchema: Schema {
        let known = committed.withLock { $0 }
        guard isShared, mustReadSchema(known, ContinuousClock.now) else { return known.schema }
        // After a time without requests the cached schema may be old, and no request must be parsed with an old one.
        return (try? connections.read { try freshSchema(known, $0) }) ?? known.schema
    }

    /// The number of writes that wait for a commit.
    package var waitingWrites: Int { queue.withLock { $0 }?.depth ?? 0 }

    // MARK: Reading

    package func read<Result>(
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) throws(RelayError) -> Result {
        try readRows { reader throws(RelayError) in try body(reader) }
    }

    /// Does the same for code of this store, which may also read rows.
    func readRows<Result>(
        _ body: (SQLiteReader) throws(RelayError) -> Result
    ) throws(RelayError) -> Result {
        var work = QueryWork(tuning: tuning)
        return try readRows(&work, body)
    }

    /// Reads with a bound on the cost of queries, and returns in `work` what they cost.
    func readRows<Result>(
        _ work: inout QueryWork,
        _ body: (SQLiteReader) throws(RelayError) -> Result
    ) throws(RelayError) -> Result {
        let known = committed.withLock { $0 }
        do {
            return try connections.read { database, connection in
                let schema = try freshSchema(known, database)
                let reader = SQLiteReader(database, of: connection, names: known.names, schema: schema)
                reader.queryWork = work
                defer {
                    learn(reader.names, since: known.names)
                    work = reader.queryWork
                    if reader.hasMetDamage { onDamage() }
                }
                return try body(reader)
            }
        } catch let error as RelayError {
            throw error
        } catch {
            if StoreFailure.isDamage(error) { onDamage() }
            throw StoreFailure.relayError(for: error)
        }
    }

    /// Returns whether the schema may have changed: at any time by this process, after `schemaAge` by another one.
    private func mustReadSchema(_ known: CommittedState, _ now: ContinuousClock.Instant) -> Bool {
        known.schemaChanges != SchemaFolder.changes || now - known.checkedAt > Self.schemaAge
    }

    /// Returns the cached schema, or a newer one that another process has committed, if it is time to check for one.
    private func freshSchema(_ known: CommittedState, _ database: Database) throws -> Schema {
        let (now, changes) = (ContinuousClock.now, SchemaFolder.changes)
        guard isShared, mustReadSchema(known, now) else { return known.schema }
        let isNew = try SchemaRows.version(database) > known.schema.version
        let schema = try isNew ? SchemaRows.read(database) : known.schema
        var names = known.names
        if isNew {
            for (name, number) in try SchemaRows.typeNumbers(database) { names.add(type: name, number: number) }
        }
        committed.withLock {
            $0.checkedAt = now
            $0.schemaChanges = changes
            guard schema.version > $0.schema.version else { return }
            $0.schema = schema
            $0.names.merge(names)
        }
        return schema
    }

    /// Keeps the names that a reader looked up, for the next readers.
    private func learn(_ names: StoreNames, since known: StoreNames) {
        guard names.count > known.count else { return }
        committed.withLock { $0.names.merge(names) }
    }

    // MARK: Writing

    /// Runs `body`, upkeep of this store, in the next commit; it may touch the data of all owners.
    ///
    /// See `StoreWrite` for the rules.
    func writeRows<Value: Sendable>(
        _ body: @escaping @Sendable (SQLiteWriter) throws(RelayError) -> Value
    ) async throws(RelayError) -> Value {
        try await maintain { writer throws(RelayError) in
            // The commit queue passes on what `transaction` gave it.
            guard let writer = writer as? SQLiteWriter else { throw .notCarriedOut }
            return try body(writer)
        }
    }

    package func write(_ write: any StoreWrite) {
        let isQueued = queue.withLock { $0 }?.add(write) ?? false
        if !isQueued { write.finish(RelayError(.tryAgainLater, "The relay is stopping.", retryAfter: .seconds(2))) }
    }

    /// Commits as many writes of `batch` as fit into one commit.
    ///
    /// If that commit fails, each write gets a commit of its own, so that none fails because of another.
    ///
    /// - Returns: the writes that did not fit; `nil` if all are done.
    private func commit(_ batch: consuming [any StoreWrite]) -> BatchRemainder? {
        guard !isStopped.withLock({ $0 }) else {
            finish(batch, StoreFailure.relayError(for: StoreFailure.stopped))
            return nil
        }
        if commitsTooLate(batch) { return nil }
        var remainder: BatchRemainder?
        do {
            try beginEpoch()
            let done = try transaction { writer in
                remainder = BatchRemainder.run(&batch) { write in
                    writer.owner = write.owner
                    write.run(in: writer)
                    return writer.recordBytes
                }
            }
            if !done.isEmpty { onCommit(done) }
            finish(batch, nil)
            checkpointIfDue()
        } catch  where StoreFailure.isLostWrite(error) {
            // First, so that the process is stopping by the time a caller receives the failure.
            stopAfterLostWrite()
            finish(batch, StoreFailure.relayError(for: error))
        } catch  where batch.count > 1 {
            batch.forEach { _ = commit([$0]) }
        } catch {
            if StoreFailure.lasts(error) { isStopped.withLock { $0 = true } }
            if StoreFailure.isDamage(error) { onDamage() }
            if case .foreignOwner? = error as? StoreFailure { onForeignOwner("\(error)") }
            finish(batch, StoreFailure.relayError(for: error))
        }
        return remainder
    }

    /// Starts a new epoch and skips change numbers, before the first write of this run.
    ///
    /// Uses a commit of its own, so that no token of the old epoch can be past that epoch's end. If the file is put
    /// back to an earlier state, the tokens and change tags issued since then therefore never get another meaning.
    private func beginEpoch() throws {
        guard !hasBegun.load(ordering: .relaxed) else { return }
        guard let last = cache.withLock({ $0?.lastChange }) else { return }
        let next = draw()
        try connections.write { try Epochs.follow(by: next, after: last, in: $0) }
        epochsNow.withLock { $0 = $0.followed(by: next, after: last) }
        let leap = Self.leap(draw())
        cache.withLock { $0?.lastChange += leap }
        hasBegun.store(true, ordering: .relaxed)
    }

    /// Finishes each write and releases it at once.
    ///
    /// The last reference is then dropped by the thread that sends the response, which also allocated the write.
    private func finish(_ batch: consuming [any StoreWrite], _ failure: RelayError?) {
        batch.reverse()
        while let write = batch.popLast() { write.finish(failure) }
    }

    /// Copies the log into the file if it is due.
    ///
    /// After a failure the store refuses all writes: a second attempt to flush would prove nothing.
    private func checkpointIfDue() {
        do {
            try connections.checkpointIfDue { [weak self] in self?.checkpointFailed($0) }
        } catch {
            checkpointFailed(error)
        }
    }

    private func checkpointFailed(_ error: any Error) {
        // A full disk is not such a failure: answered writes are safe in the log, and a later commit tries again.
        if StoreFailure.isLostWrite(error) { stopAfterLostWrite() }
        if StoreFailure.isDamage(error) { onDamage() }
    }

    /// Refuses all further writes: the state of the disk is unknown until the file is opened again.
    private func stopAfterLostWrite() {
        isStopped.withLock { $0 = true }
        onLostWrite()
    }

    /// Runs `body` in a transaction and commits it; returns when the commit is on disk.
    func transaction(_ body: (SQLiteWriter) throws -> Void) throws -> Commit {
        let known = committed.withLock { $0 }
        var lastChange: UInt64 = 0
        var watchedTypes: [String: Int]?
        do {
            let writer = try connections.write { database, connection in
                let writer = SQLiteWriter(
                    database,
                    of: connection,
                    names: known.names,
                    // Moved: a second reference would make each transaction copy the caches.
                    cache: cache.withLock { $0.take() } ?? .init(schema: known.schema, lastChange: 0),
                    epoch: epochs.current,
                    idempotencyRecordLimit: idempotencyRecordLimit,
                    assets: assets,
                    drawIdentity: draw
                )
                defer { lastChange = writer.cache.lastChange }
                watchedTypes = writer.cache.watchedTypes
                if connection.isTouched(database) { try writer.noticeSchema() }
                try body(writer)
                if let failure = writer.failure { throw failure }
                try writer.finish()
                return writer
            }
            return learn(from: writer, since: known)
        } catch {
            // What the failed transaction learned about zones is wrong. Its change numbers are not used again.
            cache.withLock { cache in
                var fresh = SQLiteWriter.Cache(
                    schema: known.schema,
                    lastChange: max(lastChange, cache?.lastChange ?? 0)
                )
                fresh.watchedTypes = watchedTypes ?? cache?.watchedTypes ?? [:]
                cache = fresh
            }
            throw error
        }
    }

    /// Keeps what a committed transaction learned, and returns its changes.
    private func learn(from writer: SQLiteWriter, since known: CommittedState) -> Commit {
        let kept = writer.takeCache()
        if kept.schema.version != known.schema.version || writer.names.count != known.names.count {
            committed.withLock {
                $0.names.merge(writer.names)
                // A read may have seen a still newer schema of another process.
                if kept.schema.version > $0.schema.version { $0.schema = kept.schema }
            }
        }
        cache.withLock { $0 = kept }
        let commit = writer.commit
        if writer.hasDroppedIndexes || commit.zones.contains(where: { $0.token == nil }) {
            queue.withLock { $0 }?.leaveIdleWork()
        }
        return commit
    }

    /// Removes some of the rows that deleted zones and dropped indexes left; returns whether there are more.
    private func purge() -> Bool {
        guard !isStopped.withLock({ $0 }) else { return false }
        var hasMore = false
        do {
            _ = try transaction {
                hasMore = try $0.purgeDeletedZones(limit: 1_000) || $0.purgeDroppedIndexes(limit: 1_000)
            }
        } catch  where StoreFailure.isLostWrite(error) {
            stopAfterLostWrite()
        } catch {
            // The next write meets the same error and reports it to its caller.
            hasMore = false
        }
        return hasMore
    }

    /// Starts a new epoch and ends all others, as a restore does: every earlier token is refused.
    ///
    /// Must not be called while writes run.
    package func renewEpoch() throws {
        let epoch = draw()
        try connections.write { try Epochs.replace(by: epoch, in: $0) }
        epochsNow.withLock { $0 = Epochs(current: epoch) }
    }
}

extension SQLiteStore.Place {
    static func assetFolder(ofFile path: String) -> String {
        (path.hasSuffix(".sqlite") ? String(path.dropLast(7)) : path) + ".assets"
    }

    /// The folder beside the file, or a temporary folder for a store in memory.
    fileprivate func assetFolder(_ draw: @escaping @Sendable () -> UInt64, _ disk: DiskCalls) -> AssetFolder {
        switch self {
        case .file(let path):
            return AssetFolder(folder: Self.assetFolder(ofFile: path), disk: disk, draw: draw)
        case .memory:
            let name = "zonecast-assets-\(UUID().uuidString)"
            let folder = FileManager.default.temporaryDirectory.appendingPathComponent(name).path
            return AssetFolder(folder: folder, isTemporary: true, disk: disk, draw: draw)
        }
    }
}
