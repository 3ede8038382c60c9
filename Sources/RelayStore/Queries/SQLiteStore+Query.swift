package import Records
package import RelayCore

extension SQLiteStore {
    /// Records that it may look at while the index it lacks is being built.
    private static let manyRecords = 20_000
    /// Records that one step of building reads: some 20 ms in which other writes wait.
    private static let buildingStep = 2_000

    /// Answers from what there is while that is cheap; else builds the indexes that are missing, step by step among the
    /// other writes, and answers from them.
    ///
    /// What one query has built the next goes on from, so a query that was told to try again later is not told so for ever.
    package func query<Result>(
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) async throws(RelayError) -> Result {
        try await countedQuery(body).0
    }

    /// As `query`, with the number of records and index entries that were looked at for the answer.
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
            if work.takesLong {
                work.allowance.atOnce = nil
                work.takesLong = false
                continue
            }
            guard !work.missing.isEmpty, ContinuousClock.now < deadline else { throw refusal }
            let missing = work.missing
            work.missing = []
            let isComplete = try await build(missing)
            // The second try may look at more; a third waits until the indexes are there.
            guard !isComplete, work.allowance.records == Self.manyRecords else {
                work.allowance.records = Self.manyRecords
                continue
            }
            while try await !build(missing) {
                guard ContinuousClock.now < deadline else { throw refusal }
            }
        }
    }

    /// Reads here, or, once it has turned out to take long, beside those who answer everybody.
    private func answer<Result>(
        _ work: inout QueryWork,
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) async throws(RelayError) -> Result {
        work.examined = 0
        guard hasOwnThreads, work.allowance.atOnce == nil else { return try read(&work, body) }
        return try await LongQueries.shared.run { () throws(RelayError) -> Result in try read(&work, body) }
    }

    private func build(_ missing: Set<WantedIndex>) async throws(RelayError) -> Bool {
        try await write { writer throws(RelayError) in
            guard let writer = writer as? SQLiteWriter else { return true }
            return try writer.build(missing, limit: Self.buildingStep)
        }
    }
}

extension SQLiteStore {
    /// The statements that walk through indexes or look into them, each with the word that its plan must have, for the
    /// test that looks at their plans.
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
        for (place, index) in [
            (IndexPlace.entries(1), "PRIMARY KEY"), (.publicModified(type: 1), "public_by_modified"),
        ] {
            for range in bounds {
                for from in [nil, (entry, true), (entry, false)] {
                    for isAscending in [true, false] {
                        let scan = IndexScan(place, zone: 1, range: range, from: from, isAscending)
                        statements.append((scan.text(), index))
                    }
                }
            }
        }
        return statements
    }
}
