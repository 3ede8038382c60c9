import Testing
import ZoneKit
import ZoneTesting

/// A relay that was down for a long time and is available again.
@Suite(.timeLimit(.minutes(15))) struct OutageTests {
    let relay: TestRelay
    let device: TestDevice

    init() throws {
        var options = TestRelay.Options()
        options.storage = .temporaryFolder
        relay = try TestRelay(options)
        device = relay.device(of: "alice", named: "phone")
    }

    /// The number of ready frames that the device has received.
    private var readyCount: Int { device.network.frames.count { $0.contains("\"ready\"") } }

    /// The device's back-off may have reached a minute by then.
    ///
    /// Without a reconnect it would see later changes only after it.
    @Test func theNoticeSocketReconnectsAsSoonAsAnyRequestSucceeds() async throws {
        let notebook = Notebook(on: device)
        try await relay.settle()
        #expect(readyCount == 1)
        for outage in 1...5 {
            relay.kill()
            await relay.advance(by: .seconds(1200))
            try relay.start()
            _ = try await device.privateDatabase.recordZone(for: notebook.zone)
            await relay.advance(by: .milliseconds(500))
            #expect(readyCount == 1 + outage)
        }
    }
}
