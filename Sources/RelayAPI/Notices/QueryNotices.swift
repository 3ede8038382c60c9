package import Records
import RelayCore
import Synchronization

/// Matches committed records with query subscriptions, in commit order and asynchronously.
///
/// A commit only enqueues its changes. One task processes the queue and ends when it is empty. If the queue becomes too
/// long, the commit thread processes it too, which slows writes down to the speed of matching.
package final class QueryNotices: Sendable {
    /// Deletes a one-time subscription that has fired.
    package typealias Ending = @Sendable (ContainerEnvironment, UserID, DatabaseScope, Subscription) async -> Void

    private enum Job {
        /// Includes the time at which the commit was enqueued, if delivery is measured.
        case commit(Commit, ContainerEnvironment, since: Duration?)
        case mark(CheckedContinuation<Void, Never>)
    }

    private struct Waiting {
        var jobs: [Job] = []
        var isBeingWorkedOn = false
    }

    /// The number of queued commits above which the commit thread helps.
    private static let longestQueue = 1_000

    private let waiting = Mutex(Waiting())
    /// Locked while one job is processed.
    private let indexes = Mutex<[ContainerEnvironment: SubscriptionIndex]>([:])
    private let hub = Mutex<WeakHub>(WeakHub())
    private let ending = Mutex<Ending?>(nil)
    /// The executor of the matching; `nil` for the global executor.
    private let tasks: (any TaskExecutor)?

    private struct WeakHub { weak var hub: NoticeHub? }

    private let uptime: (@Sendable () -> Duration)?

    init(tasks: (any TaskExecutor)? = nil, uptime: (@Sendable () -> Duration)? = nil) {
        self.tasks = tasks
        self.uptime = uptime
    }

    func attach(_ hub: NoticeHub) { self.hub.withLock { $0.hub = hub } }

    /// Sets the function that deletes subscriptions in the store.
    package func endSubscriptions(by ending: @escaping Ending) { self.ending.withLock { $0 = ending } }

    /// Enqueues a commit unless it obviously matches no subscription.
    ///
    /// Must be called in commit order.
    func post(_ commit: Commit, of home: ContainerEnvironment) {
        guard !concernsNobody(commit, in: home) else { return }
        add(.commit(commit, home, since: commit.records.isEmpty ? nil : uptime?()))
    }

    /// Returns whether no subscription can match any of the records, which is the case for most commits.
    ///
    /// Returns `false` while other commits are queued, since they may add subscriptions.
    private func concernsNobody(_ commit: Commit, in home: ContainerEnvironment) -> Bool {
        guard commit.subscriptions.isEmpty, waiting.withLock({ $0.jobs.isEmpty }) else { return false }
        // If the lock is taken, a job is being processed that is no longer in the queue.
        return indexes.withLockIfAvailable { indexes in
            guard let index = indexes[home] else { return true }
            return !commit.records.indices.contains {
                index.mayConcernSomebody(commit.records[$0], schema: commit.schema)
            }
        } ?? false
    }

    /// The number of queued commits.
    var waitingCount: Int { waiting.withLock { $0.jobs.count } }

    /// Returns when all commits enqueued before have been matched.
    package func settle() async {
        await withCheckedContinuation { add(.mark($0)) }
    }

    private func add(_ job: Job) {
        let (begins, isLong) = waiting.withLock { waiting in
            waiting.jobs.append(job)
            defer { waiting.isBeingWorkedOn = true }
            return (!waiting.isBeingWorkedOn, waiting.jobs.count > Self.longestQueue)
        }
        if begins { Task(executorPreference: tasks) { self.workOff() } }
        if isLong { workOff() }
    }

    private func workOff() {
        while workOffOne() {}
    }

    /// Returns `false` if the queue is empty.
    private func workOffOne() -> Bool {
        // The job is dequeued while `indexes` is locked, so that two workers keep the order.
        indexes.withLock { indexes in
            let next = waiting.withLock { waiting in
                waiting.isBeingWorkedOn = !waiting.jobs.isEmpty
                return waiting.jobs.isEmpty ? nil : waiting.jobs.removeFirst()
            }
            switch next {
            case .commit(let commit, let home, let start):
                match(commit, home, since: start, &indexes[home, default: SubscriptionIndex()])
            case .mark(let waiter): waiter.resume()
            case nil: return false
            }
            return true
        }
    }

    private func match(
        _ commit: Commit,
        _ home: ContainerEnvironment,
        since start: Duration?,
        _ index: inout SubscriptionIndex
    ) {
        for change in commit.subscriptions { index.apply(change, schema: commit.schema) }
        guard !commit.records.isEmpty, let hub = hub.withLock({ $0.hub }) else { return }
        for change in commit.records {
            // An unreadable record is skipped here; a client that fetches it gets the error.
            guard let matches = try? index.matches(change, schema: commit.schema), !matches.isEmpty else { continue }
            for run in matches.byReader() {
                let told = hub.publish(
                    .init(
                        address: NoticeAddress(store: home, user: run[0].user),
                        matches: run,
                        zone: change.zone,
                        // Devices of different users may have the same ID.
                        device: change.after.modified.by == run[0].user ? change.device : "",
                        schema: commit.schema,
                        committed: start
                    )
                )
                for match in told where match.subscription.query?.firesOnce == true {
                    index.apply(match.end, schema: commit.schema)
                    endInStore(match, home)
                }
            }
        }
    }

    /// Ends a one-time subscription that has fired: immediately in this process, later in the store.
    func end(_ match: SubscriptionIndex.Match, _ home: ContainerEnvironment, schema: Schema) {
        post(Commit(subscriptions: [match.end], schema: schema), of: home)
        endInStore(match, home)
    }

    private func endInStore(_ match: SubscriptionIndex.Match, _ home: ContainerEnvironment) {
        guard let ending = ending.withLock({ $0 }) else { return }
        Task(executorPreference: tasks) { await ending(home, match.user, match.scope, match.subscription) }
    }
}

extension SubscriptionIndex.Match {
    /// The deletion of the subscription.
    var end: CommittedSubscription {
        CommittedSubscription(user: user, scope: scope, id: subscription.id, subscription: nil)
    }
}

extension [SubscriptionIndex.Match] {
    /// Groups the matches by user and database; they are already in that order.
    fileprivate func byReader() -> [[SubscriptionIndex.Match]] {
        reduce(into: []) { runs, match in
            if let last = runs.last?.last, last.user == match.user, last.scope == match.scope {
                runs[runs.count - 1].append(match)
            } else {
                runs.append([match])
            }
        }
    }
}
