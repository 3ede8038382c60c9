import RelayCore
import SQLiteStore
import StoreKit
import StoreTesting

extension QueryWorld {
    /// Creates a world on SQLite, which counts the records that queries examine; by default, every query uses indexes.
    convenience init(_ place: SQLiteStore.Place = .memory, tuning: QueryTuning = .indexesOnly) throws {
        self.init(try SQLiteStore.forQueries(place, tuning: tuning))
    }

    convenience init(_ store: SQLiteStore) {
        self.init(store) { body in
            let (page, examined) = try await store.countedQuery(body)
            return (page, examined)
        }
    }
}

extension SQLiteStore {
    static func forQueries(_ place: Place, tuning: QueryTuning = .indexesOnly) throws -> SQLiteStore {
        try SQLiteStore(place, draw: { UInt64.random(in: 1 ... .max) }, tuning: tuning)
    }
}
