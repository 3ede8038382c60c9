import CloudKit
import Testing
import ZoneTesting

/// Searches that programs build at run time: lists that may be empty, predicates that are compared, printed and used as
/// keys.
@Suite(.timeLimit(.minutes(15))) struct SearchTests {
    private let database: CKDatabase

    init() async throws {
        database = try TestRelay().device(of: "alice").publicDatabase
        let records = (1...4).map { (number: Int) in
            let record = CKRecord(recordType: "Song", recordID: CKRecord.ID(recordName: "s\(number)"))
            record["title"] = ["Alpha", "Beta", "Gamma", "Delta"][number - 1]
            record["rating"] = Double(number)
            record["genres"] = number.isMultiple(of: 2) ? ["rock", "pop"] : ["jazz"]
            record["album"] = CKRecord.Reference(recordID: CKRecord.ID(recordName: "album\(number % 2)"), action: .none)
            return record
        }
        _ = try await database.modifyRecords(saving: records, deleting: [], savePolicy: .allKeys, atomically: false)
    }

    private func names(_ predicate: NSPredicate) async throws -> [String] {
        let query = CKQuery(recordType: "Song", predicate: predicate)
        let (results, _) = try await database.records(matching: query)
        return results.map(\.0.recordName).sorted()
    }

    /// A list built by a program may be empty.
    ///
    /// No value is in an empty list.
    @Test func noValueIsInAnEmptyList() async throws {
        let none: [String] = []
        #expect(try await names(NSPredicate(format: "title IN %@", none)) == [])
        #expect(try await names(NSPredicate(format: "recordID IN %@", [CKRecord.ID]())) == [])
        #expect(try await names(NSPredicate(format: "album IN %@", NSArray())) == [])
        #expect(try await names(NSPredicate(format: "ANY genres IN %@", none)) == [])
        #expect(try await names(NSPredicate(format: "title IN {}")) == [])
        #expect(try await names(NSPredicate(format: "rating > 1 AND title IN %@", none)) == [])
        #expect(try await names(NSPredicate(format: "NOT (title IN %@)", none)).count == 4)
        #expect(try await names(NSPredicate(format: "rating > 2 AND NOT (title IN %@)", none)) == ["s3", "s4"])
        let parts = [NSPredicate(format: "rating > 2"), NSPredicate(format: "NOT (recordID IN %@)", [CKRecord.ID]())]
        #expect(try await names(NSCompoundPredicate(andPredicateWithSubpredicates: parts)) == ["s3", "s4"])
        let record = CKRecord(recordType: "Song")
        record["title"] = "Alpha"
        #expect(!NSPredicate(format: "title IN %@", none).evaluate(with: record))
        #expect(NSPredicate(format: "NOT title IN %@", none).evaluate(with: record))
    }

    @Test func listsMayContainRecordsReferencesAndSets() async throws {
        let ids = ["s1", "s3", "nowhere"].map { CKRecord.ID(recordName: $0) }
        #expect(try await names(NSPredicate(format: "recordID IN %@", ids)) == ["s1", "s3"])
        let links = [CKRecord.Reference(recordID: CKRecord.ID(recordName: "album0"), action: .none)]
        #expect(try await names(NSPredicate(format: "album IN %@", links)) == ["s2", "s4"])
        #expect(try await names(NSPredicate(format: "title IN %@", NSSet(array: ["Alpha", "Delta"]))) == ["s1", "s4"])
        #expect(try await names(NSPredicate(format: "title IN %@", Set(["Beta"]))) == ["s2"])
        let album = CKRecord(recordType: "Album", recordID: CKRecord.ID(recordName: "album1"))
        #expect(try await names(NSPredicate(format: "album == %@", album)) == ["s1", "s3"])
        #expect(try await names(NSPredicate(format: "%@ IN genres", "jazz")) == ["s1", "s3"])
        #expect(try await names(NSPredicate(format: "%lf <= rating AND rating < %lf", 2.0, 4.0)) == ["s2", "s3"])
        #expect(try await names(NSPredicate(format: "rating >= %g", 3.5)) == ["s4"])
        #expect(try await names(NSPredicate(format: "(rating == %@) and (title beginswith %@)", 2, "B")) == ["s2"])
    }

    /// The functions that CloudKit's documentation lists besides distances: the current date and tokenization.
    @Test func predicateFormatsMayCallFunctions() async throws {
        for (number, due) in [(1, -60.0), (2, 60)] {
            let record = CKRecord(recordType: "Task", recordID: CKRecord.ID(recordName: "t\(number)"))
            record["due"] = Date(timeIntervalSinceNow: due * 60)
            record["text"] = ["Call Bob Smith", "Write to Bob"][number - 1]
            record["tags"] = [["home"], ["work"]][number - 1]
            try await database.save(record)
        }
        func tasks(_ predicate: NSPredicate) async throws -> [String] {
            let query = CKQuery(recordType: "Task", predicate: predicate)
            return try await database.records(matching: query).matchResults.map(\.0.recordName).sorted()
        }
        let late = NSPredicate(format: "due < now()")
        #expect(try await tasks(late) == ["t1"])
        #expect(try await tasks(NSPredicate(format: "now() < due")) == ["t2"])
        #expect(try await tasks(NSPredicate(format: "due BETWEEN %@", [Date.distantPast, Date()])) == ["t1"])
        let both = NSCompoundPredicate(andPredicateWithSubpredicates: [
            late, NSPredicate(format: "tags CONTAINS 'work'"),
        ])
        #expect(try await tasks(both) == [])
        #expect("\(late)" == "due < now()" && late == NSPredicate(format: "due < now()"))
        #expect(late != NSPredicate(format: "due > now()"))
        #expect(NSPredicate(format: "due < now() AND n = %d", 1) != NSPredicate(format: "due < now() AND n = %d", 2))

        #expect(try await tasks(NSPredicate(format: "ALL tokenize(%@, 'Cdl') IN allTokens", "smith BOB")) == ["t1"])
        #expect(
            try await tasks(NSPredicate(format: "ANY tokenize(%@, 'Cdl') IN allTokens", "smith write")) == ["t1", "t2"]
        )
        #expect(try await tasks(NSPredicate(format: "ALL tokenize:using:(%@, 'cdl') IN SELF", "write")) == ["t2"])
        #expect(try await tasks(NSPredicate(format: "ANY tags CONTAINS %@", "home")) == ["t1"])
    }

    /// A stored predicate uses the time at which it is evaluated.
    @Test func nowIsTheTimeOfEvaluation() async throws {
        let coming = NSPredicate(format: "due > now()")
        let query = CKQuery(recordType: "Task", predicate: coming)
        let record = CKRecord(recordType: "Task")
        record["due"] = Date(timeIntervalSinceNow: 0.05)
        #expect(coming.evaluate(with: record))
        while Date() <= record["due"] ?? .distantFuture { await Task.yield() }
        #expect(!coming.evaluate(with: record))
        try await database.save(record)
        #expect(try await database.records(matching: query).matchResults.isEmpty)
    }

    @Test func predicatesAreComparedAndPrinted() {
        let one = NSPredicate(format: "title == %@ AND rating > %d", "Alpha", 3)
        let same = NSPredicate(format: "title = 'Alpha' && %K > 3", "rating")
        let other = NSPredicate(format: "title == %@ AND rating > %d", "Beta", 3)
        #expect(one == same && one.hash == same.hash && one != other)
        #expect((one.copy() as? NSPredicate) == one)
        #expect(one != NSPredicate(value: true) && NSPredicate(value: true) == NSPredicate(value: true))
        var searches: [NSPredicate: Int] = [one: 1]
        searches[same] = 2
        searches[other] = 3
        #expect(searches.count == 2)
        #expect(CKQuery(recordType: "Song", predicate: one).predicate == same)
        #expect("\(one)" == #"title == "Alpha" AND rating > 3"#)
        #expect("\(NSPredicate(format: "genres CONTAINS %@", "a\"b"))" == #"genres CONTAINS "a\"b""#)
        #expect("\(NSPredicate(format: "NOT (title IN %@)", ["a", "b"]))" == #"NOT title IN {"a", "b"}"#)
        #expect("\(NSPredicate(format: "done == %@", true))" == "done == 1")
        let when = Date(timeIntervalSinceReferenceDate: 3)
        #expect("\(NSPredicate(format: "modificationDate > %@", when as NSDate))".contains("CAST(3.0"))
        #expect(NSPredicate(format: "due > %@", when) != NSPredicate(format: "due > %@", when.addingTimeInterval(1)))
        let here = CLLocation(latitude: 1, longitude: 2)
        let near = "distanceToLocation:fromLocation:(place, %@) < %f"
        #expect(NSPredicate(format: near, here, 5.0) == NSPredicate(format: near, here, 5.0))
        let there = CLLocation(latitude: 1, longitude: 3)
        #expect(NSPredicate(format: near, here, 5.0) != NSPredicate(format: near, there, 5.0))
    }

    /// The cursor is stored while the program does not run.
    @Test func aSearchContinuesAfterARestart() async throws {
        let query = CKQuery(recordType: "Song", predicate: NSPredicate(format: "rating > 0"))
        query.sortDescriptors = [NSSortDescriptor(key: "rating", ascending: false)]
        let (first, cursor) = try await database.records(matching: query, desiredKeys: ["title"], resultsLimit: 3)
        let data = try NSKeyedArchiver.archivedData(withRootObject: #require(cursor), requiringSecureCoding: true)
        let kept = try NSKeyedUnarchiver.unarchivedObject(ofClass: CKQueryOperation.Cursor.self, from: data)
        let (rest, end) = try await database.records(continuingMatchFrom: try #require(kept))
        #expect((first + rest).map(\.0.recordName) == ["s4", "s3", "s2", "s1"] && end == nil)
    }

    @Test func unsupportedPredicatesAreRefusedWithAReason() async throws {
        let predicates = [
            NSPredicate(format: "title CONTAINS[c] %@", "a"), NSPredicate(format: "title LIKE 'A*'"),
            NSPredicate(format: "title == 'a' OR title == 'b'"), NSPredicate(block: { _, _ in true }),
            NSPredicate(format: "title == nil"), NSPredicate(format: "rating BETWEEN %@", [1]),
            NSPredicate(format: "album.title == 'x'"), NSPredicate(format: "title =="),
        ]
        for predicate in predicates {
            do {
                _ = try await names(predicate)
                Issue.record("\(predicate) was asked")
            } catch let error as CKError {
                #expect(error.code == .invalidArguments && error.localizedDescription.count > 30, "\(error)")
            }
        }
    }
}
