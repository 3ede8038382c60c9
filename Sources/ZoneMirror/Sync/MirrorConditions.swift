package import Foundation
package import SyncCore
package import ZoneKit

/// The environment of a mirrored container, replaceable in tests.
package struct MirrorConditions: Sendable {
    package var time = Scheduler.system
    package var random = RandomGenerator.system
    /// The wall clock, for times that must survive a restart.
    package var wallClock: @Sendable () -> Date = { Date() }
    package var schedule = SyncSchedule.Settings.engine
    /// Writes a line about a failure to the log.
    package var log = FailureLog.standard
    /// Whether the mirrors sync on their own and not only when called.
    package var isAutomatic = true
    /// The minimum interval between polls of a public database.
    package var shortestPoll: Duration = .seconds(60)
    /// Whether the relay is asked to move records between zones; `false` behaves like a relay that cannot.
    package var relayMoves = true
    /// The maximum size of values in memory at a time on their way to or from the relay, in bytes; a single record may
    /// exceed it.
    package var room = 32 << 20
    /// The growth of a file's WAL, in bytes, at which a pinned view is brought up to date.
    package var pinnedLogLimit = 64 << 20
    /// Called at named points, so that a test can end the process or the transaction there.
    package var crashPoint: @Sendable (CrashPoint) throws -> Void = { _ in }

    package init() {}

    /// The part that engines have too.
    package var world: SyncConditions {
        var world = SyncConditions()
        world.time = time
        world.random = random
        world.wallClock = wallClock
        world.schedule = schedule
        world.log = log
        return world
    }

    /// Takes the environment of a simulation.
    package init(_ world: SyncConditions) {
        time = world.time
        random = world.random
        wallClock = world.wallClock
        schedule = world.schedule
        log = world.log
        crashPoint = { try world.crashPoint($0.rawValue) }
    }
}

/// Points at which a crash must neither lose nor duplicate anything.
package enum CrashPoint: String, Sendable, CaseIterable {
    /// The batch is marked as possibly sent; nothing is sent yet.
    case beforeSend
    /// The assets of large values are uploaded; the records that refer to them are not sent yet.
    case afterUpload
    /// The relay has answered; the result is not stored yet.
    case afterSend
    /// The confirmation is written but not committed.
    case insideConfirm
    case afterConfirm
    /// A page has arrived; nothing of it is stored yet.
    case beforeImport
    /// Its rows are written but not committed.
    case insideImport
    case afterImport
    /// The zones of a page of the database's feed are written but not committed.
    case insideDatabasePage
    /// Half of a full fetch is imported.
    case insideSweep
    /// A context's changes are written but not committed.
    case insideSave
    case afterSave
    /// The new zone of moved objects is written but not committed.
    case insideMove
    /// The new zone of moved objects is committed; the relay does not know it yet.
    case afterMove
    /// The relay has moved records to another zone; the store does not know it yet.
    case afterRelayMove
    /// The relay has the copies; the originals still exist.
    case beforeOriginalsGo
    /// The originals are deleted on the relay; that is not stored yet.
    case afterOriginalsGo
    /// An empty zone is deleted on the relay; that is not stored yet.
    case afterZoneGone
    /// The relay has a new version of a share; the store does not.
    case afterShareSaved
}
