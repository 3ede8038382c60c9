import HTTPTypes
import Records
import RelayAPI
import RelayConsole
import RelayCore
import Synchronization
import Testing

/// The push page: configured services, registered devices, and a test push to one device.
@Suite struct ConsolePushTests {
    /// A push service that returns the given outcome and records what it was sent.
    private final class Gateway: PushGateway {
        let outcome = Mutex(PushOutcome.taken)
        let sent = Mutex<[(push: Push, target: PushTarget)]>([])
        let webPushKey: [UInt8]? = [4, 1, 2]

        func objection(to target: PushTarget) -> String? { nil }
        func send(_ push: Push, to target: PushTarget) async -> PushOutcome {
            sent.withLock { $0.append((push, target)) }
            return outcome.withLock { $0 }
        }
    }

    private struct TestResult: Decodable { var taken: Bool, sentence: String }

    private func register(_ world: ConsoleWorld, _ id: String, environment: Records.Environment = .development) throws {
        let container = try #require(ContainerID(world.container))
        let device = PushDevice(
            id: id,
            home: ContainerEnvironment(container, environment),
            user: UserID("_00000000000000000000000000000001"),
            deviceID: "phone",
            session: nil,
            apiTokenHash: [],
            target: .ntfy(topicURL: "https://ntfy.example/very-secret-topic"),
            registered: Timestamp(milliseconds: 1),
            lastFault: "It was full."
        )
        _ = try world.accounts.addPushDevice(device, limit: 20)
    }

    private func world(_ push: Gateway?) async throws -> ConsoleWorld {
        let world = try ConsoleWorld(push: push)
        try world.accounts.addContainer(try #require(ContainerID(world.container)))
        try await world.enter()
        return world
    }

    @Test func aTestPushReachesOneDeviceAndReportsTheOutcome() async throws {
        let gateway = Gateway()
        let world = try await world(gateway)
        try register(world, "d1")
        func test() async throws -> TestResult {
            try await world.ask(.post, "/console/api/pushes/test", body: #"{"id":"d1"}"#).json(TestResult.self)
        }
        let told = try await test()
        #expect(told.taken && told.sentence == "The push service accepted it.")
        let sent = gateway.sent.withLock { $0 }
        #expect(sent.count == 1 && sent.first?.target == .ntfy(topicURL: "https://ntfy.example/very-secret-topic"))
        #expect(sent.first?.push.alert == nil)
        for (outcome, word) in [
            (PushOutcome.gone, "no longer knows"), (.later(nil, "It is down."), "It is down."),
            (.refused("It says no."), "says no"),
        ] {
            gateway.outcome.withLock { $0 = outcome }
            let told = try await test()
            #expect(!told.taken && told.sentence.contains(word), "\(told)")
        }
        let audit = try world.accounts.auditEntries(limit: 4)
        #expect(audit.map(\.action) == Array(repeating: "push.test", count: 4))
        #expect(audit.map(\.detail) == ["not accepted", "not accepted", "not accepted", "accepted"])
    }

    @Test func devicesAreShownWithoutTheirPushAddresses() async throws {
        let world = try await world(Gateway())
        try register(world, "d1")
        let answer = try await world.ask(.get, "/console/api/pushes")
        #expect(answer.text.contains(#""lastFault":"It was full.""#) && answer.text.contains(#""webPushKey":"BAEC""#))
        #expect(!answer.text.contains("very-secret-topic"))
    }

    @Test func aTestPushToAnUnknownDeviceOrWithoutAServiceIsRefused() async throws {
        let gateway = Gateway()
        let world = try await world(gateway)
        try register(world, "d1", environment: .production)
        for id in ["d1", "none", ""] {
            let answer = try await world.ask(.post, "/console/api/pushes/test", body: #"{"id":"\#(id)"}"#)
            #expect(answer.status == .notFound, "\(id)")
        }
        #expect(gateway.sent.withLock { $0.isEmpty })
        let without = try await self.world(nil)
        try register(without, "d1")
        let answer = try await without.ask(.post, "/console/api/pushes/test", body: #"{"id":"d1"}"#)
        #expect(answer.status == .conflict && answer.text.contains("No push service is configured"))
    }
}
