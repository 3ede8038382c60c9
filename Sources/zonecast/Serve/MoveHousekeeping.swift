import Dispatch
import Logging
import Records
import RelayCore
import RelayServer
import ServiceLifecycle

/// Completes the moves of users between databases whose command has ended before the end, every minute.
///
/// Until then the writes of such a user may be refused.
struct MoveHousekeeping: Service {
    let shards: any ClusterShards
    let duty: any ScheduledDuty
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: .seconds(60))) != nil {
                guard await duty.isOursNow() else { continue }
                try? await BackgroundQueue.run(.utility) { completeMoves() }
            }
        }
    }

    private func completeMoves() {
        for move in (try? shards.unfinishedMoves()) ?? [] {
            let user = move.user.recordName
            do throws(DirectoryError) {
                let summary = try shards.move(move.user, in: move.home, to: move.target) { _ in }
                logger.info("The move of \(user) to shard \(move.target) was completed: \(summary.rows) rows.")
            } catch .invalid {
                // Most often, the command is still at work.
                continue
            } catch {
                logger.warning("The move of \(user) to shard \(move.target) cannot be completed now: \(error)")
            }
        }
    }
}
