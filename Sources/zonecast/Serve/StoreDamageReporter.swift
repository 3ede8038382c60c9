import Foundation
import Logging
import Records
import RelayCore
import RelayServer
import RelaySystem
import ServiceLifecycle
import Synchronization

/// Counts and logs damaged stores, found by a request that reads a damaged page or by the daily check.
///
/// The relay refuses requests that need a damaged page and goes on serving all others.
final class StoreDamageReporter: Sendable {
    /// The time before damage of the same file is logged again.
    private static let reportInterval = Duration.seconds(60)

    private let data: String
    private let upkeep: any StorageUpkeep
    private let logger: Logger
    private let state = Mutex<(lastReported: [String: ContinuousClock.Instant], occurred: Int64)>(([:], 0))

    init(data: String, upkeep: any StorageUpkeep, logger: Logger) {
        self.data = data
        self.upkeep = upkeep
        self.logger = logger
    }

    /// The number of requests that needed a damaged page and of damaged files that checks found.
    var count: Int64 { state.withLock { $0.occurred } }

    /// Called when a request reads a damaged page.
    func occurred(_ home: ContainerEnvironment, _ path: String, _ places: [String]) {
        let whose = "The store of \(home.container.name) (\(home.environment.rawValue)) is damaged"
        let place = places.isEmpty ? "" : " (\(places.joined(separator: ", ")))"
        say("\(whose): \(path)\(place). Requests that need this data are refused.", of: path)
    }

    /// Called when the daily check finds a damaged file.
    func found(_ fault: StorageFault) { say("\(fault).", of: "\(data)/\(fault.file)") }

    private func say(_ sentence: String, of path: String) {
        let now = ContinuousClock.now
        let isNew = state.withLock { state in
            state.occurred += 1
            if let last = state.lastReported[path], now - last < Self.reportInterval { return false }
            state.lastReported[path] = now
            return true
        }
        if isNew { logger.error("\(sentence) \(upkeep.remedy)") }
    }
}

/// Checks all pages once a day, so that damage is found while there are backups from before it.
struct DailyStoreCheck: Service {
    let upkeep: any StorageUpkeep
    let damage: StoreDamageReporter

    func run() async throws {
        await cancelWhenGracefulShutdown {
            // Not at once: at the start, other reads are more urgent.
            var wait = Duration.seconds(600)
            while (try? await Task.sleep(for: wait)) != nil {
                wait = .seconds(86_400)
                try? await BackgroundQueue.run(.background) {
                    for fault in (try? upkeep.faults { _ in }) ?? [] { damage.found(fault) }
                }
            }
        }
    }
}

/// Stops the process after a failed commit.
///
/// The commit may or may not be on the disk, and only opening the store again can show which.
final class FailedCommitHandler: Sendable {
    private let logger: Logger
    private let happened = Mutex(false)

    init(logger: Logger) { self.logger = logger }

    /// Stops the relay gracefully: pending responses are sent, no further writes are accepted.
    func endProcess() {
        happened.withLock { $0 = true }
        logger.critical(
            "A commit could not be written to the disk. The relay stops; its next start reads what the disk holds."
        )
        kill(getpid(), SIGTERM)
    }

    /// Throws after a failed commit: supervisors restart a relay only if it exits with an error.
    func check() throws {
        guard happened.withLock({ $0 }) else { return }
        throw CommandFailure(
            .failed,
            "A commit could not be written to the disk. Check the disk, then start the relay again; no confirmed write is lost."
        )
    }
}

/// Logs that a store could not be opened because the process has no file descriptor left, at most once a minute.
final class DescriptorShortageLog: Sendable {
    private static let reportInterval = Duration.seconds(60)

    private let logger: Logger
    private let lastReported = Mutex<ContinuousClock.Instant?>(nil)

    init(logger: Logger) { self.logger = logger }

    func occurred() {
        let now = ContinuousClock.now
        let isNew = lastReported.withLock { lastReported in
            if let last = lastReported, now - last < Self.reportInterval { return false }
            lastReported = now
            return true
        }
        guard isNew else { return }
        logger.error(
            """
            A container's store could not be opened: the limit of \(Descriptors.limit) open files and sockets is reached. \
            The relay closes other stores to make room. Raise the limit: \(OpenFiles.remedy).
            """
        )
    }
}
