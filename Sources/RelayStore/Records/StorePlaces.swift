import Records
import RelayCore
import Synchronization

/// Held by whoever opens or closes the store of one place: that takes a while, and all others go on meanwhile.
final class StoreDoor: Sendable {
    let line = Mutex(())
}

/// Which stores of a folder are open, and in which order they were asked for.
struct StorePlaces: ~Copyable {
    fileprivate struct Place {
        let door = StoreDoor()
        var store: SQLiteStore?
        /// In the count of `uses`; of the latest, older than it is.
        var lastUse = 0
        /// What it goes on from, where it has been open before.
        var pause: StorePause?
        /// It is open, closed for a while, or on its way from one to the other.
        var isUsed = false
        /// `lastUse` as of the last look for assets that no record uses, where none was too young to be judged.
        var sweptUse: Int?
    }

    private var places: [ContainerEnvironment: Place] = [:]
    /// The one that was asked for last, which mostly is the next one too.
    private var latest: (home: ContainerEnvironment, store: SQLiteStore)?
    private var uses = 0
    private(set) var openCount = 0
    /// How often one was closed to make room.
    private(set) var closedCount = 0

    /// The store, where it is open; `isUse`: whether that counts as asking for it.
    mutating func store(of home: ContainerEnvironment, isUse: Bool) -> SQLiteStore? {
        if let latest, latest.home == home { return latest.store }
        guard let store = places[home]?.store else { return nil }
        if isUse { turn(to: home, store) }
        return store
    }

    /// The one that was the latest has been in use until now.
    private mutating func turn(to home: ContainerEnvironment, _ store: SQLiteStore) {
        uses += 1
        if let latest { places[latest.home]?.lastUse = uses }
        latest = (home, store)
    }

    /// The one door of a place, from the first time that somebody asks for it: two would open two stores on one file.
    mutating func door(of home: ContainerEnvironment) -> StoreDoor {
        if let door = places[home]?.door { return door }
        let place = Place()
        places[home] = place
        return place.door
    }

    func pause(of home: ContainerEnvironment) -> StorePause? { places[home]?.pause }

    func isOpen(_ home: ContainerEnvironment) -> Bool { places[home]?.store != nil }

    var openStores: [SQLiteStore] { places.values.compactMap(\.store) }

    /// Those that are open or have been, and not those that could not be opened.
    var usedHomes: [ContainerEnvironment] { places.filter { $0.value.isUsed }.map(\.key) }

    var doors: [(ContainerEnvironment, StoreDoor)] { places.map { ($0.key, $0.value.door) } }

    /// Those that are open, the one first that nobody has asked for longest.
    var openHomes: [ContainerEnvironment] {
        let open = places.filter { $0.value.store != nil && $0.key != latest?.home }
        let homes = open.map { ($0.key, $0.value.lastUse) }.sorted { $0.1 < $1.1 }.map(\.0)
        return homes + (latest.map { [$0.home] } ?? [])
    }

    mutating func opened(_ store: SQLiteStore, of home: ContainerEnvironment, isUse: Bool) {
        places[home, default: Place()].store = store
        places[home]?.isUsed = true
        places[home]?.pause = nil
        openCount += 1
        if isUse { turn(to: home, store) }
    }

    // MARK: Closing

    /// Takes a store out that nobody uses: no request that waits for anything has it in hand.
    ///
    /// Whoever asks for it waits at its door, which the caller holds.
    mutating func takeIfIdle(_ home: ContainerEnvironment) -> SQLiteStore? {
        if latest?.home == home {
            uses += 1
            places[home]?.lastUse = uses
            latest = nil
        }
        guard places[home]?.isIdle() == true else { return nil }
        return take(home)
    }

    /// Takes a store out, whoever uses it, and for good.
    mutating func end(_ home: ContainerEnvironment) -> SQLiteStore? {
        places[home]?.pause = nil
        places[home]?.isUsed = false
        return take(home)
    }

    private mutating func take(_ home: ContainerEnvironment) -> SQLiteStore? {
        if latest?.home == home { latest = nil }
        guard let store = places[home]?.store else { return nil }
        places[home]?.store = nil
        openCount -= 1
        return store
    }

    /// It has been closed for a while.
    mutating func closed(_ home: ContainerEnvironment, _ pause: StorePause) {
        places[home]?.pause = pause
        closedCount += 1
    }

    // MARK: Assets

    /// Those with assets to look at: the open ones, and those that have been used since their last look.
    var homesWithAssets: [(home: ContainerEnvironment, use: Int)] {
        places.compactMap { home, place in
            place.store != nil || (place.isUsed && place.sweptUse != place.lastUse) ? (home, place.lastUse) : nil
        }
    }

    /// Nothing is left there that could be unused, unless it has been used since.
    mutating func swept(_ home: ContainerEnvironment, asOf use: Int) { places[home]?.sweptUse = use }
}

extension StorePlaces.Place {
    /// Whether it is open, and nobody else has a hold of its store.
    fileprivate mutating func isIdle() -> Bool { isKnownUniquelyReferenced(&store) && store?.canPause == true }
}
