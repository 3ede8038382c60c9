public import Foundation
import GRDB
import SyncCore
import Synchronization
public import ZoneKit

/// Observing and controlling the sync.
extension MirroredContainer {
    /// All events as they happen, after the current state.
    public var events: AsyncStream<MirrorEvent> { broadcaster.listen() }

    /// Posted for each event on the default center, on any thread; the event is in the user info.
    public static let eventChangedNotification = Notification.Name("ZoneMirrorEventChangedNotification")
    /// The user info key of the `MirrorEvent` in `eventChangedNotification`.
    public static let eventNotificationUserInfoKey = "event"

    /// Returns the events stored by a store.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - event: Only events after this one.
    ///   - date: Only events that began at or after this time.
    /// - Returns: The events, oldest first.
    /// - Throws: `unknownStore`; SQLite's errors.
    public func events(
        of store: StoreID,
        after event: MirrorEvent? = nil,
        since date: Date? = nil
    ) async throws(MirrorError) -> [MirrorEvent] {
        try await reading(store) { try EventLog.fetch($0, store: store, after: event?.id ?? 0, since: date) }
    }

    /// Sends all unsent changes now.
    ///
    /// - Throws: `relay` with the error that stopped the sending, with the first refusal, or with what a change waits
    ///   for (`explain` gives it for each object). All other changes were sent then.
    public func sendChanges() async throws(MirrorError) {
        try await forEachSync { try await $0.sendNow() }
    }

    /// Fetches all changes now, and polls public databases.
    ///
    /// - Parameter prioritizedZoneIDs: Zones to fetch before all others, in this order; a share's zone is that of its
    ///   record ID.
    /// - Throws: `relay` with the error that stopped the fetching; what was fetched before is stored.
    public func fetchChanges(prioritizedZoneIDs: [CKRecordZone.ID] = []) async throws(MirrorError) {
        let zones = prioritizedZoneIDs.map(\.zone)
        try await forEachSync { try await $0.fetchNow(prioritized: zones) }
    }

    /// Polls the public databases now, regardless of their interval.
    public func pollNow() async throws(MirrorError) {
        try await forEachSync { sync in if sync.isPublic { try await sync.pollNow() } }
    }

    /// Makes the next fetch read a store's database from the beginning.
    ///
    /// Use it if a store seems to differ from its relay. Objects keep their identities, and unsent changes stay.
    ///
    /// - Throws: SQLite's errors.
    public func forgetTokens(in store: StoreID) async throws(MirrorError) {
        guard let sync = sync(store) else { throw MirrorError(.wrongStore, "The store mirrors no database.") }
        do {
            try await sync.forgetTokens()
        } catch {
            throw MirrorError(from: error)
        }
    }

    private func forEachSync(_ work: @Sendable (MirrorSync) async throws -> Void) async throws(MirrorError) {
        let syncs = await syncsAfterSwitch()
        var failure = notAllOpenError(with: syncs.count)
        for sync in syncs {
            do {
                try await work(sync)
            } catch {
                failure = failure ?? MirrorError(from: error)
            }
        }
        if let failure { throw failure }
    }

    /// Returns an error if not every store with a database is open.
    private func notAllOpenError(with count: Int) -> MirrorError? {
        let (isLoaded, isClosed) = state.withLock { ($0.isLoaded, $0.isClosed) }
        let expected = descriptions.count { $0.cloud != nil }
        guard count < expected else { return nil }
        if isClosed { return MirrorError(.closed, "The container is closed. Call loadStores() to open it again.") }
        if !isLoaded {
            return MirrorError(.unknownStore, "No store is open. Call loadStores() before syncing.")
        }
        return MirrorError(
            .storeSyncedElsewhere,
            "A store has no file for the current user, because another program syncs it. Close that program, and load the stores again."
        )
    }

    /// Returns whether a store has ever fetched everything on the relay; survives restarts.
    public func hasCompletedInitialImport(_ store: StoreID) async throws(MirrorError) -> Bool {
        try await reading(store) { try State.text($0, .hasImported) != nil }
    }

    /// Returns the number of objects with unsent changes, including those held back.
    public func pendingExportCount(_ store: StoreID) async throws(MirrorError) -> Int {
        try await reading(store) { try OutboxRow.count($0) }
    }

    /// Returns when a store last had fetched everything on the relay.
    public func lastSuccessfulImport(_ store: StoreID) async throws(MirrorError) -> Date? {
        try await reading(store) { try State.number($0, .lastImport) }.map { Date(timeIntervalSince1970: $0) }
    }

