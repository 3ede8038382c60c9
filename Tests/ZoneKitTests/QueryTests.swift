import Foundation
import Records
import Testing
import ZoneKit
import ZoneTesting

/// Queries and their cursors.
@Suite struct QueryTests {
    let relay: TestRelay
    let alice: TestDevice
    let database: CKDatabase

    init() throws {
        relay = try TestRelay()
        alice = relay.device(of: "alice")
        database = alice.publicDatabase
    }

    /// Saves records one second apart, named in the order of creation.
    func post(_ count: Int) async throws {
        for number in 0..<count {
            let record = CKRecord(recordType: "Post", recordID: CKRecord.ID(recordName: "p\(number)"))
            record["number"] = number
            try await database.save(record)
            relay.clock.advance(by: .seconds(1))
        }
    }

    func names(_ query: CKQuery) async throws -> [String] {
        try await database.perform(query, inZoneWith: nil).map(\.recordID.recordName)
    }

    @Test func pagesFollowEachOtherByCursor() async throws {
        try await post(5)
        let query = CKQuery(recordType: "Post", predicate: NSPredicate(value: true))
        query.sortDescriptors = [NSSortDescriptor(key: "creationDate", ascending: false)]
        let first = try await database.records(matching: query, resultsLimit: 2)
        #expect(first.matchResults.map(\.0.recordName) == ["p4", "p3"])
        let cursor = try #require(first.queryCursor)
        let archive = try NSKeyedArchiver.archivedData(withRootObject: cursor, requiringSecureCoding: true)
        let kept = try #require(
            try NSKeyedUnarchiver.unarchivedObject(ofClass: CKQueryOperation.Cursor.self, from: archive)
        )
        let second = try await database.records(continuingMatchFrom: kept, resultsLimit: 2)
        #expect(second.matchResults.map(\.0.recordName) == ["p2", "p1"])
        let third = try await database.records(
            continuingMatchFrom: try #require(second.queryCursor),
            desiredKeys: [],
            resultsLimit: 2
        )
        #expect(third.matchResults.map(\.0.recordName) == ["p0"])
        #expect(try third.matchResults.first?.1.get().allKeys() == [])
        #expect(third.queryCursor == nil)
        #expect(try await names(query) == ["p4", "p3", "p2", "p1", "p0"])
    }

    @Test func systemFieldsCanBeCompared() async throws {
        try await post(4)
        let third = relay.clock.start.addingTimeInterval(2)
        let since = CKQuery(
            recordType: "Post",
            predicate: NSPredicate(format: "modificationDate > %@", third as NSDate)
        )
        #expect(try await names(since) == ["p3"])
        let range = CKQuery(
            recordType: "Post",
            predicate: NSPredicate(
                format: "%K >= %@ AND creationDate < %@",
                "creationDate",
                relay.clock.start.addingTimeInterval(1) as NSDate,
                relay.clock.start.addingTimeInterval(3) as NSDate
            )
        )
        range.sortDescriptors = [NSSortDescriptor(key: "modificationDate", ascending: true)]
        #expect(try await names(range) == ["p1", "p2"])
        let named = CKQuery(
            recordType: "Post",
            predicate: NSPredicate(format: "recordID == %@", CKRecord.ID(recordName: "p2"))
        )
        #expect(try await names(named) == ["p2"])
        let either = CKQuery(
            recordType: "Post",
            predicate: NSPredicate(
                format: "recordID IN %@",
                [CKRecord.ID(recordName: "p0"), CKRecord.ID(recordName: "p3"), CKRecord.ID(recordName: "none")]
            )
        )
        #expect(Set(try await names(either)) == ["p0", "p3"])
        let user = try await alice.container.userRecordID()
        let mine = CKQuery(recordType: "Post", predicate: NSPredicate(format: "creatorUserRecordID == %@", user))
        #expect(try await names(mine).count == 4)
    }

    @Test func aTypeThatDoesNotExistYetIsUnknown() async {
        let query = CKQuery(recordType: "Never", predicate: NSPredicate(value: true))
        await expect(.unknownItem) { _ = try await database.records(matching: query) }
        await expect(.unknownItem) { _ = try await alice.privateDatabase.records(matching: query) }
    }

    @Test func constantPredicatesNeedNoRelay() async throws {
        alice.network.cut()
        let nothing = CKQuery(recordType: "Post", predicate: NSPredicate(value: false))
        #expect(try await names(nothing).isEmpty)
        let text = CKQuery(recordType: "Post", predicate: NSPredicate(format: "FALSEPREDICATE"))
        #expect(try await names(text).isEmpty)
    }

    static let refused = [
        "title LIKE 'x'", "modificationDate > 5", "title == NULL", "title ==[c] 'x'", "NOT (title < 'x')",
        "title == 'a' OR title == 'b'", "ANY tags > 3", "NOT (title == 'a' AND count == 1)",
        "(title == 'a'", "creationDate > %@ OR recordID == %@", "modificationDate",
        "recordID ~ 5",
        "recordID == 'x", "recordID CONTAINS 'x'", "", "%K == 'x'",
    ]

    @Test(arguments: refused) func unsupportedPredicatesAreRefused(_ format: String) async {
        let query = CKQuery(recordType: "Post", predicate: NSPredicate(format: format))
        await expect(.invalidArguments) { _ = try await database.records(matching: query) }
    }

    @Test func comparisonsWithNonFiniteNumbersAreRefused() async {
        for number in [Double.infinity, -.infinity, .nan] {
            let predicate = NSPredicate(format: "count < %@", NSNumber(value: number))
            let query = CKQuery(recordType: "Post", predicate: predicate)
            let error = await #expect(throws: CKError.self) { _ = try await database.records(matching: query) }
            #expect(error?.code == .invalidArguments && error?.localizedDescription.contains("not finite") == true)
        }
    }

    @Test(arguments: ["{", "CAST("]) func excessiveNestingIsRefused(_ opening: String) async {
        let format = "name IN " + String(repeating: opening, count: 200_000)
        let query = CKQuery(recordType: "Note", predicate: NSPredicate(format: format))
        await expect(.invalidArguments) { _ = try await database.records(matching: query) }
    }

    @Test func blockPredicatesAreRefused() async {
        let block = CKQuery(recordType: "Post", predicate: NSPredicate { _, _ in true })
        await expect(.invalidArguments) { _ = try await database.records(matching: block) }
    }

    @Test func privateQueriesSearchAllZonesOrOne() async throws {
        for name in ["A", "B"] {
            let zone = try await alice.privateDatabase.save(CKRecordZone(zoneName: name))
            try await alice.privateDatabase.save(CKRecord(recordType: "Post", zoneID: zone.zoneID))
        }
        let query = CKQuery(recordType: "Post", predicate: NSPredicate(value: true))
        let all = try await alice.privateDatabase.records(matching: query).matchResults
        #expect(Set(all.map(\.0.zoneID.zoneName)) == ["A", "B"])
        #expect(all.allSatisfy { $0.0.zoneID.ownerName == CKCurrentUserDefaultName })
        let one = CKRecordZone.ID(zoneName: "A")
        let some = try await alice.privateDatabase.records(matching: query, inZoneWith: one).matchResults
        #expect(some.map(\.0.zoneID) == [one])
    }
}
