import Foundation
import Logging
import Records
import RelayCore
import RelayServer
import RelayStore
import ServiceLifecycle
import Synchronization

/// Counts and logs damaged stores, found by a request that reads a damaged page or by the daily check.
///
/// The relay refuses requests that need a damaged page and goes on serving all others.
final class StoreDamage: Sendable {
    /// The time before damage of the same file is logged again.
    private static let silence = Duration.seconds(60)

    private let data: String
    private let logger: Logger
    private let state = Mutex<(said: [String: ContinuousClock.Instant], met: Int64)>(([:], 0))

    init(data: String, logger: Logger) {
        self.data = data
        self.logger = logger
    }

    /// The number of requests that needed a damaged page and of damaged files that checks found.
    var count: Int64 { state.withLock { $0.met } }

    /// Called when a request reads a damaged page.
    func met(_ home: ContainerEnvironment, _ path: String, _ places: [String]) {
        let whose = "The store of \(home.container.name) (\(home.environment.rawValue)) is damaged"
        let place = places.isEmpty ? "" : " (\(places.joined(separator: ", ")))"
        say("\(whose): \(path)\(place). Requests that need this data are refused.", of: path)
    }

    /// Called when the daily check finds a damaged file.
    func found(_ fault: StoreCheck.Fault) { say("\(fault).", of: "\(data)/\(fault.file)") }

    private func say(_ sentence: String, of path: String) {
        let now = ContinuousClock.now
        let isNew = state.withLock { state in
            state.met += 1
            if let last = state.said[path], now - last < Self.silence { return false }
            state.said[path] = now
            return true
        }
        if isNew { logger.error("\(sentence) \(StoreCheck.remedy(data: data))") }
    }
}

/// Checks all pages once a day, so that damage is found while there are backups from before it.
struct StoreLook: Service {
    let data: String
    let damage: StoreDamage

    func run() async throws {
        await cancelWhenGracefulShutdown {
            // Not at once: at the start, other reads are more urgent.
            var wait = Duration.seconds(600)
            while (try? await Task.sleep(for: wait)) != nil {
                wait = .seconds(86_400)
                try? await OwnQueue.run(.background) {
                    for fault in (try? StoreCheck.faults(in: data)) ?? [] { damage.found(fault) }
                }
            }
        }
    }
}
