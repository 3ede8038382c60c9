import Logging
import RelayCore
import Synchronization
import Testing

@testable import zonecast

/// The warning of a node whose clock leaves the database's while it runs.
@Suite struct NodeClockTests {
    /// A link whose database has another time.
    private final class Link: NodeLink {
        let node = "a"
        private let offset = Mutex(Duration.zero)

        var state: NodeLinkState {
            var state = NodeLinkState()
            state.clockOffset = offset.withLock { $0 }
            return state
        }

        func drift(to offset: Duration) { self.offset.withLock { $0 = offset } }
        func start(_ events: NodeLinkEvents) {}
        func send(_ message: [UInt8]) {}
        func stop() {}
    }

    private final class Lines: Sendable {
        private let lines = Mutex<[String]>([])

        func add(_ line: String) { lines.withLock { $0.append(line) } }

        func take() -> [String] {
            lines.withLock { lines in
                defer { lines = [] }
                return lines
            }
        }
    }

    private struct Handler: LogHandler {
        let lines: Lines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) { lines.add("\(event.level): \(event.message)") }
    }

    @Test func aClockThatDriftsWhileTheRelayRunsIsLogged() {
        let (link, lines) = (Link(), Lines())
        let node = RelayNode(link, run: 1, logger: Logger(label: "test") { _ in Handler(lines: lines) })
        node.checkClock()
        link.drift(to: .milliseconds(4_900))
        node.checkClock()
        #expect(lines.take() == [])
        link.drift(to: .milliseconds(7_400))
        node.checkClock()
        #expect(
            lines.take() == [
                "warning: The clock of this machine is 7 s ahead of the database's. Synchronize both with NTP."
            ]
        )
        link.drift(to: .seconds(-3_600))
        node.checkClock()
        #expect(
            lines.take() == [
                "warning: The clock of this machine is 3600 s behind the database's. Synchronize both with NTP."
            ]
        )
        link.drift(to: .zero)
        node.checkClock()
        #expect(lines.take() == [])
    }
}
