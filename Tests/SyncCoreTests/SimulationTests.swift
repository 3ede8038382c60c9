import Records
import SyncCore
import Testing

/// Several clients, one relay, a bad network and one seed: after the faults end, every mirror equals the relay.
@Suite struct SimulationTests {
    @Test(arguments: 0..<200) func everyMirrorEndsEqualToTheRelay(_ seed: UInt64) {
        let world = ModelWorld(seed: seed)
        world.clients = (0..<3).map { ModelClient("c\($0)", in: world) }
        world.clients.forEach { $0.restart() }
        // Five minutes with faults.
        for value in 0..<150 {
            disturb(world, value)
            world.run(until: world.now + .milliseconds(Int64.random(in: 0...4000, using: &world.random)))
        }
        // Then no faults, one reconnection, and time for the longest back-off.
        world.faults = 0
        world.clients.forEach { $0.goOffline() }
        world.clients.forEach { $0.goOnline() }
        world.run(until: world.now + .seconds(1200))

        let relay = world.relay.live
        for client in world.clients {
            let lost = client.mustArrive.filter { !$0.value.values.allSatisfy(world.relay.everHeld.contains) }
            #expect(lost.isEmpty, "seed \(seed), \(client.name) lost \(lost)\n\(last(of: world))")
            let isEqual = client.fields == relay && client.outbox.isEmpty
            #expect(isEqual, "seed \(seed), \(client.name): \(client.fields) is not \(relay)\n\(last(of: world))")
        }
    }

    private func last(of world: ModelWorld) -> String { world.trace.suffix(40).joined(separator: "\n") }

    private func disturb(_ world: ModelWorld, _ value: Int) {
        let client = world.clients[Int.random(in: 0..<3, using: &world.random)]
        let zone = world.chance(0.5) ? notes : work
        let id = record("r\(Int.random(in: 0..<6, using: &world.random))", in: zone)
        switch Int.random(in: 0..<20, using: &world.random) {
        case 0: client.restart()
        case 1: client.goOffline()
        case 2...4: client.goOnline()
        case 5: client.delete(id)
        case 6 where world.chance(0.2): world.relay.expireAllTokens()
        default: client.edit(id, world.chance(0.5) ? "a" : "b", value)
        }
    }
}
