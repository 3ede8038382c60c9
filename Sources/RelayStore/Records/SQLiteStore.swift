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

    package var epoch: UInt64 { epochNow.load(ordering: .relaxed) }
    private let epochNow: Atomic<UInt64>
    let tuning: QueryTuning
    private let rememberedWrites: Int

    /// What is known of the committed state: one reference, since every request takes it out.
    private struct Committed: Sendable {
        private final class State: Sendable {
            let names: StoreNames
            let schema: Schema

            init(_ names: StoreNames, _ schema: Schema) {
                self.names = names
                self.schema = schema
            }
        }

        private var state: State
        /// When a read last looked whether another process has changed the schema.
        var looked = ContinuousClock.now

        init(names: StoreNames, schema: Schema) { state = State(names, schema) }

        var names: StoreNames {
            get { state.names }
            set { state = State(newValue, state.schema) }
        }

        var schema: Schema {
            get { state.schema }
            set { state = State(state.names, newValue) }
        }
    }

    /// How long reads may go by a schema that the command line has changed meanwhile; writes never do.
    ///
    /// Shorter than a command needs to end after its commit, so that a script never meets the old one.
    private static let schemaAge = Duration.milliseconds(20)

    private let connections: StoreConnections
    /// Whether other processes may change the file.
    private let isShared: Bool
    private let committed: Mutex<Committed>
    private let onCommit: @Sendable (Commit) -> Void
    private let onLostWrite: @Sendable () -> Void
    private let onDamage: @Sendable () -> Void
    private let draw: @Sendable () -> UInt64
    package let assets: AssetFolder
    /// The writer's memory between two transactions; taken out for the length of one.
    private let memory: Mutex<SQLiteWriter.Memory?>
    private let isStopped = Mutex(false)
    #if DEBUG
        private let later: CommitLater?
    #endif
    private let queue = Mutex<CommitQueue?>(nil)

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
        later: CommitLater? = nil
    ) throws {
        self.tuning = tuning
        self.rememberedWrites = rememberedWrites
        #if DEBUG
            self.later = later
        #endif
        connections = try StoreConnections(place, checkpointPages: checkpointPages)
        if case .file(let path) = place { try connections.settleLog(path, by: disk) }
        isShared = if case .file = place { true } else { false }
        assets = place.assetFolder(draw, disk)
        let state = try connections.write { database in try StoredState(database, draw: draw) }
        epochNow = Atomic(state.epoch)
        committed = Mutex(Committed(names: state.names, schema: state.schema))
        var memory = SQLiteWriter.Memory(schema: state.schema, lastChange: state.lastChange)
        for watcher in state.queries {
            memory.watchedTypes[watcher.subscription?.query?.recordType ?? "", default: 0] += 1
        }
        self.memory = Mutex(memory)
        if !state.queries.isEmpty { onCommit(Commit(subscriptions: state.queries, schema: state.schema)) }
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
    package func close() {
        queue.withLock { $0.take() }?.close()
        connections.close()
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
        guard isShared, ContinuousClock.now - known.looked > Self.schemaAge else { return known.schema }
        // Without a request for a while nobody has looked: what is read by it now must not be read by an old one.
        return (try? connections.read { try freshSchema(known, $0) }) ?? known.schema
    }

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
            return try connections.read { database in
                let schema = try freshSchema(known, database)
                let reader = SQLiteReader(database, names: known.names, schema: schema)
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

    /// The schema that is known, or, looked up now and then, the one that another process has put in its place.
    private func freshSchema(_ known: Committed, _ database: Database) throws -> Schema {
        let now = ContinuousClock.now
        guard isShared, now - known.looked > Self.schemaAge else { return known.schema }
        let isNew = try SchemaRows.version(database) > known.schema.version
        let schema = try isNew ? SchemaRows.read(database) : known.schema
        var names = known.names
        if isNew {
            for (name, number) in try SchemaRows.typeNumbers(database) { names.add(type: name, number: number) }
        }
        committed.withLock {
            $0.looked = now
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

    package func write<Value: Sendable>(
        _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Value,
        then: @escaping @Sendable (Result<Value, RelayError>) -> Void
    ) {
        let write = PendingWrite(body, then)
        let isQueued = queue.withLock { $0 }?.add(write) ?? false
        if !isQueued { write.finish(RelayError(.tryAgainLater, "The relay is stopping.", retryAfter: .seconds(2))) }
    }

    /// One commit for all of `batch`; where it fails, one for each, so that nobody fails for another's sake.
    private func commit(_ batch: [any QueuedWrite]) {
        guard !isStopped.withLock({ $0 }) else {
            return batch.forEach { $0.finish(StoreFailure.relayError(for: StoreFailure.stopped)) }
        }
        #if DEBUG
            if commitTooLate(batch) { return }
        #endif
        do {
            let done = try transaction { writer in batch.forEach { $0.run(in: writer) } }
            if !done.isEmpty { onCommit(done) }
            batch.forEach { $0.finish(nil) }
            checkpointIfDue()
        } catch  where StoreFailure.isLostWrite(error) {
            // First: whoever hears of the failure finds the end begun.
            stopAfterLostWrite()
            batch.forEach { $0.finish(StoreFailure.relayError(for: error)) }
        } catch  where batch.count > 1 {
            batch.forEach { commit([$0]) }
        } catch {
            if StoreFailure.isDamage(error) { onDamage() }
            batch.forEach { $0.finish(StoreFailure.relayError(for: error)) }
        }
    }

    /// Copies the log into the file now and then; where the disk fails at it, nothing is written any more, since a second
    /// try would prove nothing.
    private func checkpointIfDue() {
        do {
            try connections.checkpointIfDue()
        } catch  where StoreFailure.isLostWrite(error) {
            stopAfterLostWrite()
        } catch {
            // Else a full disk: what was answered is safe in the log, and the next commit tries again.
            if StoreFailure.isDamage(error) { onDamage() }
        }
    }

    /// Takes no write any more: what the disk holds is unknown until the file is opened again.
    private func stopAfterLostWrite() {
        isStopped.withLock { $0 = true }
        onLostWrite()
    }

    #if DEBUG
        private struct TooEarly: Error {}

        /// Says that it is done, and does it later: for the planted faults that are about this.
        private func commitTooLate(_ batch: [any QueuedWrite]) -> Bool {
            let (answers, tells) = (
                PlantedFault.answerBeforeCommit.isPlanted, PlantedFault.noticeBeforeCommit.isPlanted
            )
            guard answers || tells, let later else { return false }
            var done: Commit?
            _ = try? transaction { writer in
                batch.forEach { $0.run(in: writer) }
                try writer.finish()
                done = writer.commit
                throw TooEarly()
            }
            if answers { batch.forEach { $0.finish(nil) } }
            if tells, let done, !done.isEmpty { onCommit(done) }
            // Some time later: the others have had a few turns.
            wait(12, later) { [weak self] in
                guard let self, let done = try? self.transaction({ writer in batch.forEach { $0.run(in: writer) } })
                else { return }
                if answers, !done.isEmpty { self.onCommit(done) }
                if tells { batch.forEach { $0.finish(nil) } }
            }
            return true
        }

        private func wait(_ turns: Int, _ later: @escaping CommitLater, _ body: @escaping @Sendable () -> Void) {
            later { [weak self] in turns == 0 ? body() : self?.wait(turns - 1, later, body) ?? () }
        }
    #endif

    /// Runs `body` in a transaction and commits it; returns when that is on disk.
    private func transaction(_ body: (SQLiteWriter) throws -> Void) throws -> Commit {
        let known = committed.withLock { $0 }
        var lastChange: UInt64 = 0
        var watchedTypes: [String: Int]?
        do {
            let writer = try connections.write { database in
                let writer = SQLiteWriter(
                    database,
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
                try writer.noticeSchema()
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
    private func learn(from writer: SQLiteWriter, since known: Committed) -> Commit {
        let kept = writer.takeMemory()
        if kept.schema.version != known.schema.version || writer.names.count != known.names.count {
            committed.withLock {
                $0.names.merge(writer.names)
                // A read may have met a still later one of another process.
                if kept.schema.version > $0.schema.version { $0.schema = kept.schema }
            }
        }
        memory.withLock { $0 = kept }
        if writer.hasDroppedIndexes || writer.changes.contains(where: { $0.token == nil }) {
            queue.withLock { $0 }?.leaveIdleWork()
        }
        return writer.commit
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

    // MARK: Assets

    /// Removes the assets that came before `limit` and that no record uses; tells how many.
    ///
    /// Inside of writes, so that none is removed while a record takes it into use.
    package func removeUnusedAssets(before limit: Timestamp) async throws(RelayError) -> Int {
        var removed = 0
        var rest = assets.assets(before: limit)[...]
        while !rest.isEmpty {
            let batch = Array(rest.prefix(200))
            rest = rest.dropFirst(batch.count)
            let assets = assets
            removed += try await write { writer throws(RelayError) in
                guard let writer = writer as? SQLiteWriter else { return 0 }
                let unused = try writer.attempt { try batch.filter { try !writer.isUsed($0) } }
                for hash in unused { assets.remove(hash, ifBefore: limit) }
                return unused.count
            }
        }
        return removed
    }

    /// Draws another epoch, as a restore does: no token of before is served any more.
    ///
    /// To be called while nobody writes.
    package func renewEpoch() throws {
        let epoch = draw()
        try connections.write { database in
            try database.execute(
                sql: "UPDATE fact SET value = ? WHERE name = 'epoch'",
                arguments: [Int64(bitPattern: epoch)]
            )
        }
        epochNow.store(epoch, ordering: .relaxed)
    }

    // MARK: Looking beneath

    /// One record's row with its zone's, read by nothing but itself: what checkers compare everything else with.
    package struct BareRow: Sendable {
        package var owner: String
        package var zone: String
        package var identity: UInt64
        package var lastChange: UInt64
        /// `nil`: the zone is empty.
        package var record: String?
        package var type: String?
        package var change: UInt64
        package var isDeleted: Bool
        package var fields: [UInt8]
    }

    /// The records of all zones that are there, and the greatest number that any zone was ever stamped with.
    package func bareRows() throws -> (rows: [BareRow], lastChange: UInt64) {
        try connections.read { database in
            let last = try Int64.fetchOne(database, sql: "SELECT max(last_change) FROM zone") ?? 0
            let rows = try Row.fetchAll(
                database,
                sql: """
                    SELECT u.name, z.name, z.identity, z.last_change, r.name, t.name, r.change, r.deleted, r.fields
                    FROM zone z JOIN user u ON u.id = z.owner LEFT JOIN record r ON r.zone = z.id
                    LEFT JOIN record_type t ON t.id = r.type WHERE z.deleted = 0 ORDER BY r.change
                    """
            ).map { row in
                BareRow(
                    owner: row[0],
                    zone: row[1],
                    identity: UInt64(bitPattern: row[2]),
                    lastChange: UInt64(bitPattern: row[3]),
                    record: row[4],
                    type: row[5],
                    change: UInt64(bitPattern: row[6] ?? 0),
                    isDeleted: row[7] ?? false,
                    fields: (row[8] as Data?).map { [UInt8]($0) } ?? []
                )
            }
            return (rows, UInt64(last))
        }
    }

    /// `PRAGMA synchronous` of the writing connection, for the test that reads it back: 2 is FULL.
    package func synchronousLevel() throws -> Int {
        try connections.inspect { try Int.fetchOne($0, sql: "PRAGMA synchronous") ?? -1 }
    }

    /// How many writes are remembered that may be repeated.
    package func doneWriteCount() async throws -> Int {
        try connections.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM done_write") ?? 0 }
    }

    /// The statement that reads a zone's feed, for the test that looks at its plan.
    package static var feedStatement: String { SQLiteReader.forwardFeed }

    /// What SQLite's own check of the whole file says: `ok` when nothing is wrong.
    package func integrityReport() throws -> String {
        try connections.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") ?? "no answer" }
    }
}

/// A write with what waits for it.
private final class PendingWrite<Value: Sendable>: QueuedWrite, @unchecked Sendable {
    // `outcome` is touched by the commit thread alone, after the queue's lock has handed the write over.
    private var outcome: Result<Value, RelayError>?
    private let body: @Sendable (any StoreWriter) throws(RelayError) -> Value
    private let then: @Sendable (Result<Value, RelayError>) -> Void

    init(
        _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Value,
        _ then: @escaping @Sendable (Result<Value, RelayError>) -> Void
    ) {
        self.body = body
        self.then = then
    }

    func run(in writer: SQLiteWriter) {
        do throws(RelayError) {
            outcome = .success(try body(writer))
        } catch {
            outcome = .failure(error)
        }
    }

    func finish(_ failure: RelayError?) {
        let failed = failure.map { Result<Value, RelayError>.failure($0) }
        then(failed ?? outcome ?? .failure(StoreFailure.relayError(for: StoreFailure.stopped)))
    }
}

/// What a store keeps in memory, read when it opens.
private struct StoredState {
    var epoch: UInt64
    var names = StoreNames()
    var schema = Schema()
    var lastChange: UInt64
    var queries: [CommittedSubscription]

    init(_ database: Database, draw: () -> UInt64) throws {
        if let kept = try Int64.fetchOne(database, sql: "SELECT value FROM fact WHERE name = 'epoch'") {
            epoch = UInt64(bitPattern: kept)
        } else {
            epoch = try StoreLayout.begin(database, draw: draw)
        }
        // Every change stamps its zone, and zone rows stay for ever: the greatest stamp is the last number given.
        lastChange = UInt64(try Int64.fetchOne(database, sql: "SELECT max(last_change) FROM zone") ?? 0)
        #if DEBUG
            if PlantedFault.numberReused.isPlanted, lastChange > 8 { lastChange -= 2 }
        #endif
        queries = try SubscriptionRow.readQueries(database)
        for (name, number) in try SchemaRows.typeNumbers(database) { names.add(type: name, number: number) }
        schema = try SchemaRows.read(database)
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
