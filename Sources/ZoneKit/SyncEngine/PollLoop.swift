import Foundation
package import Records
package import SyncCore

/// The state of the loop that polls a public database, which has neither a change feed nor notices.
///
/// The loop itself is an extension of `PollTarget`: it performs what `PublicPoll` decides, for a `PublicDatabasePoller`
/// and for a mirrored store.
package struct PollRunner {
    package fileprivate(set) var poll: PublicPoll
    private let time: Scheduler
    fileprivate let wallClock: @Sendable () -> Date
    private var random: RandomGenerator
    /// The number of record types being polled on schedule, and the callers that wait until it is 0.
    package fileprivate(set) var runningTypes = 0
    fileprivate var waiters: [CheckedContinuation<Void, Never>] = []
    /// Whether a type has failed in the poll that is running.
    fileprivate var hasFailed = false
    fileprivate var seenChanges: SeenChanges

    package init(
        _ poll: PublicPoll,
        time: Scheduler,
        wallClock: @escaping @Sendable () -> Date = { Date() },
        random: RandomGenerator
    ) {
        self.poll = poll
        self.time = time
        self.wallClock = wallClock
        self.random = random
        seenChanges = SeenChanges(in: time.testEnvironment, inPublic: true)
    }

    /// Continues with the progress of the last run.
    package mutating func restore(_ marks: [String: PublicPoll.Mark]) {
        poll = PublicPoll(types: poll.polledTypes, settings: poll.currentSettings, marks: marks)
    }

    /// Whether there is a change that no successful poll has covered; `false` outside tests.
    package var hasMissedChanges: Bool { seenChanges.isIncomplete }

    fileprivate mutating func effects(of event: PublicPoll.Event) -> [PublicPoll.Effect] {
        poll.handle(event, at: time.now(), using: &random)
    }
}

/// A page of the records of one type.
package struct PollPage<Entry: Sendable, Marker: Sendable>: Sendable {
    package var entries: [Entry]
    package var listed: [PublicPoll.ListedRecord]
    /// Where the next page begins; `nil` after the last one.
    package var marker: Marker?

    package init(_ entries: [Entry], _ marker: Marker?, listed: (Entry) -> PublicPoll.ListedRecord) {
        self.entries = entries
        self.marker = marker
        self.listed = entries.map(listed)
    }
}

/// What polls a public database.
package protocol PollTarget: Actor {
    associatedtype Entry: Sendable
    associatedtype Marker: Sendable

    var polls: PollRunner { get set }
    var isStopped: Bool { get }

    func inBackground(_ work: @escaping @Sendable (Self) async -> Void)

    /// Sets the time of the next call of `tellPoll(.timerFired)`; `nil` cancels it.
    func setPollAlarm(at instant: Instant?)

    /// Called before a type is polled on schedule.
    func pollBegins() async throws
    /// Called if `pollBegins` has failed.
    func pollCannotBegin(_ error: CKError) async
    func syncFailure(of error: CKError) -> SyncFailure

    /// Returns the lock to hold from the request of a page until it is applied, if there is one.
    func pageLock() -> AsyncLock?

    /// Requests the page after a marker; the first one without.
    func pollPage(of type: String, since: Timestamp?, after marker: Marker?) async throws -> PollPage<Entry, Marker>

    /// Applies what is new in a page; returns how many records that were.
    ///
    /// `mark` is the progress after it, to be stored with the data.
    func apply(_ entries: [Entry], of type: String, _ mark: PublicPoll.Mark?) async throws -> Int

    /// Returns whether a type is skipped that the relay cannot be asked for.
    func skips(_ type: String, _ error: CKError) async -> Bool

    /// Called when a page could not be fetched or applied, before the poll knows it.
    func pageFailed(_ type: String, _ error: CKError, _ failure: SyncFailure) async

    /// Called when all pages of a type were applied.
    func typePolled(_ type: String, count: Int, began: Date) async

    /// Called when a scheduled poll of a type has ended.
    func scheduledPollEnded(_ error: CKError?) async

    /// Called when a scheduled poll of all types has ended.
    func pollEnded(isComplete: Bool)
}

