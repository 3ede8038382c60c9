import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// How zone keys reach their recipients, and what happens to values that were fetched before.
@Suite(.timeLimit(.minutes(15))) struct KeyArrivalTests {
    let relay: TestRelay
    let phone: TestDevice
    let zone = CKRecordZone(zoneName: "Diary")
    let key = PassphraseEncryptionKey("alice's own", cost: .light)
    let bobsKey = PassphraseEncryptionKey("bob's own", cost: .light)

    /// A provider whose first calls fail.
    private final class LockedKeyProvider: EncryptionKeyProvider {
        let failures: Mutex<Int>
        let key: PassphraseEncryptionKey

        init(_ key: PassphraseEncryptionKey, failing failures: Int) {
            self.key = key
            self.failures = Mutex(failures)
        }

        func userKey() async throws -> Data {
            let isLocked = failures.withLock { failures in
                failures -= 1
                return failures >= 0
            }
            if isLocked { throw CKError(.internalError, "The keys are locked.") }
            return try await key.userKey()
        }
    }

    init() async throws {
        relay = try TestRelay()
        phone = relay.device(of: "alice", named: "phone", encryptionKey: key)
        try await phone.privateDatabase.save(zone)
    }

    private func save(_ name: String) async throws -> CKRecord.ID {
        let id = CKRecord.ID(recordName: name, zoneID: zone.zoneID)
        let record = CKRecord(recordType: "Entry", recordID: id)
        record["title"] = "plain \(name)"
        record.encryptedValues["text"] = "secret \(name)"
        try await phone.privateDatabase.save(record)
        return id
    }

    /// Shares the zone with one encrypted value in it and returns the link.
    private func share(_ permission: CKShare.ParticipantPermission = .readOnly) async throws -> URL {
        _ = try await save("a")
        let share = CKShare(recordZoneID: zone.zoneID)
        share.publicPermission = permission
        return try #require((try await phone.privateDatabase.save(share) as? CKShare)?.url)
    }

    private func join(_ link: URL, on device: TestDevice) async throws -> CKRecordZone.ID {
        try await device.container.accept(try await device.container.shareMetadata(for: link)).recordID.zoneID
    }

    /// Fetches the zone as its owner.
    private func fetchAsOwner(since token: CKServerChangeToken? = nil) async throws -> CKServerChangeToken {
        try await phone.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: token).changeToken
    }

    @Test func aFetchWithDesiredKeysKeepsTheKey() async throws {
        let id = try await save("a")
        let laptop = relay.device(of: "alice", named: "laptop", encryptionKey: key)
        for _ in 0..<2 {
            let page = try await laptop.privateDatabase.recordZoneChanges(
                inZoneWith: zone.zoneID,
                since: nil,
                desiredKeys: ["title"]
            )
            #expect(try page.modificationResultsByID[id]?.get().record["title"] == "plain a")
            #expect(try await laptop.privateDatabase.record(for: id).encryptedValues["text"] == "secret a")
        }
    }

    /// If the page's token were kept although its values could not be decrypted, they would never be fetched again.
    @Test func aPageWhoseKeyCannotBeLookedUpFails() async throws {
        _ = try await save("a")
        let token = try await fetchAsOwner()
        let id = try await save("b")
        let laptop = relay.device(of: "alice", named: "laptop", encryptionKey: key)
        func page() async throws -> CKRecord? {
            try await laptop.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: token)
                .modificationResultsByID[id]?.get().record
        }
        laptop.network.fail(request: 1, of: "records/lookup", by: .unreachable)
        await expect(.networkFailure) { _ = try await page() }
        #expect(try await page()?.encryptedValues["text"] == "secret b")
    }

    @Test(arguments: [false, true]) func aTemporaryProviderFailureLosesNothing(_ isLater: Bool) async throws {
        _ = try await save("a")
        let token = isLater ? try await fetchAsOwner() : nil
        let id = try await save("b")
        let laptop = relay.device(of: "alice", named: "laptop", encryptionKey: LockedKeyProvider(key, failing: 1))
        func page() async throws -> CKRecord? {
            try await laptop.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: token)
                .modificationResultsByID[id]?.get().record
        }
        await expect(.missingEntitlement) { _ = try await page() }
        #expect(try await page()?.encryptedValues["text"] == "secret b")
    }

    /// No matter how the key arrived and in which launch, unreadable records are delivered once more.
    @Test func recordsFetchedBeforeTheKeyAreDeliveredAgainOnce() async throws {
        let bob = relay.device(of: "bob", encryptionKey: bobsKey)
        let shared = try await join(try await share(), on: bob)
        let early = SyncedNotes(bob, database: bob.sharedDatabase)
        try await early.engine.fetchChanges()
        #expect(deliveries(to: early) == 1)
        _ = try await fetchAsOwner()
        let id = CKRecord.ID(recordName: "a", zoneID: shared)
        #expect(try await bob.sharedDatabase.record(for: id).encryptedValues["text"] == "secret a")
        let state = try #require(early.saved)
        let later = SyncedNotes(bob, from: state, database: bob.sharedDatabase)
        try await later.engine.fetchChanges()
        #expect(deliveries(to: later) == 1)
        try await later.engine.fetchChanges()
        #expect(deliveries(to: later) == 1, "it was delivered again")
    }

    private func deliveries(to notes: SyncedNotes) -> Int {
        notes.contents.withLock { contents in
            contents.events.reduce(0) { count, event in
                guard case .fetchedRecordZoneChanges(let changes) = event else { return count }
                return count + changes.modifications.count { $0.record.recordID.recordName == "a" }
            }
        }
    }

    @Test func aParticipantWhoJoinedWithLockedKeysReceivesTheKeyLater() async throws {
        let bob = relay.device(of: "bob", encryptionKey: LockedKeyProvider(bobsKey, failing: 1))
        let shared = try await join(try await share(), on: bob)
        let token = try await fetchAsOwner()
        try await expectKeyArrives(to: bob, in: shared, since: token)
    }

    /// A relay's landing page has no encryption key.
    @Test func aParticipantWhoJoinedWithoutAKeyReceivesTheZoneKeyLater() async throws {
        let browser = relay.device(of: "bob", named: "browser")
        let shared = try await join(try await share(), on: browser)
        let token = try await fetchAsOwner()
        let bob = relay.device(of: "bob", encryptionKey: bobsKey)
        try await expectKeyArrives(to: bob, in: shared, since: token)
    }

    /// Bob fetches, then the owner, whose fetch has no changes, and then Bob can read.
    private func expectKeyArrives(
        to bob: TestDevice,
        in shared: CKRecordZone.ID,
        since token: CKServerChangeToken
    ) async throws {
        let page = try await bob.sharedDatabase.recordZoneChanges(inZoneWith: shared, since: nil)
        let id = CKRecord.ID(recordName: "a", zoneID: shared)
        #expect(try page.modificationResultsByID[id]?.get().record.encryptedValues["text"] == nil)
        _ = try await fetchAsOwner(since: token)
        #expect(try await bob.sharedDatabase.record(for: id).encryptedValues["text"] == "secret a")
    }

    @Test func anUnarchivedRecordReadsItsEncryptedValues() async throws {
        let device = relay.configurableDevice(of: "alice")
        let database = try device.configure(as: "alice", encryptionKey: key).privateCloudDatabase
        try await database.save(zone)
        let record = CKRecord(recordType: "Entry", zoneID: zone.zoneID)
        record.encryptedValues["text"] = "kept"
        try await database.save(record)
        let data = try NSKeyedArchiver.archivedData(withRootObject: record, requiringSecureCoding: true)
        #expect(!String(decoding: data, as: UTF8.self).contains("kept"))
        let back = try #require(try NSKeyedUnarchiver.unarchivedObject(ofClass: CKRecord.self, from: data))
        #expect(back.encryptedValues["text"] == "kept")
    }
}
