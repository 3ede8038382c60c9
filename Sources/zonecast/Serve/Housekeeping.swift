import Foundation
import Logging
import Records
import RelayAPI
import RelayCore
import RelayStore
import ServiceLifecycle

/// Writes down every few minutes which sign-ins are in use, and forgets the old ones.
struct SignInHousekeeping: Service {
    let authenticator: Authenticator

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: .seconds(300))) != nil { try? authenticator.keepHouse() }
        }
        try? authenticator.keepHouse()
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

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: .seconds(60))) != nil {
                // A copy takes as long as the disk does: not on a thread that answers requests.
                await withCheckedContinuation { done in
                    DispatchQueue.global(qos: .utility).async {
                        makeOneIfDue()
                        done.resume()
                    }
                }
            }
        }
    }

    private func makeOneIfDue() {
        let now = TimeSource.system.now()
        guard let schedule = BackupSchedule(of: data), schedule.isDue(at: now) else { return }
        do {
            let backup = try Backup.create(of: data, in: schedule.folder, now: now)
            Backup.keep(schedule.keep, in: schedule.folder, at: now)
            logger.info("Backup \(backup.name) is made.")
        } catch {
            logger.error("The scheduled backup failed; the next try is in a minute. \(error)")
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

/// Looks every second whether a sign-in with an open socket has ended, and whether somebody's quota is another.
struct RevocationWatch: Service {
    let admission: RelayAdmission
    let relay: Relay
    let accounts: AccountStore

    func run() async throws {
        defer { relay.stopPolls() }
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
