import Logging
import Synchronization

/// Counts log lines.
final class LogLines: LogHandler {
    private let lines = Mutex(0)

    var count: Int { lines.withLock { $0 } }
    var logger: Logger { Logger(label: "test") { _ in self } }

    func log(event: LogEvent) { lines.withLock { $0 += 1 } }

    subscript(metadataKey _: String) -> Logger.Metadata.Value? {
        get { nil }
        set {}
    }
    var metadata: Logger.Metadata {
        get { [:] }
        set {}
    }
    var logLevel: Logger.Level {
        get { .trace }
        set {}
    }
}
