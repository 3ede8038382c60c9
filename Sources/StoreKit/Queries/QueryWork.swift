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
    package fileprivate(set) var examined = 0
    /// Whether a query was stopped because it would take too long on its thread.
    fileprivate(set) var exceedsAllowance = false
    /// The missing indexes because of which a query failed.
    fileprivate(set) var missing: Set<WantedIndex> = []

    package init(tuning: QueryTuning = QueryTuning()) { self.tuning = tuning }

    /// Records that a query may look at while its missing index is being built.
    fileprivate static let manyRecords = 20_000

    /// Begins another attempt.
    fileprivate mutating func begin() { (examined, exceedsAllowance, missing) = (0, false, []) }

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

/// A store whose queries the engine answers.
package protocol IndexedStore: Store {
    /// The thresholds for query plans.
    var tuning: QueryTuning { get }

    /// Whether a query that proves long may continue on another thread.
    var hasOwnThreads: Bool { get }

    /// Does the same as `Store.read`, with limits on the cost of queries, and adds to `work` what they cost.
    func read<Result>(
        _ work: inout QueryWork,
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) throws(RelayError) -> Result

    /// Builds these indexes one step further, as an ordinary write that reads at most `limit` records; returns whether
    /// all are complete.
    func build(_ wanted: Set<WantedIndex>, limit: Int) async throws(RelayError) -> Bool
}

extension IndexedStore {
    /// Does what `Store.query` must, and also returns the number of records and index entries looked at.
    ///
    /// Answers from existing indexes if that is cheap. Otherwise builds the missing indexes, step by step between other
    /// writes, and answers from them. Building continues where an earlier query left off, so a query that is refused is
    /// not refused forever.
    package func countedQuery<Result>(
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) async throws(RelayError) -> (Result, examined: Int) {
        let deadline = ContinuousClock.now + tuning.longestWait
        var work = QueryWork(tuning: tuning)
        work.allowance.records = tuning.recordsWithoutIndex
        if hasOwnThreads { work.allowance.atOnce = tuning.recordsAtOnce }
        while true {
            work.begin()
            let refusal: RelayError
            do throws(RelayError) {
                return (try await answer(&work, body), work.examined)
            } catch {
                refusal = error
            }
            if work.exceedsAllowance {
                work.allowance.atOnce = nil
                continue
            }
            let missing = work.missing
            guard !missing.isEmpty, ContinuousClock.now < deadline else { throw refusal }
            let isComplete = try await buildStep(missing)
            // The second attempt may look at more records; the third waits for the indexes.
            guard !isComplete, work.allowance.records == QueryWork.manyRecords else {
                work.allowance.records = QueryWork.manyRecords
                continue
            }
            while try await !buildStep(missing) {
                guard ContinuousClock.now < deadline else { throw refusal }
            }
        }
    }

    /// Reads on this thread, or, once the query has proved long, on a thread for long queries.
    private func answer<Result>(
        _ work: inout QueryWork,
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) async throws(RelayError) -> Result {
        guard hasOwnThreads, work.allowance.atOnce == nil else { return try read(&work, body) }
        return try await SlowQueryExecutor.shared.run { () throws(RelayError) -> Result in try read(&work, body) }
    }

    /// Other writes wait for about 20 ms.
    private func buildStep(_ missing: Set<WantedIndex>) async throws(RelayError) -> Bool {
        try await build(missing, limit: 2_000)
    }
}
