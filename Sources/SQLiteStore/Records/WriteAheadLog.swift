import Dispatch
import GRDB
import GRDBSQLite
import StoreKit
import Synchronization

/// Preallocates the writer's write-ahead log, and decides when it is copied into the file.
///
/// Copying takes a tenth of a second or more, and no commit should wait for it. So another connection copies most of
/// the log while commits continue, and repeats this until so little is left that the writer can copy the rest between
/// two commits. Then everything is in the file, and the log starts over.
///
/// A commit that extends the log's file waits for the file system's metadata as well as for its own pages, which takes
/// half as long again as overwriting. So zeros are written ahead, 1 MiB at a time, until the log has the length at
/// which it starts over.
final class WriteAheadLog: Sendable {
    private struct State {
        /// The number of pages in the log after our latest commit.
        var frames = 0
        /// How many of them have been copied into the file.
        var copied = 0
        /// The size of the log's file in bytes, when it was last checked.
        var size: Int64 = 0
    }

    private let state = Mutex(State())

    /// The number of pages in the log that starts a checkpoint.
    ///
    /// A checkpoint costs two more fsyncs and delays writes. With 32 MiB of log it happens a tenth as often as by
    /// default, and a page that was written several times meanwhile is copied once.
    private let checkpointFrames: Int
    /// The number of pages to preallocate: more, since commits continue while the log is copied.
    private var roomyFrames: Int { checkpointFrames + checkpointFrames / 4 }
    /// The size of a frame, which is one page with its header.
    private static let frameBytes: Int64 = 4096 + 24
    private static let headBytes: Int64 = 32
    private static let step: Int64 = 1 << 20
    /// No zeros are written while this much room is left.
    private static let margin: Int64 = 256 << 10

    /// The maximum number of pages that the writer copies between two commits.
    private let mostRest: Int

    /// Creates the state of a log that has not been read yet.
    ///
    /// - Parameters:
    ///   - checkpointPages: the number of pages that are copied into the file at once.
    ///   - mostRest: how many of them may be left for the writer: a few milliseconds' worth.
    init(checkpointPages: Int, mostRest: Int) {
        checkpointFrames = checkpointPages
        self.mostRest = mostRest
    }

    /// The size in bytes up to which the log is preallocated.
    private var fullSize: Int64 { Self.headBytes + Int64(roomyFrames) * Self.frameBytes }

    /// Counts the pages of the connection's commits, in place of SQLite's automatic checkpoints.
    ///
    /// This object must outlive the connection's last commit.
    func watch(_ database: Database) {
        let count:
            @convention(c) (
                UnsafeMutableRawPointer?, OpaquePointer?, UnsafePointer<CChar>?, Int32
            ) -> Int32 = { log, _, _, frames in
                guard let log else { return SQLITE_OK }
                Unmanaged<WriteAheadLog>.fromOpaque(log).takeUnretainedValue().state.withLock {
                    // Fewer than before: the log has started over.
                    if frames < $0.frames { $0.copied = 0 }
                    $0.frames = Int(frames)
                }
                return SQLITE_OK
            }
        sqlite3_wal_hook(database.sqliteConnection, count, Unmanaged.passUnretained(self).toOpaque())
    }

    /// Writes zeros past the log's end if that is near.
    ///
    /// Must be called inside a write transaction, and writes only past the end of the file: no other process can write
    /// there meanwhile, and no reader of the log takes zeros for a page. A failure does not affect the transaction.
    func makeRoom(in database: Database) {
        let isNear = state.withLock { state in
            let end = Self.headBytes + Int64(state.frames) * Self.frameBytes
            return state.frames < roomyFrames && end + Self.margin > state.size
        }
        guard isNear else { return }
        var pointer: UnsafeMutablePointer<sqlite3_file>?
        sqlite3_file_control(database.sqliteConnection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &pointer)
        guard let file = pointer, let methods = file.pointee.pMethods else { return }
        var size: Int64 = 0
        guard methods.pointee.xFileSize(file, &size) == SQLITE_OK else { return }
        // SQLite must write the log's header first.
        if size >= Self.headBytes, size < fullSize {
            size += Self.writeZeros(min(Self.step, fullSize - size), at: size) {
                methods.pointee.xWrite(file, $0, $1, $2)
            }
        }
        state.withLock { [size] in $0.size = size }
    }

    /// Returns the number of bytes written.
    private static func writeZeros(
        _ count: Int64,
        at start: Int64,
        by write: (UnsafeRawPointer?, Int32, Int64) -> Int32
    ) -> Int64 {
        zeros.withUnsafeBytes { zeros in
            var done: Int64 = 0
            while done < count, write(zeros.baseAddress, Int32(zeros.count), start + done) == SQLITE_OK {
                done += Int64(zeros.count)
            }
            return done
        }
    }

    /// SQLite's own files accept less than 128 KiB in one call.
    private static let zeros = [UInt8](repeating: 0, count: 64 << 10)

    /// What to do about the log.
    enum Need {
        case nothing
        /// Few pages are left to copy, so the next commit can wait for them; the log then starts over.
        case copyRest
        /// Many pages are left to copy, so commits should continue meanwhile.
        case copyConcurrently
    }

    var need: Need {
        state.withLock {
            guard $0.frames >= checkpointFrames else { return .nothing }
            return $0.frames - $0.copied <= mostRest ? .copyRest : .copyConcurrently
        }
    }

    /// Copies as much of the log as possible into the file.
    ///
    /// May run on any connection, while another one commits.
    func checkpoint(_ database: Database) throws {
        var (frames, copied): (CInt, CInt) = (0, 0)
        let result = sqlite3_wal_checkpoint_v2(
            database.sqliteConnection,
            "main",
            SQLITE_CHECKPOINT_PASSIVE,
            &frames,
            &copied
        )
        // Readers and other processes may prevent it; a later commit tries again.
        guard result & 0xFF == SQLITE_IOERR else {
            state.withLock { [copied] in $0.copied = min(max(Int(copied), 0), $0.frames) }
            return
        }
        throw DatabaseError(resultCode: ResultCode(rawValue: sqlite3_extended_errcode(database.sqliteConnection)))
    }
}

/// Copies a full write-ahead log into its file on a separate connection, while commits continue.
final class Checkpointer: Sendable {
    private let log: WriteAheadLog
    private let open: @Sendable () throws -> DatabaseQueue
    private struct State {
        var connection: DatabaseQueue?
        var isClosed = false
    }

    private let state = Mutex(State())
    private let isCopying = Atomic(false)
    private let queue = DispatchQueue(label: "zonecast-checkpoint")
    private let scheduler: CommitScheduler?

    /// Creates a copier, which opens its connection on first use.
    ///
    /// - Parameters:
    ///   - log: the log to copy.
    ///   - scheduler: runs the copying in place of a queue.
    ///   - open: opens a connection that may write.
    init(_ log: WriteAheadLog, scheduler: CommitScheduler?, open: @escaping @Sendable () throws -> DatabaseQueue) {
        self.log = log
        self.scheduler = scheduler
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
                report { onFailure(error) }
            }
        }
    }

    private func run(_ work: @escaping @Sendable () -> Void) {
        if let scheduler { scheduler(work) } else { queue.async(execute: work) }
    }

    private func report(_ work: @escaping @Sendable () -> Void) {
        if let scheduler { scheduler(work) } else { DispatchQueue.global().async(execute: work) }
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
        queue.sync {}
        state.withLock { state in
            try? state.connection?.close()
            state = State(isClosed: true)
        }
    }
}
