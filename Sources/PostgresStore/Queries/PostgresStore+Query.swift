#if Postgres
    package import Records
    package import RelayCore
    package import StoreKit

    extension PostgresStore: IndexedStore {
        package func read<Result>(
            _ work: inout QueryWork,
            _ body: (any StoreReader) throws(RelayError) -> Result
        ) throws(RelayError) -> Result {
            try readRows(&work) { reader throws(RelayError) in try body(reader) }
        }

        package func build(_ wanted: Set<WantedIndex>, limit: Int) async throws(RelayError) -> Bool {
            let lacksIndex = try readRows { reader throws(RelayError) in
                try reader.attempt { try PostgresIndexBuilder(reader, isExclusive: false).lacksIndex(wanted) }
            }
            if lacksIndex {
                try await writeRows { writer throws(RelayError) in
                    try writer.attempt { try PostgresIndexBuilder(writer, isExclusive: true).makeIndexes(wanted) }
                }
            }
            do {
                var lock = PostgresPipeline()
                // One relay builds at a time; the others continue where it has come to.
                lock.add("SELECT pg_advisory_xact_lock($1)", .int(home.buildLock))
                return try upkeepTransaction(lock) { reader in
                    try PostgresIndexBuilder(reader, isExclusive: false).build(wanted, limit: limit)
                }
            } catch {
                throw PostgresError.relayError(for: error)
            }
        }
    }

    extension HomeRow {
        /// The key of the advisory lock under which indexes are built.
        fileprivate var buildLock: Int64 { 0x5A49_0000_0000_0000 | number }
    }
#endif
