import Foundation
import Records
import Testing
import ZoneKit
import ZoneTesting

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
