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

/// Queries over a program's own fields.
@Suite struct PredicateTests {
    let relay: TestRelay
    let database: CKDatabase

    init() async throws {
        relay = try TestRelay()
        database = relay.device(of: "alice").publicDatabase
        let milk = CKRecord(recordType: "Post", recordID: CKRecord.ID(recordName: "milk"))
        milk["title"] = "Bread and Milk"
        milk["count"] = 3
        milk["price"] = 1.5
        milk["tags"] = ["home", "shop"]
        milk["done"] = true
        milk["due"] = Date(timeIntervalSince1970: 100)
        milk["spot"] = CLLocation(latitude: 52.52, longitude: 13.405)
        milk["owner"] = CKRecord.Reference(recordID: CKRecord.ID(recordName: "o1"), action: .none)
        let tea = CKRecord(recordType: "Post", recordID: CKRecord.ID(recordName: "tea"))
        tea["title"] = "tea"
        tea["count"] = 7
        tea["price"] = 2.0
        tea["tags"] = ["work"]
        tea["done"] = false
        tea["due"] = Date(timeIntervalSince1970: 200)
        tea["spot"] = CLLocation(latitude: 48.8566, longitude: 2.3522)
        tea["owner"] = CKRecord.Reference(recordID: CKRecord.ID(recordName: "o2"), action: .none)
        let bare = CKRecord(recordType: "Post", recordID: CKRecord.ID(recordName: "bare"))
        for record in [milk, tea, bare] { try await database.save(record) }
    }

    private func names(_ predicate: NSPredicate) async throws -> Set<String> {
        let query = CKQuery(recordType: "Post", predicate: predicate)
        return Set(try await database.records(matching: query).matchResults.map(\.0.recordName))
    }

    private static let milkAndTea: Set = ["milk", "tea"]

    @Test func everyPredicateFormFindsTheExpectedRecords() async throws {
        let berlin = CLLocation(latitude: 52.5, longitude: 13.4)
        let cases: [(NSPredicate, Set<String>)] = [
            (NSPredicate(format: "title == %@", "tea"), ["tea"]),
            (NSPredicate(format: "title != 'tea'"), ["milk", "bare"]),
            (NSPredicate(format: "title BEGINSWITH %@", "Bread"), ["milk"]),
            (NSPredicate(format: "count > 3 AND count <= %d", 7), ["tea"]),
            (NSPredicate(format: "count BETWEEN {3, 7}"), Self.milkAndTea),
            (NSPredicate(format: "%K >= %f", "price", 1.75), ["tea"]),
            (NSPredicate(format: "price > 1"), Self.milkAndTea),
            (NSPredicate(format: "done == TRUE"), ["milk"]),
            (NSPredicate(format: "done = %@", false as NSNumber), ["tea"]),
            (NSPredicate(format: "due > %@", Date(timeIntervalSince1970: 150) as NSDate), ["tea"]),
            (NSPredicate(format: "count IN %@", [3, 4]), ["milk"]),
            (NSPredicate(format: "title IN {'tea', \"milk\"}"), ["tea"]),
            (NSPredicate(format: "NOT (count IN %@)", [3, 4]), ["tea", "bare"]),
            (NSPredicate(format: "NOT count IN %@", [3, 4]), ["tea", "bare"]),
            (NSPredicate(format: "tags CONTAINS %@", "home"), ["milk"]),
            (NSPredicate(format: "%@ IN tags", "home"), ["milk"]),
            (NSPredicate(format: "ANY tags == 'work'"), ["tea"]),
            (NSPredicate(format: "ANY tags IN %@", ["work", "shop"]), Self.milkAndTea),
            (NSPredicate(format: "ANY tags BEGINSWITH 'ho'"), ["milk"]),
            (NSPredicate(format: "NOT (tags CONTAINS 'home')"), ["tea", "bare"]),
            (NSPredicate(format: "self CONTAINS %@", "MILK bread"), ["milk"]),
            (NSPredicate(format: "allTokens TOKENMATCHES[cdl] %@", "shop"), ["milk"]),
            (NSPredicate(format: "title TOKENMATCHES[cdl] %@", "Tea"), ["tea"]),
            (NSPredicate(format: "owner == %@", CKRecord.ID(recordName: "o1")), ["milk"]),
            (
                NSPredicate(
                    format: "owner == %@",
                    CKRecord.Reference(recordID: .init(recordName: "o2"), action: .none)
                ), ["tea"]
            ),
            (NSPredicate(format: "distanceToLocation:fromLocation:(spot, %@) < %f", berlin, 5_000.0), ["milk"]),
            (NSPredicate(format: "distanceToLocation:fromLocation:(%K,%@) < 900000", "spot", berlin), Self.milkAndTea),
            // The value may be on either side.
            (NSPredicate(format: "distanceToLocation:fromLocation:(%@, spot) < %f", berlin, 5_000.0), ["milk"]),
            (NSPredicate(format: "%f < price and %f > price", 1.0, 1.75), ["milk"]),
            (NSPredicate(format: "7 <= count AND 'tea' = title"), ["tea"]),
            (NSPredicate(format: "3 >= count AND %@ != title", "tea"), ["milk"]),
        ]
        for (index, (predicate, expected)) in cases.enumerated() {
            #expect(try await names(predicate) == expected, "case \(index)")
        }
    }

