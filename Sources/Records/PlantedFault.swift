#if DEBUG
    import Synchronization
#endif

/// Deliberate mistakes that can be enabled one at a time, to verify that the simulation detects them.
///
/// The cases exist in every build, so that a release compiles the same code, but only a debug build can enable one: in
/// a release, `isPlanted` is a constant and its uses are optimized away. Each module's `PlantedFaults.swift` contains
/// the places where the mistakes take effect.
package enum PlantedFault: String, CaseIterable, Sendable {
    /// A write is answered before it is committed.
    case answerBeforeCommit
    /// Change numbers are assigned before the transaction, so a greater one may be committed first.
    case numberOutsideTransaction
    /// Notices are sent before the commit.
    case noticeBeforeCommit
    /// A deleted record leaves no tombstone in its zone's feed.
    case tombstoneDropped
    /// A page's token covers one change more than the page.
    case tokenOneTooFar
    /// A token of the database's feed covers one zone more than the page.
    case databaseTokenTooFar
    /// A token older than removed tombstones is accepted.
    case horizonUnheeded
    /// The last change numbers are used again after a restart.
    case numberReused
    /// An update is accepted whatever its change tag.
    case changeTagUnchecked
    /// A failed atomic batch saves the operations that succeed.
    case atomicBatchTorn
    /// A confirmed change leaves the outbox although it has changed again.
    case newerVersionCleared
    /// The client stores a page's token before the page.
    case tokenBeforeData
    /// A removed participant can still read the share.
    case removedParticipantServed
    /// A move between zones leaves a record behind.
    case moveTorn
    /// Participants are not notified of others' changes in a shared zone.
    case participantUntold
    /// A zone of another user is rejected with a different error than a missing zone.
    case strangerToldApart
    /// A write repeated with its idempotency key is executed again.
    case repeatAppliedTwice
    /// A socket stays open after its session was revoked.
    case socketOutlivesSignOut
    /// A full disk is treated like a failed disk: nothing is written until a restart.
    case fullDiskStops
    /// A closed notice connection is never removed.
    case connectionKept
    /// Cleaning up deletes asset files that records use.
    case usedFileCleared
    /// A link for one person can be used again.
    case linkLetsInTwo
    /// A database page is served without verifying its checksum.
    case pageSumUnchecked
    /// A checkpoint skips some pages of the log.
    case logCopiedWithGap
    /// A resumed upload continues at the wrong offset.
    case uploadResumedWrong
    /// A cached session stays valid after it was revoked.
    case revokedSignInRemembered
    /// A request is sent with the credentials of a user who signed in after it was made.
    case sentForAnother
    /// A participant with read-only permission can write.
    case readerWrites
    /// Change tokens from after a restored backup are accepted.
    case epochOutlivesRestore
    /// A node does not look for changes that the bus between nodes has lost.
    case lostNoticeUnswept
    /// A node keeps its schema although another node has changed it.
    case schemaStale
    /// A node keeps subscriptions although another node has changed them.
    case subscriptionsStale
    /// Every node sends a push for one notice.
    case pushSentTwice
    /// A page's token covers a change that was committed after the page was read.
    case tokenBeforeChange

    #if DEBUG
        private static let planted = Atomic<Int>(-1)

        /// Enables a mistake, or with `nil` disables it; returns whether this build supports mistakes.
        package static func plant(_ fault: PlantedFault?) -> Bool {
            planted.store(fault.flatMap { allCases.firstIndex(of: $0) } ?? -1, ordering: .relaxed)
            return true
        }

        package var isPlanted: Bool {
            let index = Self.planted.load(ordering: .relaxed)
            return index >= 0 && Self.allCases[index] == self
        }
    #else
        /// Returns `false`: a release build supports no mistakes.
        package static func plant(_ fault: PlantedFault?) -> Bool { false }

        @inlinable package var isPlanted: Bool { false }
    #endif
}
