#if Postgres
    import ChildProcesses
    import Foundation
    import Records
    import RelayCore
    import StoreKit
    import Testing
    import Wire

    @testable import PostgresStore

    /// Owners on several databases.
    @Suite(needsPostgres)
    struct ShardTests {
        private static let (alice, bob, carol) = (ShardedCluster.alice, ShardedCluster.bob, ShardedCluster.carol)

        @Test("a relay that knew one database finds the second one with its next read")
        func secondShard() async throws {
            let urls = try (0..<2).map { _ in try PostgresServer.shared.get().makeDatabase() }
            let database = PostgresDatabase(try PostgresAddress(urls[0]), cluster: "test")
            let stores = PostgresStores(
                database,
                StoreOptions(draw: { UInt64.random(in: 1 ... .max) }),
                cache: AssetCache(folder: "/nowhere", draw: { 1 })
            )
            defer { stores.close(patience: .zero) }
            let notes = ZoneID("Notes", owner: Self.alice)
            let single = try stores.store(of: .forTests)
            #expect(single is PostgresStore)
            _ = try await single.write(touching: Self.alice) { writer throws(RelayError) in
                try writer.makeZone(notes, by: "phone")
            }
            let others = PostgresShards(control: PostgresDatabase(try PostgresAddress(urls[0]), cluster: "test"))
            let admin = PostgresClusterShards(others)
            #expect(try admin.add(urls[1], room: 1 << 30).number == 2)
            #expect(try admin.add(urls[1], room: 1 << 30).number == 2, "again")
            #expect(throws: RelayError.self) { try single.read { reader throws(RelayError) in try reader.zone(notes) } }
            let several = try stores.store(of: .forTests)
            #expect(several is ShardedStore)
            #expect(try several.read { reader throws(RelayError) in try reader.zone(notes) } != nil)
            #expect(stores.shards.map(\.number) == [1, 2])
            try admin.set(1, takesOwners: false, room: nil)
            let theirs = ZoneID("Notes", owner: Self.bob)
            _ = try await several.write(touching: Self.bob) { writer throws(RelayError) in
                try writer.makeZone(theirs, by: "phone")
            }
            #expect(try (several as? ShardedStore)?.shard(of: Self.bob) == 2)
            #expect(try (several as? ShardedStore)?.shard(of: Self.alice) == 1)
        }

        @Test("the wrong database is refused as a shard, and a shard as the first database")
        func wrongDatabase() throws {
            let cluster = try ShardedCluster(2)
            #expect(throws: PostgresError.self) {
                try PostgresDatabase(PostgresAddress(cluster.urls[1]), cluster: "test").pool.use(.brief) { _ in }
            }
            let foreign = try emptyDatabase()
            try PostgresLayout(cluster: "other").prepare(PostgresConnection(to: foreign))
            #expect(throws: DirectoryError.self) {
                try PostgresClusterShards(cluster.shards).add(cluster.urls[0], room: nil)
            }
        }

        @Test("a share is accepted over shards, and its visitor's feed has zones of all of them")
        func sharing() async throws {
            let cluster = try ShardedCluster(3)
            let alices = try await cluster.makeZone(of: Self.alice, on: 2)
            let carols = try await cluster.makeZone(of: Self.carol, on: 3)
            try await cluster.makeZone(of: Self.bob, on: 1)
            try await cluster.first.share(alices, with: [], link: "alice", permission: .readWrite)
            try await cluster.first.share(carols, with: [Self.bob], link: "carol")
            let visitor = ShareVisitor(caller: Caller(.user(Self.bob), deviceID: "tablet"))
            let accept = AcceptShare("alice", by: visitor, now: Timestamp(milliseconds: 5), participantLimit: 10) {
                "new"
            }
            for _ in 0..<2 {
                let found = try cluster.second.read { reader throws(RelayError) in try accept.look(in: reader) }
                let joined = try await cluster.second.write(touching: Self.alice, prefetch: accept.prefetch(of: found))
                {
                    writer throws(RelayError) in
                    try accept.run(in: writer)
                }
                #expect(!joined.isJoinable)
            }
            let page = try cluster.first.sharedPage(of: Self.bob)
            #expect(Set(page.zones.map(\.id)) == [alices, carols] && !page.moreComing && !page.isIncomplete)
            try await cluster.first.save(["a"], in: alices)
            let next = try cluster.second.sharedPage(of: Self.bob, since: page.token.encoded)
            #expect(next.zones.map(\.id) == [alices])
            #expect(try cluster.first.zonePage(alices, seenBy: Self.bob).names.contains("a"))
            #expect(throws: RelayError.shareNotFound) {
                try cluster.second.read { reader throws(RelayError) in
                    try AcceptShare("none", by: visitor, now: Timestamp(milliseconds: 5), participantLimit: 10) {
                        "new"
                    }
                    .look(in: reader)
                }
            }
            let seen = try cluster.first.read { reader throws(RelayError) in
                try reader.lastChanges(seenBy: [Self.alice, Self.bob])
            }
            #expect(seen[OwnerView(of: Self.alice, seenBy: Self.alice)] ?? 0 > 0)
            #expect(seen[OwnerView(of: Self.carol, seenBy: Self.bob)] ?? 0 > 0)
        }

        @Test("a shard that is down concerns its owners alone, and visitors hear when it is back")
        func shardDown() async throws {
            let cluster = try ShardedCluster(3)
            let alices = try await cluster.makeZone(of: Self.alice, on: 2)
            let carols = try await cluster.makeZone(of: Self.carol, on: 3)
            try await cluster.makeZone(of: Self.bob, on: 1)
            try await cluster.first.share(alices, with: [Self.bob], link: "alice")
            try await cluster.first.share(carols, with: [Self.bob], link: "carol")
            let whole = try cluster.first.sharedPage(of: Self.bob)
            try await cluster.first.save(["c"], in: carols)
            try cluster.setDown(2, true)
            let part = try cluster.first.sharedPage(of: Self.bob, since: whole.token.encoded)
            #expect(part.isIncomplete && part.zones.map(\.id) == [carols])
            // Again, with the token of the incomplete answer.
            let nothing = try cluster.first.sharedPage(of: Self.bob, since: part.token.encoded)
            #expect(nothing.isIncomplete && nothing.zones.isEmpty)
            do {
                try await cluster.first.save(["a"], in: alices)
                Issue.record("a write to a shard that is down")
            } catch {
                #expect(error.code == .tryAgainLater)
            }
            #expect(throws: RelayError.self) { try cluster.first.zonePage(alices) }
            #expect(throws: RelayError.ownersAreMissing) {
                try cluster.first.read { reader throws(RelayError) in try reader.share(ofLink: "alice") }
            }
            try await cluster.first.save(["c2"], in: carols)
            #expect(cluster.shards.all.map { $0.failure == nil } == [true, false, true])
            try cluster.setDown(2, false)
            while cluster.returned.users != [Self.bob] { await Task.yield() }
            try await cluster.first.save(["a"], in: alices)
            let rest = try cluster.first.sharedPage(of: Self.bob, since: nothing.token.encoded)
            #expect(!rest.isIncomplete && Set(rest.zones.map(\.id)) == [alices, carols])
            let end = try cluster.first.sharedPage(of: Self.bob, since: rest.token.encoded)
            #expect(end.zones.isEmpty)
        }

        @Test("a shard that stands still counts as down after a while, and is not asked until it goes on")
        func shardHangs() async throws {
            let hanging = try PostgresServer()
            defer { hanging.signal(SIGCONT) }
            let cluster = try ShardedCluster(3, last: hanging, patience: .seconds(2))
            let alices = try await cluster.makeZone(of: Self.alice, on: 2)
            let carols = try await cluster.makeZone(of: Self.carol, on: 3)
            try await cluster.makeZone(of: Self.bob, on: 1)
            try await cluster.first.share(alices, with: [Self.bob], link: "alice")
            try await cluster.first.share(carols, with: [Self.bob], link: "carol")
            let whole = try cluster.first.sharedPage(of: Self.bob)
            #expect(Set(whole.zones.map(\.id)) == [alices, carols])
            try await cluster.first.save(["a"], in: alices)
            hanging.signal(SIGSTOP)
            let part = try cluster.first.sharedPage(of: Self.bob, since: whole.token.encoded)
            #expect(part.isIncomplete && part.zones.map(\.id) == [alices])
            #expect(cluster.shards.all.map { $0.failure == nil } == [true, true, false])
            // Each of them would wait for two seconds if it asked.
            let start = ContinuousClock.now
            for _ in 0..<20 {
                #expect(try cluster.first.sharedPage(of: Self.bob, since: part.token.encoded).isIncomplete)
            }
            #expect(ContinuousClock.now - start < .seconds(30))
            hanging.signal(SIGCONT)
            while cluster.returned.users != [Self.bob] { await Task.yield() }
            try await cluster.first.save(["c"], in: carols)
            let rest = try cluster.first.sharedPage(of: Self.bob, since: part.token.encoded)
            #expect(!rest.isIncomplete && rest.zones.map(\.id) == [carols])
        }

        @Test("a shard whose servers have moved is served at its new address, also by relays that knew the old one")
        func newAddress() async throws {
            let cluster = try ShardedCluster(2)
            let notes = try await cluster.makeZone(of: Self.alice, on: 2)
            try await cluster.first.save(["a"], in: notes)
            #expect(try cluster.second.zonePage(notes).names == ["a"])
            let admin = PostgresClusterShards(cluster.shards)
            let foreign = try cluster.server.makeDatabase()
            try PostgresLayout(cluster: "other", shard: 2).prepare(PostgresConnection(to: PostgresAddress(foreign)))
            for wrong in [cluster.urls[0], try cluster.server.makeDatabase(), foreign] {
                #expect(throws: DirectoryError.self) { try admin.set(2, url: wrong) }
            }
            #expect(throws: DirectoryError.self) { try admin.set(1, url: cluster.urls[0]) }
            try cluster.setDown(2, true)
            let moved = try cluster.server.makeDatabase(from: cluster.name(2))
            #expect(throws: DirectoryError.missing("shard 7")) { try admin.set(7, url: moved) }
            try admin.set(2, url: moved)
            try await cluster.first.save(["b"], in: notes)
            // Its relay still knows the old address, where nothing answers.
            while (try? cluster.second.zonePage(notes).names) != ["a", "b"] { await Task.yield() }
            try await cluster.second.save(["c"], in: notes)
            #expect(Set(try cluster.first.zonePage(notes).names) == ["a", "b", "c"])
        }

        @Test("an owner is a user from the creation of the default zone, on every shard")
        func usersBegin() async throws {
            let cluster = try ShardedCluster(3)
            func count() throws -> Int {
                try cluster.first.read { reader throws(RelayError) in try reader.userCount }
            }
            for (number, user) in [Self.alice, Self.bob, Self.carol].enumerated() {
                try await cluster.makeZone(of: user, on: number + 1)
                #expect(try count() == number)
                _ = try cluster.move(user, to: (number + 1) % 3 + 1)
                #expect(try count() == number)
                let id = ZoneID(ZoneID.defaultName, owner: user)
                _ = try await cluster.second.write(touching: user) { writer throws(RelayError) in
                    try writer.makeZone(id, by: "phone")
                }
                #expect(try count() == number + 1)
            }
            for end in [1, 2, 3] {
                for user in [Self.alice, Self.bob, Self.carol] { _ = try cluster.move(user, to: end) }
                #expect(try count() == 3)
            }
        }

        @Test("users are counted wherever they are, by reads and by writes to the public database")
        func userCount() async throws {
            let cluster = try ShardedCluster(3)
            for (number, user) in [Self.alice, Self.bob, Self.carol].enumerated() {
                try await cluster.makeZone(ZoneID.defaultName, of: user, on: number + 1)
            }
            for end in [3, 2, 1] {
                _ = try cluster.move(Self.alice, to: end)
                #expect(try cluster.first.read { reader throws(RelayError) in try reader.userCount } == 3)
                let counted = try await cluster.second.write(touching: Zone.publicOwner) { writer throws(RelayError) in
                    try writer.userCount
                }
                #expect(counted == 3)
            }
        }

        @Test("a query over zones of several shards returns their records in one order, page by page")
        func queries() async throws {
            let cluster = try ShardedCluster(3)
            let number = RecordType(fields: ["n": .init(.scalar(.int64))])
            var zones: [ZoneID] = []
            for (user, shard) in [(Self.alice, 2), (Self.carol, 3)] {
                let zone = try await cluster.makeZone(of: user, on: shard)
                try await cluster.first.share(zone, with: [Self.bob], link: user.recordName)
                zones.append(zone)
            }
            try await cluster.first.write(touching: Self.alice) { writer throws(RelayError) in
                try writer.define(["Note": number])
            }
            #expect(cluster.first.currentSchema.types["Note"] != nil)
            for place in 0..<20 {
                let fields = FieldsJSON.encode([.init(name: "n", value: .int64(Int64(place)))])
                try await cluster.second.save(["r\(place)"], in: zones[place % 3 == 0 ? 0 : 1], fields: fields)
            }
            var query = Query(recordType: "Note")
            query.sorts = [Query.Sort(.own("n"), ascending: false)]
            var (found, position): ([String], Query.Position?) = ([], nil)
            repeat {
                let database = DatabaseAddress(scope: .shared, caller: Caller(.user(Self.bob), deviceID: ""))
                let request = QueryRecords(query, in: nil, of: database, limit: 3, bytes: 1 << 20, after: position)
                let page = try await cluster.first.query { reader throws(RelayError) in try request.read(from: reader) }
                #expect(page.records.count <= 3)
                found += page.records.map(\.record.name)
                position = page.next
            } while position != nil
            #expect(found == (0..<20).reversed().map { "r\($0)" })
        }

        @Test("a subscription is on shard 1 wherever its user is, and other shards match with it")
        func subscriptions() async throws {
            let cluster = try ShardedCluster(2)
            let notes = try await cluster.makeZone(of: Self.alice, on: 2)
            let subscription = Subscription(
                id: "one",
                kind: .query(
                    SubscribedQuery(recordType: "Note", json: Array("{}".utf8), zone: notes, firesOn: .create)
                )
            )
            // Without and with the hint that it is a subscription.
            for prefetch in [Prefetch(), Prefetch(subscriptions: .private)] {
                try await cluster.first.write(touching: Self.alice, prefetch: prefetch) { writer throws(RelayError) in
                    try writer.put([subscription], of: Self.alice, in: .private)
                }
            }
            let known = try cluster.second.read { reader throws(RelayError) in try reader.querySubscriptions() }
            #expect(known.map(\.id) == ["one"] && known.map(\.user) == [Self.alice])
            let versions = try (1...2).map { number in
                try cluster.connection(number).query("SELECT subscriptions_version FROM home").first?.int(0)
            }
            #expect(versions == [2, 2])
            try await cluster.second.save(["a"], in: notes)
        }
    }
#endif
