import Records
import StoreKit
import Testing

/// Where new owners go, and which owners should move.
@Suite struct ShardPlacementTests {
    /// A sequence of random numbers that is the same in each run.
    private struct Draws {
        private var state: UInt64 = 1

        mutating func next() -> UInt64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return state ^ state >> 32
        }
    }

    private func counts(_ loads: [ShardLoad], of draws: Int = 10_000) -> [Int: Int] {
        var random = Draws()
        let placement = ShardPlacement(loads)
        return (0..<draws).reduce(into: [:]) { counts, _ in
            counts[placement.shardForNewOwner(random: random.next()), default: 0] += 1
        }
    }

    @Test("new owners go where there is room, and less to where much is written") func proportions() {
        let even = counts([ShardLoad(number: 1), ShardLoad(number: 2)])
        #expect((4_500...5_500).contains(even[1] ?? 0))
        let room = counts([
            ShardLoad(number: 1, room: 1_000, bytes: 800), ShardLoad(number: 2, room: 1_000, bytes: 200),
        ])
        #expect((1_000...1_500).contains(room[1] ?? 0), "100 of 800 free bytes")
        let busy = counts([ShardLoad(number: 1, changeRate: 900), ShardLoad(number: 2, changeRate: 100)])
        #expect((2_500...3_500).contains(busy[1] ?? 0))
    }

    @Test("a closed or full shard gets no owner, unless all are full") func closed() {
        let closed = counts([ShardLoad(number: 1, takesOwners: false), ShardLoad(number: 2), ShardLoad(number: 3)])
        #expect(closed[1] == nil && closed.count == 2)
        let full = counts([ShardLoad(number: 1, room: 100, bytes: 95), ShardLoad(number: 2, room: 100, bytes: 10)])
        #expect(full == [2: 10_000])
        #expect(counts([ShardLoad(number: 1, room: 1, bytes: 9), ShardLoad(number: 2, room: 1, bytes: 9)]).count == 1)
        #expect(counts([ShardLoad(number: 4, takesOwners: false)]) == [1: 10_000])
        #expect(counts([]) == [1: 10_000])
    }

    @Test("moves make shards equally full, and empty one that is closed") func moves() {
        func owners(_ count: Int, on shard: Int, _ bytes: Int64) -> [ShardPlacement.Owner] {
            (0..<count).map { .init(UserID("_\(shard).\($0)"), on: shard, bytes: bytes) }
        }
        let loads = [
            ShardLoad(number: 1, room: 10_000, bytes: 6_000), ShardLoad(number: 2, room: 10_000, bytes: 0),
            ShardLoad(number: 3, room: 20_000, bytes: 2_000),
        ]
        let moves = ShardPlacement(loads).moves(of: owners(60, on: 1, 100) + owners(20, on: 3, 100), atMost: 1_000)
        var bytes: [Int: Int64] = [1: 6_000, 2: 0, 3: 2_000]
        for move in moves {
            #expect(move.owner.shard == 1)
            bytes[1, default: 0] -= move.owner.bytes
            bytes[move.to, default: 0] += move.owner.bytes
        }
        // 8,000 of 40,000 bytes are in use: a fifth of each shard, and a tenth of that more is tolerated.
        #expect(bytes[1] ?? 0 <= 2_200 && bytes[2] ?? 0 <= 2_200 && bytes[3] ?? 0 <= 4_400)
        #expect(ShardPlacement(loads).moves(of: owners(60, on: 1, 100), atMost: 5).count == 5)
        let even = [ShardLoad(number: 1, room: 100, bytes: 50), ShardLoad(number: 2, room: 100, bytes: 50)]
        #expect(ShardPlacement(even).moves(of: owners(5, on: 1, 10), atMost: 100).isEmpty)
        let closed = [
            ShardLoad(number: 1, takesOwners: false, room: 100, bytes: 10), ShardLoad(number: 2, room: 100, bytes: 80),
        ]
        #expect(ShardPlacement(closed).moves(of: owners(1, on: 1, 10), atMost: 9).map(\.to) == [2])
    }

    @Test(
        "a day of growth, with shards that are down for hours: the shards become equally full, and nobody moves twice within hours",
        arguments: 1...5 as ClosedRange<UInt64>
    )
    func aDay(seed: UInt64) throws {
        var day = BalancedDay(seed: seed)
        for _ in 0..<24 * 60 { try day.step(grows: true) }
        // Owners who rest delay the end.
        for _ in 0..<24 * 60 { try day.step(grows: false) }
        #expect(day.plan().isEmpty && day.isIdle)
        let fullness = day.fullness
        let mean = fullness.reduce(0, +) / Double(fullness.count)
        #expect(fullness.allSatisfy { $0 < mean * 1.15 }, "\(fullness)")
        #expect(day.moves > 20 && day.moves < day.ownerCount / 2, "\(day.moves) of \(day.ownerCount)")
    }
}

