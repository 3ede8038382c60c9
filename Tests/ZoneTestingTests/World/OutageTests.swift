import Testing
import ZoneKit
import ZoneTesting

/// A relay that was gone for long, and is back.
@Suite(.timeLimit(.minutes(15))) struct OutageTests {
    let relay: TestRelay
    let device: TestDevice

    init() throws {
        var options = TestRelay.Options()
        options.storage = .temporaryFolder
        relay = try TestRelay(options)
        device = relay.device(of: "alice", named: "phone")
    }

    /// How often the relay has told the device that notices come from now on.
    private var welcomes: Int { device.network.frames.count { $0.contains("\"ready\"") } }

    /// Its last wait may be a minute by then, and what changes meanwhile would be seen after it.
    @Test func noticesComeAsSoonAsAnyRequestIsAnswered() async throws {
        let notebook = Notebook(on: device)
        try await relay.settle()
        #expect(welcomes == 1)
        for outage in 1...5 {
            relay.kill()
            await relay.advance(by: .seconds(1200))
            try relay.start()
            _ = try await device.privateDatabase.recordZone(for: notebook.zone)
            await relay.advance(by: .milliseconds(500))
            #expect(welcomes == 1 + outage)
        }
    }
}
