import Foundation
import Testing
import Wire
import ZoneKit
import ZoneTesting

/// Shares at the level of the wire, with scripted answers.
@Suite struct ShareTests {
    private let zoneID = CKRecordZone.ID(zoneName: "Notes")

    private func root() -> CKRecord {
        CKRecord(recordType: "List", recordID: CKRecord.ID(recordName: "root", zoneID: zoneID))
    }

    private let ownerJSON = #"""
        {"participantId":"p0","type":"OWNER","permission":"READ_WRITE","acceptanceStatus":"ACCEPTED",
         "userIdentity":{"userRecordName":"_alice","nameComponents":{"givenName":"Alice"}}}
        """#
    private let bobJSON = #"""
        {"participantId":"p1","type":"USER","permission":"READ_ONLY","acceptanceStatus":"INVITED",
         "userIdentity":{"lookupInfo":{"emailAddress":"bob@example.com"}}}
        """#

    private func shareJSON(_ tag: String, people: [String], permission: String = "NONE") -> String {
        #"""
        {"recordName":"s","recordType":"cloudkit.share","recordChangeTag":"\#(tag)",
         "zoneID":{"zoneName":"Notes","ownerRecordName":"_alice"},"shortGUID":"0abc","publicPermission":"\#(permission)",
         "created":{"timestamp":1,"userRecordName":"_alice","deviceID":"1"},
         "modified":{"timestamp":1,"userRecordName":"_alice","deviceID":"1"},
         "participants":[\#(people.joined(separator: ","))],"owner":\#(ownerJSON),"currentUserParticipant":\#(ownerJSON),
         "fields":{"cloudkit.title":{"value":"Shopping","type":"STRING"}}}
        """#
    }

    private func rootJSON(_ tag: String) -> String {
        #"""
        {"recordName":"root","recordType":"List","recordChangeTag":"\#(tag)","shortGUID":"0abc",
         "zoneID":{"zoneName":"Notes","ownerRecordName":"_alice"},"share":{"recordName":"s"},"fields":{}}
        """#
    }

    private func answer(_ records: String...) -> ScriptedRelay.Line {
        .answer(200, #"{"records":[\#(records.joined(separator: ","))]}"#)
    }

    @Test func aNewShareIsSavedWithItsRoot() async throws {
        let root = root()
        let share = CKShare(rootRecord: root, shareID: CKRecord.ID(recordName: "s", zoneID: zoneID))
        share[CKShare.SystemFieldKey.title] = "Shopping" as any CKRecordValue
        share.publicPermission = .readOnly
        #expect(root.share?.recordID.recordName == "s")
        #expect(share.recordType == "cloudkit.share")
        #expect(share.url == nil)
        #expect(share.owner.role == .owner && share.currentUserParticipant?.isEqual(share.owner) == true)
        #expect(share.participants.count == 1)

        let relay = ScriptedRelay(answer(rootJSON("2"), shareJSON("3", people: [ownerJSON], permission: "READ_ONLY")))
        let database = relay.container().privateCloudDatabase
        // The share is passed first. On the wire it must come after its root.
        let (saves, _) = try await database.modifyRecords(saving: [share, root], deleting: [])
        #expect(try saves[share.recordID]?.get() === share)
        let body = try #require(relay.bodies.first)
        let rootPlace = try #require(body.range(of: #""recordName":"root""#)?.lowerBound)
        let sharePlace = try #require(body.range(of: #""recordName":"s""#)?.lowerBound)
        #expect(rootPlace < sharePlace)
        #expect(body.contains(#""createShortGUID":true"#))
        #expect(body.contains(#""forRecord":{"recordName":"root"}"#))
        #expect(body.contains(#""publicPermission":"READ_ONLY","participants":[]"#))
        #expect(share.url?.lastPathComponent == "0abc")
        #expect(share.url?.fragment == "Shopping")
        #expect(share.owner.userIdentity.nameComponents?.givenName == "Alice")
        #expect(share.owner.userIdentity.userRecordID?.recordName == CKCurrentUserDefaultName)
        #expect(share.recordChangeTag == "3")
    }

    @Test func onlyChangesOfParticipantsAreSent() async throws {
        let first = shareJSON("3", people: [ownerJSON])
        let relay = ScriptedRelay(
            answer(first),
            .answer(200, #"{"users":[]}"#),
            answer(shareJSON("4", people: [ownerJSON, bobJSON])),
            answer(shareJSON("5", people: [ownerJSON, bobJSON])),
            answer(shareJSON("6", people: [ownerJSON]))
        )
        let container = relay.container()
        let database = container.privateCloudDatabase
        let id = CKRecord.ID(recordName: "s", zoneID: zoneID)
        let share = try #require(try await database.record(for: id) as? CKShare)
        let bob = try await container.shareParticipant(forEmailAddress: "bob@example.com")
        #expect(bob.acceptanceStatus == .pending && bob.permission == .readOnly && bob.role == .privateUser)
        #expect(!bob.userIdentity.hasiCloudAccount)
        bob.permission = .readWrite
        share.addParticipant(bob)
        share.addParticipant(bob)
        #expect(share.participants.count == 2)
        try await database.save(share)
        let sent = try #require(relay.bodies.last)
        #expect(sent.contains(#""participants":[{"type":"USER","permission":"READ_WRITE""#))
        #expect(sent.contains(#""lookupInfo":{"emailAddress":"bob@example.com"}"#))
        #expect(!sent.contains("publicPermission"))
        #expect(share.participants.last?.participantID == "p1")
        #expect(share.participants.last?.permission == .readOnly, "the relay's answer replaces the local value")

        share[CKShare.SystemFieldKey.title] = "Food"
        try await database.save(share)
        #expect(relay.bodies.last?.contains("participants") == false)

        share.removeParticipant(try #require(share.participants.last))
        share.removeParticipant(share.owner)
        try await database.save(share)
        #expect(relay.bodies.last?.contains(#""participants":[]"#) == true)
        #expect(share.participants.map(\.role) == [.owner])
    }

    @Test func aZoneIsSharedByItsZoneWideShareRecord() async throws {
        let share = CKShare(recordZoneID: zoneID)
        #expect(share.recordID.recordName == CKRecordNameZoneWideShare)
        let relay = ScriptedRelay(answer(shareJSON("1", people: [ownerJSON])))
        try await relay.container().privateCloudDatabase.save(share)
        #expect(relay.bodies.first?.contains("forRecord") == false)
    }

    @Test func sharesAreArchivedWithTheirParticipants() async throws {
        let relay = ScriptedRelay(answer(shareJSON("3", people: [ownerJSON, bobJSON])))
        let id = CKRecord.ID(recordName: "s", zoneID: zoneID)
        let share = try await relay.container().privateCloudDatabase.record(for: id)
        let archiver = NSKeyedArchiver(requiringSecureCoding: true)
        share.encodeSystemFields(with: archiver)
        archiver.finishEncoding()
        let unarchiver = try NSKeyedUnarchiver(forReadingFrom: archiver.encodedData)
        unarchiver.requiresSecureCoding = true
        let read = CKShare(coder: unarchiver)
        #expect(read.participants.count == 2)
        #expect(read.participants[1].userIdentity.lookupInfo?.emailAddress == "bob@example.com")
        #expect(read.url?.lastPathComponent == "0abc")
        #expect(read.owner.userIdentity.userRecordID?.recordName == CKCurrentUserDefaultName)
        #expect(read.recordChangeTag == "3")
        let copy = try #require(read.copy() as? CKShare)
        copy.participants[1].permission = .readWrite
        #expect(read.participants[1].permission == .readOnly)
    }

    private func metadataJSON(_ status: String, permission: String = "READ_ONLY") -> String {
        #"""
        {"shortGUID":{"value":"0abc"},"containerIdentifier":"iCloud.test","environment":"development",
         "databaseScope":"SHARED","zoneID":{"zoneName":"Notes","ownerRecordName":"_carol"},"rootRecordName":"root",
         "share":\#(shareJSON("3", people: [ownerJSON]).replacingOccurrences(of: #""ownerRecordName":"_alice""#, with: #""ownerRecordName":"_carol""#)),
         "ownerIdentity":{"userRecordName":"_carol","nameComponents":{"givenName":"Carol"}},
         "participantType":"USER","participantStatus":"\#(status)","participantPermission":"\#(permission)"}
        """#
    }

    @Test func aShareIsAcceptedByItsMetadata() async throws {
        let relay = ScriptedRelay(
            .answer(200, #"{"results":[\#(metadataJSON("INVITED"))]}"#),
            .answer(200, #"{"results":[\#(metadataJSON("ACCEPTED"))]}"#)
        )
        let container = relay.container()
        let url = try #require(URL(string: "https://relay.example/share/0abc#Shopping"))
        let metadata = try await container.shareMetadata(for: url)
        #expect(relay.requests.first?.path.hasSuffix("/public/records/resolve") == true)
        #expect(relay.bodies.first == #"{"shortGUIDs":[{"value":"0abc"}]}"#)
        #expect(metadata.participantStatus == .pending && metadata.participantPermission == .readOnly)
        #expect(metadata.participantRole == .privateUser && metadata.participantType == .privateUser)
        #expect(metadata.hierarchicalRootRecordID?.zoneID.ownerName == "_carol")
        #expect(metadata.ownerIdentity.nameComponents?.givenName == "Carol")
        #expect(metadata.share.recordID.zoneID.ownerName == "_carol")

        let data = try NSKeyedArchiver.archivedData(withRootObject: metadata, requiringSecureCoding: true)
        let read = try NSKeyedUnarchiver.unarchivedObject(ofClass: CKShare.Metadata.self, from: data)
        #expect(read == metadata)
        #expect(read?.rootRecordID == metadata.rootRecordID)

        let share = try await container.accept(metadata)
        #expect(relay.requests.last?.path.hasSuffix("/public/records/accept") == true)
        #expect(share.recordID.recordName == "s")
    }

    @Test func missingSharesAreReportedAsUnknownItem() async throws {
        let relay = ScriptedRelay(
            .answer(
                200,
                #"{"results":[{"shortGUID":{"value":"x"},"serverErrorCode":"NOT_FOUND","reason":"no such share"}]}"#
            )
        )
        let url = try #require(URL(string: "https://relay.example/share/x"))
        await expect(.unknownItem) { _ = try await relay.container().shareMetadata(for: url) }
    }

    @Test func shareOperationsCallTheirBlocks() async throws {
        let relay = ScriptedRelay(
            .answer(200, #"{"results":[\#(metadataJSON("INVITED"))]}"#),
            .answer(200, #"{"results":[\#(metadataJSON("ACCEPTED"))]}"#),
            .answer(200, #"{"users":[{"userRecordName":"_bob","lookupInfo":{"emailAddress":"bob@example.com"}}]}"#),
            .answer(200, #"{"users":[{"userRecordName":"_bob","lookupInfo":{"emailAddress":"bob@example.com"}}]}"#)
        )
        let container = relay.container()
        func run(_ operation: CKOperation) async {
            await withCheckedContinuation { done in
                operation.completionBlock = { done.resume() }
                container.add(operation)
            }
        }
        let url = try #require(URL(string: "https://relay.example/share/0abc"))
        let fetch = CKFetchShareMetadataOperation(shareURLs: [url])
        fetch.shouldFetchRootRecord = true
        fetch.rootRecordDesiredKeys = ["title"]
        var metadata: CKShare.Metadata?
        fetch.perShareMetadataResultBlock = { _, result in metadata = try? result.get() }
        await run(fetch)
        #expect(
            relay.bodies.first?.contains(#""shouldFetchRootRecord":true,"rootRecordDesiredKeys":["title"]"#) == true
        )

        let invitation = try #require(metadata)
        let accept = CKAcceptSharesOperation(shareMetadatas: [invitation])
        var share: CKShare?
        accept.perShareCompletionBlock = { _, found, _ in share = found }
        var accepted = false
        accept.acceptSharesResultBlock = { accepted = (try? $0.get()) != nil }
        await run(accept)
        #expect(share != nil && accepted)

        let info = CKUserIdentity.LookupInfo(emailAddress: "bob@example.com")
        let people = CKFetchShareParticipantsOperation(userIdentityLookupInfos: [info])
        var found: CKShare.Participant?
        people.perShareParticipantResultBlock = { _, result in found = try? result.get() }
        await run(people)
        #expect(found?.userIdentity.hasiCloudAccount == true)

        let discover = CKDiscoverUserIdentitiesOperation(userIdentityLookupInfos: [info])
        var name: String?
        discover.userIdentityDiscoveredBlock = { identity, _ in name = identity.userRecordID?.recordName }
        await run(discover)
        #expect(name == "_bob")
    }
}

/// The identity of participants who were found by an address.
@Suite struct IdentityTests {
    private func person(email: String? = nil, phone: String? = nil) -> CKShare.Participant {
        CKShare.Participant(
            inviting: ClientIdentity(lookup: .init(emailAddress: email, phoneNumber: phone)),
            callerName: nil
        )
    }

    @Test(
        "participants are the same person in every spelling of their address",
        arguments: [
            ("ada@xn--bcher-kva.example", "Ada@b\u{FC}cher.example", true),
            ("ada@example.org", "ADA@EXAMPLE.ORG", true),
            ("u\u{308}@example.org", "\u{FC}@example.org", true),
            ("ada@b\u{FC}cher.example", "ada@bucher.example", false),
        ]
    )
    func addresses(one: String, other: String, isSame: Bool) {
        #expect(person(email: one).isEqual(person(email: other)) == isSame)
    }

    @Test("participants are the same person in every spelling of their number")
    func numbers() {
        #expect(person(phone: "+49 30 1234567").isEqual(person(phone: "0049301234567")))
        #expect(!person(phone: "+49 30 1234567").isEqual(person(phone: "+44 30 1234567")))
    }
}

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
