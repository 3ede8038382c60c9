import Foundation
import GRDB
package import Records
package import RelayCore
import Synchronization

/// A container's records in one environment, in one SQLite file: WAL, fsync before every answer, many writes to a commit.
package final class SQLiteStore: Store {
    package enum Place: Sendable {
        case file(path: String)
        /// Gone with the process; for tests and previews.
        case memory
    }

    package var epochs: Epochs { epochsNow.withLock { $0 } }
    private let epochsNow: Mutex<Epochs>
    /// Whether this life has begun an epoch; looked at by whoever commits.
    let hasBegun: Atomic<Bool>
    let tuning: QueryTuning
    private let rememberedWrites: Int

    /// How long reads may go by a schema that another process has changed meanwhile; writes never do.
    ///
    /// Shorter than a command needs to end after its commit, so that a script never meets the old one.
    private static let schemaAge = Duration.milliseconds(20)

    let connections: StoreConnections
    /// Whether other processes may change the file.
    private let isShared: Bool
    /// Whether reads may go to any thread; a test has them all on one, and in memory there is one connection for all.
    var hasOwnThreads: Bool { isShared && later == nil }
    private let committed: Mutex<CommittedState>
    let onCommit: @Sendable (Commit) -> Void
    private let onLostWrite: @Sendable () -> Void
    private let onDamage: @Sendable () -> Void
    private let draw: @Sendable () -> UInt64
    package let assets: AssetFolder
    /// The writer's memory between two transactions; taken out for the length of one.
    let memory: Mutex<SQLiteWriter.Memory?>
    let isStopped = Mutex(false)
    /// Commits in place of the queue's thread.
    let later: CommitLater?
    let queue = Mutex<CommitQueue?>(nil)

    /// Opens the file, or makes it with its folder.
    ///
    /// - Parameters:
    ///   - place: the file, or memory.
    ///   - draw: gives random 64 bits, for epochs and zone identities.
    ///   - tuning: how queries choose their ways.
    ///   - rememberedWrites: how many of the writes that clients may repeat are remembered at the least; three times as many
    ///     are kept at the most.
    ///   - disk: what assets are written by.
    ///   - checkpointPages: so many pages of log are written back into the file at once.
    ///   - onCommit: hears of every committed change, before the writes are answered: it must not wait for anything. Hears
    ///     first, on the caller's thread, of the query subscriptions that the file holds.
    ///   - onCommitTime: hears how many writes shared a commit and how long it took.
    ///   - onLostWrite: hears once that the disk failed to keep a commit; the process should end and start again.
    ///   - onDamage: hears of each request that needed what the disk has damaged.
    ///   - later: commits in place of a thread of the store's own.
    ///   - pause: where this process has had the file open before; then `onCommit` knows its subscriptions already.
    /// - Throws: what GRDB throws where the file cannot be opened.
    package init(
        _ place: Place,
        draw: @escaping @Sendable () -> UInt64,
        tuning: QueryTuning = QueryTuning(),
        rememberedWrites: Int = 65_536,
        disk: DiskCalls = .system,
        checkpointPages: Int = 8_000,
        onCommit: @escaping @Sendable (Commit) -> Void = { _ in },
        onCommitTime: @escaping @Sendable (Int, Duration) -> Void = { _, _ in },
        onLostWrite: @escaping @Sendable () -> Void = {},
        onDamage: @escaping @Sendable () -> Void = {},
        later: CommitLater? = nil,
        after pause: StorePause? = nil
    ) throws {
        self.tuning = tuning
        self.rememberedWrites = rememberedWrites
        self.later = later
        connections = try StoreConnections(place, checkpointPages: checkpointPages, disk: disk, later: later)
        if case .file(let path) = place { try connections.settleLog(path, by: disk) }
        isShared = if case .file = place { true } else { false }
        assets = pause?.assets ?? place.assetFolder(draw, disk)
        let state = try connections.write { database in try StoredState(database, draw: draw) }
        let life = pause?.life(goingOnIn: state)
        epochsNow = Mutex(state.epochs)
        hasBegun = Atomic(life?.hasBegun ?? state.isNew)
        committed = Mutex(CommittedState(names: state.names, schema: state.schema))
        var memory = SQLiteWriter.Memory(schema: state.schema, lastChange: life?.lastChange ?? state.lastChange)
        for watcher in state.queries {
            memory.watchedTypes[watcher.subscription?.query?.recordType ?? "", default: 0] += 1
        }
        self.memory = Mutex(memory)
        if !state.queries.isEmpty, life == nil { onCommit(Commit(subscriptions: state.queries, schema: state.schema)) }
        self.draw = draw
        self.onCommit = onCommit
        self.onLostWrite = onLostWrite
        self.onDamage = onDamage
        let queue = CommitQueue(
            name: "zonecast-commit",
            // Whoever writes keeps the store alive; the thread alone does not.
            commit: { [weak self] in self?.commit($0) },
            onCommitTime: onCommitTime,
            idle: { [weak self] in self?.purge() ?? false },
            later: later
        )
        self.queue.withLock { $0 = queue }
    }

    /// Finishes the writes that wait and closes the file.
    ///
    /// `end`, where given: the log is copied into the file only where that may be done by then.
    package func close(by end: ContinuousClock.Instant? = nil) {
        let commit = queue.withLock { $0.take() }?.close() ?? .zero
        // To copy it takes a flush of the log and one of the file.
        connections.close(leavesLog: end.map { ContinuousClock.now + commit * 2 > $0 } ?? false)
        assets.removeIfTemporary()
    }

    /// Closes the file as the end of the process would: writes that wait are forgotten, and nobody is answered.
    package func abandon() {
        queue.withLock { $0.take() }?.abandon()
        connections.close()
    }

    deinit { close() }

    package var currentSchema: Schema {
        let known = committed.withLock { $0 }
        guard isShared, mustLook(known, ContinuousClock.now) else { return known.schema }
        // Without a request for a while nobody has looked: what is read by it now must not be read by an old one.
        return (try? connections.read { try freshSchema(known, $0) }) ?? known.schema
    }

    /// Writes that wait for their commit.
    package var waitingWrites: Int { queue.withLock { $0 }?.depth ?? 0 }

    // MARK: Reading

    package func read<Result>(
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) throws(RelayError) -> Result {
        var work = QueryWork(tuning: tuning)
        return try read(&work, body)
    }

    /// Reads with a bound on what queries may cost, and tells what they did.
    func read<Result>(
        _ work: inout QueryWork,
        _ body: (any StoreReader) throws(RelayError) -> Result
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

    /// Whether a schema may have come since: from this process, or, after a while, from another.
    private func mustLook(_ known: CommittedState, _ now: ContinuousClock.Instant) -> Bool {
        known.schemaChanges != SchemaFolder.changes || now - known.looked > Self.schemaAge
    }

    /// The schema that is known, or, looked up now and then, the one that another process has put in its place.
    private func freshSchema(_ known: CommittedState, _ database: Database) throws -> Schema {
        let (now, changes) = (ContinuousClock.now, SchemaFolder.changes)
        guard isShared, mustLook(known, now) else { return known.schema }
        let isNew = try SchemaRows.version(database) > known.schema.version
        let schema = try isNew ? SchemaRows.read(database) : known.schema
        var names = known.names
        if isNew {
            for (name, number) in try SchemaRows.typeNumbers(database) { names.add(type: name, number: number) }
        }
        committed.withLock {
            $0.looked = now
            $0.schemaChanges = changes
            guard schema.version > $0.schema.version else { return }
            $0.schema = schema
            $0.names.merge(names)
        }
        return schema
    }

    /// Keeps what a reader had to look up, so that the next one need not.
    private func learn(_ names: StoreNames, since known: StoreNames) {
        guard names.count > known.count else { return }
        committed.withLock { $0.names.merge(names) }
    }

    // MARK: Writing

    package func write(_ write: any StoreWrite) {
        let isQueued = queue.withLock { $0 }?.add(write) ?? false
        if !isQueued { write.finish(RelayError(.tryAgainLater, "The relay is stopping.", retryAfter: .seconds(2))) }
    }

    /// One commit for as much of `batch` as is done in a moment; where it fails, one for each, so that nobody fails for
    /// another's sake.
    private func commit(_ batch: consuming [any StoreWrite]) -> CommitCut? {
        guard !isStopped.withLock({ $0 }) else {
            finish(batch, StoreFailure.relayError(for: StoreFailure.stopped))
            return nil
        }
        if commitsTooLate(batch) { return nil }
        var cut: CommitCut?
        do {
            try beginEpoch()
            let done = try transaction { cut = CommitCut.run(&batch, in: $0) }
            if !done.isEmpty { onCommit(done) }
            finish(batch, nil)
            checkpointIfDue()
        } catch  where StoreFailure.isLostWrite(error) {
            // First: whoever hears of the failure finds the end begun.
            stopAfterLostWrite()
            finish(batch, StoreFailure.relayError(for: error))
        } catch  where batch.count > 1 {
            batch.forEach { _ = commit([$0]) }
        } catch {
            if StoreFailure.lasts(error) { isStopped.withLock { $0 = true } }
            if StoreFailure.isDamage(error) { onDamage() }
            finish(batch, StoreFailure.relayError(for: error))
        }
        return cut
    }

    /// Before the first write of this life: another epoch, and numbers that none of before can have reached.
    ///
    /// In a commit of its own, so that no token of the old epoch can be from beyond its end. Whoever puts the file back to an
    /// earlier state thus makes neither tokens nor change tags mean something else than they did.
    private func beginEpoch() throws {
        guard !hasBegun.load(ordering: .relaxed) else { return }
        guard let last = memory.withLock({ $0?.lastChange }) else { return }
        let next = draw()
        try connections.write { try Epochs.follow(by: next, after: last, in: $0) }
        epochsNow.withLock { $0 = $0.followed(by: next, after: last) }
        let leap = Self.leap(draw())
        memory.withLock { $0?.lastChange += leap }
        hasBegun.store(true, ordering: .relaxed)
    }

    /// Tells each write and lets go of it, so that it ends on the thread that answers, where its memory is from.
    private func finish(_ batch: consuming [any StoreWrite], _ failure: RelayError?) {
        batch.reverse()
        while let write = batch.popLast() { write.finish(failure) }
    }

    /// Copies the log into the file now and then; where the disk fails at it, nothing is written any more, since a second
    /// try would prove nothing.
    private func checkpointIfDue() {
        do {
            try connections.checkpointIfDue { [weak self] in self?.checkpointFailed($0) }
        } catch {
            checkpointFailed(error)
        }
    }

    private func checkpointFailed(_ error: any Error) {
        // A full disk is no such failure: what was answered is safe in the log, and a later commit tries again.
        if StoreFailure.isLostWrite(error) { stopAfterLostWrite() }
        if StoreFailure.isDamage(error) { onDamage() }
    }

    /// Takes no write any more: what the disk holds is unknown until the file is opened again.
    private func stopAfterLostWrite() {
        isStopped.withLock { $0 = true }
        onLostWrite()
    }

    /// Runs `body` in a transaction and commits it; returns when that is on disk.
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
                    // Handed over whole: a second owner would make each transaction copy it.
                    memory: memory.withLock { $0.take() } ?? .init(schema: known.schema, lastChange: 0),
                    epoch: epoch,
                    rememberedWrites: rememberedWrites,
                    assets: assets,
                    drawIdentity: draw
                )
                defer { lastChange = writer.memory.lastChange }
                watchedTypes = writer.memory.watchedTypes
                if connection.isTouched(database) { try writer.noticeSchema() }
                try body(writer)
                if let failure = writer.failure { throw failure }
                try writer.finish()
                return writer
            }
            return learn(from: writer, since: known)
        } catch {
            // What the lost transaction learnt of zones is not so; the numbers it took are not given again.
            memory.withLock { memory in
                var fresh = SQLiteWriter.Memory(
                    schema: known.schema,
                    lastChange: max(lastChange, memory?.lastChange ?? 0)
                )
                fresh.watchedTypes = watchedTypes ?? memory?.watchedTypes ?? [:]
                memory = fresh
            }
            throw error
        }
    }

    /// Keeps what a committed transaction learnt, and gives its changes.
    private func learn(from writer: SQLiteWriter, since known: CommittedState) -> Commit {
        let kept = writer.takeMemory()
        if kept.schema.version != known.schema.version || writer.names.count != known.names.count {
            committed.withLock {
                $0.names.merge(writer.names)
                // A read may have met a still later one of another process.
                if kept.schema.version > $0.schema.version { $0.schema = kept.schema }
            }
        }
        memory.withLock { $0 = kept }
        let commit = writer.commit
        if writer.hasDroppedIndexes || commit.zones.contains(where: { $0.token == nil }) {
            queue.withLock { $0 }?.leaveIdleWork()
        }
        return commit
    }

    /// Removes some of what deleted zones left behind; true while there is more.
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
            // It is met again by the next write, which has somebody to tell.
            hasMore = false
        }
        return hasMore
    }

    /// Draws another epoch, as a restore does: no token of before is served any more.
    ///
    /// To be called while nobody writes.
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

    /// Beside the file; of a store in memory among the system's temporary files.
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
