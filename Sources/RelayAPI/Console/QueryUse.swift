package import Records
package import RelayCore
import Synchronization

/// Counts which indexes queries require, so that the console can report missing and unused ones.
///
/// Since the start of the relay, in bounded memory. Costs one lock per query.
package final class QueryUse: Sendable {
    package struct Key: Hashable, Sendable {
        package var home: ContainerEnvironment
        package var recordType: String
        package var mark: QueryNeeds.Mark
    }

    package struct Count: Hashable, Sendable {
        /// The number of queries that required it.
        package var queries = 0
        /// The number of queries refused because it is missing.
        package var refused = 0
        package var last: Timestamp
    }

    private static let capacity = 10_000

    private let counts = Mutex<[Key: Count]>([:])

    package init() {}

    /// Counts one query, including a query that is refused because the schema lacks a required index.
    func note(_ query: Query, of schema: Schema, in home: ContainerEnvironment, at now: Timestamp) {
        guard let type = schema.types[query.recordType] else { return }
        let marks = QueryNeeds.marks(of: query, type: type)
        counts.withLock { counts in
            for mark in marks {
                let key = Key(home: home, recordType: query.recordType, mark: mark)
                guard counts[key] != nil || counts.count < Self.capacity else { continue }
                var count = counts[key] ?? Count(last: now)
                count.queries += 1
                if !QueryNeeds.has(mark, type) { count.refused += 1 }
                count.last = now
                counts[key] = count
            }
        }
    }

    /// The counts of one environment.
    package func counts(of home: ContainerEnvironment) -> [Key: Count] {
        counts.withLock { $0.filter { $0.key.home == home } }
    }
}
