import Foundation
import Testing
import ZoneKit
import ZoneTesting

/// Whether a write is a repeat of an earlier one whose answer was lost, or a new one.
@Suite(.timeLimit(.minutes(15))) struct IdempotencyCacheTests {
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

    /// The phone's deletion succeeds but its answer is lost, and the laptop creates the record again.
    private func loseADeletion() async throws {
        phone.network.fail(request: 1, of: "records/modify", by: .losesAnswer)
        await expect(.serverResponseLost) { try await phone.privateDatabase.deleteRecord(withID: id) }
        try await laptop.privateDatabase.save(CKRecord(recordType: "Note", recordID: id))
    }

    private func isThere() async throws -> Bool {
        let found = try await laptop.privateDatabase.records(for: [id])[id]
        return (try? found?.get()) != nil
    }

    @Test func aRepeatedDeletionDoesNotDeleteTheNewRecord() async throws {
        try await loseADeletion()
        try await phone.privateDatabase.deleteRecord(withID: id)
        #expect(try await isThere())
    }

    @Test func aDeletionMuchLaterIsANewWrite() async throws {
        try await loseADeletion()
        relay.clock.advance(by: .seconds(3_600))
        try await phone.privateDatabase.deleteRecord(withID: id)
        #expect(try await !isThere())
    }

    enum Read: CaseIterable {
        case record, query, changes
    }

    private func perform(_ read: Read) async throws {
        let database = phone.privateDatabase
        switch read {
        case .record: _ = try await database.record(for: id)
        case .query:
            let query = CKQuery(recordType: "Note", predicate: NSPredicate(value: true))
            #expect(try await database.records(matching: query, inZoneWith: zone.zoneID).matchResults.count == 1)
        case .changes: _ = try await database.recordZoneChanges(inZoneWith: zone.zoneID, since: nil)
        }
    }

    @Test(arguments: Read.allCases) func aDeletionAfterAReadIsANewWrite(_ read: Read) async throws {
        try await loseADeletion()
        try await perform(read)
        try await phone.privateDatabase.deleteRecord(withID: id)
        #expect(try await !isThere())
    }

    /// A save that names a version stays a repeat even after the client has seen the new version.
    @Test func aSaveWithAVersionIsARepeatEvenAfterAFetch() async throws {
        let note = try await phone.privateDatabase.record(for: id)
        note["title"] = "a"
        phone.network.fail(request: 1, of: "records/modify", by: .losesAnswer)
        await expect(.serverResponseLost) { try await phone.privateDatabase.save(note) }
        _ = try await phone.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: nil)
        try await phone.privateDatabase.save(note)
        #expect(try await laptop.privateDatabase.record(for: id)["title"] == "a")
    }

    /// The laptop creates the zone again, and the phone requests its deletion again.
    @Test(arguments: [false, true]) func aZoneIsDeletedAgainOnlyIfItWasSeenAgain(isSeen: Bool) async throws {
        phone.network.fail(request: 1, of: "zones/modify", by: .losesAnswer)
        await expect(.serverResponseLost) { try await phone.privateDatabase.deleteRecordZone(withID: zone.zoneID) }
        try await laptop.privateDatabase.save(zone)
        if isSeen { #expect(try await phone.privateDatabase.allRecordZones().count == 2) }
        try await phone.privateDatabase.deleteRecordZone(withID: zone.zoneID)
        #expect(try await laptop.privateDatabase.allRecordZones().count == (isSeen ? 1 : 2))
    }

    /// Through the share or the zone: the program has joined again since it first left.
    @Test(arguments: [false, true]) func aRejoinedParticipantCanLeaveAgain(byZone: Bool) async throws {
        let share = CKShare(recordZoneID: zone.zoneID)
        share.publicPermission = .readWrite
        let link = try #require((try await phone.privateDatabase.save(share) as? CKShare)?.url)
        let bob = relay.device(of: "bob", named: "tablet")
        for isLost in [true, false] {
            let joined = try await bob.container.accept(try await bob.container.shareMetadata(for: link))
            let operation = byZone ? "zones/modify" : "records/modify"
            if isLost { bob.network.fail(request: 1, of: operation, by: .losesAnswer) }
            if byZone {
                _ = try? await bob.sharedDatabase.deleteRecordZone(withID: joined.recordID.zoneID)
            } else {
                _ = try? await bob.sharedDatabase.deleteRecord(withID: joined.recordID)
            }
            #expect(try await bob.sharedDatabase.allRecordZones().isEmpty)
        }
    }

    /// Pending changes are repeated without a time limit.
    @Test func anEngineRepeatsAWriteWithoutATimeLimit() async throws {
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
