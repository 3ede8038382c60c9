package import Records
package import RelayCore
import Synchronization

/// Counts which index marks real queries ask for, so that the console can say which are missing and which nobody uses.
///
/// Since the relay's start, in bounded memory. A query costs one lock; nothing else costs anything.
package final class QueryUse: Sendable {
    package struct Key: Hashable, Sendable {
        package var home: ContainerEnvironment
        package var recordType: String
        package var mark: QueryNeeds.Mark
    }

    package struct Count: Hashable, Sendable {
        /// Queries that asked for it.
        package var queries = 0
        /// Those that were refused for want of it.
        package var refused = 0
        package var last: Timestamp
    }

    private static let capacity = 10_000

    private let counts = Mutex<[Key: Count]>([:])

    package init() {}

    /// Counts one query, which a schema without one of its marks has refused.
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

    /// What was asked of one environment.
    package func counts(of home: ContainerEnvironment) -> [Key: Count] {
        counts.withLock { $0.filter { $0.key.home == home } }
    }
}
