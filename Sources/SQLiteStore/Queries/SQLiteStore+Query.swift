package import Records
package import RelayCore
package import StoreKit

extension SQLiteStore: IndexedStore {
    package func read<Result>(
        _ work: inout QueryWork,
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) throws(RelayError) -> Result {
        try readRows(&work) { reader throws(RelayError) in try body(reader) }
    }

    package func build(_ wanted: Set<WantedIndex>, limit: Int) async throws(RelayError) -> Bool {
        try await writeRows { writer throws(RelayError) in
            try writer.attempt { try writer.build(wanted, limit: limit) }
        }
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
            (IndexSource.entries(1), "PRIMARY KEY"), (.records(ofType: 1), "public_by_modified"),
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
