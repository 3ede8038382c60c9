import Records
import RelayCore
import Synchronization

/// Uploaded assets that no record uses yet, counted towards the quota of the user who will own them.
///
/// Prevents users from filling the disk with uploads that they never save. In memory; an entry lasts as long as its
/// receipt is valid, by uptime. The files are deleted later.
final class PendingUploads: Sendable {
    private struct Owner: Hashable {
        var home: ContainerEnvironment
        var user: UserID
    }

    private struct Uploads {
        var bytes: Int64 = 0
        var sizes: [AssetHash: (size: Int64, end: Duration)] = [:]
        /// The bytes of uploads that have arrived and are being stored.
        var reserved: Int64 = 0
        /// When the first entry expires.
        var next = Self.never

        private static let never = Duration.seconds(Int64.max)

        var isEmpty: Bool { sizes.isEmpty && reserved == 0 }

        mutating func add(_ hash: AssetHash, size: Int64, until end: Duration) {
            remove(hash)
            sizes[hash] = (size, end)
            bytes += size
            next = min(next, end)
        }

        mutating func remove(_ hash: AssetHash) {
            if let entry = sizes.removeValue(forKey: hash) { bytes -= entry.size }
        }

        mutating func drop(at now: Duration) {
            guard now >= next else { return }
            for (hash, entry) in sizes where now >= entry.end { remove(hash) }
            next = sizes.values.map(\.end).min() ?? Self.never
        }
    }

    private struct Owners {
        var uploads: [Owner: Uploads] = [:]
        /// The number of owners above which those without entries are removed.
        var limit = 1_000
    }

    private let owners = Mutex(Owners())

    /// The number of bytes that wait to be saved in zones of `user`.
    func bytes(of user: UserID, in home: ContainerEnvironment, at now: Duration) -> Int64 {
        owners.withLock { owners in
            let owner = Owner(home: home, user: user)
            owners.uploads[owner]?.drop(at: now)
            if owners.uploads[owner]?.isEmpty ?? false { owners.uploads[owner] = nil }
            return owners.uploads[owner].map { $0.bytes + $0.reserved } ?? 0
        }
    }

    /// Returns whether an asset that was uploaded for zones of `user` waits to be saved.
    func holds(_ hash: AssetHash, of user: UserID, in home: ContainerEnvironment, at now: Duration) -> Bool {
        owners.withLock { owners in
            owners.uploads[Owner(home: home, user: user)]?.sizes[hash].map { now < $0.end } ?? false
        }
    }

    /// Reserves bytes for an asset that is being stored, if they fit into the rest of `room`.
    ///
    /// Checks and reserves atomically, since uploads run concurrently.
    func reserve(
        _ size: Int64,
        of room: Int64?,
        for user: UserID,
        in home: ContainerEnvironment,
        at now: Duration
    ) -> Bool {
        owners.withLock { owners in
            var uploads = owners.uploads[Owner(home: home, user: user)] ?? Uploads()
            uploads.drop(at: now)
            if let room, size > room - uploads.bytes - uploads.reserved { return false }
            uploads.reserved += size
            owners.uploads[Owner(home: home, user: user)] = uploads
            return true
        }
    }

    /// Releases bytes that were reserved for an asset that is not stored.
    func release(_ size: Int64, for user: UserID, in home: ContainerEnvironment) {
        owners.withLock { $0.uploads[Owner(home: home, user: user)]?.reserved -= size }
    }

    /// Converts the reserved bytes of an asset into an entry that expires with its receipt, after `life`.
    func add(
        _ hash: AssetHash,
        size: Int64,
        of user: UserID,
        in home: ContainerEnvironment,
        for life: Duration,
        at now: Duration
    ) {
        owners.withLock { owners in
            let owner = Owner(home: home, user: user)
            owners.uploads[owner, default: Uploads()].reserved -= size
            owners.uploads[owner, default: Uploads()].add(hash, size: size, until: now + life)
            guard owners.uploads.count > owners.limit else { return }
            for owner in owners.uploads.keys { owners.uploads[owner]?.drop(at: now) }
            owners.uploads = owners.uploads.filter { !$0.value.isEmpty }
            owners.limit = max(1_000, 2 * owners.uploads.count)
        }
    }

    /// Removes entries whose assets were saved in records and are counted there.
    func remove(_ hashes: some Sequence<AssetHash>, of user: UserID, in home: ContainerEnvironment) {
        owners.withLock { owners in
            for hash in hashes { owners.uploads[Owner(home: home, user: user)]?.remove(hash) }
        }
    }
}

/// The quota reserved for one upload while it is being stored; released on deinitialization unless the asset was
/// stored.
final class UploadReservation: Sendable {
    private struct Taken {
        var size: Int64 = 0
        /// The number of the reservation among those of several relays.
        var number: Int64?
    }

    /// How long a reservation lasts whose relay ends before the asset is stored.
    private static let life = Duration.seconds(15 * 60)

    private let pending: PendingUploads
    private let shared: (any SharedUploads)?
    private let user: UserID
    private let home: ContainerEnvironment
    private let time: TimeSource
    private let taken = Mutex(Taken())

    /// Counts in `shared`, or in `pending` if that is `nil`.
    init(
        in pending: PendingUploads,
        or shared: (any SharedUploads)?,
        of user: UserID,
        _ home: ContainerEnvironment,
        _ time: TimeSource
    ) {
        self.pending = pending
        self.shared = shared
        self.user = user
        self.home = home
        self.time = time
    }

    deinit {
        let left = taken.withLock { $0 }
        if let number = left.number { shared?.release(number) }
        if left.size != 0 { pending.release(left.size, for: user, in: home) }
    }

    /// Reserves bytes, once; returns `false` and reserves nothing if less than `wanted` is left of `room`.
    func take(_ wanted: Int64, of room: Int64?) throws(RelayError) -> Bool {
        if let shared {
            let now = time.now()
            let number = try shared.reserve(wanted, of: room, for: user, until: now + Self.life, at: now)
            taken.withLock { $0.number = number }
            return number != nil
        }
        guard pending.reserve(wanted, of: room, for: user, in: home, at: time.uptime()) else { return false }
        taken.withLock { $0.size = wanted }
        return true
    }

    /// Converts the reservation into an entry for the stored asset.
    func become(_ hash: AssetHash, for life: Duration) throws(RelayError) {
        let own = taken.withLock { $0 }
        if let shared {
            guard let number = own.number else { return }
            let now = time.now()
            try shared.keep(number, as: hash, of: user, until: now + life, at: now)
        } else {
            pending.add(hash, size: own.size, of: user, in: home, for: life, at: time.uptime())
        }
        taken.withLock { $0 = Taken() }
    }
}
