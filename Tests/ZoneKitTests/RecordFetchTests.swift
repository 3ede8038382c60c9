import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// Saves, fetches and deletions with a real relay in this process.
@Suite struct RecordFetchTests {
    let relay: TestRelay
    let alice: TestDevice
    let database: CKDatabase

    init() throws {
        relay = try TestRelay()
        alice = relay.device(of: "alice")
        database = alice.privateDatabase
    }

    func notes() async throws -> CKRecordZone.ID {
        let zone = try await database.save(CKRecordZone(zoneName: "Notes"))
        return zone.zoneID
    }

    /// The records exceed the size of one answer: lookups are split, and so are pages of queries and feeds.
    @Test func allLargeRecordsAreFetched() async throws {
        relay.limits.answerBytes = 20_000
        let zone = try await notes()
        let ids = (0..<20).map { CKRecord.ID(recordName: "n\($0)", zoneID: zone) }
        for id in ids {
            let record = CKRecord(recordType: "Note", recordID: id)
            record["text"] = String(repeating: "x", count: 1_500)
            try await database.save(record)
        }
        let found = try await database.records(for: ids)
        #expect(try ids.allSatisfy { try (found[$0]?.get()["text"] as? String)?.count == 1_500 })
        let query = CKQuery(recordType: "Note", predicate: NSPredicate(value: true))
        var page = try await database.records(matching: query, inZoneWith: zone)
        var names = page.matchResults.map(\.0.recordName)
        while let cursor = page.queryCursor {
            page = try await database.records(continuingMatchFrom: cursor)
            names += page.matchResults.map(\.0.recordName)
        }
        #expect(names.count == 20 && Set(names).count == 20)
        let changes = try await database.recordZoneChanges(inZoneWith: zone, since: nil)
        #expect(changes.moreComing && (8..<20).contains(changes.modificationResultsByID.count))
        let rest = try await database.recordZoneChanges(inZoneWith: zone, since: changes.changeToken)
        #expect(!rest.moreComing)
        #expect(changes.modificationResultsByID.count + rest.modificationResultsByID.count == 20)
    }

