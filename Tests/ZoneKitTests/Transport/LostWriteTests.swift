import Foundation
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

    enum Look: CaseIterable {
        case record, query, changes
    }

    private func look(_ look: Look) async throws {
        let database = phone.privateDatabase
        switch look {
        case .record: _ = try await database.record(for: id)
        case .query:
            let query = CKQuery(recordType: "Note", predicate: NSPredicate(value: true))
            #expect(try await database.records(matching: query, inZoneWith: zone.zoneID).matchResults.count == 1)
        case .changes: _ = try await database.recordZoneChanges(inZoneWith: zone.zoneID, since: nil)
        }
    }

    @Test(arguments: Look.allCases) func theSameAfterALookIsMeant(_ look: Look) async throws {
        try await loseADeletion()
        try await self.look(look)
        try await phone.privateDatabase.deleteRecord(withID: id)
        #expect(try await !isThere())
    }

    /// Who comes upon what they have made, or on the version that their change has led to, still repeats.
    @Test func whatNamesAVersionIsARepeatAfterAList() async throws {
        let note = try await phone.privateDatabase.record(for: id)
        note["title"] = "a"
        phone.network.fail(request: 1, of: "records/modify", by: .losesAnswer)
        await expect(.serverResponseLost) { try await phone.privateDatabase.save(note) }
        _ = try await phone.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: nil)
        try await phone.privateDatabase.save(note)
        #expect(try await laptop.privateDatabase.record(for: id)["title"] == "a")
    }

    /// It is made again by the laptop, and its deletion is asked for once more.
    @Test(arguments: [false, true]) func aZoneIsDeletedAgainOnlyWhereItWasSeenAgain(isSeen: Bool) async throws {
        phone.network.fail(request: 1, of: "zones/modify", by: .losesAnswer)
        await expect(.serverResponseLost) { try await phone.privateDatabase.deleteRecordZone(withID: zone.zoneID) }
        try await laptop.privateDatabase.save(zone)
        if isSeen { #expect(try await phone.privateDatabase.allRecordZones().count == 2) }
        try await phone.privateDatabase.deleteRecordZone(withID: zone.zoneID)
        #expect(try await laptop.privateDatabase.allRecordZones().count == (isSeen ? 1 : 2))
    }

    /// By its share or by its zone: the program has come in again since it left for the first time.
    @Test(arguments: [false, true]) func whoComesBackAfterALostLeaveLeavesAgain(byZone: Bool) async throws {
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