    /// Returns when a store last had no unsent changes.
    public func lastSuccessfulExport(_ store: StoreID) async throws(MirrorError) -> Date? {
        try await reading(store) { try State.number($0, .lastExport) }.map { Date(timeIntervalSince1970: $0) }
    }

    /// Returns whether every mirrored store has fetched the relay's state at or after a date and has no unsent
    /// changes.
    public func isUpToDate(asOf date: Date) async throws(MirrorError) -> Bool {
        for description in descriptions where description.cloud != nil {
            guard let seen = try await lastSuccessfulImport(description.id), seen >= date,
                try await pendingExportCount(description.id) == 0
            else { return false }
        }
        return true
    }

    /// Fetches and sends, and returns when both have succeeded for all stores.
    ///
    /// Ends at once when the time is over or the calling task is cancelled; requests under way continue.
    ///
    /// - Parameter timeout: How long to try. At least one request is made, however short it is.
    /// - Throws: `timedOut` with the last error. Never returns without having reached the relay.
    public func waitUntilUpToDate(timeout: Duration) async throws(MirrorError) {
        let wait = Wait(until: conditions.time.now() + timeout)
        let attempt = Task { await tryAgain(wait) }
        let (time, end) = (conditions.time, wait.end)
        let alarm = Task {
            guard (try? await time.sleep(end)) != nil else { return }
            wait.finish(.timedOut)
        }
        let ending = await withTaskCancellationHandler {
            await wait.ending
        } onCancel: {
            wait.finish(.cancelled)
        }
        alarm.cancel()
        guard ending != .upToDate else { return attempt.cancel() }
        let cause = ending == .cancelled ? "the wait was cancelled" : "the timeout expired"
        let lastError = wait.lastError
        throw MirrorError(
            .timedOut,
            "The stores are not up to date yet: \(lastError?.explanation ?? "\(cause).") They continue to retry.",
            underlying: lastError
        )
    }

    private func tryAgain(_ wait: Wait) async {
        var pause: Duration = .milliseconds(50)
        guard !wait.isCancelled else { return }
        repeat {
            do throws(MirrorError) {
                try await fetchChanges()
                try await sendChanges()
                return wait.finish(.upToDate)
            } catch {
                wait.lastError = error
            }
            let wake = min(conditions.time.now() + pause, wait.end)
            pause = min(pause * 2, .seconds(5))
            guard !wait.isOver, (try? await conditions.time.sleep(wake)) != nil else { return }
        } while !wait.isOver
    }

    func reading<Result: Sendable>(
        _ store: StoreID,
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws(MirrorError) -> Result {
        guard let file = stores.file(store) else { throw MirrorError(.unknownStore, "\(store) is not open here.") }
        do {
            return try await file.pool.read(body)
        } catch {
            throw MirrorError(from: error)
        }
    }

    func writing<Result: Sendable>(
        _ store: StoreID,
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws(MirrorError) -> Result {
        guard let file = stores.file(store) else { throw MirrorError(.unknownStore, "\(store) is not open here.") }
        do {
            return try await file.pool.write(body)
        } catch {
            throw MirrorError(from: error)
        }
    }
}

/// A wait for stores to be up to date, which ends once by the first of several causes.
private final class Wait: Sendable {
    enum Ending { case upToDate, timedOut, cancelled }

    private struct State {
        var ending: Ending?
        var lastError: MirrorError?
        var waiter: CheckedContinuation<Ending, Never>?
    }

    let end: Instant
    private let state = Mutex(State())

    init(until end: Instant) { self.end = end }

    var isOver: Bool { state.withLock { $0.ending != nil } }
    var isCancelled: Bool { state.withLock { $0.ending == .cancelled } }

    /// The last error.
    var lastError: MirrorError? {
        get { state.withLock(\.lastError) }
        set { state.withLock { $0.lastError = newValue } }
    }

    func finish(_ ending: Ending) {
        let waiter = state.withLock { state -> CheckedContinuation<Ending, Never>? in
            guard state.ending == nil else { return nil }
            state.ending = ending
            return state.waiter.take()
        }
        waiter?.resume(returning: ending)
    }

    /// Waits for the end; call it once only.
    var ending: Ending {
        get async {
            await withCheckedContinuation { continuation in
                let known = state.withLock { state in
                    if state.ending == nil { state.waiter = continuation }
                    return state.ending
                }
                if let known { continuation.resume(returning: known) }
            }
        }
    }
}
