import Records
import RelayCore
import StoreKit
import Testing

/// The query engine above a reader in memory.
@Suite struct QueryEngineTests {
    private struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        let filters: [Query.Filter]
        var sorts: [Query.Sort] = []

        var testDescription: String { name }
        var query: Query { Query(recordType: "Note", filters: filters, sorts: sorts) }
    }

    private static let center = Location(latitude: 10, longitude: 10)
    private static let cases: [Case] = [
        Case(name: "names", filters: [.init(.system(.recordName), .in, [.string("n3"), .string("n5"), .string("x")])]),
        Case(name: "everything", filters: []),
        Case(name: "equals", filters: [.init(.own("title"), .equals, [.string("t2")])]),
        Case(
            name: "equals, sorted by another field",
            filters: [.init(.own("title"), .equals, [.string("t2")])],
            sorts: [.init(.own("count"), ascending: false)]
        ),
        Case(
            name: "range",
            filters: [
                .init(.own("count"), .greaterThan, [.int64(2)]), .init(.own("count"), .lessThanOrEquals, [.int64(7)]),
            ]
        ),
        Case(
            name: "two fields",
            filters: [
                .init(.own("title"), .equals, [.string("t1")]), .init(.own("count"), .equals, [.int64(3)]),
            ]
        ),
        Case(
            name: "not",
            filters: [.init(.own("title"), .notEquals, [.string("t1")])],
            sorts: [.init(.own("title"), ascending: false), .init(.own("count"))]
        ),
        Case(
            name: "list",
            filters: [.init(.own("tags"), .listContainsAll, [.string("red"), .string("green")])],
            sorts: [.init(.own("count"))]
        ),
        Case(
            name: "near, by distance",
            filters: [.init(.own("spot"), .near, [.location(center)], distance: 4_000_000)],
            sorts: [.init(.own("spot"), ascending: true, relativeTo: center)]
        ),
    ]

    private static let targets: [IndexTarget] =
        ["count", "title", "tags", "spot"].map { .value(.own($0)) } + [.value(.system(.recordName))]

    private func reader(indexing targets: [IndexTarget] = targets) throws -> MemoryIndexReader {
        let reader = MemoryIndexReader(indexing: targets)
        // The second round replaces values, and the third deletes some records.
        for round in 0..<3 {
            for number in stride(from: 0, to: 80, by: [1, 3, 7][round]) {
                try reader.put("n\(number)", round == 2 ? nil : fields(number * (round + 1)))
            }
        }
        return reader
    }

    private func fields(_ number: Int) -> [String: FieldValue] {
        var fields: [String: FieldValue] = ["title": .string("t\(number % 4)")]
        if number % 5 > 0 { fields["count"] = .int64(Int64(number * 7 % 11)) }
        fields["tags"] = .list(.string, ["red", "green", "blue"].prefix(number % 4).map { .string($0) })
        if number % 6 > 0 {
            let (latitude, longitude) = (Double(number % 9) * 10, Double(number % 13) * 20 - 120)
            fields["spot"] = .location(Location(latitude: latitude, longitude: longitude))
        }
        return fields
    }

    private func expectation(_ query: Query, _ reader: MemoryIndexReader) throws -> [String] {
        let (match, order) = (QueryMatch(query.filters, type: MemoryIndexReader.type), QueryOrder(query))
        var found: [Query.Position] = []
        for (name, record) in reader.records {
            let values = try QueryValues(record, fields: Set(MemoryIndexReader.type.fields.keys))
            guard match.matches(for: values) else { continue }
            found.append(.init(keys: order.keys(of: values), recordName: name, zone: reader.zone.id))
        }
        return found.sorted { order.areInOrder($0, $1) }.map(\.recordName)
    }

    private func answer(_ query: Query, limit: Int, tuning: QueryTuning, _ reader: MemoryIndexReader) throws -> [String]
    {
        var (names, position): ([String], Query.Position?) = ([], nil)
        repeat {
            let page = try reader.page(of: query, after: position, limit: limit, tuning: tuning)
            #expect(page.records.count <= limit)
            names += page.records.map(\.record.name)
            position = page.next
        } while position != nil
        return names
    }

    /// Walks through indexes as for many records, where the entries are more than `manyEntries`.
    private static let likeMany: QueryTuning = {
        var tuning = QueryTuning()
        (tuning.fewEntries, tuning.manyEntries) = (2, 5)
        return tuning
    }()

    @Test(arguments: cases, [1, 4, 100]) private func pagesAreTheResultOfAFullScan(_ one: Case, limit: Int) throws {
        let reader = try reader()
        let expected = try expectation(one.query, reader)
        #expect(!expected.isEmpty)
        for tuning in [QueryTuning(), Self.likeMany] {
            #expect(try answer(one.query, limit: limit, tuning: tuning, reader) == expected)
        }
        #expect(try answer(one.query, limit: limit, tuning: QueryTuning(), self.reader(indexing: [])) == expected)
    }

    /// A store on another machine reads candidates ahead, many in one round trip.
    @Test(arguments: cases) private func whatIsLookedUpWasAnnounced(_ one: Case) throws {
        let reader = try reader()
        for tuning in [QueryTuning(), Self.likeMany] { _ = try answer(one.query, limit: 4, tuning: tuning, reader) }
        #expect(reader.surprises == [])
    }

    /// Between the steps records are written, which are beyond the index's goal.
    @Test func indexesAreBuiltInSteps() throws {
        let reader = try reader(indexing: [])
        let (first, second) = (IndexTarget.value(.own("title")), IndexTarget.value(.own("tags")))
        let both = Set([first, second].map { WantedIndex(recordType: "Note", target: $0) })
        var steps = 0
        #expect(try !reader.build([WantedIndex(recordType: "Note", target: first)], limit: 20))
        repeat {
            try reader.put("m\(steps)", fields(2))
            steps += 1
        } while try !reader.build(both, limit: 20)
        // 68 records, of which the second index needs all and the first one has some.
        #expect((4...8).contains(steps), "\(steps)")
        #expect(try reader.build([WantedIndex(recordType: "Other", target: first)], limit: 20))
        for one in [Self.cases[2], Self.cases[7]] {
            let names = try answer(one.query, limit: 4, tuning: Self.likeMany, reader)
            #expect(try names == expectation(one.query, reader))
        }
    }

    @Test func aQueryThatNeedsAMissingIndexIsRefusedBeyondItsAllowance() throws {
        let reader = try reader(indexing: [])
        var work = QueryWork(tuning: Self.likeMany)
        work.allowance.records = 10
        let query = Query(recordType: "Note", filters: [.init(.own("title"), .equals, [.string("t2")])])
        let error = #expect(throws: RelayError.self) {
            try work.page(
                of: query,
                type: (MemoryIndexReader.typeNumber, MemoryIndexReader.type),
                in: [reader.zone],
                after: nil,
                limit: 5,
                bytes: .max,
                reading: reader
            )
        }
        #expect(error?.code == .tryAgainLater && error?.reason.contains("'title'") == true)
        #expect(work.examined == 11)
    }
}
