import Foundation
import Records
import SyncCore
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// Encrypted values, which the relay cannot read.
@Suite(.timeLimit(.minutes(15))) struct EncryptedValuesTests {
    let relay: TestRelay
    let phone: TestDevice
    let laptop: TestDevice
    let zone = CKRecordZone(zoneName: "Diary")

    init() async throws {
        relay = try TestRelay()
        let key = PassphraseEncryptionKey("alice's own", cost: .light)
        phone = relay.device(of: "alice", named: "phone", encryptionKey: key)
        laptop = relay.device(of: "alice", named: "laptop", encryptionKey: key)
        try await phone.privateDatabase.save(zone)
    }

    private func entry(_ name: String) -> CKRecord {
        CKRecord(recordType: "Entry", recordID: CKRecord.ID(recordName: name, zoneID: zone.zoneID))
    }

    @Test func otherDevicesReadEncryptedValuesAndTheRelayCannot() async throws {
        let record = entry("a")
        record["title"] = "Monday"
        record.encryptedValues["text"] = "a secret"
        record.encryptedValues["mood"] = 7
        record.encryptedValues["tags"] = ["x", "y"]
        record.encryptedValues["at"] = Date(timeIntervalSince1970: 1000)
        #expect(record.encryptedValues.changedKeys() == ["at", "mood", "tags", "text"])
        #expect(record.changedKeys() == ["title"])
        try await phone.privateDatabase.save(record)
        #expect(record.encryptedValues["text"] == "a secret", "readable after the save")
        #expect(record.encryptedValues.changedKeys().isEmpty)

        let read = try await laptop.privateDatabase.record(for: record.recordID)
        #expect(read["title"] == "Monday")
        #expect(read["text"] == nil)
        #expect(read.encryptedValues["text"] == "a secret")
        #expect(read.encryptedValues["mood"] == 7)
        #expect(read.encryptedValues["tags"] == ["x", "y"])
        #expect(read.encryptedValues["at"] == Date(timeIntervalSince1970: 1000))
        #expect(read.encryptedValues.allKeys() == ["at", "mood", "tags", "text"])

        // The relay's view: a device of the same account without the key.
        let blind = RelayConnection(
            container: TestRelay.containerIdentifier,
            url: nil,
            credentials: RelayCredentials(apiToken: nil, webAuthToken: "dev-alice"),
            deviceID: "blind",
            transport: phone.network
        )
        let raw = try await CKContainer(connection: blind).privateCloudDatabase.record(for: record.recordID)
        #expect(raw.encryptedValues.allKeys().count == 4)
        #expect(raw.encryptedValues["text"] == nil)
        #expect(!"\(raw.state.withLock { $0 })".contains("a secret"))

        read.encryptedValues["text"] = "another"
        read.encryptedValues["mood"] = nil
        try await laptop.privateDatabase.save(read)
        let again = try await phone.privateDatabase.record(for: record.recordID)
        #expect(again.encryptedValues["text"] == "another")
        #expect(again.encryptedValues["mood"] == nil)
        #expect(again.encryptedValues["tags"] == ["x", "y"])
    }

    @Test func keyRecordsStayOutOfFeeds() async throws {
        let record = entry("a")
        record.encryptedValues["text"] = "in the feed"
        try await phone.privateDatabase.save(record)
        let page = try await laptop.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: nil)
        #expect(page.modificationResultsByID.keys.map(\.recordName) == ["a"])
        let read = try page.modificationResultsByID[record.recordID]?.get().record
        #expect(read?.encryptedValues["text"] == "in the feed")
    }

    @Test func participantsOfAShareReadEncryptedValues() async throws {
        let bob = relay.device(of: "bob", encryptionKey: PassphraseEncryptionKey("bob's own", cost: .light))
        let list = entry("list")
        list.encryptedValues["title"] = "Gifts"
        let share = CKShare(rootRecord: list)
        share.publicPermission = .readWrite
        let saved = try await phone.privateDatabase.modifyRecords(saving: [list, share], deleting: [])
        for result in saved.saveResults.values { _ = try result.get() }
        let metadata = try await bob.container.shareMetadata(for: try #require(share.url))
        let accepted = try await bob.container.accept(metadata)
        let id = CKRecord.ID(recordName: "list", zoneID: accepted.recordID.zoneID)
        #expect(try await bob.sharedDatabase.record(for: id).encryptedValues["title"] == nil, "no key yet")
        // The owner's device sees the new participant and gives them the key.
        _ = try await laptop.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: nil)
        let read = try await bob.sharedDatabase.record(for: id)
        #expect(read.encryptedValues["title"] == "Gifts")
        read.encryptedValues["title"] = "Presents"
        try await bob.sharedDatabase.save(read)
        #expect(try await phone.privateDatabase.record(for: list.recordID).encryptedValues["title"] == "Presents")
    }

    @Test func aParticipantWithTheKeyPassesItOn() async throws {
        let bob = relay.device(of: "bob", encryptionKey: PassphraseEncryptionKey("bob's own", cost: .light))
        let carol = relay.device(of: "carol", encryptionKey: PassphraseEncryptionKey("carol's own", cost: .light))
        let list = entry("list")
        list.encryptedValues["title"] = "Gifts"
        let share = CKShare(rootRecord: list)
        share.publicPermission = .readWrite
        let saved = try await phone.privateDatabase.modifyRecords(saving: [list, share], deleting: [])
        for result in saved.saveResults.values { _ = try result.get() }
        let link = try #require(share.url)
        let accepted = try await bob.container.accept(try await bob.container.shareMetadata(for: link))
        let shared = accepted.recordID.zoneID
        _ = try await phone.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: nil)
        #expect(
            try await bob.sharedDatabase.record(for: CKRecord.ID(recordName: "list", zoneID: shared))
                .encryptedValues["title"] == "Gifts"
        )
        // The owner's devices are offline from here on.
        _ = try await carol.container.accept(try await carol.container.shareMetadata(for: link))
        let id = CKRecord.ID(recordName: "list", zoneID: shared)
        #expect(try await carol.sharedDatabase.record(for: id).encryptedValues["title"] == nil)
        _ = try await bob.sharedDatabase.recordZoneChanges(inZoneWith: shared, since: nil)
        #expect(try await carol.sharedDatabase.record(for: id).encryptedValues["title"] == "Gifts")
    }

    @Test func recordsFetchedBeforeTheKeyAreDeliveredAgain() async throws {
        let bob = relay.device(of: "bob", encryptionKey: PassphraseEncryptionKey("bob's own", cost: .light))
        let record = entry("a")
        record.encryptedValues["text"] = "early"
        try await phone.privateDatabase.save(record)
        let share = CKShare(recordZoneID: zone.zoneID)
        share.publicPermission = .readOnly
        let saved = try #require(try await phone.privateDatabase.save(share) as? CKShare)
        let metadata = try await bob.container.shareMetadata(for: try #require(saved.url))
        let shared = try await bob.container.accept(metadata).recordID.zoneID.zone
        let early = try await bob.sharedDatabase.zonePage(in: shared, since: nil)
        #expect(early.changed.first { $0.recordID.recordName == "a" }?.encryptedValues["text"] == nil)
        _ = try await laptop.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: nil)
        let late = try await bob.sharedDatabase.zonePage(in: shared, since: early.token)
        #expect(late.moreComing)
        let again = try await bob.sharedDatabase.zonePage(in: shared, since: late.token)
        let read = try #require(again.changed.first { $0.recordID.recordName == "a" })
        #expect(read.encryptedValues["text"] == "early")
        #expect(!again.moreComing)
    }

    @Test func aResetKeyIsReportedAndTheZoneCanBeRecreated() async throws {
        let record = entry("a")
        record.encryptedValues["text"] = "old"
        try await phone.privateDatabase.save(record)
        var connection = RelayConnection(
            container: TestRelay.containerIdentifier,
            url: nil,
            credentials: RelayCredentials(apiToken: nil, webAuthToken: "dev-alice"),
            deviceID: "new phone",
            transport: phone.network
        )
        connection.encryptionKey = PassphraseEncryptionKey("forgotten the old one", cost: .light)
        let database = CKContainer(connection: connection).privateCloudDatabase
        let fresh = entry("b")
        fresh.encryptedValues["text"] = "new"
        do {
            try await database.save(fresh)
            Issue.record("a value was encrypted with a key that the zone does not have")
        } catch let error as CKError {
            #expect(error.code == .zoneNotFound)
            #expect((error.userInfo[CKErrorUserDidResetEncryptedDataKey] as? NSNumber)?.boolValue == true)
        }
        try await database.deleteRecordZone(withID: zone.zoneID)
        try await database.save(zone)
        try await database.save(fresh)
        #expect(try await database.record(for: fresh.recordID).encryptedValues["text"] == "new")
    }

    /// A sync engine must not delete a zone because of a different key: its own may be the wrong one.
    @Test func aDifferentKeyDeletesNothingUntilTheProgramResetsTheZone() async throws {
        let record = entry("a")
        record.encryptedValues["text"] = "old"
        try await phone.privateDatabase.save(record)
        let mistyped = PassphraseEncryptionKey("alice's onw", cost: .light)
        let tablet = SyncedNotes(relay.device(of: "alice", named: "tablet", encryptionKey: mistyped), zone: "Diary")
        do {
            try await tablet.engine.fetchChanges()
            Issue.record("a zone with an unknown key was fetched")
        } catch let error as CKError {
            let own = try #require(error.partialErrorsByItemID?[zone.zoneID] as? CKError)
            #expect((own.userInfo[CKErrorUserDidResetEncryptedDataKey] as? NSNumber)?.boolValue == true)
        }
        #expect(try await laptop.privateDatabase.record(for: record.recordID).encryptedValues["text"] == "old")

        try await tablet.engine.resetEncryptedData(inZoneWith: zone.zoneID)
        let deletions = tablet.contents.withLock { contents in
            contents.events.flatMap { event -> [CKDatabase.DatabaseChange.Deletion] in
                guard case .fetchedDatabaseChanges(let changes) = event else { return [] }
                return changes.deletions
            }
        }
        #expect(deletions.map(\.zoneID) == [zone.zoneID] && deletions.map(\.reason) == [.encryptedDataReset])
        await expect(.zoneNotFound) { _ = try await phone.privateDatabase.record(for: record.recordID) }
    }

    @Test func aZoneRecreatedByAnotherDeviceHasAnotherKey() async throws {
        let record = entry("a")
        record.encryptedValues["text"] = "first"
        try await phone.privateDatabase.save(record)
        #expect(try await laptop.privateDatabase.record(for: record.recordID).encryptedValues["text"] == "first")

        // The phone recreates the deleted zone and encrypts with the new zone's key.
        try await laptop.privateDatabase.deleteRecordZone(withID: zone.zoneID)
        let again = entry("a")
        again.encryptedValues["text"] = "second"
        await expect(.zoneNotFound) { try await phone.privateDatabase.save(again) }
        try await phone.privateDatabase.save(zone)
        try await phone.privateDatabase.save(again)
        #expect(try await laptop.privateDatabase.record(for: record.recordID).encryptedValues["text"] == "second")

        // Another device recreates the zone before the phone learns of the deletion.
        try await laptop.privateDatabase.deleteRecordZone(withID: zone.zoneID)
        try await laptop.privateDatabase.save(CKRecordZone(zoneID: zone.zoneID))
        let theirs = entry("b")
        theirs.encryptedValues["text"] = "third"
        try await laptop.privateDatabase.save(theirs)
        let page = try await phone.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: nil)
        let read = try #require(try page.modificationResultsByID[theirs.recordID]?.get().record)
        #expect(read.encryptedValues["text"] == "third")

        // As a mirror learns of it: it received a record of keys.
        try await phone.privateDatabase.deleteRecordZone(withID: zone.zoneID)
        try await phone.privateDatabase.save(CKRecordZone(zoneID: zone.zoneID))
        let last = entry("c")
        last.encryptedValues["text"] = "fourth"
        try await phone.privateDatabase.save(last)
        await laptop.privateDatabase.keys.keysChanged(in: zone.zoneID)
        #expect(try await laptop.privateDatabase.record(for: last.recordID).encryptedValues["text"] == "fourth")
    }

    @Test func valuesThatCannotBeEncryptedAreRefused() async throws {
        let record = entry("a")
        record.encryptedValues["link"] = CKRecord.Reference(recordID: record.recordID, action: .none)
        await expect(.invalidArguments) { try await phone.privateDatabase.save(record) }
        let shown = CKRecord(recordType: "Entry")
        shown.encryptedValues["text"] = "for everybody?"
        await expect(.invalidArguments) { try await phone.publicDatabase.save(shown) }
    }

    @Test func withoutAKeyValuesAreSentUnencrypted() async throws {
        let (mac, watch) = (relay.device(of: "dora", named: "mac"), relay.device(of: "dora", named: "watch"))
        try await mac.privateDatabase.save(zone)
        let record = entry("a")
        record.encryptedValues["text"] = "plain, but marked"
        record.encryptedValues["mood"] = 3
        try await mac.privateDatabase.save(record)
        #expect(record.encryptedValues["text"] == "plain, but marked")
        let read = try await watch.privateDatabase.record(for: record.recordID)
        #expect(read.encryptedValues["text"] == "plain, but marked")
        #expect(read.encryptedValues["mood"] == 3)
        #expect(read["text"] == nil)
        #expect(watch.network.operations == ["private/records/lookup"], "no key is looked up")
    }

    @Test func archivesKeepEncryptedValues() async throws {
        let record = entry("a")
        record.encryptedValues["text"] = "not sent yet"
        let data = try NSKeyedArchiver.archivedData(withRootObject: record, requiringSecureCoding: true)
        let read = try #require(try NSKeyedUnarchiver.unarchivedObject(ofClass: CKRecord.self, from: data))
        #expect(read.encryptedValues["text"] == "not sent yet")
        try await phone.privateDatabase.save(read)
        #expect(try await laptop.privateDatabase.record(for: record.recordID).encryptedValues["text"] == "not sent yet")
    }
}
