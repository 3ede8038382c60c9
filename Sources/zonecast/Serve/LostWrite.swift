import Foundation
import Logging
import Synchronization

/// A commit that may or may not be on the disk: only reading the disk anew can tell, so the process ends.
final class LostWrite: Sendable {
    private let logger: Logger
    private let happened = Mutex(false)

    init(logger: Logger) { self.logger = logger }

    /// Has the relay stop as if it were told to: what has been answered goes out, and no write is taken any more.
    func endProcess() {
        happened.withLock { $0 = true }
        logger.critical(
            "The disk failed to keep a commit. Stopping, so that the next start reads what is really there."
        )
        kill(getpid(), SIGTERM)
    }

    /// Throws after one: whoever watches over the relay starts it again only when it has failed.
    func check() throws {
        guard happened.withLock({ $0 }) else { return }
        throw CommandFailure(
            .failed,
            "The disk failed to keep a commit. Look at the disk, then start the relay again: all that was answered is there."
        )
    }
}
