import Foundation
import Logging
import Records
import RelayAPI
import RelayCore
import RelayGateways
import RelayServer
import RelaySystem
import ServiceLifecycle
import Synchronization

extension ScheduledDuty {
    /// Returns whether the work that is due now is this process's, without blocking the caller's thread.
    func isOursNow() async -> Bool { (try? await BackgroundQueue.run(.utility) { isOurs() }) ?? false }
}

/// Saves the last-use times of sign-ins every 5 minutes and deletes expired ones.
struct SignInHousekeeping: Service {
    let relay: Relay

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: .seconds(300))) != nil { try? relay.maintainSignIns() }
        }
        try? relay.maintainSignIns()
    }
}

/// Saves the transfer counts of public databases every minute.
struct TransferHousekeeping: Service {
    let relay: Relay

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: .seconds(60))) != nil { await relay.flushTransferCounts() }
        }
        await relay.flushTransferCounts()
    }
}

/// Makes the backups of the folder's schedule, and copies them away from the machine.
struct ScheduledBackups: Service {
    let backups: any Backups
    let logger: Logger

    /// The last failed backup: its schedule and time.
    ///
    /// The next attempt is an hour later, since each may read the whole folder; sooner if the schedule changes.
    private struct Failure {
        static let retryInterval = Duration.seconds(3_600)

        var schedule: BackupSchedule
        var instant = ContinuousClock.now
    }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            let failure = Mutex<Failure?>(nil)
            let failedCopy = Mutex<Failure?>(nil)
            let broken = Mutex<String?>(nil)
            // Report a broken schedule at the start: nothing else would show that no backups are made.
            _ = schedule(broken)
            while (try? await Task.sleep(for: .seconds(60))) != nil {
                try? await BackgroundQueue.run(.utility) { makeBackupIfDue(broken, failure) }
                await copyNewest(broken, failedCopy)
            }
        }
    }

    /// Reads the current schedule; logs an error that differs from the last one.
    private func schedule(_ broken: borrowing Mutex<String?>) -> BackupSchedule? {
        do throws(BackupFailure) {
            let schedule = try backups.schedule()
            broken.withLock { $0 = nil }
            return schedule
        } catch {
            let words = error.description
            let isKnown = broken.withLock { told in
                defer { told = words }
                return told == words
            }
            if !isKnown { logger.error("\(words)") }
            return nil
        }
    }

    private func makeBackupIfDue(_ broken: borrowing Mutex<String?>, _ failure: borrowing Mutex<Failure?>) {
        guard let schedule = schedule(broken), !isTooEarly(schedule, failure) else { return }
        do throws(BackupFailure) {
            guard let backup = try backups.makeDue(schedule, at: TimeSource.system.now()) else { return }
            failure.withLock { $0 = nil }
            logger.info("Backup \(backup.name) was created.")
            if let complaint = BackupRow(backup, in: backups).complaint { logger.error("\(complaint)") }
        } catch {
            failure.withLock { $0 = Failure(schedule: schedule) }
            logger.error("The scheduled backup failed; the relay retries in an hour. \(error)")
        }
    }
}

extension ScheduledBackups {
    /// Copies the newest backup to the schedule's storage, unless it is there.
    private func copyNewest(_ broken: borrowing Mutex<String?>, _ failure: borrowing Mutex<Failure?>) async {
        guard let schedule = schedule(broken), let remote = schedule.remote,
            let newest = backups.all(in: schedule.folder, at: TimeSource.system.now()).last,
            RemoteCopy(of: newest, to: remote) == nil, !isTooEarly(schedule, failure)
        else { return }
        do {
            let upload = try await RemoteStorage.copy(newest, to: remote, keep: schedule.keep)
            failure.withLock { $0 = nil }
            logger.info("Backup \(newest.name) was copied to \(remote): \(upload.files) files, \(upload.bytes) bytes.")
        } catch {
            failure.withLock { $0 = Failure(schedule: schedule) }
            logger.error("Backup \(newest.name) was not copied to \(remote); the relay retries in an hour. \(error)")
        }
    }

    /// Returns whether the last attempt with this schedule failed less than an hour ago.
    private func isTooEarly(_ schedule: BackupSchedule, _ failure: borrowing Mutex<Failure?>) -> Bool {
        failure.withLock {
            $0.map { $0.schedule == schedule && ContinuousClock.now - $0.instant < Failure.retryInterval } ?? false
        }
    }
}

/// Removes assets that no record refers to, every 10 minutes.
struct AssetHousekeeping: Service {
    let stores: any ServedStores
    let duty: any ScheduledDuty
    let unusedLifetime: Duration

    func run() async throws {
        let calendar = ClockJumpDetector(.system)
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: .seconds(600))) != nil {
                guard calendar.isReliable(), await duty.isOursNow() else { continue }
                let limit = TimeSource.system.now() + (.zero - unusedLifetime)
                _ = try? await stores.removeUnusedAssets(before: limit)
            }
        }
    }
}

/// Deletes tombstones older than the horizon, every hour.
struct TombstoneHousekeeping: Service {
    let stores: any ServedStores
    let duty: any ScheduledDuty
    /// `nil`: tombstones are kept forever.
    let horizon: Duration?
    let logger: Logger

    func run() async throws {
        let calendar = ClockJumpDetector(.system)
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: .seconds(3_600))) != nil {
                guard let horizon, calendar.isReliable(), await duty.isOursNow() else { continue }
                let limit = TimeSource.system.now() + (.zero - horizon)
                let count = (try? await stores.forgetTombstones(before: limit)) ?? 0
                if count > 0 { logger.info("\(count) tombstones older than the horizon were deleted.") }
            }
        }
    }
}

/// Checks five times a second whether another process has revoked anything, and every second whether a session with an
/// open socket was revoked and whether quotas changed.
struct RevocationWatch: Service {
    let admission: RelayAdmission
    let relay: Relay
    let accounts: any AccountDirectory

    func run() async throws {
        defer { relay.stopPushes() }
        reloadQuotas()
        await cancelWhenGracefulShutdown {
            var count = 0
            while (try? await Task.sleep(for: Authenticator.watchInterval)) != nil {
                // If it fails for long, requests read the directory themselves, and are refused if they cannot. On a thread
                // of its own, since a database may take seconds to answer.
                let isFifth = count % 5 == 4
                try? await BackgroundQueue.run(.userInitiated) {
                    try relay.authenticator.watchGeneration()
                    guard isFifth else { return }
                    admission.closeRevoked()
                    reloadQuotas()
                }
                count += 1
            }
        }
    }

    private func reloadQuotas() {
        if let quotas = try? accounts.ownQuotas() { relay.setOwnQuotas(quotas) }
    }
}

/// Deletes expired partial uploads every minute.
struct UploadHousekeeping: Service {
    let relay: Relay

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: .seconds(60))) != nil { relay.removeExpiredUploads() }
        }
    }
}

/// Answers waiting long polls as soon as shutdown begins.
///
/// The server waits for all pending responses when it stops; without this, waiting polls would delay it until its
/// deadline.
struct LongPollShutdown: Service {
    let relay: Relay

    func run() async throws {
        defer { relay.stopPolls() }
        try? await gracefulShutdown()
    }
}
