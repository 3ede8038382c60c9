import Foundation
import Logging
import Records
import RelayAPI
import RelayCore
import RelayServer
import RelayStore
import ServiceLifecycle
import Synchronization

/// Writes down every few minutes which sign-ins are in use, and forgets the old ones.
struct SignInHousekeeping: Service {
    let relay: Relay

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: .seconds(300))) != nil { try? relay.keepSignIns() }
        }
        try? relay.keepSignIns()
    }
}

/// Writes down every minute what the public databases have sent.
struct TransferKeeping: Service {
    let relay: Relay

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: .seconds(60))) != nil { await relay.keepTransfers() }
        }
        await relay.keepTransfers()
    }
}

/// Makes the backups that the folder's schedule asks for.
struct ScheduledBackups: Service {
    let data: String
    let logger: Logger

    /// By which schedule the last one failed, and when.
    ///
    /// Unless it is another by then, the next try is in an hour: each may read all there is.
    private struct Failure {
        static let patience = Duration.seconds(3_600)

        var schedule: BackupSchedule
        var moment = ContinuousClock.now
    }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            let failure = Mutex<Failure?>(nil)
            let broken = Mutex<String?>(nil)
            // Told at the start already: nothing else would show that no backups are made.
            _ = schedule(broken)
            while (try? await Task.sleep(for: .seconds(60))) != nil {
                try? await OwnQueue.run(.utility) { makeOneIfDue(broken, failure) }
            }
        }
    }

    /// The schedule as it is now; one that cannot be read is told once, by what was told last.
    private func schedule(_ broken: borrowing Mutex<String?>) -> BackupSchedule? {
        do throws(BackupFailure) {
            let schedule = try BackupSchedule.read(from: data)
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

    private func makeOneIfDue(_ broken: borrowing Mutex<String?>, _ failure: borrowing Mutex<Failure?>) {
        guard let schedule = schedule(broken) else { return }
        let isTooEarly = failure.withLock {
            $0.map { $0.schedule == schedule && ContinuousClock.now - $0.moment < Failure.patience } ?? false
        }
        if isTooEarly { return }
        do throws(BackupFailure) {
            guard let backup = try schedule.makeDue(of: data, at: TimeSource.system.now()) else { return }
            failure.withLock { $0 = nil }
            logger.info("Backup \(backup.name) is made.")
            if let complaint = BackupRow(backup).complaint { logger.error("\(complaint)") }
        } catch {
            failure.withLock { $0 = Failure(schedule: schedule) }
            logger.error("The scheduled backup failed; the next try is in an hour. \(error)")
        }
    }
}

/// Removes now and then the assets that no record uses.
struct AssetHousekeeping: Service {
    let stores: StoreFolder
    let unusedLifetime: Duration

    func run() async throws {
        let calendar = CalendarWatch(.system)
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: .seconds(600))) != nil {
                guard calendar.isSteady() else { continue }
                let limit = TimeSource.system.now() + (.zero - unusedLifetime)
                _ = try? await stores.removeUnusedAssets(before: limit)
            }
        }
    }
}

/// Forgets every hour the tombstones that are older than the horizon.
struct TombstoneHousekeeping: Service {
    let stores: StoreFolder
    /// `nil`: none is ever forgotten.
    let horizon: Duration?
    let logger: Logger

    func run() async throws {
        let calendar = CalendarWatch(.system)
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: .seconds(3_600))) != nil {
                guard let horizon, calendar.isSteady() else { continue }
                let limit = TimeSource.system.now() + (.zero - horizon)
                let count = (try? await stores.forgetTombstones(before: limit)) ?? 0
                if count > 0 { logger.info("\(count) tombstones older than the horizon are forgotten.") }
            }
        }
    }
}

/// Looks every second whether a sign-in with an open socket has ended, and whether somebody's quota is another.
struct RevocationWatch: Service {
    let admission: RelayAdmission
    let relay: Relay
    let accounts: AccountStore

    func run() async throws {
        defer { relay.stopPushes() }
        takeQuotas()
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: .seconds(1))) != nil {
                admission.closeRevoked()
                takeQuotas()
            }
        }
    }

    private func takeQuotas() {
        if let quotas = try? accounts.ownQuotas() { relay.setOwnQuotas(quotas) }
    }
}
