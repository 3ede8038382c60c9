package import Records
package import RelayCore

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
    package func query<Result>(
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) async throws(RelayError) -> Result {
        try await countedQuery(body).0
    }

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
