import Foundation
import Sockets

/// A server that does only what every server must do, as a floor for the relay.
///
/// Thread 0 handles HTTP requests. `POST /commit/ZONE` appends the body to a log file, fsyncs once for all waiting
/// requests, wakes the notice threads and answers; `POST /notify/ZONE` does the same without a disk. `POST /row/N`
/// commits the body as a row of SQLite, `POST /shared-row/N` together with the rows of all waiting requests.
/// `GET /feed/AFTER/LIMIT` answers with a page of rows. The other threads each hold a share of the listening sockets: a
/// request `GET /listen/ZONE` is answered like a WebSocket upgrade, the first bytes after it with a `ready` frame, and
/// each commit of the zone with one `write` per listener.
package final class BareServer {
    package struct Settings: Sendable {
        package var noticeThreads: Int
        package var logPath: String
        /// A `BareFeed` to serve, if any.
        package var feedPath: String?

        package init(noticeThreads: Int, logPath: String, feedPath: String?) {
            self.noticeThreads = noticeThreads
            self.logPath = logPath
            self.feedPath = feedPath
        }
    }

    /// Serves until the standard input ends; prints `ready REQUESTS-PORT LISTENERS-PORT` first.
    package static func serve(_ settings: Settings) throws {
        let requests = try Socket.listen()
        let listeners = try Socket.listen()
        let groups = try (0..<settings.noticeThreads).map { _ in try ListenerGroup() }
        let ports = "ready \(requests.endpoint.port) \(listeners.endpoint.port)\n"
        FileHandle.standardOutput.write(Data(ports.utf8))
        let (requesting, accepting) = (requests.descriptor, listeners.descriptor)
        _ = RunningThread { accept(from: accepting, into: groups) }
        for group in groups { _ = RunningThread { try ListenerLoop(group).run() } }
        _ = RunningThread { try RequestLoop(requesting, settings, groups).run() }
        _ = FileHandle.standardInput.readDataToEndOfFile()
        exit(0)
    }

    /// Distributes new connections to the groups in turn.
    private static func accept(from listening: Int32, into groups: [ListenerGroup]) {
        var next = 0
        while let descriptor = Socket.acceptDescriptor(from: listening) {
            groups[next % groups.count].take(descriptor)
            next += 1
        }
    }
}
