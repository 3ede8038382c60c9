#if Postgres
    import Foundation
    import Records
    import RelayCore
    import StoreKit
    import Synchronization
    import Testing
    import Wire

    @testable import PostgresStore

    /// Owners who move from one database to another while relays serve them.
    ///
    /// Each planted mistake is found, too, in a process of its own.
    @Suite(needsPostgres)
    struct OwnerMoveTests {
        private static let (alice, bob) = (ShardedCluster.alice, ShardedCluster.bob)

        /// Every token that a device of alice's or bob's has.
        private struct Tokens {
            var own: String
            var zone: String
            var shared: String
            var sharedZone: String

            init(_ store: ShardedStore, _ zone: ZoneID) throws {
                own = try store.ownPage(of: zone.owner).token.encoded
                self.zone = try store.zonePage(zone).token
                shared = try store.sharedPage(of: ShardedCluster.bob).token.encoded
                sharedZone = try store.zonePage(zone, seenBy: ShardedCluster.bob).token
            }
        }

        @Test(
            "tokens, change tags, shares and outcomes go on after a move, there and back",
            arguments: [(1, 2), (2, 3), (2, 1)]
        )
        func tokens(from source: Int, to target: Int) async throws {
            let cluster = try ShardedCluster(3)
            let notes = try await cluster.makeZone(of: Self.alice, on: source)
            try await cluster.first.save((0..<50).map { "r\($0)" }, in: notes, key: "k1")
            try await cluster.first.share(notes, with: [Self.bob], link: "link")
            // The sequence of the target is behind the owner's numbers.
            let ends = [target, source]
            for end in ends {
                let tokens = try Tokens(cluster.first, notes)
                let before = try cluster.first.zonePage(notes).names
                let tag = try cluster.first.read { reader throws(RelayError) -> UInt64? in
                    guard let zone = try reader.zone(notes) else { return nil }
                    return try reader.records(named: ["r7"], in: zone)["r7"]?.change
                }
                let summary = try cluster.move(Self.alice, to: end)
                #expect(summary.rows >= 50)
                #expect(try cluster.move(Self.alice, to: end).rows == 0, "again")
                for store in [cluster.first, cluster.second] {
                    #expect(try store.zonePage(notes).names == before)
                    #expect(try store.shard(of: Self.alice) == end)
                    #expect(try store.ownPage(of: Self.alice, since: tokens.own).zones.isEmpty)
                    #expect(try store.zonePage(notes, since: tokens.zone).names.isEmpty)
                    #expect(try store.sharedPage(of: Self.bob, since: tokens.shared).zones.isEmpty)
                    #expect(try store.zonePage(notes, seenBy: Self.bob, since: tokens.sharedZone).names.isEmpty)
                }
                let moved = try cluster.second.read { reader throws(RelayError) -> UInt64? in
                    guard let zone = try reader.zone(notes) else { return nil }
                    return try reader.records(named: ["r7"], in: zone)["r7"]?.change
                }
                #expect(moved == tag)
                let outcome = try await cluster.second.write(touching: Self.alice) { writer throws(RelayError) in
                    try writer.idempotencyRecord("k1", by: Self.alice)
                }
                #expect(outcome?.fingerprint == 7)
                try await cluster.second.save(["new \(end)"], in: notes)
                #expect(try cluster.first.zonePage(notes, since: tokens.zone).names == ["new \(end)"])
                #expect(try cluster.first.ownPage(of: Self.alice, since: tokens.own).zones.map(\.id) == [notes])
                #expect(try cluster.first.sharedPage(of: Self.bob, since: tokens.shared).zones.map(\.id) == [notes])
                #expect(
                    try cluster.first.zonePage(notes, seenBy: Self.bob, since: tokens.sharedZone).names == [
                        "new \(end)"
                    ]
                )
            }
            // The former place has nothing left.
            let left = try cluster.connection(target).query(
                "SELECT count(*) FROM zone z JOIN person p ON p.id = z.owner WHERE p.name = $1",
                .text(Self.alice.recordName)
            )
            #expect(left.first?.int(0) == 0)
        }

        @Test(
            "a move that ends at any step can be run again, under writes of two relays",
            arguments: OwnerMove.Step.allCases
        )
        func interruption(at step: OwnerMove.Step) async throws {
            struct Crash: Error {}
            let cluster = try ShardedCluster(3)
            let notes = try await cluster.makeZone(of: Self.alice, on: 2)
            try await cluster.first.save((0..<300).map { "old \($0)" }, in: notes)
            try await cluster.first.share(notes, with: [Self.bob], link: "link")
            let tokens = try Tokens(cluster.first, notes)
            let end = Flag()
            let (first, second) = (cluster.first, cluster.second)
            // Each writes until the move is done, and says which names were accepted.
            let writers = [(first, "a"), (second, "b")].map { store, prefix in
                Task { try await Self.write(prefix, into: notes, of: store, until: end) }
            }
            let crashes = Mutex(0)
            for _ in 0..<2 {
                do {
                    _ = try cluster.move(Self.alice, to: 3) { progress in
                        guard progress.step == step, crashes.withLock({ $0 }) == 0 else { return }
                        crashes.withLock { $0 += 1 }
                        throw Crash()
                    }
                } catch is Crash {
                }
            }
            #expect(crashes.withLock { $0 } == 1)
            #expect(try PostgresClusterShards(cluster.shards).unfinishedMoves().isEmpty)
            end.set()
            var accepted: Set<String> = []
            for writer in writers { accepted.formUnion(try await writer.value) }
            // One after the move, so that there is a change in any case.
            try await second.save(["last"], in: notes)
            accepted.insert("last")
            for store in [first, second] {
                let names = try store.zonePage(notes, since: tokens.zone).names
                #expect(Set(names) == accepted && names.count == accepted.count)
                #expect(Set(try store.zonePage(notes).names).isSuperset(of: (0..<300).map { "old \($0)" }))
                #expect(Set(try store.zonePage(notes, seenBy: Self.bob, since: tokens.sharedZone).names) == accepted)
                #expect(try store.sharedPage(of: Self.bob, since: tokens.shared).zones.map(\.id) == [notes])
            }
        }

        private static func write(
            _ prefix: String,
            into zone: ZoneID,
            of store: ShardedStore,
            until end: Flag
        ) async throws -> [String] {
            var accepted: [String] = []
            var number = 0
            while !end.isSet {
                number += 1
                do {
                    try await store.save(["\(prefix) \(number)"], in: zone)
                    accepted.append("\(prefix) \(number)")
                } catch {
                    guard error.code == .tryAgainLater else { throw error }
                    await Task.yield()
                }
            }
            return accepted
        }

        @Test("references, records without tombstones, ended shares and indexes move as they are at the end")
        func lateChanges() async throws {
            let cluster = try ShardedCluster(2)
            let notes = try await cluster.makeZone(of: Self.alice, on: 1)
            let own = try await cluster.makeZone(ZoneID.defaultName, of: Self.alice, on: 1)
            let store = cluster.first
            try await store.save(["kept", "gone"], in: own)
            try await store.save(["a", "b"], in: notes)
            try await store.share(notes, with: [Self.bob], link: "link")
            let isChanged = Mutex(false)
            _ = try cluster.move(Self.alice, to: 2) { progress in
                guard progress.step == .refusing, !isChanged.withLock({ $0 }) else { return }
                isChanged.withLock { $0 = true }
                let done = DispatchSemaphore(value: 0)
                Task {
                    try await store.delete(["gone"], in: own)
                    try await store.delete(["b", Share.zoneWideName], in: notes)
                    done.signal()
                }
                done.wait()
            }
            #expect(isChanged.withLock { $0 })
            #expect(Set(try store.zonePage(notes).names) == ["a"])
            let names = try store.read { reader throws(RelayError) -> Set<String> in
                guard let zone = try reader.zone(own) else { return [] }
                return Set(try reader.records(named: ["kept", "gone"], in: zone).keys)
            }
            #expect(names == ["kept"])
            #expect(try store.read { reader throws(RelayError) in try reader.share(ofLink: "link") } == nil)
        }

        @Test("a second move of the same owner to another shard is refused until the first one is complete")
        func twoMoves() async throws {
            struct Crash: Error {}
            let cluster = try ShardedCluster(3)
            try await cluster.makeZone(of: Self.alice, on: 1)
            #expect(throws: Crash.self) {
                try cluster.move(Self.alice, to: 2) { if $0.step == .serving { throw Crash() } }
            }
            #expect(throws: MoveFailure.self) { try cluster.move(Self.alice, to: 3) }
            _ = try cluster.move(Self.alice, to: 2)
            _ = try cluster.move(Self.alice, to: 3)
            #expect(try cluster.second.shard(of: Self.alice) == 3)
            #expect(throws: MoveFailure.self) { try cluster.move(Zone.publicOwner, to: 2) }
            #expect(throws: MoveFailure.self) { try cluster.move(ShardedCluster.carol, to: 2) }
        }

        // MARK: Planted mistakes

        @Test("numbers go on after a move") func numbersGoOn() async throws {
            #expect(try await Self.numbersGoOn())
        }

        @Test("a move after which numbers begin anew is found") func moveWithoutNumbers() async {
            await #expect(processExitsWith: .success) {
                PostgresFault.plant(.moveWithoutNumbers)
                let holds = try await Self.numbersGoOn()
                exit(holds ? EXIT_FAILURE : EXIT_SUCCESS)
            }
        }

        private static func numbersGoOn() async throws -> Bool {
            let cluster = try ShardedCluster(2)
            let notes = try await cluster.makeZone(of: alice, on: 1)
            try await cluster.first.save((0..<100).map { "r\($0)" }, in: notes)
            let token = try cluster.first.zonePage(notes).token
            _ = try cluster.move(alice, to: 2)
            try await cluster.first.save(["new"], in: notes)
            return try cluster.first.zonePage(notes, since: token).names == ["new"]
        }

        @Test("a relay whose map is old reads and writes where the owner is") func oldMap() async throws {
            #expect(try await Self.servesNewPlace())
        }

        @Test("a relay that serves by an old map is found") func oldMapServed() async {
            await #expect(processExitsWith: .success) {
                PostgresFault.plant(.oldMapServed)
                let holds = (try? await Self.servesNewPlace()) ?? false
                exit(holds ? EXIT_FAILURE : EXIT_SUCCESS)
            }
        }

        private static func servesNewPlace() async throws -> Bool {
            let cluster = try ShardedCluster(3)
            let notes = try await cluster.makeZone(of: alice, on: 2)
            try await cluster.second.save(["a"], in: notes)
            _ = try cluster.move(alice, to: 3)
            // The first relay learns it, and the second one has the old map.
            try await cluster.first.save(["b"], in: notes)
            guard try Set(cluster.second.zonePage(notes).names) == ["a", "b"] else { return false }
            try await cluster.second.save(["c"], in: notes)
            return try Set(cluster.first.zonePage(notes).names) == ["a", "b", "c"]
        }
    }

    extension Store {
        fileprivate func delete(_ names: [String], in id: ZoneID) async throws(RelayError) {
            try await write(touching: id.owner) { writer throws(RelayError) in
                guard let zone = try writer.zone(id) else { throw .zoneNotFound }
                let before = try writer.records(named: names, in: zone)
                let records = names.compactMap { name in
                    before[name].map { old in
                        var record = old
                        record.change = writer.takeChangeNumber()
                        record.isDeleted = true
                        record.sharing = nil
                        return record
                    }
                }
                try writer.put(records, replacing: before, in: zone, by: "phone")
            }
        }
    }
#endif
