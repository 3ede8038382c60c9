import Foundation
import Testing
import ZoneKit
import ZoneTesting

/// Sharing between two users of a real relay.
@Suite(.timeLimit(.minutes(15))) struct SharingOverRelayTests {
    let relay: TestRelay
    let alice: TestDevice
    let bob: TestDevice
    let zone = CKRecordZone(zoneName: "Lists")

    init() async throws {
        relay = try TestRelay()
        alice = relay.device(of: "alice")
        bob = relay.device(of: "bob")
        try await alice.privateDatabase.save(zone)
    }

    private func record(_ type: String, _ name: String) -> CKRecord {
        CKRecord(recordType: type, recordID: CKRecord.ID(recordName: name, zoneID: zone.zoneID))
    }

    /// Shares a list with one item, as alice.
    private func share(_ permission: CKShare.ParticipantPermission) async throws -> CKShare {
        let list = record("List", "list")
        list["title"] = "Shopping"
        let item = record("Item", "milk")
        item["text"] = "Milk"
        item.setParent(list)
        let share = CKShare(rootRecord: list)
        share[CKShare.SystemFieldKey.title] = "Shopping"
        share.publicPermission = permission
        let results = try await alice.privateDatabase.modifyRecords(saving: [list, item, share], deleting: [])
        for result in results.saveResults.values { _ = try result.get() }
        return share
    }

    @Test func anyoneWithTheLinkCanJoinAndEdit() async throws {
        let share = try await share(.readWrite)
        let url = try #require(share.url)
        let metadata = try await bob.container.shareMetadata(for: url)
        #expect(metadata.participantStatus != .accepted)
        #expect(metadata.hierarchicalRootRecordID?.recordName == "list")
        let accepted = try await bob.container.accept(metadata)
        #expect(accepted.currentUserParticipant?.acceptanceStatus == .accepted)

        let zones = try await bob.sharedDatabase.allRecordZones()
        let shared = try #require(zones.first?.zoneID)
        #expect(shared.zoneName == "Lists" && shared.ownerName != CKCurrentUserDefaultName)
        let changes = try await bob.sharedDatabase.recordZoneChanges(inZoneWith: shared, since: nil)
        let names = Set(changes.modificationResultsByID.keys.map(\.recordName))
        #expect(names.isSuperset(of: ["list", "milk"]))
        #expect(changes.modificationResultsByID.values.contains { (try? $0.get().record) is CKShare })

        let item = try await bob.sharedDatabase.record(for: CKRecord.ID(recordName: "milk", zoneID: shared))
        item["text"] = "Oat milk"
        try await bob.sharedDatabase.save(item)
        let seen = try await alice.privateDatabase.record(for: record("Item", "milk").recordID)
        #expect(seen["text"] == "Oat milk")
        #expect(seen.lastModifiedUserRecordID?.recordName != CKCurrentUserDefaultName)

        let mine = try #require(
            try await alice.privateDatabase.record(for: share.recordID) as? CKShare
        )
        #expect(mine.participants.count == 2)
        #expect(mine.participants.last?.role == .publicUser)
        #expect(mine.owner.userIdentity.userRecordID?.recordName == CKCurrentUserDefaultName)
    }

    @Test func readersCannotWriteAndLeavingRemovesTheZone() async throws {
        let share = try await share(.readOnly)
        let metadata = try await bob.container.shareMetadata(for: try #require(share.url))
        let accepted = try await bob.container.accept(metadata)
        let shared = accepted.recordID.zoneID
        let item = try await bob.sharedDatabase.record(for: CKRecord.ID(recordName: "milk", zoneID: shared))
        item["text"] = "Beer"
        await expect(.permissionFailure) { try await bob.sharedDatabase.save(item) }
        let token = try await bob.sharedDatabase.databaseChanges(since: nil).changeToken
        try await bob.sharedDatabase.deleteRecord(withID: accepted.recordID)
        let after = try await bob.sharedDatabase.databaseChanges(since: token)
        #expect(after.deletions.map(\.zoneID.zoneName) == ["Lists"])
        #expect(try await alice.privateDatabase.record(for: record("List", "list").recordID)["title"] == "Shopping")
    }

    @Test func onlyInvitedUsersCanJoin() async throws {
        let share = try await share(.none)
        let bobID = try await bob.container.userRecordID()
        let invited = try await alice.container.shareParticipant(forUserRecordID: bobID)
        invited.permission = .readWrite
        share.addParticipant(invited)
        try await alice.privateDatabase.save(share)
        #expect(share.participants.count == 2)
        let carol = relay.device(of: "carol")
        let url = try #require(share.url)
        await expect(.permissionFailure) {
            let metadata = try await carol.container.shareMetadata(for: url)
            try await carol.container.accept(metadata)
        }
        let metadata = try await bob.container.shareMetadata(for: url)
        #expect(metadata.participantStatus == .pending && metadata.participantPermission == .readWrite)
        let accepted = try await bob.container.accept(metadata)
        #expect(accepted.currentUserParticipant?.permission == .readWrite)
        // Deleting the share removes it from all participants.
        try await alice.privateDatabase.deleteRecord(withID: share.recordID)
        await expect(.zoneNotFound) {
            _ = try await bob.sharedDatabase.recordZoneChanges(inZoneWith: accepted.recordID.zoneID, since: nil)
        }
    }

    @Test func aWholeZoneIsShared() async throws {
        let note = record("Note", "n")
        note["text"] = "all of it"
        try await alice.privateDatabase.save(note)
        let share = CKShare(recordZoneID: zone.zoneID)
        share.publicPermission = .readOnly
        try await alice.privateDatabase.save(share)
        let accepted = try await bob.container.accept(
            try await bob.container.shareMetadata(for: try #require(share.url))
        )
        let seen = CKRecord.ID(recordName: "n", zoneID: accepted.recordID.zoneID)
        #expect(try await bob.sharedDatabase.record(for: seen)["text"] == "all of it")
    }

    @Test(arguments: [CKModifyRecordsOperation.RecordSavePolicy.ifServerRecordUnchanged, .changedKeys, .allKeys])
    func anOutdatedShareDoesNotOverwriteANewerOne(policy: CKModifyRecordsOperation.RecordSavePolicy) async throws {
        let database = alice.privateDatabase
        let root = record("List", "root")
        let share = CKShare(rootRecord: root)
        let made = try await database.modifyRecords(saving: [root, share], deleting: [], savePolicy: policy)
        _ = try made.saveResults[share.recordID]?.get()
        let old = try #require(share.copy() as? CKShare)
        share[CKShare.SystemFieldKey.title] = "new"
        try await database.save(share)
        old[CKShare.SystemFieldKey.title] = "old"
        let late = try await database.modifyRecords(saving: [old], deleting: [], savePolicy: policy)
        expect(.serverRecordChanged) { _ = try late.saveResults[share.recordID]?.get() }
        let stored = try await database.record(for: share.recordID)
        #expect(stored[CKShare.SystemFieldKey.title] == "new")
    }
}
