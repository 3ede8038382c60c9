#if Postgres
    package import Records
    package import RelayCore
    package import StoreKit
    import Synchronization

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

    extension PostgresStore {
        package func publicQuery<Result>(
            _ body: (any StoreReader) throws(RelayError) -> Result
        ) async throws(RelayError) -> Result {
            guard let replica = nextReplica else { return try await query(body) }
            return try await ReplicaQuery(self, replica).query(body)
        }
    }

    /// A query on a standby that continues on the primary if the standby does not answer it.
    private final class ReplicaQuery: IndexedStore {
        private let primary: PostgresStore
        private let replica: PostgresReplicas.Replica
        private let isOnPrimary = Atomic(false)

        init(_ primary: PostgresStore, _ replica: PostgresReplicas.Replica) {
            (self.primary, self.replica) = (primary, replica)
        }

        var tuning: QueryTuning { primary.tuning }
        var hasOwnThreads: Bool { primary.hasOwnThreads }
        var currentSchema: Schema { primary.currentSchema }

        func read<Result>(
            _ work: inout QueryWork,
            _ body: (any StoreReader) throws(RelayError) -> Result
        ) throws(RelayError) -> Result {
            guard !isOnPrimary.load(ordering: .relaxed) else { return try primary.read(&work, body) }
            do throws(RelayError) {
                let result = try primary.readRows(&work, on: replica.pool) { reader throws(RelayError) in
                    try body(reader)
                }
                replica.noteAnswer()
                return result
            } catch {
                // The engine runs it again, with more time.
                if work.exceedsAllowance { throw error }
                // The standby has ended the query because the primary has removed rows that it read, or knows no index, zone
                // or type yet that the primary has: only the primary refuses a query.
                isOnPrimary.store(true, ordering: .relaxed)
                work = work.fresh
                return try primary.read(&work, body)
            }
        }

        func build(_ wanted: Set<WantedIndex>, limit: Int) async throws(RelayError) -> Bool {
            try await primary.build(wanted, limit: limit)
        }

        func epochs(of owner: UserID) throws(RelayError) -> Epochs { try primary.epochs(of: owner) }

        func read<Result>(_ body: (any StoreReader) throws(RelayError) -> Result) throws(RelayError) -> Result {
            try primary.read(body)
        }

        func write(_ write: any StoreWrite) { primary.write(write) }
    }

    extension HomeRow {
        /// The key of the advisory lock under which indexes are built.
        fileprivate var buildLock: Int64 { 0x5A49_0000_0000_0000 | number }
    }
#endif
