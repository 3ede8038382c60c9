#if Postgres
    import Records
    import RelayCore
    import Synchronization

    /// A deliberate mistake of this module that its tests must find.
    ///
    /// Release builds contain none.
    /// `PlantedFault` has those that the simulation must find, which has no server.
    package enum PostgresFault: String, CaseIterable, Sendable {
        /// Change numbers are taken in front of the owner's lock.
        case numbersBeforeLock
        /// A commit that the server has confirmed with a warning counts as committed.
        case commitWarningIgnored
        /// A store keeps its schema although another process has changed it.
        case schemaKept
        /// A write that has the schema's lock shared waits for the exclusive one.
        case schemaLockUpgraded
        /// Rows move to a database whose next change number is not greater than theirs.
        case moveWithoutNumbers
        /// All reads, those of feeds too, are answered by a replica if there is one.
        case feedFromReplica
        /// An owner is read and written where the map in this process's memory says, whatever the owner's row says.
        case oldMapServed

        #if DEBUG
            private static let planted = Atomic<Int>(-1)

            /// Enables a mistake for the whole process, or with `nil` disables it.
            package static func plant(_ fault: PostgresFault?) {
                planted.store(fault.flatMap { allCases.firstIndex(of: $0) } ?? -1, ordering: .relaxed)
            }

            var isPlanted: Bool {
                let index = Self.planted.load(ordering: .relaxed)
                return index >= 0 && Self.allCases[index] == self
            }
        #else
            @inlinable var isPlanted: Bool { false }
        #endif
    }

    // The places where the mistakes are. Each function does what the code should do, or makes the mistake.

    extension WriteOpening {
        /// Returns what comes first of the lock and the numbers, and what comes second.
        static func ordered<Item>(_ lock: Item, _ numbers: Item) -> (Item, Item) {
            PostgresFault.numbersBeforeLock.isPlanted ? (numbers, lock) : (lock, numbers)
        }
    }

    extension PostgresConnection {
        /// Returns the warning of a commit that leaves its outcome unknown: any.
        static func heeded(_ warning: String?) -> String? {
            PostgresFault.commitWarningIgnored.isPlanted ? nil : warning
        }
    }

    extension PostgresWriter {
        /// Takes the schema's lock exclusively in addition to the shared one: never.
        func upgradesLock() throws(RelayError) -> Bool {
            guard PostgresFault.schemaLockUpgraded.isPlanted else { return false }
            try attempt { _ = try transaction.query("SELECT pg_advisory_xact_lock($1)", .int(home.schemaLock)) }
            return true
        }
    }
#endif