extension PollTarget {
    package func pollBegins() async throws {}
    package func pollCannotBegin(_ error: CKError) async {}
    package func pageLock() -> AsyncLock? { nil }
    package func skips(_ type: String, _ error: CKError) async -> Bool { false }
    package func typePolled(_ type: String, count: Int, began: Date) async {}
    package func scheduledPollEnded(_ error: CKError?) async {}

    /// Passes an event to the poll, and performs what it decides.
    package func tellPoll(_ event: PublicPoll.Event) {
        guard !isStopped else { return }
        var hasBegun = false
        for effect in polls.effects(of: event) {
            switch effect {
            case .query(let type, let since):
                if !hasBegun { pollBegan() }
                hasBegun = true
                polls.runningTypes += 1
                inBackground { await $0.pollOnSchedule(type, since) }
            case .wake(let instant): setPollAlarm(at: instant)
            case .pollEnded:
                if !polls.hasFailed { polls.seenChanges.succeeded() }
                // The caller of `pollAllTypes` knows the end of its own poll.
                if polls.runningTypes > 0 { pollEnded(isComplete: !polls.hasFailed) }
            // `pollPages` handles the others.
            case .nextPage, .apply, .ended: break
            }
        }
    }

    private func pollBegan() {
        polls.hasFailed = false
        polls.seenChanges.began()
    }

    /// Polls all types now and throws the first failure after all were polled.
    package func pollAllTypes() async throws(CKError) {
        var failure: CKError?
        pollBegan()
        for case .query(let type, let since) in polls.effects(of: .pollNow) {
            do {
                try await pollPages(type, since)
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
    }

    /// Waits for the end of polls that were not requested by a caller.
    package func awaitScheduledPolls() async {
        while polls.runningTypes > 0 { await withCheckedContinuation { polls.waiters.append($0) } }
    }

    private func pollOnSchedule(_ type: String, _ since: Timestamp?) async {
        defer {
            polls.runningTypes -= 1
            if polls.runningTypes == 0 {
                polls.waiters.forEach { $0.resume() }
                polls.waiters = []
            }
        }
        do {
            try await pollBegins()
        } catch {
            let error = CKError(from: error)
            polls.hasFailed = true
            tellPoll(.failed(type: type, syncFailure(of: error)))
            return await pollCannotBegin(error)
        }
        do throws(CKError) {
            try await pollPages(type, since)
            await scheduledPollEnded(nil)
        } catch {
            await scheduledPollEnded(error)
        }
    }

    private func pollPages(_ type: String, _ since: Timestamp?) async throws(CKError) {
        let began = polls.wallClock()
        var (count, marker): (Int, Marker?) = (0, nil)
        repeat {
            let lock = pageLock()
            await lock?.enter()
            defer { lock?.leave() }
            let page: PollPage<Entry, Marker>
            do {
                page = try await pollPage(of: type, since: since, after: marker)
            } catch {
                let error = CKError(from: error)
                if await skips(type, error) { return tellPoll(.page(type: type, [], moreComing: false)) }
                await failed(type, error, error.syncFailure)
                throw error
            }
            marker = page.marker
            let before = polls.poll.marks[type]
            do {
                count += try await applyNew(page, type)
                // A cancelled task must report the failure, so that the type does not stay marked as being polled.
                if marker != nil { try Task.checkCancellation() }
            } catch {
                polls.poll.restore(type, to: before)
                let error = CKError(from: error)
                // This failure did not come from the relay, so the poll is retried as after any temporary error.
                await failed(type, error, error.ofImport(.busy))
                throw error
            }
        } while marker != nil && !isStopped
        await typePolled(type, count: count, began: began)
    }

    /// Applies what is new in a page together with the poll's progress; only then the type may be complete.
    private func applyNew(_ page: PollPage<Entry, Marker>, _ type: String) async throws -> Int {
        var count = 0
        for case .apply(_, let positions) in polls.effects(of: .page(type: type, page.listed, moreComing: true)) {
            count += try await apply(positions.map { page.entries[$0] }, of: type, polls.poll.marks[type])
        }
        if page.marker == nil { tellPoll(.page(type: type, [], moreComing: false)) }
        return count
    }

    private func failed(_ type: String, _ error: CKError, _ failure: SyncFailure) async {
        polls.hasFailed = true
        await pageFailed(type, error, failure)
        tellPoll(.failed(type: type, failure))
    }
}
