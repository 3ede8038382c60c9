package import Records
import RelayCore
import Synchronization

/// Matches committed records with query subscriptions, in the order of the commits and beside them: a commit only leaves
/// its changes here.
///
/// One task works on what waits and ends when nothing does. When more waits than is good, the commit thread helps out,
/// which slows writes down to what can be matched.
package final class QueryNotices: Sendable {
    /// Ends a subscription that was to fire once.
    package typealias Ending = @Sendable (ContainerEnvironment, UserID, DatabaseScope, Subscription) async -> Void

    private enum Job {
        /// With the moment it was left here, where somebody measures.
        case commit(Commit, ContainerEnvironment, since: Duration?)
        case mark(CheckedContinuation<Void, Never>)
    }

    private struct Waiting {
        var jobs: [Job] = []
        var isBeingWorkedOn = false
    }

    /// Commits that may wait before their thread helps.
    private static let longestQueue = 1_000

    private let waiting = Mutex(Waiting())
    /// Held while one job is worked on.
    private let indexes = Mutex<[ContainerEnvironment: SubscriptionIndex]>([:])
    private let hub = Mutex<WeakHub>(WeakHub())
    private let ending = Mutex<Ending?>(nil)
    /// Where the work is done; `nil`: by the process's own threads.
    private let tasks: (any TaskExecutor)?

    private struct WeakHub { weak var hub: NoticeHub? }

    private let uptime: (@Sendable () -> Duration)?

    init(tasks: (any TaskExecutor)? = nil, uptime: (@Sendable () -> Duration)? = nil) {
        self.tasks = tasks
        self.uptime = uptime
    }

    func attach(_ hub: NoticeHub) { self.hub.withLock { $0.hub = hub } }

    /// Who ends subscriptions in the store.
    package func endSubscriptions(by ending: @escaping Ending) { self.ending.withLock { $0 = ending } }

    /// Leaves what a commit did here, unless it can be seen at once that it concerns nobody.
    ///
    /// To be called in the order of commits.
    func post(_ commit: Commit, of home: ContainerEnvironment) {
        guard !concernsNobody(commit, in: home) else { return }
        add(.commit(commit, home, since: commit.records.isEmpty ? nil : uptime?()))
    }

    /// Whether no subscription asks for the values of any of the records: most commits cost no more than this look.
    ///
    /// False also while others are being matched, since they may bring subscriptions.
    private func concernsNobody(_ commit: Commit, in home: ContainerEnvironment) -> Bool {
        guard commit.subscriptions.isEmpty, waiting.withLock({ $0.jobs.isEmpty }) else { return false }
        // Whoever works on a job that waits no longer holds this lock.
        return indexes.withLockIfAvailable { indexes in
            guard let index = indexes[home] else { return true }
            return !commit.records.indices.contains {
                index.mayConcernSomebody(commit.records[$0], schema: commit.schema)
            }
        } ?? false
    }

    /// Commits that wait to be matched.
    var waitingCount: Int { waiting.withLock { $0.jobs.count } }

    /// Returns when all that was posted before has become notices.
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

    /// False when nothing waits.
    private func workOffOne() -> Bool {
        // Taken out under the lock of the work, so that two workers keep the order.
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
            // What cannot be read is met again by whoever fetches the record.
            guard let matches = try? index.matches(change, schema: commit.schema), !matches.isEmpty else { continue }
            for run in matches.byReader() {
                let told = hub.publish(
                    .init(
                        address: NoticeAddress(store: home, user: run[0].user),
                        matches: run,
                        zone: change.zone,
                        // Two people's devices may be called alike.
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

    /// Ends a subscription that was to fire once and has: at once for this process, in the store as soon as it may be.
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
    /// The end of its subscription.
    var end: CommittedSubscription {
        CommittedSubscription(user: user, scope: scope, id: subscription.id, subscription: nil)
    }
}

extension [SubscriptionIndex.Match] {
    /// In runs of one user and database each; they come in that order.
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
