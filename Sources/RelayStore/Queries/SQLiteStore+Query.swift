package import Records
package import RelayCore
import StoreKit

extension SQLiteStore {
    /// Records that a query may look at while its missing index is being built.
    private static let manyRecords = 20_000
    /// Records that one step of building an index reads: other writes wait for about 20 ms.
    private static let buildingStep = 2_000

    /// Runs a body that pages through query results.
    ///
    /// Answers from existing indexes if that is cheap. Otherwise builds the missing indexes, step by step between other
    /// writes, and answers from them. Building continues where an earlier query left off, so a query that is refused is
    /// not refused forever.
    package func query<Result>(
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) async throws(RelayError) -> Result {
        try await countedQuery(body).0
    }

    /// Does the same as `query`, and returns the number of records and index entries looked at.
    package func countedQuery<Result>(
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) async throws(RelayError) -> (Result, examined: Int) {
        let deadline = ContinuousClock.now + tuning.longestWait
        var work = QueryWork(allowance: .init(records: tuning.recordsWithoutIndex), tuning: tuning)
        if hasOwnThreads { work.allowance.atOnce = tuning.recordsAtOnce }
        while true {
            let refusal: RelayError
            do throws(RelayError) {
                return (try await answer(&work, body), work.examined)
            } catch {
                refusal = error
            }
            if work.exceedsAllowance {
                work.allowance.atOnce = nil
                work.exceedsAllowance = false
                continue
            }
            guard !work.missing.isEmpty, ContinuousClock.now < deadline else { throw refusal }
            let missing = work.missing
            work.missing = []
            let isComplete = try await build(missing)
            // The second attempt may look at more records; the third waits for the indexes.
            guard !isComplete, work.allowance.records == Self.manyRecords else {
                work.allowance.records = Self.manyRecords
                continue
            }
            while try await !build(missing) {
                guard ContinuousClock.now < deadline else { throw refusal }
            }
        }
    }

    /// Reads on this thread, or, once the query has proved long, on a thread for long queries.
    private func answer<Result>(
        _ work: inout QueryWork,
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) async throws(RelayError) -> Result {
        work.examined = 0
        guard hasOwnThreads, work.allowance.atOnce == nil else {
            return try read(&work) { reader throws(RelayError) in try body(reader) }
        }
        return try await SlowQueryExecutor.shared.run { () throws(RelayError) -> Result in
            try read(&work) { reader throws(RelayError) in try body(reader) }
        }
    }

    private func build(_ missing: Set<WantedIndex>) async throws(RelayError) -> Bool {
        try await writeRows { writer throws(RelayError) in try writer.build(missing, limit: Self.buildingStep) }
    }
}

extension SQLiteStore {
    /// The statements that scan indexes or look up entries, each with a word that its query plan must contain.
    ///
    /// For a test of the query plans.
    package static var queryStatements: [(sql: String, index: String)] {
        let entry = IndexEntry(key: .text("k"), name: "n")
        let bounds: [KeyRange] = [
            .everything, .present, .only(.text("k")), .beginning(with: "k"),
            KeyRange(lower: nil, upper: .excluding(.text("z"))),
        ]
        var statements: [(sql: String, index: String)] = [
            (SQLiteReader.byName, "record_by_name"), (SQLiteReader.entry, "PRIMARY KEY"),
            (SQLiteReader.publicNames, "public_by_modified"), (SQLiteReader.zoneNames, "live_by_run"),
        ]
        for (source, index) in [
            (IndexSource.entries(1), "PRIMARY KEY"), (.publicModified(type: 1), "public_by_modified"),
        ] {
            for range in bounds {
                for from in [nil, (entry, true), (entry, false)] {
                    for isAscending in [true, false] {
                        let scan = IndexScan(source, zone: 1, range: range, from: from, isAscending)
                        statements.append((scan.text(), index))
                    }
                }
            }
        }
        return statements
    }
}
