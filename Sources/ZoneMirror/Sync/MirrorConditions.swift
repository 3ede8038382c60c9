package import Foundation
package import SyncCore
package import ZoneKit

/// What a mirrored container takes from the world around it.
package struct MirrorConditions: Sendable {
    package var time = Timekeeper.system
    package var chance = Chance.system
    /// The wall clock, for what must hold across a restart.
    package var wallClock: @Sendable () -> Date = { Date() }
    package var schedule = SyncSchedule.Settings.engine
    /// The mirrors sync by themselves, not only when called.
    package var isAutomatic = true
    /// Nobody may ask a public database more often than this.
    package var shortestPoll: Duration = .seconds(60)
    /// Asks the relay to move records between zones; `false`: as if it were one that cannot.
    package var relayMoves = true
    /// As much of values is in memory at a time on its way from the relay or to it, in bytes; one record may have more.
    package var room = 32 << 20
    /// A pinned view lasts until the log of a file has grown by so many bytes.
    package var pinLog = 64 << 20
    /// Called at named places, so that a test can end the process or the transaction there.
    package var crashPoint: @Sendable (CrashPoint) throws -> Void = { _ in }

    package init() {}

    /// What a test's world gives.
    package init(_ world: SyncConditions) {
        time = world.time
        chance = world.chance
        wallClock = world.wallClock
        schedule = world.schedule
        crashPoint = { try world.crashPoint($0.rawValue) }
    }
}

/// The places at which a crash must neither lose nor double anything.
package enum CrashPoint: String, Sendable, CaseIterable {
    /// The batch is marked as perhaps sent; nothing is sent yet.
    case beforeSend
    /// The relay has the files of large values; the records that name them are not sent yet.
    case afterUpload
    /// The relay has answered; nothing of it is written down yet.
    case afterSend
    /// The confirmation is written and not yet committed.
    case insideConfirm
    case afterConfirm
    /// A page has come; nothing of it is written down yet.
    case beforeImport
    /// Its rows are written and not yet committed.
    case insideImport
    case afterImport
    /// The zones of a page of the database's feed are written and not yet committed.
    case insideDatabasePage
    /// Half of a listing from the beginning is in.
    case insideSweep
    /// A context's changes are written and not yet committed.
    case insideSave
    case afterSave
    /// Objects belong to another zone now; that is not yet committed.
    case insideMove
    /// They do, and the relay knows nothing of it yet.
    case afterMove
    /// The relay has moved records to another zone; the store does not know yet.
    case afterRelayMove
    /// The relay has the copies; the originals are still there.
    case beforeOriginalsGo
    /// The originals are gone on the relay; that is not written down yet.
    case afterOriginalsGo
    /// A zone that everything has left is gone on the relay; that is not written down yet.
    case afterZoneGone
    /// The relay has a new version of a share; the store does not.
    case afterShareSaved
}
