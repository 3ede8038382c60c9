import Records
import RelayCore

/// How many commits of one store may run at once, and how many owners one of them may serve.
///
/// A store that locks the owners of a commit needs both; a store with one writer needs neither.
package struct CommitLanes: Sendable {
    /// The number of commits that run at once.
    package var count: Int
    /// The number of those that start as soon as there is a write for them.
    ///
    /// The others wait for half of `ownersAtOnce` writes: a few large commits cost less than many small ones.
    package var eager: Int
    /// The number of owners in one commit; bounds how long its locks are held.
    package var ownersAtOnce: Int

    /// - Parameters:
    ///   - count: how many commits run at once.
    ///   - eager: how many of them start with any write; all if `nil`.
    ///   - ownersAtOnce: the most owners in one.
    package init(count: Int, eager: Int? = nil, ownersAtOnce: Int = 64) {
        (self.count, self.eager, self.ownersAtOnce) = (count, eager ?? count, ownersAtOnce)
    }

    /// One commit at a time, for any number of owners.
    package static let single = CommitLanes(count: 1, ownersAtOnce: .max)
}

/// The writes that wait for a commit, in order, and the owners whose data the running commits change.
///
/// With one lane, a batch is the front of the queue, and no owner is looked at. With several:
/// - A write whose owner is in a running commit waits for its end; writes of other owners overtake it.
/// - A write without an owner may touch the data of all. It waits until no commit runs, and nothing overtakes it. Then
///   it runs in a commit without writes of owners, beside which no other commit runs.
struct WaitingWrites {
    /// The writes of one commit.
    struct Batch {
        fileprivate(set) var writes: [any StoreWrite] = []
        /// The owners in the commit; empty with one lane.
        fileprivate(set) var owners: Set<UserID> = []

        /// Returns the writes and keeps no reference to them.
        mutating func takeWrites() -> [any StoreWrite] {
            defer { writes = [] }
            return writes
        }
    }

    let lanes: CommitLanes
    private(set) var writes: [any StoreWrite] = []
    /// The number of batches that have been taken and have not ended.
    private(set) var running = 0
    /// The owners in the running commits.
    private var owners: Set<UserID> = []
    /// Whether the running commit excludes all others.
    private var isExclusive = false
    /// Bytes written for each user since a commit last had room for all its writes.
    private var spent: [UserID?: Int] = [:]

    init(_ lanes: CommitLanes) { self.lanes = lanes }

    var isEmpty: Bool { writes.isEmpty }
    var count: Int { writes.count }

    /// Whether a further commit may run, if there are writes for it.
    var hasFreeLane: Bool { running < lanes.count && !isExclusive }

    /// Whether `take` would return a batch.
    var hasReady: Bool {
        guard hasFreeLane else { return false }
        guard lanes.count > 1, running > 0 else { return !writes.isEmpty }
        return writes.prefix { $0.owner != nil }.contains { $0.owner.map { !owners.contains($0) } ?? false }
    }

    /// Whether the writes that could run now are too few for one more commit beside those that run.
    var areTooFew: Bool {
        guard running >= lanes.eager else { return false }
        let enough = lanes.ownersAtOnce / 2
        return writes.count < enough
            || writes.count(where: { $0.owner.map { !owners.contains($0) } ?? true }) < enough
    }

    mutating func append(_ write: any StoreWrite) { writes.append(write) }

    mutating func removeAll() { writes = [] }

    /// Starts a commit of all lanes, for work that is not a write.
    mutating func takeAllLanes() {
        running += 1
        isExclusive = true
    }

    /// Starts a commit of one write, without queueing it; no other commit may run.
    mutating func take(_ write: any StoreWrite) -> Batch {
        var batch = Batch(writes: [write])
        if lanes.count > 1, let owner = write.owner { batch.owners = [owner] }
        begin(batch)
        return batch
    }

    /// Starts a commit of at most `limit` writes; those of the users that have written least come first.
    ///
    /// - Returns: `nil` if no write may run now.
    mutating func take(atMost limit: Int) -> Batch? {
        guard hasReady else { return nil }
        if !spent.isEmpty {
            let turns = writes.enumerated().map { (spent: spent[$1.user] ?? 0, place: $0, write: $1) }
            writes = turns.sorted { ($0.spent, $0.place) < ($1.spent, $1.place) }.map(\.write)
        }
        let batch = lanes.count == 1 ? takeFirst(limit) : takeByOwner(limit)
        guard !batch.writes.isEmpty else { return nil }
        begin(batch)
        return batch
    }

    private mutating func takeFirst(_ count: Int) -> Batch {
        let batch = Batch(writes: Array(writes.prefix(count)))
        writes.removeFirst(batch.writes.count)
        return batch
    }

    private mutating func takeByOwner(_ limit: Int) -> Batch {
        let upkeep = writes.prefix { $0.owner == nil }.count
        guard upkeep == 0 else { return running == 0 ? takeFirst(min(upkeep, limit)) : Batch() }
        var (batch, rest) = (Batch(), [any StoreWrite]())
        for (index, write) in writes.enumerated() {
            guard let owner = write.owner, batch.writes.count < limit else {
                rest += writes[index...]
                break
            }
            let hasRoom = batch.owners.count < lanes.ownersAtOnce || batch.owners.contains(owner)
            guard hasRoom, !owners.contains(owner) else {
                rest.append(write)
                continue
            }
            batch.owners.insert(owner)
            batch.writes.append(write)
        }
        writes = rest
        return batch
    }

    private mutating func begin(_ batch: Batch) {
        running += 1
        isExclusive = batch.owners.isEmpty
        if !isExclusive { owners.formUnion(batch.owners) }
    }

    /// Ends a commit, and queues the writes for which it had no room.
    ///
    /// They come first: until now their owners' other writes had to wait.
    mutating func end(_ owners: Set<UserID>, leaving remainder: BatchRemainder?) {
        endWork()
        if !owners.isEmpty { self.owners.subtract(owners) }
        guard let remainder else {
            // The commit had room for all, so hardly any queued write has waited for more than that commit.
            if !spent.isEmpty { spent = [:] }
            return
        }
        spent.merge(remainder.spent, uniquingKeysWith: +)
        writes.insert(contentsOf: remainder.rest, at: 0)
    }

    /// Ends what `takeAllLanes` started.
    mutating func endWork() {
        running -= 1
        isExclusive = false
    }
}