    @Test func compoundPredicatesAreJoined() async throws {
        let both = NSCompoundPredicate(andPredicateWithSubpredicates: [
            NSPredicate(format: "count > 1"), NSPredicate(format: "title BEGINSWITH 't'"),
        ])
        #expect(try await names(both) == ["tea"])
        let not = NSCompoundPredicate(notPredicateWithSubpredicate: NSPredicate(format: "title == 'tea'"))
        #expect(try await names(not) == ["milk", "bare"])
        let either = NSCompoundPredicate(orPredicateWithSubpredicates: [both, not])
        await expect(.invalidArguments) { _ = try await names(either) }
    }

    /// An unarchived query has an equal predicate.
    @Test func archivedQueriesKeepTheirPredicates() throws {
        let place = CLLocation(latitude: 52.5, longitude: 13.4)
        let predicates = [
            NSPredicate(format: "a == 'x' AND b != 2 AND c < 1.5 AND d <= 2 AND e > 3"),
            NSPredicate(format: "due >= %@", Date(timeIntervalSince1970: 150)),
            NSPredicate(format: "a IN %@ AND NOT (b IN %@)", [1, 2], ["x"]),
            NSPredicate(format: "a BEGINSWITH 'x' AND NOT (b BEGINSWITH 'y')"),
            NSPredicate(format: "distanceToLocation:fromLocation:(spot, %@) < 5000", place),
            NSPredicate(format: "self CONTAINS 'some words' AND title TOKENMATCHES 'word'"),
            NSPredicate(format: "ANY tokenize('some words', 'cdl') IN allTokens"),
            NSPredicate(format: "a CONTAINS 'x' AND NOT (b CONTAINS 3)"),
            NSPredicate(format: "ANY a IN {1, 2} AND NOT (ANY b IN {'x'})"),
            NSPredicate(format: "ANY a BEGINSWITH 'x' AND NOT (ANY b BEGINSWITH 'y')"),
            NSPredicate(format: "recordID IN %@ AND recordID > 'm'", [CKRecord.ID(recordName: "o")]),
            NSPredicate(format: "creatorUserRecordID == %@", CKRecord.ID(recordName: "u")),
            NSPredicate(format: "owner == %@", CKRecord.ID(recordName: "o1")), NSPredicate(value: true),
        ]
        for (index, predicate) in predicates.enumerated() {
            let query = CKQuery(recordType: "Post", predicate: predicate)
            let data = try NSKeyedArchiver.archivedData(withRootObject: query, requiringSecureCoding: true)
            let kept = try #require(try NSKeyedUnarchiver.unarchivedObject(ofClass: CKQuery.self, from: data))
            let again = try CKQuery(recordType: "Post", predicate: kept.predicate).query()
            #expect(try query.query() == again, "case \(index)")
        }
    }

    /// The query may come from another client or from another relay implementation.
    @Test(arguments: ["a b", "@count", "", "SELF.a"])
    func anInvalidFieldNameIsNotMadeIntoAPredicate(_ name: String) throws {
        let query = Query(recordType: "Post", filters: [Query.Filter(.own(name), .equals, [.int64(1)])])
        #expect(CKQuery(query).predicate.evaluate(with: CKRecord(recordType: "Post")))
        #expect(try CKQuery(query).query() == query)
    }

    @Test func resultsAreSortedByFieldsAndByDistance() async throws {
        let query = CKQuery(recordType: "Post", predicate: NSPredicate(format: "count > 0"))
        query.sortDescriptors = [NSSortDescriptor(key: "count", ascending: false)]
        let byCount = try await database.records(matching: query, resultsLimit: 1)
        #expect(byCount.matchResults.map(\.0.recordName) == ["tea"])
        let rest = try await database.records(continuingMatchFrom: try #require(byCount.queryCursor))
        #expect(rest.matchResults.map(\.0.recordName) == ["milk"])
        let place = CLLocation(latitude: 52, longitude: 13)
        query.sortDescriptors = [CKLocationSortDescriptor(key: "spot", relativeLocation: place)]
        let near = try await database.records(matching: query)
        #expect(near.matchResults.map(\.0.recordName) == ["milk", "tea"])
    }

    @Test func aRefusalByTheRelayIsAnErrorWithAReason() async throws {
        let query = CKQuery(recordType: "Post", predicate: NSPredicate(format: "title CONTAINS 'x'"))
        do {
            _ = try await database.records(matching: query)
            Issue.record("a string was searched like a list")
        } catch let error as CKError {
            #expect("\(error)".contains("LIST_CONTAINS") || error.localizedDescription.contains("LIST_CONTAINS"))
        }
    }
}

/// Predicate evaluation in memory, and predicates that are never sent.
@Suite struct PredicateEvaluationTests {
    private let record: CKRecord

