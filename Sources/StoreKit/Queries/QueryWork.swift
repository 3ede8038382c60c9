package import Records
package import RelayCore

/// The limits and the accumulated cost of the queries of one access.
package struct QueryWork: Sendable {
    /// The limits on a query's cost.
    package struct Allowance: Sendable {
        /// The number of records it may look at while an index is missing.
        package var records: Int
        /// The number of records it may look at in any case; `nil` for no limit.
        package var atOnce: Int?
    }

    package var allowance = Allowance(records: Self.manyRecords)
    package let tuning: QueryTuning
    /// The number of records and index entries looked at.
    package private(set) var examined = 0
    /// Whether a query was stopped because it would take too long on its thread.
    package private(set) var exceedsAllowance = false
    /// The missing indexes because of which a query failed.
    package private(set) var missing: Set<WantedIndex> = []

    package init(tuning: QueryTuning = QueryTuning()) { self.tuning = tuning }

    /// Records that a query may look at while its missing index is being built.
    static let manyRecords = 20_000

    /// Begins another attempt.
    mutating func begin() { (examined, exceedsAllowance, missing) = (0, false, []) }

    /// Adds what queries of the same access have cost on another shard.
    package mutating func add(_ other: QueryWork) {
        examined += other.examined
        exceedsAllowance = exceedsAllowance || other.exceedsAllowance
        missing.formUnion(other.missing)
    }

    /// The same limits, and no cost yet.
    package var fresh: QueryWork {
        var work = self
        work.begin()
        return work
    }

    /// Returns one page of a query over all `zones` together, as `StoreReader.page` does, and adds what it costs.
    ///
    /// `type` is the query's record type: its number, and its definition.
    package mutating func page(
        of query: Query,
        type: (number: Int64, definition: RecordType),
        in zones: [Zone],
        after position: Query.Position?,
        limit: Int,
        bytes: Int,
        reading reader: any IndexReader
    ) throws -> QueryPage {
        guard let first = zones.first else { return QueryPage(records: [], next: nil) }
        let run = try QueryRun(
            query,
            type: type,
            after: position,
            page: QueryPageBuilder(QueryOrder(query), limit: limit, bytes: bytes),
            work: self,
            zone: first,
            reader: reader
        )
        defer { examined += run.examined }
        do {
            return try run.run(in: zones)
        } catch is QueryAllowanceExceeded {
            exceedsAllowance = true
            throw RelayError(.tryAgainLater, "The query takes long.")
        } catch let error as MissingIndexError {
            missing.formUnion(error.targets.map { WantedIndex(recordType: query.recordType, target: $0) })
            throw error.relayError(of: query.recordType)
        }
    }
}

extension MissingIndexError {
    fileprivate func relayError(of type: String) -> RelayError {
        let fields = targets.map { "'\($0.fieldName)'" }.sorted().joined(separator: ", ")
        return RelayError(
            .tryAgainLater,
            "The index of record type '\(type)' on \(fields) is being built.",
            retryAfter: .seconds(5)
        )
    }
}