    @Test func everyFieldTypeComesBackAsItWasSet() async throws {
        let zone = try await notes()
        let target = CKRecord.ID(recordName: "folder", zoneID: zone)
        let moment = Date(timeIntervalSince1970: 1_700_000_123.456)
        let place = CLLocation(
            coordinate: CLLocationCoordinate2D(latitude: 48.2, longitude: 16.4),
            altitude: 171,
            horizontalAccuracy: 5,
            verticalAccuracy: 3,
            course: 90,
            speed: 1.5,
            timestamp: moment
        )
        let record = CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: "n1", zoneID: zone))
        record["text"] = "Grüße, 世界 \u{1F600} \"quoted\" \\ \n"
        record["whole"] = Int64.max
        record["negative"] = Int64.min
        record["fraction"] = 0.1
        record["flag"] = true
        record["date"] = moment
        record["data"] = Data([0, 255, 128, 10])
        record["link"] = CKRecord.Reference(recordID: target, action: .deleteSelf)
        record["place"] = place
        record["words"] = ["a", "b"]
        record["numbers"] = [1, 2, 3]
        record["fractions"] = [1.5, 2]
        record["dates"] = [moment]
        record["blobs"] = [Data([1]), Data()]
        record["links"] = [CKRecord.Reference(recordID: target, action: .none)]
        record["places"] = [place]
        record["none"] = [String]()
        try await database.save(record)

        let back = try await database.record(for: record.recordID)
        #expect(back !== record)
        #expect(back.recordType == "Note")
        #expect(back["text"] as? String == "Grüße, 世界 \u{1F600} \"quoted\" \\ \n")
        #expect(back["whole"] as? Int64 == .max)
        #expect(back["negative"] as? Int64 == .min)
        #expect(back["fraction"] as? Double == 0.1)
        #expect(back["flag"] as? Bool == true)
        #expect(back["flag"] as? Int == 1)
        #expect(back["date"] as? Date == moment)
        #expect(back["data"] as? Data == Data([0, 255, 128, 10]))
        #expect(back["link"] as? CKRecord.Reference == CKRecord.Reference(recordID: target, action: .deleteSelf))
        #expect(back["place"] as? CLLocation == place)
        #expect(back["words"] as? [String] == ["a", "b"])
        #expect(back["numbers"] as? [Int] == [1, 2, 3])
        #expect(back["fractions"] as? [Double] == [1.5, 2])
        #expect(back["dates"] as? [Date] == [moment])
        #expect(back["blobs"] as? [Data] == [Data([1]), Data()])
        #expect(back["links"] as? [CKRecord.Reference] == [CKRecord.Reference(recordID: target, action: .none)])
        #expect(back["places"] as? [CLLocation] == [place])
        #expect((back["none"] as? [String])?.isEmpty == true)
        #expect(back.changedKeys().isEmpty)
        #expect(back.allKeys() == record.allKeys())
    }

    @Test func savingUpdatesTheSameObject() async throws {
        let zone = try await notes()
        let record = CKRecord(recordType: "Note", zoneID: zone)
        record["title"] = "one"
        let saved = try await database.save(record)
        #expect(saved === record)
        let firstTag = try #require(record.recordChangeTag)
        #expect(record.changedKeys().isEmpty)
        #expect(record.creationDate == relay.clock.date)
        #expect(record.creatorUserRecordID?.recordName == CKCurrentUserDefaultName)
        #expect(record.recordID.zoneID.ownerName == CKCurrentUserDefaultName)

        relay.clock.advance(by: .seconds(5))
        record["title"] = "two"
        #expect(record.changedKeys() == ["title"])
        try await database.save(record)
        #expect(record.recordChangeTag != firstTag)
        #expect(record.modificationDate == relay.clock.date)
        #expect(try await database.record(for: record.recordID)["title"] == "two")
    }

    @Test func onlyChangedFieldsAreSent() async throws {
        let zone = try await notes()
        let record = CKRecord(recordType: "Note", zoneID: zone)
        record["title"] = "t"
        record["body"] = "b"
        try await database.save(record)

        let elsewhere = try await relay.device(of: "alice", named: "laptop").privateDatabase.record(
            for: record.recordID
        )
        elsewhere["body"] = "changed"
        _ = try await database.modifyRecords(saving: [elsewhere], deleting: [], savePolicy: .changedKeys)

        record["title"] = "mine"
        _ = try await database.modifyRecords(saving: [record], deleting: [], savePolicy: .changedKeys)
        let back = try await database.record(for: record.recordID)
        #expect(back["title"] == "mine")
        #expect(back["body"] == "changed")
    }

    @Test func clearingAFieldRemovesIt() async throws {
        let zone = try await notes()
        let record = CKRecord(recordType: "Note", zoneID: zone)
        record["title"] = "t"
        record["body"] = "b"
        try await database.save(record)
        record["body"] = nil
        #expect(record.changedKeys() == ["body"])
        try await database.save(record)
        #expect(try await database.record(for: record.recordID).allKeys() == ["title"])
    }

    @Test func parentsAreSavedAndRemoved() async throws {
        let zone = try await notes()
        let folder = try await database.save(CKRecord(recordType: "Folder", zoneID: zone))
        let record = CKRecord(recordType: "Note", zoneID: zone)
        record.setParent(folder)
        try await database.save(record)
        #expect(try await database.record(for: record.recordID).parent?.recordID == folder.recordID)
        record["title"] = "t"
        try await database.save(record)
        #expect(try await database.record(for: record.recordID).parent?.recordID == folder.recordID)
        record.parent = nil
        try await database.save(record)
        #expect(try await database.record(for: record.recordID).parent == nil)
    }

    @Test func missingRecordsAndZonesAreReported() async throws {
        let zone = try await notes()
        let here = CKRecord.ID(recordName: "nobody", zoneID: zone)
        let nowhere = CKRecord.ID(recordName: "nobody", zoneID: CKRecordZone.ID(zoneName: "Gone"))
        await expect(.unknownItem) { _ = try await database.record(for: here) }
        await expect(.zoneNotFound) { _ = try await database.record(for: nowhere) }

        let present = try await database.save(CKRecord(recordType: "Note", zoneID: zone))
        let results = try await database.records(for: [here, present.recordID, nowhere])
        #expect(results.count == 3)
        expect(.unknownItem) { _ = try results[here]?.get() }
        expect(.zoneNotFound) { _ = try results[nowhere]?.get() }
        #expect(try results[present.recordID]?.get().recordChangeTag == present.recordChangeTag)
    }

    @Test func desiredKeysLimitTheReturnedFields() async throws {
        let zone = try await notes()
        let record = CKRecord(recordType: "Note", zoneID: zone)
        record["title"] = "t"
        record["body"] = "b"
        try await database.save(record)
        let some = try await database.records(for: [record.recordID], desiredKeys: ["title"])
        #expect(try some[record.recordID]?.get().allKeys() == ["title"])
        let none = try await database.records(for: [record.recordID], desiredKeys: [])
        #expect(try none[record.recordID]?.get().allKeys() == [])
    }

    @Test func deletingTwiceSucceeds() async throws {
        let zone = try await notes()
        let record = try await database.save(CKRecord(recordType: "Note", zoneID: zone))
        #expect(try await database.deleteRecord(withID: record.recordID) == record.recordID)
        try await database.deleteRecord(withID: record.recordID)
        await expect(.unknownItem) { _ = try await database.record(for: record.recordID) }
    }

    @Test func fiveHundredRecordsAreSplitInANonAtomicBatch() async throws {
        let zone = try await notes()
        let records = (0..<500).map {
            CKRecord(recordType: "Note", recordID: .init(recordName: "r\($0)", zoneID: zone))
        }
        alice.network.forgetOperations()
        await expect(.limitExceeded) { _ = try await database.modifyRecords(saving: records, deleting: []) }
        #expect(alice.network.operations.isEmpty)
        let apart = try await database.modifyRecords(saving: records, deleting: [], atomically: false)
        for result in apart.saveResults.values { #expect(throws: Never.self) { try result.get() } }
        #expect(alice.network.operations == Array(repeating: "private/records/modify", count: 3))
        let fetched = try await database.records(for: records.map(\.recordID))
        #expect(fetched.count == 500)
        for result in fetched.values { #expect(throws: Never.self) { try result.get() } }
    }

    /// CloudKit's own limit, which programs use as their batch size.
    @Test func fourHundredChangesAreAtomic() async throws {
        let zone = try await notes()
        let records = (0..<400).map {
            CKRecord(recordType: "Note", recordID: .init(recordName: "r\($0)", zoneID: zone))
        }
        alice.network.forgetOperations()
        let saved = try await database.modifyRecords(saving: records, deleting: [])
        for result in saved.saveResults.values { #expect(throws: Never.self) { try result.get() } }
        #expect(alice.network.operations == ["private/records/modify"])

        let twin = CKRecord(recordType: "Note", recordID: .init(recordName: "r7", zoneID: zone))
        let ids = records.map(\.recordID).filter { $0.recordName != "r7" }
        let refused = try await database.modifyRecords(saving: [twin], deleting: ids)
        expect(.serverRecordChanged) { _ = try refused.saveResults[twin.recordID]?.get() }
        for result in refused.deleteResults.values { expect(.batchRequestFailed) { try result.get() } }
    }

    @Test func aTooLargeRequestFailsWithLimitExceededSoProgramsSplitIt() async throws {
        let zone = try await notes()
        relay.limits.itemsPerRequest = 3
        let records = (0..<4).map { CKRecord(recordType: "Note", recordID: .init(recordName: "r\($0)", zoneID: zone)) }
        for isAtomic in [true, false] {
            await expect(.limitExceeded) {
                _ = try await database.modifyRecords(saving: records, deleting: [], atomically: isAtomic)
            }
        }
        let operation = CKModifyRecordsOperation(recordsToSave: records)
        let error = await withCheckedContinuation { continuation in
            operation.modifyRecordsCompletionBlock = { _, _, error in continuation.resume(returning: error) }
            database.add(operation)
        }
        #expect((error as? CKError)?.code == .limitExceeded)
        for half in [records[..<2], records[2...]] {
            let saved = try await database.modifyRecords(saving: Array(half), deleting: [])
            for result in saved.saveResults.values { #expect(throws: Never.self) { try result.get() } }
        }
    }

    @Test func aSaveStopsWhenAnotherUserSignsIn() async throws {
        let credentials = RelayCredentials(apiToken: nil, webAuthToken: "dev-alice")
        let connection = RelayConnection(
            container: TestRelay.containerIdentifier,
            url: nil,
            credentials: credentials,
            deviceID: "shared",
            transport: alice.network
        )
        let database = CKContainer(connection: connection).privateCloudDatabase
        let records = (0..<600).map { CKRecord(recordType: "Note", recordID: .init(recordName: "r\($0)")) }
        let operation = CKModifyRecordsOperation(recordsToSave: records)
        let outcomes = Mutex<[CKRecord.ID: CKError.Code?]>([:])
        operation.perRecordSaveBlock = { id, result in
            if case .failure(let error as CKError) = result {
                outcomes.withLock { $0[id] = error.code }
            } else {
                outcomes.withLock { $0[id] = .some(nil) }
            }
            if id.recordName == "r0" { credentials.replace(webAuthToken: "dev-bob") }
        }
        await withCheckedContinuation { continuation in
            operation.modifyRecordsResultBlock = { _ in continuation.resume() }
            database.add(operation)
        }
        let failed = outcomes.withLock { $0.values.compactMap { $0 } }
        #expect(failed == Array(repeating: .accountTemporarilyUnavailable, count: 400))
        let bobs = try await relay.device(of: "bob").privateDatabase.records(for: records.map(\.recordID))
        #expect(bobs.values.allSatisfy { (try? $0.get()) == nil })
    }
}

/// Change feeds of zones and databases, page by page.
@Suite struct ChangeFeedTests {
    let relay: TestRelay
    let alice: TestDevice
    let database: CKDatabase
    let zone = CKRecordZone.ID(zoneName: "Notes")

    init() async throws {
        relay = try TestRelay()
        alice = relay.device(of: "alice")
        database = alice.privateDatabase
        try await database.save(CKRecordZone(zoneID: zone))
    }

    func id(_ number: Int) -> CKRecord.ID { CKRecord.ID(recordName: "r\(number)", zoneID: zone) }

    func fill(_ range: Range<Int>) async throws {
        let records = range.map { number in
            let record = CKRecord(recordType: "Note", recordID: id(number))
            record["number"] = number
            return record
        }
        let results = try await database.modifyRecords(saving: records, deleting: [], atomically: false)
        for result in results.saveResults.values { _ = try result.get() }
    }

    @Test func allPagesTogetherContainTheZone() async throws {
        try await fill(0..<450)
        var seen: [CKRecord.ID: Int] = [:]
        var token: CKServerChangeToken?
        var pages = 0
        var moreComing = true
        while moreComing {
            let page = try await database.recordZoneChanges(inZoneWith: zone, since: token)
            for (id, result) in page.modificationResultsByID {
                #expect(seen.updateValue(try #require(try result.get().record["number"] as? Int), forKey: id) == nil)
            }
            #expect(page.changeToken != token)
            (token, moreComing) = (page.changeToken, page.moreComing)
            pages += 1
        }
        #expect(pages == 3)
        #expect(seen == Dictionary(uniqueKeysWithValues: (0..<450).map { (id($0), $0) }))

        let limited = try await database.recordZoneChanges(inZoneWith: zone, since: nil, resultsLimit: 7)
        #expect(limited.modificationResultsByID.count == 7)
        #expect(limited.moreComing)
        let bare = try await database.recordZoneChanges(inZoneWith: zone, since: nil, desiredKeys: [], resultsLimit: 1)
        #expect(try bare.modificationResultsByID.values.first?.get().record.allKeys() == [])
    }

    @Test func aTokenReturnsOnlyLaterChanges() async throws {
        try await fill(0..<5)
        let token = try await database.recordZoneChanges(inZoneWith: zone, since: nil).changeToken
        let second = try await database.record(for: id(1))
        second["number"] = 100
        try await database.save(second)
        try await database.deleteRecord(withID: id(2))

        let changes = try await database.recordZoneChanges(inZoneWith: zone, since: token)
        #expect(Array(changes.modificationResultsByID.keys) == [id(1)])
        #expect(try changes.modificationResultsByID[id(1)]?.get().record["number"] == 100)
        #expect(try changes.modificationResultsByID[id(1)]?.get().record.changedKeys() == [])
        #expect(changes.deletions.map(\.recordID) == [id(2)])
        #expect(changes.deletions.map(\.recordType) == ["Note"])
        #expect(!changes.moreComing)
        let quiet = try await database.recordZoneChanges(inZoneWith: zone, since: changes.changeToken)
        #expect(quiet.modificationResultsByID.isEmpty)
        #expect(quiet.deletions.isEmpty)
        #expect(quiet.changeToken == changes.changeToken)
    }

    @Test func aFirstFetchContainsLiveRecordsOnly() async throws {
        try await fill(0..<3)
        try await database.deleteRecord(withID: id(0))
        let changes = try await database.recordZoneChanges(inZoneWith: zone, since: nil)
        #expect(Set(changes.modificationResultsByID.keys) == [id(1), id(2)])
        #expect(changes.deletions.isEmpty)
    }

    @Test func theTokenOfARecreatedZoneIsExpired() async throws {
        try await fill(0..<1)
        let token = try await database.recordZoneChanges(inZoneWith: zone, since: nil).changeToken
        try await database.deleteRecordZone(withID: zone)
        await expect(.zoneNotFound) { _ = try await database.recordZoneChanges(inZoneWith: zone, since: token) }
        try await database.save(CKRecordZone(zoneID: zone))
        await expect(.changeTokenExpired) { _ = try await database.recordZoneChanges(inZoneWith: zone, since: token) }
        #expect(
            try await database.recordZoneChanges(inZoneWith: zone, since: nil).modificationResultsByID.isEmpty
        )
    }

    @Test func aDatabaseFeedReportsZones() async throws {
        let start = try await database.databaseChanges(since: nil)
        #expect(start.modifications.map(\.zoneID).contains(zone))
        #expect(start.deletions.isEmpty)
        let other = CKRecordZone.ID(zoneName: "Other")
        try await database.save(CKRecordZone(zoneID: other))
        try await fill(0..<1)
        let changes = try await database.databaseChanges(since: start.changeToken)
        #expect(Set(changes.modifications.map(\.zoneID)) == [zone, other])
        try await database.deleteRecordZone(withID: other)
        let end = try await database.databaseChanges(since: changes.changeToken)
        #expect(end.deletions.map(\.zoneID) == [other])
        #expect(end.deletions.map(\.reason) == [.deleted])
        #expect(end.modifications.isEmpty)
        let paged = try await database.databaseChanges(since: nil, resultsLimit: 1)
        #expect(paged.modifications.count <= 1)
    }

    @Test func aDatabaseTokenIsRefusedForAZone() async throws {
        let token = try await database.databaseChanges(since: nil).changeToken
        await expect(.changeTokenExpired) { _ = try await database.recordZoneChanges(inZoneWith: zone, since: token) }
    }

    @Test func thePublicDatabaseAndTheDefaultZoneHaveNoFeed() async throws {
        await expect(.badDatabase) { _ = try await alice.publicDatabase.databaseChanges(since: nil) }
        await expect(.badDatabase) {
            _ = try await alice.publicDatabase.recordZoneChanges(inZoneWith: .default, since: nil)
        }
        await expect(.invalidArguments) { _ = try await database.recordZoneChanges(inZoneWith: .default, since: nil) }
    }
}
