import Testing
import ZoneKit
import ZoneTesting

/// Engines over a client in memory: what they ask a relay for, and what they make of its answers.
@Suite(.timeLimit(.minutes(15))) struct RelayClientTests {
    private let relay: TestRelay
    private let client = FakeRelayClient()

    init() throws { relay = try TestRelay() }

    /// Returns an engine whose requests go to the fake client; the device's own relay is not used.
    private func notes(_ name: String) -> SyncedNotes {
        SyncedNotes(relay.device(of: "alice", named: name), database: client.container().privateCloudDatabase)
    }

    @Test func twoEnginesSyncThroughAClient() async throws {
        let (phone, laptop) = (notes("phone"), notes("laptop"))
        phone.addZone()
        phone.write("a", "1")
        phone.write("b", "2")
        try await phone.engine.sendChanges()
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts == ["a": "1", "b": "2"])
        laptop.delete("a")
        try await laptop.engine.sendChanges()
        try await phone.engine.fetchChanges()
        #expect(phone.texts == ["b": "2"])
        #expect(client.calls.prefix(2) == ["modifyZones", "modifyRecords"])
    }

    @Test func aConflictHasTheRecordOfTheClient() async throws {
        let (phone, laptop) = (notes("phone"), notes("laptop"))
        phone.addZone()
        phone.write("a", "1")
        try await phone.engine.sendChanges()
        try await laptop.engine.fetchChanges()
        laptop.write("a", "laptop")
        try await laptop.engine.sendChanges()
        phone.write("a", "phone")
        await #expect(throws: CKError.self) { try await phone.engine.sendChanges() }
        try await phone.engine.sendChanges()
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts == ["a": "phone"])
    }

    @Test(arguments: [CKError.Code.networkFailure, .requestRateLimited, .zoneNotFound, .limitExceeded])
    func aFailureLeavesNothingHalfDone(_ code: CKError.Code) async throws {
        let phone = notes("phone")
        phone.addZone()
        try await phone.engine.sendChanges()
        phone.write("a", "1")
        phone.write("b", "2")
        client.fail(CKError(code))
        _ = try? await phone.engine.sendChanges()
        // A request that is too large is halved, and a missing zone is final; the others stay pending.
        let left = phone.engine.state.pendingRecordZoneChanges.count
        #expect(left == ([.networkFailure, .requestRateLimited].contains(code) ? 2 : 0))
        let laptop = notes("laptop")
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts.count == (code == .limitExceeded ? 2 : 0))
    }
}
