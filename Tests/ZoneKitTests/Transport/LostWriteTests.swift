import Testing
import ZoneKit
import ZoneTesting

/// When a write that is asked for once more is a repeat of one whose answer was lost, and when it is a new one.
@Suite(.timeLimit(.minutes(15))) struct LostWriteTests {
    let relay: TestRelay
    let phone: TestDevice
    let laptop: TestDevice
    let zone = CKRecordZone(zoneName: "Notes")
    let id: CKRecord.ID

    init() async throws {
        relay = try TestRelay()
        phone = relay.device(of: "alice", named: "phone")
        laptop = relay.device(of: "alice", named: "laptop")
        id = CKRecord.ID(recordName: "a", zoneID: zone.zoneID)
        try await phone.privateDatabase.save(zone)
        try await phone.privateDatabase.save(CKRecord(recordType: "Note", recordID: id))
    }

    /// The phone deletes without hearing so, and the laptop makes the record anew.
    private func loseADeletion() async throws {
        phone.network.fail(request: 1, of: "records/modify", by: .losesAnswer)
        await expect(.serverResponseLost) { try await phone.privateDatabase.deleteRecord(withID: id) }
        try await laptop.privateDatabase.save(CKRecord(recordType: "Note", recordID: id))
    }

    private func isThere() async throws -> Bool {
        let found = try await laptop.privateDatabase.records(for: [id])[id]
        return (try? found?.get()) != nil
    }

    @Test func aRepeatSweepsNothingAway() async throws {
        try await loseADeletion()
        try await phone.privateDatabase.deleteRecord(withID: id)
        #expect(try await isThere())
    }

    @Test func theSameMuchLaterIsMeant() async throws {
        try await loseADeletion()
        relay.clock.advance(by: .seconds(3_600))
        try await phone.privateDatabase.deleteRecord(withID: id)
        #expect(try await !isThere())
    }

    @Test func theSameAfterALookIsMeant() async throws {
        try await loseADeletion()
        _ = try await phone.privateDatabase.record(for: id)
        try await phone.privateDatabase.deleteRecord(withID: id)
        #expect(try await !isThere())
    }

    /// What is pending is repeated for as long as it takes.
    @Test func anEngineRepeatsHoweverLate() async throws {
        let notes = SyncedNotes(phone)
        phone.network.fail(request: 1, of: "records/modify", by: .losesAnswer)
        notes.engine.state.add(pendingRecordZoneChanges: [.deleteRecord(id)])
        await #expect(throws: CKError.self) { try await notes.engine.sendChanges() }
        try await laptop.privateDatabase.save(CKRecord(recordType: "Note", recordID: id))
        relay.clock.advance(by: .seconds(3_600))
        try await notes.engine.sendChanges()
        #expect(notes.engine.state.pendingRecordZoneChanges.isEmpty)
        #expect(try await isThere())
    }
}