/// Four shards in virtual time: owners begin and grow, shards are down for hours, and one process balances.
private struct BalancedDay {
    private struct Shard {
        var room: Int64
        var bytes: Int64 = 0
        var owners: Int64 = 0
        /// The minutes in which it does not answer.
        var down: Range<Int>
    }

    private struct Owner {
        var shard: Int
        var bytes: Int64 = 0
        var arrived: Int?
    }

    struct MovedTwice: Error {
        var owner: Int
        var minutes: Int
    }

    private var state: UInt64
    private var minute = 0
    private var shards: [Shard]
    private var owners: [Owner] = []
    /// The moves to be done, the first one at the end.
    private var waiting: [(owner: Int, from: Int, to: Int)] = []
    private var running: (owner: Int, to: Int, end: Int)?
    private(set) var moves = 0

    init(seed: UInt64) {
        state = seed
        shards = [40, 40, 80, 40].map { Shard(room: $0 * 10_000_000, down: 0..<0) }
        for number in 1..<4 {
            let start = Int(draw(20 * 60))
            shards[number].down = start..<(start + 30 + Int(draw(180)))
        }
        // The cluster began with one database.
        for _ in 0..<500 {
            owners.append(Owner(shard: 0, bytes: Int64(draw(400_000))))
            shards[0].bytes += owners.last?.bytes ?? 0
            shards[0].owners += 1
        }
    }

    private mutating func draw(_ bound: UInt64) -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return (state ^ state >> 32) % bound
    }

    var ownerCount: Int { owners.count }
    var isIdle: Bool { running == nil && waiting.isEmpty }
    var fullness: [Double] { shards.map { Double($0.bytes) / Double($0.room) } }

    private func isUp(_ number: Int) -> Bool { !shards[number].down.contains(minute) }

    private var placement: ShardPlacement {
        ShardPlacement(
            shards.enumerated().map { place, shard in
                var load = ShardLoad(number: place + 1, room: shard.room, bytes: shard.bytes, owners: shard.owners)
                load.isReachable = isUp(place)
                return load
            }
        )
    }

    func plan() -> [(owner: Int, from: Int, to: Int)] {
        let candidates = owners.enumerated().filter { isUp($0.element.shard) }.map { number, owner in
            ShardPlacement.Owner(
                UserID("\(number)"),
                on: owner.shard + 1,
                bytes: owner.bytes,
                sinceMove: owner.arrived.map { .seconds((minute - $0) * 60) }
            )
        }
        return placement.moves(of: candidates, atMost: 50).compactMap { move in
            Int(move.owner.user.recordName).map { ($0, move.owner.shard - 1, move.to - 1) }
        }
    }

    /// One minute.
    mutating func step(grows: Bool) throws {
        minute += 1
        if grows { grow() }
        if let move = running, move.end <= minute {
            finish(move)
            running = nil
        }
        // Every ten minutes, when the last plan has been carried out.
        if isIdle, minute % 10 == 0 { waiting = plan().reversed() }
        while running == nil, let next = waiting.popLast() {
            let owner = owners[next.owner]
            // The command ends with an error, and the next plan does without the shard.
            guard isUp(next.from), isUp(next.to), owner.shard == next.from else { continue }
            if let arrived = owner.arrived, minute - arrived < 6 * 60 {
                throw MovedTwice(owner: next.owner, minutes: minute - arrived)
            }
            running = (next.owner, next.to, minute + 1 + Int(owner.bytes / 2_000_000))
        }
    }

    private mutating func grow() {
        for _ in 0..<2 {
            let number = placement.shardForNewOwner(random: draw(.max)) - 1
            owners.append(Owner(shard: number))
            shards[number].owners += 1
        }
        // A few owners write most; those of a shard that is down cannot write.
        for share in 0..<40 {
            let place = Int(draw(UInt64(owners.count)))
            let bytes = Int64(draw(share < 2 ? 400_000 : 8_000))
            guard isUp(owners[place].shard) else { continue }
            owners[place].bytes += bytes
            shards[owners[place].shard].bytes += bytes
        }
    }

    private mutating func finish(_ move: (owner: Int, to: Int, end: Int)) {
        let from = owners[move.owner].shard
        // Goes on when both answer again: it is run anew, and the next plan may be another one.
        guard isUp(from), isUp(move.to) else { return }
        for (number, sign) in [(from, Int64(-1)), (move.to, 1)] {
            shards[number].bytes += sign * owners[move.owner].bytes
            shards[number].owners += sign
        }
        owners[move.owner].shard = move.to
        owners[move.owner].arrived = minute
        moves += 1
    }
}