    init() {
        record = CKRecord(recordType: "Post", recordID: CKRecord.ID(recordName: "milk"))
        record["title"] = "Bread and Milk"
        record["count"] = 3
        record["tags"] = ["home", "shop"]
        record["due"] = Date(timeIntervalSince1970: 100)
        record["spot"] = CLLocation(latitude: 52.52, longitude: 13.405)
        record["owner"] = CKRecord.Reference(recordID: CKRecord.ID(recordName: "o1"), action: .none)
    }

    // Unsafe: never mutated, and each test reads its own row.
    nonisolated(unsafe) private static let cases: [(String, [Any], Bool)] = [
        ("title == %@", ["Bread and Milk" as any CVarArg], true),
        ("title == 'bread and milk'", [], false),
        ("title ==[c] 'bread and milk'", [], true),
        ("title LIKE 'B*Milk'", [], true),
        ("title LIKE[c] 'b?ead*'", [], true),
        ("title MATCHES '[A-Z].*k'", [], true),
        ("title MATCHES 'B'", [], false),
        ("title ENDSWITH 'Milk' AND count > 2", [], true),
        ("title CONTAINS 'and'", [], true),
        ("title CONTAINS[cd] 'MÍLK'", [], true),
        ("tags CONTAINS 'home'", [], true),
        ("count == 4 OR count == 3", [], true),
        ("(count == 4 || count == 5) && title != nil", [], false),
        ("NOT (count == 4 OR count == 5)", [], true),
        ("missing == nil AND title != nil", [], true),
        ("count BETWEEN {1, 3}", [], true),
        ("count IN {7, 8}", [], false),
        ("count >= %lu", [3 as UInt], true),
        ("count < %i", [3], false),
        ("ANY tags BEGINSWITH 'sh'", [], true),
        ("self CONTAINS 'milk shop'", [], true),
        ("self CONTAINS 'milk office'", [], false),
        ("owner == %@", [CKRecord.Reference(recordID: CKRecord.ID(recordName: "o1"), action: .none)], true),
        ("due < %@", [Date(timeIntervalSince1970: 200) as any CVarArg], true),
        ("recordID == %@", [CKRecord.ID(recordName: "milk")], true),
        (
            "distanceToLocation:fromLocation:(spot, %@) < %f",
            [CLLocation(latitude: 52.5, longitude: 13.4), 5_000.0], true
        ),
        ("TRUEPREDICATE", [], true),
    ]

    @Test(arguments: cases.indices) func isEvaluatedInMemory(_ index: Int) {
        let (format, arguments, expected) = Self.cases[index]
        let predicate = NSPredicate(format: format, argumentArray: arguments)
        #expect(predicate.evaluate(with: record) == expected, "\(format)")
    }

    @Test func dictionariesCompoundsAndFiltersAreEvaluated() {
        let predicate = NSPredicate(format: "count > 2 AND title BEGINSWITH 'B'")
        #expect(predicate.evaluate(with: ["count": 3, "title": "Bread"] as [String: Any]))
        #expect(!predicate.evaluate(with: ["count": 1, "title": "Bread"] as [String: Any]))
        #expect(!predicate.evaluate(with: 7))
        let either = NSCompoundPredicate(orPredicateWithSubpredicates: [
            NSPredicate(format: "count == 9"), NSPredicate(format: "title ENDSWITH 'Milk'"),
        ])
        #expect(either.evaluate(with: record))
        #expect([record].filter { predicate.evaluate(with: $0) }.count == 1)
    }

    @Test(arguments: [
        ("a == 1 OR b == 2", "joined by AND"), ("a LIKE 'x*'", "LIKE"), ("a ENDSWITH 'x'", "ENDSWITH"),
        ("a == nil", "nil"), ("a ==[c] 'x'", "full-text"), ("NOT (a > 3)", "NOT"), ("a ==", "value is missing"),
        ("a == 'x", "cannot be parsed"), ("a == %@", "argument is missing"), ("1 == 2", "field's name"),
    ])
    func anUnsupportedPredicateIsRefusedWithAReason(_ format: String, _ why: String) async throws {
        let relay = ScriptedRelay()
        let query = CKQuery(recordType: "Post", predicate: NSPredicate(format: format))
        do {
            _ = try await relay.container().publicCloudDatabase.records(matching: query)
            Issue.record("\(format) was sent")
        } catch let error as CKError {
            #expect(error.code == .invalidArguments)
            #expect(error.localizedDescription.contains(why), "\(error.localizedDescription)")
        }
        #expect(relay.requests.isEmpty)
    }
}
