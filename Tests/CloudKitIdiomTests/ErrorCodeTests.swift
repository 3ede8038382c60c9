import CloudKit
import Testing
import ZoneTesting

/// The error codes that programs receive for missing items, denied access and exceeded limits.
@Suite(.timeLimit(.minutes(15))) struct ErrorCodeTests {
    private let relay: TestRelay
    private let container: CKContainer
    private let database: CKDatabase
    private let zone = CKRecordZone(zoneName: "Notes")
    private let missing = CKRecordZone.ID(zoneName: "Missing")

    init() async throws {
        relay = try TestRelay()
        container = relay.device(of: "alice@example.org").container
        database = container.privateCloudDatabase
        _ = try await database.save(zone)
    }

    private func note(_ name: String, in zoneID: CKRecordZone.ID? = nil) -> CKRecord {
        CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: name, zoneID: zoneID ?? zone.zoneID))
    }

    private func code(_ work: () async throws -> Void) async -> CKError.Code? {
        do {
            try await work()
            return nil
        } catch { return (error as? CKError)?.code ?? .internalError }
    }

    private func code<Value>(_ result: Result<Value, Error>?) -> CKError.Code? {
        if case .failure(let error)? = result { return (error as? CKError)?.code }
        return nil
    }

    @Test func missingItemsAreReported() async throws {
        #expect(await code { _ = try await database.record(for: note("x").recordID) } == .unknownItem)
        #expect(await code { _ = try await database.record(for: note("x", in: missing).recordID) } == .zoneNotFound)
        #expect(await code { try await database.save(note("x", in: missing)) } == .zoneNotFound)
        #expect(await code { _ = try await database.recordZone(for: missing) } == .zoneNotFound)
        #expect(await code { _ = try await database.deleteRecordZone(withID: missing) } == .zoneNotFound)
        #expect(
            await code { _ = try await database.recordZoneChanges(inZoneWith: missing, since: nil) } == .zoneNotFound
        )
        #expect(await code { _ = try await database.subscription(for: "x") } == .unknownItem)
        let query = CKQuery(recordType: "Never", predicate: NSPredicate(value: true))
        #expect(await code { _ = try await database.records(matching: query) } == .unknownItem)
        try await database.save(note("a"))
        let known = CKQuery(recordType: "Note", predicate: NSPredicate(value: true))
        #expect(await code { _ = try await database.records(matching: known, inZoneWith: missing) } == .zoneNotFound)
        let link = try #require(URL(string: "https://relay.example/share/0nothing"))
        #expect(await code { _ = try await container.shareMetadata(for: link) } == .unknownItem)
        let ids = [note("a").recordID, note("x").recordID, note("a", in: missing).recordID]
        let found = try await database.records(for: ids + ids)
        #expect(ids.map { code(found[$0]) } == [nil, .unknownItem, .zoneNotFound])
        let zones = try await database.recordZones(for: [zone.zoneID, missing])
        #expect(code(zones[zone.zoneID]) == nil && code(zones[missing]) == .zoneNotFound)
    }

    @Test func zonesOfABatchSucceedOrFailIndependently() async throws {
        let other = try await database.save(CKRecordZone(zoneName: "Other"))
        let old = try await database.save(note("a"))
        old["n"] = 1
        try await database.save(old)
        let records = [
            note("a"), note("b"), note("c", in: other.zoneID), note("d", in: .default), note("e", in: missing),
        ]
        let (saved, _) = try await database.modifyRecords(saving: records, deleting: [])
        #expect(
            records.map { code(saved[$0.recordID]) } == [
                .serverRecordChanged, .batchRequestFailed, nil, nil, .zoneNotFound,
            ]
        )
        let (single, deleted) = try await database.modifyRecords(
            saving: [note("a"), note("b")],
            deleting: [note("never").recordID],
            atomically: false
        )
        #expect(code(single[note("a").recordID]) == .serverRecordChanged && code(single[note("b").recordID]) == nil)
        #expect(deleted.count == 1)
        // Batches in the public database are not atomic.
        let shared = container.publicCloudDatabase
        let mine = CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: "p"))
        try await shared.save(mine)
        let again = CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: "p"))
        let news = CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: "q"))
        let (results, _) = try await shared.modifyRecords(saving: [again, news], deleting: [])
        #expect(code(results[again.recordID]) == .serverRecordChanged && code(results[news.recordID]) == nil)
    }

    @Test func unsupportedDatabaseCallsAreRefused() async throws {
        let everybody = container.publicCloudDatabase
        #expect(await code { _ = try await everybody.databaseChanges(since: nil) } == .badDatabase)
        let all = CKRecordZone.ID.default
        #expect(await code { _ = try await everybody.recordZoneChanges(inZoneWith: all, since: nil) } == .badDatabase)
        #expect(await code { _ = try await everybody.save(CKRecordZone(zoneName: "Mine")) } != nil)
        #expect(await code { _ = try await everybody.save(CKDatabaseSubscription(subscriptionID: "s")) } != nil)
        #expect(await code { _ = try await container.sharedCloudDatabase.save(CKRecordZone(zoneName: "Mine")) } != nil)
        #expect(await code { _ = try await database.recordZoneChanges(inZoneWith: all, since: nil) } != nil)
        let root = note("root", in: .default)
        let share = CKShare(rootRecord: root)
        let results = try? await database.modifyRecords(saving: [root, share], deleting: [])
        #expect(results == nil || code(results?.saveResults[share.recordID]) != nil)
        let visitor = relay.visitor().container
        #expect(await code { _ = try await visitor.privateCloudDatabase.allRecordZones() } == .notAuthenticated)
        #expect(await code { _ = try await visitor.userRecordID() } == .notAuthenticated)
        #expect(await code { try await visitor.publicCloudDatabase.save(CKRecord(recordType: "Note")) } != nil)
        // A record of another user.
        let hers = CKRecord(recordType: "Post", recordID: CKRecord.ID(recordName: "post"))
        try await everybody.save(hers)
        let bob = relay.device(of: "bob@example.org").container.publicCloudDatabase
        let read = try await bob.record(for: hers.recordID)
        read["text"] = "mine now"
        #expect(await code { try await bob.save(read) } == .permissionFailure)
        #expect(await code { try await bob.deleteRecord(withID: read.recordID) } == .permissionFailure)
        #expect(read.creatorUserRecordID?.recordName != CKCurrentUserDefaultName)
    }

    @Test func exceededLimitsAreReported() async throws {
        let many = (0..<401).map { note("n\($0)") }
        #expect(await code { _ = try await database.modifyRecords(saving: many, deleting: []) } == .limitExceeded)
        _ = try await database.modifyRecords(saving: Array(many.prefix(400)), deleting: [])
        let query = CKQuery(recordType: "Note", predicate: NSPredicate(value: true))
        let page = try await database.records(matching: query, inZoneWith: zone.zoneID, resultsLimit: 1_000)
        #expect(page.matchResults.count <= 400 && page.queryCursor != nil)
        let none = try await database.records(matching: query, inZoneWith: zone.zoneID, desiredKeys: ["nowhere"])
        #expect(none.matchResults.count > 0)
        relay.fillQuota()
        let large = note("large")
        large["text"] = String(repeating: "x", count: 10_000)
        #expect(await code { try await database.save(large) } == .quotaExceeded)
        #expect(await code { try await database.deleteRecord(withID: many[0].recordID) } == nil)
    }

    @Test func invalidShareChangesAreRefused() async throws {
        let (root, child) = (note("root"), note("child"))
        child.setParent(root)
        let share = CKShare(rootRecord: root)
        _ = try await database.modifyRecords(saving: [root, share, child], deleting: [])
        let second = CKShare(rootRecord: child)
        let (results, _) = try await database.modifyRecords(saving: [child, second], deleting: [])
        #expect(code(results[second.recordID]) == .alreadyShared)
        // The owner's own link leads to the own share.
        let mine = try await container.shareMetadata(for: try #require(share.url))
        #expect(mine.participantRole == .owner && mine.participantStatus == .accepted)
        let bob = relay.device(of: "bob@example.org").container
        #expect(await code { _ = try await bob.shareMetadata(for: try #require(share.url)) } != nil)
        // No account has this address: the person can be invited nevertheless.
        let stranger = try await container.shareParticipant(forEmailAddress: "new@example.org")
        #expect(!stranger.userIdentity.hasiCloudAccount && stranger.userIdentity.userRecordID == nil)
        share.addParticipant(stranger)
        try await database.save(share)
        #expect(share.participants.count == 2)
        // Two devices change the same share.
        let other = relay.device(of: "alice@example.org", named: "laptop").privateDatabase
        let copy = try #require(try await other.record(for: share.recordID) as? CKShare)
        copy[CKShare.SystemFieldKey.title] = "Laptop"
        try await other.save(copy)
        share[CKShare.SystemFieldKey.title] = "Phone"
        do {
            try await database.save(share)
            Issue.record("an outdated share was accepted")
        } catch let error as CKError {
            #expect(error.code == .serverRecordChanged && error.serverRecord is CKShare)
            #expect((error.serverRecord as? CKShare)?[CKShare.SystemFieldKey.title] as? String == "Laptop")
        }
    }
}
