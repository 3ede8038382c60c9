import Logging
import RelayStore
import Synchronization

/// Says that stores cannot be opened since the process has no descriptor left; once a minute at the most.
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
            A container's store found no room among \(Descriptors.limit) open files and sockets: others are closed for it. \
            Allow more: \(OpenFiles.remedy).
            """
        )
    }
}
