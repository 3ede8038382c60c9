import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelaySystem
import Synchronization
import Testing
import Wire

/// What a user gets with the first request, in writes that each stay inside one owner's data.
@Suite struct FirstUseTests {
    private static let bob = "bob@example.org"

    /// Returns a relay on which two users have invited bob, and bob has not used the container yet.
    private func invited() async throws -> RelayWorld {
        let world = try RelayWorld()
        for owner in ["alice", "carol"] {
            try await world.makeZone("Notes", as: owner)
            let share = ShareWorld.share(with: [ShareWorld.participant(Self.bob)])
            let body = #"{"zoneID":{"zoneName":"Notes"},"operations":[\#(share)]}"#
            #expect(try await world.ask("private/records/modify", as: owner, body).status == 200)
        }
        return world
    }

    /// A stop between any two of the writes leaves nothing that the next request does not complete.
    @Test(arguments: 0...3) func theNextRequestCompletesWhatAStopLeft(_ finished: Int) async throws {
        let world = try await invited()
        let home = ContainerEnvironment(try #require(ContainerID(world.container)), .development)
        let stopping = StoppingCatalog(world.stores, after: finished)
        let first = Relay(
            authenticator: world.relay.authenticator,
            stores: stopping,
            time: .system,
            random: .system
        )
        let caller = APIRequest(
            method: .get,
            path: "/database/1/\(world.container)/development/private/zones/list",
            query: "ckAPIToken=x&ckWebAuthToken=dev-\(Self.bob)"
        )
        #expect(await first.respond(to: caller).status.code == 503)
        #expect(stopping.owners.withLock { $0.count } == finished)

        // A relay that knows only what is in the store.
        let next = Relay(
            authenticator: world.relay.authenticator,
            stores: world.stores,
            time: .system,
            random: .system
        )
        #expect(await next.respond(to: caller).status == .ok)
        let answer = try await world.ask("public/users/caller", as: Self.bob)
        let bob = UserID(try #require(answer.json.text("userRecordName")))
        try world.stores.store(of: home).read { reader throws(RelayError) in
            #expect(try reader.liveZones(of: bob).map(\.id.zoneName) == [ZoneID.defaultName])
            let zone = try reader.zone(ZoneID(ZoneID.defaultName, owner: Zone.publicOwner))
            let record = try zone.flatMap { zone throws(RelayError) in
                try reader.records(named: [bob.recordName], in: zone)[bob.recordName]
            }
            #expect(record?.type == RecordType.usersName)
            #expect(try reader.shares(inviting: [.email(Self.bob)]).isEmpty)
        }
    }

    @Test func eachWriteOfAFirstUseHasOneOwner() async throws {
        let world = try await invited()
        let watching = StoppingCatalog(world.stores, after: .max)
        let relay = Relay(authenticator: world.relay.authenticator, stores: watching, time: .system, random: .system)
        var request = APIRequest(
            method: .get,
            path: "/database/1/\(world.container)/development/public/users/caller",
            query: "ckAPIToken=x&ckWebAuthToken=dev-\(Self.bob)"
        )
        let response = await relay.respond(to: request)
        let name = try JSONDocument(parsing: response.body).root.text("userRecordName")
        let bob = UserID(try #require(name))
        let owners = watching.owners.withLock { $0 }
        #expect(Array(owners.prefix(2)) == [bob, Zone.publicOwner])
        #expect(owners.count == 4 && Set(owners).count == 4)
        // Another request writes nothing.
        request.query = "ckAPIToken=x&ckWebAuthToken=dev-\(Self.bob)&again"
        _ = await relay.respond(to: request)
        #expect(watching.owners.withLock { $0.count } == 4)
    }

    /// One request may accept shares of several owners; each share is changed by a write at its owner.
    @Test func acceptingWritesAtTheOwners() async throws {
        let world = try await invited()
        let links = try await ["alice", "carol"].asyncMap { owner in
            let body = #"{"zoneID":{"zoneName":"Notes"},"records":[{"recordName":"\#(Share.zoneWideName)"}]}"#
            let answer = try await world.ask("private/records/lookup", as: owner, body)
            return try #require(try answer.items("records").first?.text("shortGUID"))
        }
        _ = try await world.ask("public/users/caller", as: Self.bob)
        let watching = StoppingCatalog(world.stores, after: .max)
        let relay = Relay(authenticator: world.relay.authenticator, stores: watching, time: .system, random: .system)
        let items = (links + ["unknown"]).map { #"{"value":"\#($0)"}"# }.joined(separator: ",")
        let request = APIRequest(
            method: .post,
            path: "/database/1/\(world.container)/development/public/records/accept",
            query: "ckAPIToken=x&ckWebAuthToken=dev-\(Self.bob)",
            body: Array(#"{"shortGUIDs":[\#(items)]}"#.utf8)
        )
        for repetition in 0..<2 {
            let results = try JSONDocument(parsing: await relay.respond(to: request).body).root
                .required("results").elements()
            #expect(results.map { $0.text("participantStatus") } == ["ACCEPTED", "ACCEPTED", nil])
            #expect(results.last?.text("serverErrorCode") == "NOT_FOUND")
            // The repetition finds that nothing is left to write.
            #expect(watching.owners.withLock { Set($0).count } == 2, "\(repetition)")
            #expect(watching.owners.withLock { $0.count } == 2, "\(repetition)")
        }
    }
}

extension [String] {
    fileprivate func asyncMap<Value>(_ body: (String) async throws -> Value) async throws -> [Value] {
        var values: [Value] = []
        for item in self { values.append(try await body(item)) }
        return values
    }
}

/// Stores that note the owners of writes, and refuse all writes after some, as if the process had stopped there.
private final class StoppingCatalog: StoreCatalog {
    let owners = Mutex<[UserID]>([])
    var executor: (any TaskExecutor)? { nil }
    private let stores: any ServedStores
    private let limit: Int

    init(_ stores: any ServedStores, after limit: Int) {
        self.stores = stores
        self.limit = limit
    }

    func store(of home: ContainerEnvironment) throws(RelayError) -> any Store {
        StoppingStore(store: try stores.store(of: home), catalog: self)
    }

    func isThere(_ home: ContainerEnvironment) -> Bool { stores.isThere(home) }

    func assets(of home: ContainerEnvironment) throws(RelayError) -> any AssetStore { try stores.assets(of: home) }

    fileprivate func admit(_ write: any StoreWrite) -> Bool {
        owners.withLock { owners in
            guard owners.count < limit else { return false }
            if let owner = write.owner { owners.append(owner) }
            return true
        }
    }
}

private struct StoppingStore: Store {
    let store: any Store
    let catalog: StoppingCatalog

    var currentSchema: Schema { store.currentSchema }

    func epochs(of owner: UserID) throws(RelayError) -> Epochs { try store.epochs(of: owner) }

    func read<Result>(_ body: (any StoreReader) throws(RelayError) -> Result) throws(RelayError) -> Result {
        try store.read(body)
    }

    func query<Result>(_ body: (any StoreReader) throws(RelayError) -> Result) async throws(RelayError) -> Result {
        try await store.query(body)
    }

    func write(_ write: any StoreWrite) {
        if catalog.admit(write) { store.write(write) } else { write.finish(.notCarriedOut) }
    }
}
