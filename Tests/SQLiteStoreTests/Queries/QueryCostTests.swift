import Foundation
import GRDB
import Records
import RelayCore
import RelaySystem
import SQLiteStore
import StoreKit
import StoreTesting
import Synchronization
import TestSupport
import Testing

/// Queries scan nothing that an index can find.
@Suite struct QueryCostTests {
    @Test func everyStatementUsesItsIndexWithoutSorting() async throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString).sqlite")
        defer { try? FileManager.default.removeItem(at: path) }
        let store = try SQLiteStore(.file(path: path.path), draw: { 7 })
        defer { store.close() }
        let queue = try DatabaseQueue(path: path.path)
        for (sql, index) in SQLiteStore.queryStatements {
            let plan = try await queue.read { database in
                let statement = try database.makeStatement(sql: "EXPLAIN QUERY PLAN " + sql)
                // The parameters' values do not matter for a plan.
                statement.setUncheckedArguments([])
                return try Row.fetchAll(statement).map { $0["detail"] as String }
            }
            #expect(plan.contains { $0.contains(index) && $0.contains("SEARCH") }, "\(sql): \(plan)")
            #expect(!plan.contains { $0.contains("TEMP B-TREE") || $0.contains("SCAN") }, "\(sql): \(plan)")
            // The entry to continue from must bound the search, not filter its rows.
            if sql.contains("?5"), index == "PRIMARY KEY" {
                #expect(plan.contains { $0.contains("(value,name)") }, "\(sql): \(plan)")
            }
        }
    }

    /// 3,000 things, of which a query selects a few.
    private func world() async throws -> QueryWorld {
        let world = try QueryWorld()
        try await world.makeZone("A")
        for start in stride(from: 0, to: 3_000, by: 500) {
            try await world.put((start..<start + 500).map { ("n\($0)", thing($0)) }, in: world.zones[0])
        }
        return world
    }

    private func thing(_ number: Int) -> [String: FieldValue] {
        let place = Location(latitude: Double(number % 150) - 75, longitude: Double(number / 20) - 75)
        var fields: [String: FieldValue] = ["count": .int64(Int64(number)), "ratio": .double(0.5)]
        fields["title"] = .string("t\(number % 300)")
        fields["note"] = .string("milk and w\(number)")
        fields["tags"] = .list(.string, [.string("all"), .string("g\(number % 500)")])
        fields["spot"] = .location(place)
        return fields
    }

    @Test func aQueryExaminesLittleMoreThanItFinds() async throws {
        let world = try await world()
        let center = Location(latitude: 25, longitude: 20)
        let counts = [
            Query.Filter(.own("count"), .greaterThanOrEquals, [.int64(100)]),
            Query.Filter(.own("count"), .lessThan, [.int64(110)]),
        ]
        var bounded = query(.init(.own("ratio"), .equals, [.double(0.5)]), sort: .init(.own("title")))
        bounded.filters += counts
        let title = Query.Filter(.own("title"), .equals, [.string("t7")])
        let near = Query.Filter(.own("spot"), .near, [.location(center)], distance: 100_000)
        let later = Query.Filter(.system(.modified), .greaterThan, [.timestamp(Timestamp(milliseconds: 2_000))])
        var queries: [(query: Query, most: Int)] = [(bounded, 10)]
        queries.append((query(.init(.own("count"), .equals, [.int64(1_234)])), 1))
        queries.append((query(title), 10))
        queries.append((query(title, sort: .init(.own("count"), ascending: false)), 10))
        queries.append((query(.init(.own("note"), .containsAllTokens, [.string("Milk W77")])), 1))
        queries.append((query(.init(.anySearchable, .containsAllTokens, [.string("milk w77")])), 1))
        queries.append((query(.init(.own("tags"), .listContainsAll, [.string("all"), .string("g3")])), 6))
        queries.append((query(.init(.own("tags"), .listContainsAny, [.string("g3"), .string("g4")])), 12))
        queries.append((query(.init(.own("title"), .beginsWith, [.string("t29")])), 110))
        queries.append((query(near), 10))
        queries.append((query(.init(.system(.recordName), .equals, [.string("n5")])), 1))
        queries.append((query(later), 1_000))
        for (query, most) in queries {
            // The first queries request indexes, and scan while these are built.
            for _ in 0..<3 { _ = try await world.firstPage(query, limit: 1) }
            let answer = try await world.answer(query, limit: 200)
            #expect(answer.names == (try world.expectation(query)), "\(query)")
            #expect(!answer.names.isEmpty, "\(query)")
            // A page examines one record more than it returns, and the next page begins with the last one.
            #expect(answer.examined <= most + 2 * (answer.names.count / 200), "\(query): \(answer.examined)")
        }
    }

    /// Long work must not run on the thread that answers all requests.
    @Test func aLongQueryContinuesOnAnotherThread() async throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString).sqlite")
        defer { try? FileManager.default.removeItem(at: path) }
        var tuning = QueryTuning.indexesOnly
        tuning.recordsAtOnce = 100
        let store = try SQLiteStore.forQueries(.file(path: path.path), tuning: tuning)
        defer { store.close() }
        let world = QueryWorld(store)
        try await world.makeZone("A")
        try await world.put((0..<300).map { ("n\($0)", thing($0)) }, in: world.zones[0])
        let all = query(.init(.own("title"), .notEquals, [.string("t7")]), sort: .init(.own("count")))
        for _ in 0..<3 { _ = try await world.firstPage(all, limit: 1) }
        let (few, many) = (
            try await Self.ask(all, 10, of: world, store), try await Self.ask(all, 200, of: world, store)
        )
        #expect(few.ranOnExecutor == [true], "examined \(few.examined)")
        #expect(many.ranOnExecutor == [true, false])
        #expect(many.names == (try world.expectation(all)).prefix(200).map(\.recordName))
        #expect(many.examined > 200 && many.examined < 210)
    }

    /// Queries from an executor of its own and returns, for each attempt, whether it ran there.
    private static func ask(_ query: Query, _ limit: Int, of world: QueryWorld, _ store: SQLiteStore) async throws -> (
        names: [String], examined: Int, ranOnExecutor: [Bool]
    ) {
        let (zone, executor) = (world.zones[0], ThreadExecutor())
        let ranOnExecutor = Mutex<[Bool]>([])
        let (names, examined) = try await withTaskExecutorPreference(executor) {
            try await store.countedQuery { reader throws(RelayError) in
                ranOnExecutor.withLock { $0.append(executor.isHere) }
                guard let zone = try reader.zone(zone) else { return [String]() }
                let page = try reader.page(of: query, in: [zone], after: nil, limit: limit, bytes: .max)
                return page.records.map { $0.record.name }
            }
        }
        return (names, examined, ranOnExecutor.withLock { $0 })
    }

    /// An executor like an event loop.
    private final class ThreadExecutor: TaskExecutor {
        private let queue = DispatchQueue(label: "answers")
        private let thread = Mutex<ObjectIdentifier?>(nil)

        /// Compares threads, because a connection's own queue may borrow the thread.
        var isHere: Bool { thread.withLock { $0 == ObjectIdentifier(Thread.current) } }

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            queue.async {
                self.thread.withLock { $0 = ObjectIdentifier(Thread.current) }
                job.runSynchronously(on: self.asUnownedTaskExecutor())
                self.thread.withLock { $0 = nil }
            }
        }
    }

    @Test func aFullPageStopsTheSearch() async throws {
        let world = try await world()
        let queries = [
            query(sort: .init(.own("count"), ascending: false)), query(sort: .init(.system(.recordName))), query(),
            query(.init(.own("count"), .greaterThan, [.int64(500)])),
            query(.init(.own("title"), .notEquals, [.string("t7")])),
        ]
        for query in queries {
            for _ in 0..<3 { _ = try await world.firstPage(query, limit: 1) }
            let first = try await world.firstPage(query, limit: 10)
            #expect(first.names == Array(try world.expectation(query).prefix(10)), "\(query)")
            #expect(first.examined <= 14, "\(query): \(first.examined)")
        }
    }

    /// Applies to any place and direction; the last page costs no more than the first.
    @Test(arguments: [(25.2, 20.1), (-89.9, 0), (40, 179.99), (2, -170)], [true, false])
    func sortingByDistanceExaminesLittleMoreThanItsPages(_ place: (Double, Double), _ isAscending: Bool) async throws {
        let world = try await world()
        try await world.put(
            [("nowhere1", ["count": .int64(1)]), ("nowhere2", ["count": .int64(2)])],
            in: world.zones[0]
        )
        let center = Location(latitude: place.0, longitude: place.1)
        let query = query(sort: .init(.own("spot"), ascending: isAscending, relativeTo: center))
        for _ in 0..<3 { _ = try await world.firstPage(query, limit: 1) }
        let first = try await world.firstPage(query, limit: 10)
        let expected = try world.expectation(query)
        #expect(first.names == Array(expected.prefix(10)))
        #expect(first.examined <= 300, "\(first.examined)")
        let all = try await world.answer(query, limit: 100)
        #expect(all.names == expected)
        // 31 pages.
        #expect(all.examined <= 31 * 600, "\(all.examined)")
    }

    @Test func sortingByDistanceWithinARadiusStaysInside() async throws {
        let world = try await world()
        let near = Query.Filter(
            .own("spot"),
            .near,
            [.location(Location(latitude: 20, longitude: 10))],
            distance: 1_000_000
        )
        for isAscending in [true, false] {
            let center = Location(latitude: 21, longitude: 12)
            let query = query(near, sort: .init(.own("spot"), ascending: isAscending, relativeTo: center))
            for _ in 0..<3 { _ = try await world.firstPage(query, limit: 1) }
            let all = try await world.answer(query, limit: 10)
            #expect(all.names == (try world.expectation(query)) && !all.names.isEmpty)
        }
    }

    private func halved(_ number: Int) -> [String: FieldValue] {
        let mixed = Int64(number * 7919 % 3_001)
        return ["ratio": .double(Double(number % 2)), "count": .int64(mixed)]
    }

    /// Many records share the first sort's value; the second sort's index orders them.
    @Test func sortingByTwoFieldsExaminesAboutAPage() async throws {
        var tuning = QueryTuning.indexesOnly
        tuning.manyEntries = 1_000
        let world = try QueryWorld(tuning: tuning)
        try await world.makeZone("A")
        for start in stride(from: 0, to: 3_000, by: 500) {
            try await world.put((start..<start + 500).map { ("n\($0)", halved($0)) }, in: world.zones[0])
        }
        for isAscending in [true, false] {
            let query = Query(
                recordType: "Thing",
                sorts: [.init(.own("ratio"), ascending: isAscending), .init(.own("count"), ascending: false)]
            )
            for _ in 0..<4 { _ = try await world.firstPage(query, limit: 1) }
            let first = try await world.firstPage(query, limit: 10)
            #expect(first.names == Array(try world.expectation(query).prefix(10)))
            #expect(first.examined <= 60, "\(first.examined)")
            let all = try await world.answer(query, limit: 100)
            #expect(all.names == (try world.expectation(query)))
            #expect(all.examined <= 12_000, "\(all.examined)")
        }
    }

    private func query(_ filters: Query.Filter..., sort: Query.Sort? = nil) -> Query {
        Query(recordType: "Thing", filters: filters, sorts: sort.map { [$0] } ?? [])
    }
}
