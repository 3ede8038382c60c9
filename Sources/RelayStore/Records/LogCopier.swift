import Dispatch
import GRDB
import Synchronization

/// Copies a full write-ahead log into its file on a connection of its own, while commits go on.
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

    /// - Parameters:
    ///   - log: what is copied.
    ///   - later: copies in place of a queue of its own.
    ///   - open: opens a connection that may write.
    init(_ log: WriteAheadLog, later: CommitLater?, open: @escaping @Sendable () throws -> DatabaseQueue) {
        self.log = log
        self.later = later
        self.open = open
    }

    /// Begins to copy, unless that is going on; a failure is told to `onFailure`, on a thread that may wait.
    func begin(onFailure: @escaping @Sendable (any Error) -> Void) {
        guard !isCopying.exchange(true, ordering: .acquiringAndReleasing) else { return }
        run { [self] in
            defer { isCopying.store(false, ordering: .releasing) }
            do {
                try copy()
            } catch {
                // Not here: whoever hears of it may close the store, and that waits for this line to be empty.
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

    /// Returns when nothing is being copied any more, and closes the connection.
    func close() {
        line.sync {}
        state.withLock { state in
            try? state.connection?.close()
            state = State(isClosed: true)
        }
    }
}
