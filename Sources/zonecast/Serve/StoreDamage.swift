import Foundation
import Logging
import Records
import RelayCore
import RelayServer
import RelayStore
import ServiceLifecycle
import Synchronization

/// Says that a store is damaged, wherever it shows: in a request that needed a damaged page, or in the daily look at all.
///
/// What such a request asked for is refused, never made up; all else goes on.
final class StoreDamage: Sendable {
    /// How long the same file is not spoken of again.
    private static let silence = Duration.seconds(60)

    private let data: String
    private let logger: Logger
    private let state = Mutex<(said: [String: ContinuousClock.Instant], met: Int64)>(([:], 0))

    init(data: String, logger: Logger) {
        self.data = data
        self.logger = logger
    }

    /// Requests that needed what is damaged, and files that a look at all found so.
    var count: Int64 { state.withLock { $0.met } }

    /// A request met it.
    func met(_ home: ContainerEnvironment, _ path: String, _ places: [String]) {
        let whose = "The store of \(home.container.name) (\(home.environment.rawValue)) is damaged"
        let place = places.isEmpty ? "" : " (\(places.joined(separator: ", ")))"
        say("\(whose): \(path)\(place). What needs it is refused.", of: path)
    }

    /// A look at all has found it.
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

/// Reads all pages once a day, so that damage shows while there are backups from before it.
struct StoreLook: Service {
    let data: String
    let damage: StoreDamage

    func run() async throws {
        await cancelWhenGracefulShutdown {
            // Not at once: a start has more urgent things to read.
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
