#if DEBUG
    import Synchronization
#endif

/// Mistakes that can be put into the code on purpose, one at a time, to see whether the simulation finds them.
///
/// The names are there in every build, so that a release compiles what debug builds do; but only a debug build can plant
/// one. In a release `isPlanted` is a constant, and what asks for it goes. Where a mistake takes hold stands in each
/// module's `PlantedFaults.swift`.
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
    /// A page of the database's feed covers one zone more than it names.
    case databaseTokenTooFar
    /// A token is served from before deletions that were forgotten.
    case horizonUnheeded
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
    /// Participants are not told of what others change in a zone that is shared with them.
    case participantUntold
    /// Somebody else's zone is refused in other words than one that is not there.
    case strangerToldApart
    /// A write that is repeated under its own name is carried out once more.
    case repeatAppliedTwice
    /// A socket stays open though the sign-in that it came with was ended.
    case socketOutlivesSignOut
    /// A disk that was full once is taken for one that failed: nothing is written until the next start.
    case fullDiskStops
    /// A notice connection that has ended is never forgotten.
    case connectionKept
    /// Files that records use are cleared away with the others.
    case usedFileCleared
    /// A link that is good for one person stays good.
    case linkLetsInTwo
    /// A page of the store is served whatever its sum says.
    case pageSumUnchecked
    /// Of the log's pages some are not copied into the file.
    case logCopiedWithGap
    /// An upload that broke off goes on at another place than where it came to.
    case uploadResumedWrong
    /// What was found good of a sign-in is good for ever, though the sign-in was ended.
    case revokedSignInRemembered
    /// What was begun for one user is sent in the name of another who has signed in since.
    case sentForAnother
    /// Who may only read what is shared changes it.
    case readerWrites
    /// Change tokens of what a restore has undone are served.
    case epochOutlivesRestore

    #if DEBUG
        private static let planted = Atomic<Int>(-1)

        /// Puts a mistake in, or with `nil` takes it out; false in a build that can have none.
        package static func plant(_ fault: PlantedFault?) -> Bool {
            planted.store(fault.flatMap { allCases.firstIndex(of: $0) } ?? -1, ordering: .relaxed)
            return true
        }

        package var isPlanted: Bool {
            let index = Self.planted.load(ordering: .relaxed)
            return index >= 0 && Self.allCases[index] == self
        }
    #else
        /// Puts a mistake in; false, since a release can have none.
        package static func plant(_ fault: PlantedFault?) -> Bool { false }

        @inlinable package var isPlanted: Bool { false }
    #endif
}
