package import Records

/// What is known of a shard when owners are given a place.
package struct ShardLoad: Hashable, Sendable {
    package var number: Int
    /// Whether new owners may come to it.
    package var takesOwners: Bool
    /// Whether it answers: no owner can begin on one that does not, or move to it.
    package var isReachable = true
    /// How many bytes its disk has for data; `nil` if the operator has not set it.
    package var room: Int64?
    /// The bytes of its data.
    package var bytes: Int64
    package var owners: Int64
    /// The changes per second of late.
    package var changeRate: Double

    package init(
        number: Int,
        takesOwners: Bool = true,
        room: Int64? = nil,
        bytes: Int64 = 0,
        owners: Int64 = 0,
        changeRate: Double = 0
    ) {
        self.number = number
        self.takesOwners = takesOwners
        self.room = room
        self.bytes = bytes
        self.owners = owners
        self.changeRate = changeRate
    }
}

/// Decides which shard a new owner gets, and which owners should move.
package struct ShardPlacement: Sendable {
    private let loads: [ShardLoad]
    private let usualRoom: Int64
    private let meanRate: Double

    package init(_ loads: [ShardLoad]) {
        self.loads = loads
        // Shards for which no room is set count as equally large, and large enough.
        usualRoom = max((loads.map(\.bytes).max() ?? 0) * 2, 1 << 40)
        meanRate = loads.reduce(0) { $0 + $1.changeRate } / Double(max(loads.count, 1))
    }

    /// Whether owners may come to a shard.
    private static func isOpen(_ load: ShardLoad) -> Bool { load.takesOwners && load.isReachable }

    /// Part of a disk that stays free: a database needs room for its log and for upkeep.
    private static let reserve = 0.1

    private func free(_ load: ShardLoad) -> Double {
        let room = Double(load.room ?? usualRoom)
        return max(room * (1 - Self.reserve) - Double(load.bytes), 0)
    }

    /// The share of new owners that a shard gets: more free space, more owners; twice the mean load, half of them.
    private func weight(_ load: ShardLoad) -> Double {
        guard Self.isOpen(load) else { return 0 }
        return free(load) / (1 + load.changeRate / max(meanRate, 1))
    }

    /// Returns the shard of a new owner; `random` has 64 random bits.
    ///
    /// Chooses at random, in proportion to free space and load, since several relays choose without asking each other.
    package func shardForNewOwner(random: UInt64) -> Int {
        let weights = loads.map(weight)
        let sum = weights.reduce(0, +)
        guard sum > 0 else {
            // All are full or closed: the one that has most room, or the first.
            return loads.filter(Self.isOpen).max { free($0) < free($1) }?.number ?? 1
        }
        var rest = sum * Double(random >> 11) / Double(UInt64(1) << 53)
        for (load, weight) in zip(loads, weights) where weight > 0 {
            rest -= weight
            if rest < 0 { return load.number }
        }
        return loads.last(where: Self.isOpen)?.number ?? 1
    }

    /// An owner and what they use.
    package struct Owner: Hashable, Sendable {
        package var user: UserID
        package var shard: Int
        package var bytes: Int64
        /// How long ago the owner came to the shard from another one; `nil` if the owner began there.
        package var sinceMove: Duration?

        package init(_ user: UserID, on shard: Int, bytes: Int64, sinceMove: Duration? = nil) {
            self.user = user
            self.shard = shard
            self.bytes = bytes
            self.sinceMove = sinceMove
        }
    }

    package struct Move: Hashable, Sendable {
        package var owner: Owner
        package var to: Int
    }

    /// The least time between two moves of an owner, unless the owner's shard is closed.
    ///
    /// Without it, an owner whose data grows fast would be moved from shard to shard.
    package static let rest = Duration.seconds(6 * 3_600)

    /// How much fuller than the mean a shard may be.
    private static let tolerance = 0.1

    /// Returns moves after which all shards are about equally full, the largest owners first.
    ///
    /// `owners` are those that may move, as far as they are known.
    package func moves(of owners: [Owner], atMost most: Int) -> [Move] {
        // What is on a shard that does not answer stays there.
        let loads = loads.filter(\.isReachable)
        var bytes = Dictionary(loads.map { ($0.number, Double($0.bytes)) }) { $1 }
        let rooms = Dictionary(loads.map { ($0.number, Double($0.room ?? usualRoom)) }) { $1 }
        let open = loads.filter(Self.isOpen).map(\.number)
        func fullness(_ number: Int) -> Double { (bytes[number] ?? 0) / max(rooms[number] ?? 1, 1) }
        let mean = bytes.values.reduce(0, +) / max(rooms.values.reduce(0, +), 1)
        var moves: [Move] = []
        for owner in owners.sorted(by: { ($0.bytes, $0.user.recordName) > ($1.bytes, $1.user.recordName) }) {
            guard moves.count < most else { break }
            guard bytes[owner.shard] != nil else { continue }
            let isClosed = !open.contains(owner.shard)
            if !isClosed, let time = owner.sinceMove, time < Self.rest { continue }
            guard isClosed || fullness(owner.shard) > mean * (1 + Self.tolerance),
                let target = open.filter({ $0 != owner.shard }).min(by: { fullness($0) < fullness($1) })
            else { continue }
            let after = ((bytes[target] ?? 0) + Double(owner.bytes)) / max(rooms[target] ?? 1, 1)
            // A move that only exchanges the full shard for another one helps nobody.
            guard isClosed || after < fullness(owner.shard) else { continue }
            bytes[owner.shard, default: 0] -= Double(owner.bytes)
            bytes[target, default: 0] += Double(owner.bytes)
            moves.append(Move(owner: owner, to: target))
        }
        return moves
    }
}
