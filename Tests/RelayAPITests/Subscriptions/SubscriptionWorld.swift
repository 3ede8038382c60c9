import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelaySystem
import StoreTesting
import Synchronization
import Testing
import Wire

/// A relay in memory with its hub, and devices whose notices the test delivers.
final class SubscriptionWorld: RelayCalling {
    private let base: RelayWorld
    let hub: NoticeHub
    let admission: RelayAdmission
    let worker = ManualNoticeWorker()
    let registry = NoticeConnectionRegistry()
    let number: Int

    var relay: Relay { base.relay }
    var stores: any ServedStores { base.stores }
    var container: String { base.container }

    /// A second world with the same directory and place acts as the relay after a restart.
    init(
        limits: Limits = Limits(),
        directory: (any AccountDirectory)? = nil,
        in place: any TestHome = TestStore.current.makeHome(),
        time: TimeSource = .system,
        push: PushDependencies? = nil,
        scheduler: TestStoreOptions.Scheduler? = nil
    ) throws {
        hub = NoticeHub(relayName: "test", noticeID: { "n" })
        base = try RelayWorld(
            directory: directory,
            limits: limits,
            time: time,
            in: place,
            hub: hub,
            push: push,
            scheduler: scheduler
        )
        admission = RelayAdmission(relay: base.relay, hub: hub, time: time)
        number = hub.add(worker)
    }

    func close() { stores.close() }

    /// Calls a device endpoint, whose path names no database.
    func device(
        _ operation: String,
        as user: String? = "alice",
        _ body: String,
        method: HTTPRequest.Method = .post,
        from device: String? = nil,
        root: String = "/device/1/"
    ) async throws -> Answer {
        try await ask(operation, as: user, body, method: method, root: root, from: device)
    }

    /// Creates a query subscription and expects that it succeeds.
    func subscribe(
        _ id: String,
        in database: String = "private",
        as user: String = "alice",
        type: String = "Note",
        filters: String = "",
        on events: String = #""create","update","delete""#,
        extra: String = ""
    ) async throws {
        let answer = try await ask(
            "\(database)/subscriptions/modify",
            as: user,
            """
            {"operations":[{"operationType":"create","subscription":{"subscriptionID":"\(id)",
            "subscriptionType":"query","query":{"recordType":"\(type)","filterBy":[\(filters)]},
            "firesOn":[\(events)]\(extra)}}]}
            """
        )
        let item = try #require(try answer.items("subscriptions").first)
        #expect(item.text("serverErrorCode") == nil, "\(item.text("reason") ?? "")")
        #expect(item.text("subscriptionID") == id)
    }

    /// Runs one forced operation on a record, from a device that is not connected.
    func change(
        _ name: String,
        _ fields: String = "{}",
        by kind: String = "forceUpdate",
        in database: String = "private",
        zone: String = "_defaultZone",
        type: String = "Note",
        as user: String = "alice",
        from device: String = "writer"
    ) async throws {
        let answer = try await ask(
            "\(database)/records/modify",
            as: user,
            """
            {"zoneID":{"zoneName":"\(zone)"},"operations":[{"operationType":"\(kind)","record":{"recordName":"\(name)",
            "recordType":"\(type)","fields":\(fields)}}]}
            """,
            from: device
        )
        let item = try #require(try answer.items("records").first)
        #expect(item.text("serverErrorCode") == nil, "\(item.text("reason") ?? "")")
    }

    /// Connects a device.
    func device(_ name: String = "phone", of user: String = "alice", since: [DatabaseScope: String] = [:]) async
        -> TestDevice
    {
        let device = TestDevice()
        await device.connect(user, name, to: self, since: since)
        return device
    }

    /// Returns when all notices of the commits so far have reached their devices.
    func settle() async {
        await hub.queries.waitUntilIdle()
        for order in worker.take() { registry.perform(order) }
    }
}

extension TestDevice {
    fileprivate func connect(
        _ user: String,
        _ device: String,
        to world: SubscriptionWorld,
        since: [DatabaseScope: String]
    ) async {
        await connect(
            ClientFrame.hello(
                NoticeHello(deviceID: device, apiToken: "x", webAuthToken: "dev-\(user)", since: since)
            ),
            path: "/push/1/\(world.container)/development",
            hub: world.hub,
            worker: world.number,
            registry: world.registry,
            admission: world.admission
        )
    }
}
