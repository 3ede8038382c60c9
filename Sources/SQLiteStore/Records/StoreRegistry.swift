package import Records
import RelayCore
import RelaySystem
import StoreKit
import Synchronization

/// A lock held while one store is opened or closed, so that the others are not delayed.
package final class StoreOpeningLock: Sendable {
    let mutex = Mutex(())
}

/// The open stores of a folder, in the order of their last use.
package struct StoreRegistry: ~Copyable {
    fileprivate struct Entry {
        let lock = StoreOpeningLock()
        var store: SQLiteStore?
        /// The value of `uses` at the last use; too low for the latest store.
        var lastUse = 0
        /// The state to continue from, if the store was open before.
        var pause: PausedStore?
        /// Whether the store is open, closed for a while, or in between.
        var isUsed = false
        /// `lastUse` at the last search for unused assets, if no asset was too young to be judged.
        var sweptUse: Int?
    }

    private var entries: [ContainerEnvironment: Entry] = [:]
    /// The stores that a command uses; the value is the store until its last request is done and it is closed.
    private var held: [ContainerEnvironment: SQLiteStore?] = [:]
    /// The most recently used store, which mostly is the next one too.
    private var latest: (home: ContainerEnvironment, store: SQLiteStore)?
    private var uses = 0
    private(set) var openCount = 0
    /// How many stores have been closed to make room.
    private(set) var closedCount = 0

    package init() {}

    /// Returns the store if it is open; `isUse` is whether the call counts as a use.
    mutating func store(of home: ContainerEnvironment, isUse: Bool) -> SQLiteStore? {
        if let latest, latest.home == home { return latest.store }
        guard let store = entries[home]?.store else { return nil }
        if isUse { makeLatest(to: home, store) }
        return store
    }

    /// Makes a store the latest one; the former latest was in use until now.
    private mutating func makeLatest(to home: ContainerEnvironment, _ store: SQLiteStore) {
        uses += 1
        if let latest { entries[latest.home]?.lastUse = uses }
        latest = (home, store)
    }

    /// Returns the lock of a store, always the same: with two locks, one file could be opened twice.
    package mutating func lock(of home: ContainerEnvironment) -> StoreOpeningLock {
        if let lock = entries[home]?.lock { return lock }
        let entry = Entry()
        entries[home] = entry
        return entry.lock
    }

    func pause(of home: ContainerEnvironment) -> PausedStore? { entries[home]?.pause }

    func isOpen(_ home: ContainerEnvironment) -> Bool { entries[home]?.store != nil }

    var openStores: [SQLiteStore] { entries.values.compactMap(\.store) }

    /// The stores that are open or have been, without those that could not be opened.
    package var usedHomes: [ContainerEnvironment] { entries.filter { $0.value.isUsed }.map(\.key) }

    var locks: [(ContainerEnvironment, StoreOpeningLock)] { entries.map { ($0.key, $0.value.lock) } }

    /// The open stores, least recently used first.
    var openHomes: [ContainerEnvironment] {
        let open = entries.filter { $0.value.store != nil && $0.key != latest?.home }
        let homes = open.map { ($0.key, $0.value.lastUse) }.sorted { $0.1 < $1.1 }.map(\.0)
        return homes + (latest.map { [$0.home] } ?? [])
    }

    mutating func opened(_ store: SQLiteStore, of home: ContainerEnvironment, isUse: Bool) {
        entries[home, default: Entry()].store = store
        entries[home]?.isUsed = true
        entries[home]?.pause = nil
        openCount += 1
        if isUse { makeLatest(to: home, store) }
    }

    // MARK: Closing

    /// Takes out a store that is idle: nothing else has a reference to it.
    ///
    /// The caller holds the store's lock, so a new request for the store waits.
    mutating func takeIfIdle(_ home: ContainerEnvironment) -> SQLiteStore? {
        if latest?.home == home {
            uses += 1
            entries[home]?.lastUse = uses
            latest = nil
        }
        guard entries[home]?.isIdle() == true else { return nil }
        return take(home)
    }

    /// Takes out a store for good, even if it is in use.
    mutating func end(_ home: ContainerEnvironment) -> SQLiteStore? {
        entries[home]?.pause = nil
        entries[home]?.isUsed = false
        return isHeld(home) ? held.updateValue(nil, forKey: home) ?? nil : take(home)
    }

    private mutating func take(_ home: ContainerEnvironment) -> SQLiteStore? {
        if latest?.home == home { latest = nil }
        guard let store = entries[home]?.store else { return nil }
        entries[home]?.store = nil
        openCount -= 1
        return store
    }

    /// Records that a store was closed for a while.
    mutating func closed(_ home: ContainerEnvironment, _ pause: PausedStore) {
        entries[home]?.pause = pause
        closedCount += 1
    }

    // MARK: Stores of commands

    func isHeld(_ home: ContainerEnvironment) -> Bool { held[home] != nil }

    /// Begins to refuse requests for a store; those in progress keep it open.
    ///
    /// The caller holds the store's lock.
    mutating func hold(_ home: ContainerEnvironment) {
        guard !isHeld(home) else { return }
        entries[home]?.pause = nil
        held[home] = .some(take(home))
    }

    /// Takes out a held store that no request uses any more; `isOpen` is whether one still does.
    mutating func takeHeldIfIdle(_ home: ContainerEnvironment) -> (store: SQLiteStore?, isOpen: Bool) {
        var store = held.updateValue(nil, forKey: home) ?? nil
        guard store == nil || isKnownUniquelyReferenced(&store) else {
            held[home] = .some(store)
            return (nil, true)
        }
        entries[home]?.isUsed = false
        return (store, false)
    }

    /// Serves a store again; one that is still open continues.
    mutating func release(_ home: ContainerEnvironment) {
        guard let last = held.removeValue(forKey: home), let store = last else { return }
        entries[home, default: Entry()].store = store
        openCount += 1
    }

    // MARK: Assets

    /// The stores whose assets must be searched: the open ones, and those used since their last search.
    package var homesWithAssets: [(home: ContainerEnvironment, use: Int)] {
        entries.compactMap { home, entry in
            let isDue = entry.store != nil || (entry.isUsed && entry.sweptUse != entry.lastUse)
            return isDue && !isHeld(home) ? (home, entry.lastUse) : nil
        }
    }

    /// Records that a store has no assets that could be unused, unless it is used again.
    mutating func swept(_ home: ContainerEnvironment, asOf use: Int) { entries[home]?.sweptUse = use }
}

