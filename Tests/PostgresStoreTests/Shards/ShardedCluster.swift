#if Postgres
    import ChildProcesses
    import Foundation
    import Records
    import RelayCore
    import StoreKit
    import Synchronization
    import Testing
    import Wire

    @testable import PostgresStore

    /// Several databases as the shards of one cluster, and the stores that two relays have open on them.
    final class ShardedCluster {
        static let alice = UserID("_00000000000000000000000000000001")
        static let bob = UserID("_00000000000000000000000000000002")
        static let carol = UserID("_00000000000000000000000000000003")

        let server: PostgresServer
        /// Of the databases, in the order of the shards.
        let urls: [String]
        let shards: PostgresShards
        let first: ShardedStore
        let second: ShardedStore
        /// The users to whom relays said that they should ask again.
        let returned: Returned

        final class Returned: Sendable {
            private let state = Mutex<Set<UserID>>([])

            func add(_ users: Set<UserID>) { state.withLock { $0.formUnion(users) } }

            var users: Set<UserID> { state.withLock { $0 } }
        }

        /// `last` is a server for the last of the databases; the others are on the shared one.
        init(
            _ count: Int,
            last: PostgresServer? = nil,
            patience: Duration = PostgresShards.usualPatience
        ) throws {
            let server = try PostgresServer.shared.get()
            let urls = try (1...count).map { number in
                try (number == count ? last ?? server : server).makeDatabase()
            }
            func open() throws -> PostgresShards {
                PostgresShards(
                    control: PostgresDatabase(try PostgresAddress(urls[0]), cluster: "test"),
                    patience: patience
                )
            }
            let shards = try open()
            for (place, url) in urls.dropFirst().enumerated() {
                let state = try PostgresClusterShards(shards).add(url, room: nil)
                #expect(state.number == place + 2)
            }
            let returned = Returned()
            var options = StoreOptions(draw: { UInt64.random(in: 1 ... .max) })
            options.events.returned = { returned.add($1) }
            (self.server, self.urls, self.shards, self.returned) = (server, urls, shards, returned)
            first = try shards.store(of: .forTests, options)
            second = try open().store(of: .forTests, options)
        }

        deinit { shards.close() }

        func name(_ number: Int) -> String {
            urls[number - 1].split(separator: "?")[0].split(separator: "/").last.map(String.init) ?? ""
        }

        /// Lets nobody connect to a shard, or lets everybody again.
        func setDown(_ number: Int, _ isDown: Bool) throws {
            try server.execute("ALTER DATABASE \(name(number)) ALLOW_CONNECTIONS \(!isDown)")
            if isDown {
                // Waits for the end of each: one that still answers would seem to be back.
                try server.execute(
                    "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '\(name(number))'"
                )
            }
        }

        func connection(_ number: Int) throws -> PostgresConnection {
            try PostgresConnection(to: PostgresAddress(urls[number - 1]))
        }

        /// Lets new owners come to this shard only.
        func place(on number: Int) throws {
            let admin = PostgresClusterShards(shards)
            for other in 1...urls.count { try admin.set(other, takesOwners: other == number, room: nil) }
            // Each process reads it now and then.
            try first.shards.readLoads()
            try second.shards.readLoads()
        }

        /// Makes a zone of a user whose first data is on this shard.
        @discardableResult
        func makeZone(_ name: String = "Notes", of user: UserID, on number: Int) async throws -> ZoneID {
            try place(on: number)
            let id = ZoneID(name, owner: user)
            _ = try await first.write(touching: user) { writer throws(RelayError) in
                try writer.makeZone(id, by: "phone")
            }
            #expect(try first.shard(of: user) == number)
            return id
        }

        func move(
            _ user: UserID,
            to number: Int,
            step: @escaping (OwnerMove.Progress) throws -> Void = { _ in }
        ) throws -> OwnerMove.Summary {
            try OwnerMover(user, in: .forTests, to: number, of: shards, step: step).run()
        }
    }

    final class Flag: Sendable {
        private let value = Mutex(false)

        var isSet: Bool { value.withLock { $0 } }

        func set() { value.withLock { $0 = true } }
    }

    extension Store {
        /// Writes records, and returns their change numbers.
        @discardableResult
        func save(
            _ names: [String],
            in id: ZoneID,
            type: String = "Note",
            fields: [UInt8] = Array("{}".utf8),
            key: String? = nil
        ) async throws(RelayError) -> [UInt64] {
            try await write(touching: id.owner) { writer throws(RelayError) in
                guard let zone = try writer.zone(id) else { throw .zoneNotFound }
                let before = try writer.records(named: names, in: zone)
                let records = names.map { name in
                    var record = TwoNodes.record(name, writer.takeChangeNumber(), type: type)
                    record.fields = fields
                    return record
                }
                try writer.put(records, replacing: before, in: zone, by: "phone")
                if let key {
                    try writer.keep(IdempotencyRecord(fingerprint: 7, completedOperations: [1]), as: key, by: id.owner)
                }
                return records.map(\.change)
            }
        }

        /// Shares a zone with users who have accepted, or with those who open its link.
        func share(
            _ id: ZoneID,
            with users: [UserID],
            link: String,
            permission: Share.Permission = .none
        ) async throws {
            try await write(touching: id.owner) { writer throws(RelayError) in
                guard let zone = try writer.zone(id) else { throw .zoneNotFound }
                var record = TwoNodes.record(Share.zoneWideName, writer.takeChangeNumber(), type: Share.recordType)
                record.shareReference = ShareReference(shortGUID: link, record: Share.zoneWideName)
                record.sharing = Share(
                    root: nil,
                    shortGUID: link,
                    publicPermission: permission,
                    participants: users.map {
                        Share.Participant(id: "of \($0)", permission: .readWrite, hasAccepted: true, user: $0)
                    }
                )
                let before = try writer.records(named: [record.name], in: zone)
                try writer.put([record], replacing: before, in: zone, by: "phone")
            }
        }

        /// Returns a page of a user's shared database.
        func sharedPage(of user: UserID, since token: String? = nil) throws(RelayError) -> DatabaseChanges.Page {
            let database = DatabaseAddress(scope: .shared, caller: Caller(.user(user), deviceID: ""))
            return try read { reader throws(RelayError) in
                try DatabaseChanges(database: database, token: token, limit: 100).read(
                    from: reader,
                    epochs: epochs(of:)
                )
            }
        }

        /// Returns a page of an owner's private database.
        func ownPage(of user: UserID, since token: String? = nil) throws(RelayError) -> DatabaseChanges.Page {
            let database = DatabaseAddress(scope: .private, caller: Caller(.user(user), deviceID: ""))
            return try read { reader throws(RelayError) in
                try DatabaseChanges(database: database, token: token, limit: 100).read(
                    from: reader,
                    epochs: epochs(of:)
                )
            }
        }

        /// Returns the names in a zone's feed since a token, and the next token.
        func zonePage(
            _ id: ZoneID,
            seenBy user: UserID? = nil,
            since token: String? = nil
        ) throws(RelayError) -> (names: [String], token: String) {
            let database = DatabaseAddress(
                scope: user == nil ? .private : .shared,
                caller: Caller(.user(user ?? id.owner), deviceID: "")
            )
            return try read { reader throws(RelayError) in
                var names: [String] = []
                let page = try ZoneChanges(zone: id, of: database, token: token, limit: 100_000)
                    .read(from: reader, epochs: epochs(of: id.owner)) {
                        names.append(($0.isDeleted ? "-" : "") + $0.name)
                    }
                return (names, page.token.encoded)
            }
        }
    }
#endif
