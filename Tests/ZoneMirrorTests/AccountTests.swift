import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// One device, two users, one after the other.
@Suite(.timeLimit(.minutes(2))) struct AccountTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    /// Fetches until the store shows what it should; switching files is nobody's call.
    private func settle(_ mirror: Mirrored, _ expected: [String: String]) async throws {
        let end = ContinuousClock.now + .seconds(20)
        while ContinuousClock.now < end {
            try? await mirror.container.fetchChanges()
            if (try? mirror.titles) == expected { return }
            try await Task.sleep(for: .milliseconds(5))
        }
        #expect(try mirror.titles == expected)
    }

    @Test func fromAToBAndBack() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let mirror = try await Mirrored(device)
        let credentials = device.connection.credentials
        try mirror.save(Note(id: "a", title: "Alice's"))
        try await mirror.sync()
        try mirror.save(Note(id: "unsent", title: "Alice's, not sent"))
        credentials.replace(webAuthToken: "dev-bob")
        try await settle(mirror, [:])
        try mirror.save(Note(id: "b", title: "Bob's"))
        try await mirror.sync()
        let bob = try await Mirrored(relay.device(of: "bob", named: "other"))
        try await bob.sync()
        #expect(try bob.titles == ["b": "Bob's"])
        credentials.replace(webAuthToken: "dev-alice")
        try await settle(mirror, ["a": "Alice's", "unsent": "Alice's, not sent"])
        try await mirror.sync()
        let alice = try await Mirrored(relay.device(of: "alice", named: "other"))
        try await alice.sync()
        #expect(try alice.titles == ["a": "Alice's", "unsent": "Alice's, not sent"])
        try await bob.sync()
        #expect(try bob.titles == ["b": "Bob's"])
    }

    @Test func aRestartOpensTheLastUsersFile() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let folder = try TemporaryFolder()
        let mirror = try await Mirrored(device, folder: folder)
        try mirror.save(Note(id: "a", title: "Alice's"))
        try await mirror.sync()
        device.connection.credentials.replace(webAuthToken: "dev-bob")
        try await settle(mirror, [:])
        await mirror.container.close()
        device.network.cut()
        let offline = try await Mirrored(device, folder: folder)
        #expect(try offline.titles == [:])
        await offline.container.close()
        device.network.heal()
        device.connection.credentials.replace(webAuthToken: "dev-alice")
        let again = try await Mirrored(device, folder: folder)
        try await settle(again, ["a": "Alice's"])
    }
}
