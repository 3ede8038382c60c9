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
            #expect(move.from == 1)
            bytes[move.from, default: 0] -= move.bytes
            bytes[move.to, default: 0] += move.bytes
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

    @Test("a day of new owners, growth and balancing leaves the shards about equally full") func aDay() {
        var random = Draws()
        var owners: [ShardPlacement.Owner] = []
        let rooms: [Int: Int64] = [1: 40_000_000, 2: 40_000_000, 3: 80_000_000]
        func loads() -> [ShardLoad] {
            rooms.keys.sorted().map { number in
                let own = owners.filter { $0.shard == number }
                return ShardLoad(
                    number: number,
                    room: rooms[number],
                    bytes: own.reduce(0) { $0 + $1.bytes },
                    owners: Int64(own.count)
                )
            }
        }
        var moved = 0
        for hour in 0..<24 {
            let placement = ShardPlacement(loads())
            for _ in 0..<100 {
                let shard = placement.shardForNewOwner(random: random.next())
                owners.append(.init(UserID("_\(owners.count)"), on: shard, bytes: 0))
            }
            // A few owners write most: those of an hour are on one shard more often than on another.
            for place in owners.indices { owners[place].bytes += Int64(random.next() % 1_000) }
            for _ in 0..<20 {
                let place = Int(random.next() % UInt64(owners.count))
                owners[place].bytes += Int64(random.next() % 500_000)
            }
            guard hour % 6 == 5 else { continue }
            for move in ShardPlacement(loads()).moves(of: owners, atMost: 200) {
                guard let place = owners.firstIndex(where: { $0.user == move.user }) else { continue }
                #expect(owners[place].shard == move.from)
                owners[place].shard = move.to
                moved += 1
            }
            let fullness = loads().map { Double($0.bytes) / Double($0.room ?? 1) }
            let mean = fullness.reduce(0, +) / 3
            #expect(fullness.allSatisfy { $0 < mean * 1.25 }, "\(fullness)")
        }
        #expect(moved < owners.count / 2)
    }
}
