import Logging
import RelayStore
import Synchronization

/// Logs that a store could not be opened because the process has no file descriptor left, at most once a minute.
final class DescriptorShortage: Sendable {
    private static let silence = Duration.seconds(60)

    private let logger: Logger
    private let said = Mutex<ContinuousClock.Instant?>(nil)

    init(logger: Logger) { self.logger = logger }

    func met() {
        let now = ContinuousClock.now
        let isNew = said.withLock { said in
            if let last = said, now - last < Self.silence { return false }
            said = now
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
