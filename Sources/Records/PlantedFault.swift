#if DEBUG
    import Synchronization

    /// Mistakes that can be put into the code on purpose, one at a time, to see whether the simulation finds them.
    ///
    /// In debug builds only: a release knows nothing of them.
    package enum PlantedFault: String, CaseIterable, Sendable {
        /// A write is answered, and committed some time later.
        case answerBeforeCommit
        /// Change numbers are given out before the transaction that uses them, so a later one may be committed first.
        case numberOutsideTransaction
        /// Notices go out, and the commit comes some time later.
        case noticeBeforeCommit
        /// A deleted record leaves nothing behind in its zone's feed.
        case tombstoneDropped
        /// A page's token covers one change more than the page.
        case tokenOneTooFar
        /// After a restart the last numbers are given out once more.
        case numberReused
        /// An update is taken whatever version it was made on.
        case changeTagUnchecked
        /// Of an atomic batch that fails, what could be saved is saved.
        case atomicBatchTorn
        /// A confirmed change leaves the outbox though it was changed again meanwhile.
        case newerVersionCleared
        /// The client keeps a page's token before it keeps the page.
        case tokenBeforeData
        /// Who was removed from a share goes on reading it.
        case removedParticipantServed
        /// A move between zones leaves something behind.
        case moveTorn

        private static let planted = Atomic<Int>(-1)

        /// Puts a mistake in, or with `nil` takes it out.
        package static func plant(_ fault: PlantedFault?) {
            planted.store(fault.flatMap { allCases.firstIndex(of: $0) } ?? -1, ordering: .relaxed)
        }

        package var isPlanted: Bool {
            let index = Self.planted.load(ordering: .relaxed)
            return index >= 0 && Self.allCases[index] == self
        }
    }
#endif
