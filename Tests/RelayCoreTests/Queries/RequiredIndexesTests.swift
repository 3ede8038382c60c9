import Records
import RelayCore
import Testing

/// Index advice must count exactly the indexes for which queries are refused.
@Suite struct RequiredIndexesTests {
    private static let type = RecordType(
        fields: [
            "title": .init(.scalar(.string), indexes: .queryable),
            "stars": .init(.scalar(.int64), indexes: .sortable),
            "text": .init(.scalar(.string), indexes: .searchable),
        ],
        systemIndexes: [.recordName: .queryable]
    )

    private static func query(_ filters: [Query.Filter], by sorts: [Query.Sort] = []) -> Query {
        var query = Query(recordType: "Note")
        query.filters = filters
        query.sorts = sorts
        return query
    }

    private static let queries: [Query] = [
        query([]),
        query([.init(.own("title"), .equals, [.string("a")])]),
        query([.init(.own("title"), .lessThan, [.string("a")])]),
        query([.init(.own("stars"), .greaterThan, [.int64(1)])]),
        query([.init(.own("stars"), .equals, [.int64(1)])]),
        query([.init(.own("text"), .containsAllTokens, [.string("a")])]),
        query([.init(.own("title"), .containsAllTokens, [.string("a")])]),
        query([], by: [.init(.own("stars"))]),
        query([], by: [.init(.own("title"))]),
        query([], by: [.init(.system(.modified))]),
    ]

    @Test(arguments: queries.indices)
    func missingIndexesAreThoseForWhichTheQueryIsRefused(index: Int) throws {
        let query = Self.queries[index]
        let missing = RequiredIndexes.list(of: query, type: Self.type).filter { !RequiredIndexes.has($0, Self.type) }
        do throws(RelayError) {
            try QueryCheck(query, of: Self.type).check()
            #expect(missing.isEmpty)
        } catch {
            #expect(!missing.isEmpty, "\(error.reason)")
        }
    }
}
