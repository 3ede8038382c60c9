import Foundation
import Testing
import Wire
import ZoneKit
import ZoneTesting

/// Edits of a record during its save are not part of that save and stay marked as changed.
@Suite(.timeLimit(.minutes(15))) struct EditsDuringSaveTests {
    let relay: TestRelay
    let phone: TestDevice
    let laptop: TestDevice
    let zone = CKRecordZone(zoneName: "Notes")
    let folder = TestFolder()

    init() async throws {
        relay = try TestRelay()
        let key = PassphraseEncryptionKey("alice's own", cost: .light)
        phone = relay.device(of: "alice", named: "phone", encryptionKey: key)
        laptop = relay.device(of: "alice", named: "laptop", encryptionKey: key)
        try folder.make()
        try await phone.privateDatabase.save(zone)
    }

    private func note() -> CKRecord { CKRecord(recordType: "Note", zoneID: zone.zoneID) }

    private func file(_ text: String) throws -> CKAsset {
        let url = folder.url.appendingPathComponent(text)
        try Data(text.utf8).write(to: url)
        return CKAsset(fileURL: url)
    }

    /// The edit comes between the encryption of the value and the rest of the save: the zone's key is looked up then.
    @Test func anEncryptedValueEditedDuringASaveStaysChanged() async throws {
        let record = note()
        record.encryptedValues["text"] = "one"
        record["title"] = "one"
        phone.network.fail(
            request: 1,
            of: "records/lookup",
            by: .meanwhile {
                record.encryptedValues["text"] = "two"
                record["title"] = "two"
            }
        )
        try await phone.privateDatabase.save(record)
        let first = try await laptop.privateDatabase.record(for: record.recordID)
        #expect(first.encryptedValues["text"] == "one" && first["title"] == "one")
        #expect(record.encryptedValues["text"] == "two" && record.encryptedValues.changedKeys() == ["text"])
        #expect(record.changedKeys() == ["title"])
        try await phone.privateDatabase.save(record)
        let second = try await laptop.privateDatabase.record(for: record.recordID)
        #expect(second.encryptedValues["text"] == "two" && second["title"] == "two")
    }

    /// The batch is saved atomically nevertheless.
    @Test func anAssetReplacedDuringASaveStaysChanged() async throws {
        let (record, other) = (note(), note())
        record["image"] = try file("one")
        let replacement = try file("two")
        phone.network.fail(request: 1, of: "assets/upload", by: .meanwhile { record["image"] = replacement })
        let results = try await phone.privateDatabase.modifyRecords(saving: [record, other], deleting: [])
        for result in results.saveResults.values { _ = try result.get() }
        func text() async throws -> String {
            let asset = try await laptop.privateDatabase.record(for: record.recordID)["image"] as? CKAsset
            return String(decoding: try Data(contentsOf: await #require(asset).download()), as: UTF8.self)
        }
        #expect(try await text() == "one")
        #expect(record.changedKeys() == ["image"])
        try await phone.privateDatabase.save(record)
        #expect(try await text() == "two")
    }

    @Test func participantsAddedDuringASaveStayInTheShare() async throws {
        let share = CKShare(recordZoneID: zone.zoneID)
        try await phone.privateDatabase.save(share)
        let (carol, dave) = ("carol@example.com", "dave@example.com")
        @Sendable func invite(_ email: String) {
            share.addParticipant(CKShare.participant(inviting: ClientIdentity.Lookup(emailAddress: email), .readOnly))
        }
        invite(carol)
        phone.network.fail(
            request: 1,
            of: "records/modify",
            by: .beforeAnswer {
                share.allowsAccessRequests = true
                invite(dave)
            }
        )
        try await phone.privateDatabase.save(share)
        #expect(share.allowsAccessRequests && share.participants.count == 3)
        try await phone.privateDatabase.save(share)
        #expect(share.allowsAccessRequests && share.participants.count == 3)
        let read = try #require(try await laptop.privateDatabase.record(for: share.recordID) as? CKShare)
        #expect(read.allowsAccessRequests)
        #expect(Set(read.participants.compactMap { $0.userIdentity.lookupInfo?.emailAddress }) == [carol, dave])
    }
}
