import Dispatch
import GRDB
import Synchronization

/// Copies a full write-ahead log into its file on a connection of its own, while commits go on.
final class LogCopier: Sendable {
    private let log: WriteAheadLog
    private let open: @Sendable () throws -> DatabaseQueue
    private let connection = Mutex<DatabaseQueue?>(nil)
    private let isCopying = Atomic(false)
    private let line = DispatchQueue(label: "zonecast-checkpoint")

    /// - Parameters:
    ///   - log: what is copied.
    ///   - open: opens a connection that may write.
    init(_ log: WriteAheadLog, open: @escaping @Sendable () throws -> DatabaseQueue) {
        self.log = log
        self.open = open
    }

    /// Begins to copy, unless that is going on; a failure is told to `onFailure`, on a thread that may wait.
    func begin(onFailure: @escaping @Sendable (any Error) -> Void) {
        guard !isCopying.exchange(true, ordering: .acquiringAndReleasing) else { return }
        line.async { [self] in
            defer { isCopying.store(false, ordering: .releasing) }
            do {
                try copy()
            } catch {
                // Not here: whoever hears of it may close the store, and that waits for this line to be empty.
                DispatchQueue.global().async { onFailure(error) }
            }
        }
    }

    private func copy() throws {
        let connection = try connection.withLock { connection in
            if let connection { return connection }
            let opened = try open()
            connection = opened
            return opened
        }
        try connection.inDatabase { try log.checkpoint($0) }
    }

    /// Returns when nothing is being copied any more, and closes the connection.
    func close() {
        line.sync {}
        connection.withLock { connection in
            try? connection?.close()
            connection = nil
        }
    }
}