extension StoreRegistry.Entry {
    /// Returns whether the store is open and has no other references.
    fileprivate mutating func isIdle() -> Bool { isKnownUniquelyReferenced(&store) && store?.canPause == true }
}

/// The state of a store that was closed to make room for others, for reopening it in the same process.
///
/// Reopening it starts no new epoch: only a limited number of ended epochs is kept, and a relay with many containers
/// would soon refuse valid tokens.
package struct PausedStore: Sendable {
    /// The state at the time of closing.
    struct Snapshot: Sendable {
        var epoch: UInt64
        var hasBegun: Bool
        /// The last change number used, also by failed transactions.
        var lastChange: UInt64
        /// The greatest change number of any zone in the file.
        var greatestStamp: UInt64
    }

    /// `nil` if the file could not be read at the end.
    fileprivate let end: Snapshot?
    /// Kept, because it knows which assets are about to be removed, and unfinished uploads write into it.
    let assets: AssetFolder

    /// Returns the state to continue from; `nil` if the file is not the one that was closed, for example after a
    /// restore.
    func snapshot(continuing state: StoredState) -> Snapshot? {
        let isSame = end?.epoch == state.epochs.current && end?.greatestStamp == state.greatestStamp
        return isSame ? end : nil
    }
}

extension SQLiteStore {
    /// Whether the store may be closed and reopened: not after a lost write, which reopening would hide.
    var canPause: Bool { !isStopped.withLock { $0 } }

    /// Finishes the queued writes and closes the file for a while.
    ///
    /// - Returns: the argument for `init` when the store is reopened.
    func pause() -> PausedStore {
        queue.withLock { $0.take() }?.close()
        // No more writes can run.
        let stamp = try? connections.read(StoredState.greatestStamp)
        let lastChange = cache.withLock { $0?.lastChange }
        let snapshot = stamp.flatMap { stamp in
            lastChange.map {
                PausedStore.Snapshot(
                    epoch: epochs.current,
                    hasBegun: hasBegun.load(ordering: .relaxed),
                    lastChange: $0,
                    greatestStamp: stamp
                )
            }
        }
        connections.close()
        return PausedStore(end: canPause ? snapshot : nil, assets: assets)
    }
}
