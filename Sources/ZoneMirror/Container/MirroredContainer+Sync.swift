public import Foundation
import GRDB
import SyncCore
import Synchronization
public import ZoneKit

/// Looking at the sync, and steering it by hand.
extension MirroredContainer {
    /// Everything that happens, as it happens; the current state first.
    public var events: AsyncStream<MirrorEvent> { board.listen() }

    /// Posted with each event, on the default center and whatever thread it happens on; the event is in the user info.
    public static let eventChangedNotification = Notification.Name("ZoneMirrorEventChangedNotification")
    /// Under which the user info of `eventChangedNotification` has its `MirrorEvent`.
    public static let eventNotificationUserInfoKey = "event"

    /// The events that a store has kept.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - event: Only those after this one.
    ///   - date: Only those that began then or later.
    /// - Returns: The events, oldest first.
    /// - Throws: `unknownStore`, and what SQLite throws.
    public func events(
        of store: StoreID,
        after event: MirrorEvent? = nil,
        since date: Date? = nil
    ) async throws(MirrorError) -> [MirrorEvent] {
        try await reading(store) { try EventLog.fetch($0, store: store, after: event?.id ?? 0, since: date) }
    }

    /// Sends everything that waits, now.
    ///
    /// - Throws: `relay` with what stopped the sending, with the first refusal, or with what a change waits for that could not be
    ///   sent for now (`explain` says it of each object): all else has been sent then.
    public func sendChanges() async throws(MirrorError) {
        try await each { try await $0.sendNow() }
    }

    /// Fetches everything that has changed, now; polls public databases.
    ///
    /// - Parameter prioritizedZoneIDs: Zones to fetch before all others, in their order; a share's is that of its record ID.
    /// - Throws: `relay` with what stopped the fetching; what came before it is in the files.
    public func fetchChanges(prioritizedZoneIDs: [CKRecordZone.ID] = []) async throws(MirrorError) {
        let zones = prioritizedZoneIDs.map(\.zone)
        try await each { try await $0.fetchNow(prioritized: zones) }
    }

    /// Polls the public databases now, whatever the time.
    public func pollNow() async throws(MirrorError) {
        try await each { sync in if sync.isPublic { try await sync.pollNow() } }
    }

    /// Reads a store's database from the beginning with the next fetch, as if nothing had been read before.
    ///
    /// Objects keep their identities, and what was not sent stays; for a store that seems to differ from its relay.
    ///
    /// - Throws: What SQLite throws.
    public func forgetTokens(in store: StoreID) async throws(MirrorError) {
        guard let sync = sync(store) else { throw MirrorError(.wrongStore, "The store mirrors no database.") }
        do {
            try await sync.forgetTokens()
        } catch {
            throw MirrorError(from: error)
        }
    }

    private func each(_ work: @Sendable (MirrorSync) async throws -> Void) async throws(MirrorError) {
        let syncs = await settledSyncs()
        var failure = trouble(with: syncs.count)
        for sync in syncs {
            do {
                try await work(sync)
            } catch {
                failure = failure ?? MirrorError(from: error)
            }
        }
        if let failure { throw failure }
    }

    /// What is the matter where not every store that has a database can be asked about it.
    private func trouble(with count: Int) -> MirrorError? {
        let (isLoaded, isClosed) = state.withLock { ($0.isLoaded, $0.isClosed) }
        let expected = descriptions.count { $0.cloud != nil }
        guard count < expected else { return nil }
        if isClosed { return MirrorError(.closed, "The container is closed. Call loadStores() to open it again.") }
        if !isLoaded {
            return MirrorError(.unknownStore, "No store is open. Let loadStores() succeed before anything is synced.")
        }
        return MirrorError(
            .storeSyncedElsewhere,
            "A store has no file of the current user: it is kept in step by another program. Close that, and load again."
        )
    }

    /// Whether a store has once seen all that the relay had; survives restarts.
    public func hasCompletedInitialImport(_ store: StoreID) async throws(MirrorError) -> Bool {
        try await reading(store) { try State.text($0, .hasImported) != nil }
    }

    /// How many objects wait to be sent, those held back included.
    public func pendingExportCount(_ store: StoreID) async throws(MirrorError) -> Int {
        try await reading(store) { try OutboxRow.count($0) }
    }

    /// When a store last saw all that the relay had.
    public func lastSuccessfulImport(_ store: StoreID) async throws(MirrorError) -> Date? {
        try await reading(store) { try State.number($0, .lastImport) }.map { Date(timeIntervalSince1970: $0) }
    }

    /// When a store last had nothing to send.
    public func lastSuccessfulExport(_ store: StoreID) async throws(MirrorError) -> Date? {
        try await reading(store) { try State.number($0, .lastExport) }.map { Date(timeIntervalSince1970: $0) }
    }

    /// Whether every mirrored store has seen the relay's state at or after a moment, and has nothing to send.
    public func isUpToDate(asOf date: Date) async throws(MirrorError) -> Bool {
        for description in descriptions where description.cloud != nil {
            guard let seen = try await lastSuccessfulImport(description.id), seen >= date,
                try await pendingExportCount(description.id) == 0
            else { return false }
        }
        return true
    }

    /// Asks the relay, sends what waits, and returns when both have gone through.
    ///
    /// Ends at once when the time is over or the calling task is cancelled, whatever requests are under way; those go on.
    ///
    /// - Parameter timeout: How long to try; the relay is asked once however short it is.
    /// - Throws: `timedOut` with the last trouble; never returns without having reached the relay.
    public func waitUntilUpToDate(timeout: Duration) async throws(MirrorError) {
        let wait = Wait(until: conditions.time.now() + timeout)
        let attempt = Task { await tryAgain(wait) }
        let (time, end) = (conditions.time, wait.end)
        let alarm = Task {
            guard (try? await time.sleep(end)) != nil else { return }
            wait.finish(.tooLate)
        }
        let ending = await withTaskCancellationHandler {
            await wait.ending
        } onCancel: {
            wait.finish(.cancelled)
        }
        alarm.cancel()
        guard ending != .upToDate else { return attempt.cancel() }
        let cause = ending == .cancelled ? "the wait was cancelled" : "the time was too short"
        let trouble = wait.trouble
        throw MirrorError(
            .timedOut,
            "The stores are not up to date yet: \(trouble?.explanation ?? "\(cause).") They go on trying.",
            underlying: trouble
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
                wait.trouble = error
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

/// Somebody waits for stores to be up to date: it ends once, by whatever comes first.
private final class Wait: Sendable {
    enum Ending { case upToDate, tooLate, cancelled }

    private struct State {
        var ending: Ending?
        var trouble: MirrorError?
        var waiter: CheckedContinuation<Ending, Never>?
    }

    let end: Moment
    private let state = Mutex(State())

    init(until end: Moment) { self.end = end }

    var isOver: Bool { state.withLock { $0.ending != nil } }
    var isCancelled: Bool { state.withLock { $0.ending == .cancelled } }

    /// What went wrong last.
    var trouble: MirrorError? {
        get { state.withLock(\.trouble) }
        set { state.withLock { $0.trouble = newValue } }
    }

    func finish(_ ending: Ending) {
        let waiter = state.withLock { state -> CheckedContinuation<Ending, Never>? in
            guard state.ending == nil else { return nil }
            state.ending = ending
            return state.waiter.take()
        }
        waiter?.resume(returning: ending)
    }

    /// To be asked for once.
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
