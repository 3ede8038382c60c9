import Dispatch
import GRDB
import Synchronization

/// Copies a full write-ahead log into its file on a separate connection, while commits continue.
final class LogCopier: Sendable {
    private let log: WriteAheadLog
    private let open: @Sendable () throws -> DatabaseQueue
    private struct State {
        var connection: DatabaseQueue?
        var isClosed = false
    }

    private let state = Mutex(State())
    private let isCopying = Atomic(false)
    private let line = DispatchQueue(label: "zonecast-checkpoint")
    private let later: CommitLater?

    /// Creates a copier, which opens its connection on first use.
    ///
    /// - Parameters:
    ///   - log: the log to copy.
    ///   - later: runs the copying in place of a queue.
    ///   - open: opens a connection that may write.
    init(_ log: WriteAheadLog, later: CommitLater?, open: @escaping @Sendable () throws -> DatabaseQueue) {
        self.log = log
        self.later = later
        self.open = open
    }

    /// Starts to copy, unless a copy is running.
    ///
    /// `onFailure` is called on a thread that may block.
    func begin(onFailure: @escaping @Sendable (any Error) -> Void) {
        guard !isCopying.exchange(true, ordering: .acquiringAndReleasing) else { return }
        run { [self] in
            defer { isCopying.store(false, ordering: .releasing) }
            do {
                try copy()
            } catch {
                // Not on this queue: `onFailure` may close the store, which waits until this queue is empty.
                tell { onFailure(error) }
            }
        }
    }

    private func run(_ work: @escaping @Sendable () -> Void) {
        if let later { later(work) } else { line.async(execute: work) }
    }

    private func tell(_ work: @escaping @Sendable () -> Void) {
        if let later { later(work) } else { DispatchQueue.global().async(execute: work) }
    }

    private func copy() throws {
        let connection = try state.withLock { state -> DatabaseQueue? in
            if state.isClosed { return nil }
            let connection = try state.connection ?? open()
            state.connection = connection
            return connection
        }
        try connection?.inDatabase { try log.checkpoint($0) }
    }

    /// Waits until no copy runs, and closes the connection.
    func close() {
        line.sync {}
        state.withLock { state in
            try? state.connection?.close()
            state = State(isClosed: true)
        }
    }
}
