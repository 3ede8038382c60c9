import Foundation
import Testing
import ZoneKit
import ZoneTesting

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
