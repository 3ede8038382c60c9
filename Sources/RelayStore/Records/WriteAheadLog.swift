import GRDB
import GRDBSQLite
import Synchronization

/// Looks after the writer's write-ahead log: room ahead of it, and when it is copied into the file.
///
/// To copy it takes a tenth of a second or more, in which nobody should wait for a commit. So another connection copies
/// most of it while commits go on behind, and again what came meanwhile, until so little is left that the writer itself
/// can copy that between two commits: then all is in the file, and the log begins anew.
///
/// A commit that makes the log's file longer has to wait for the file system's own books as well as for its pages, which
/// takes half as long again as one that overwrites: so zeros are written ahead, a mebibyte at a time, until the log has the
/// length at which it begins anew.
final class WriteAheadLog: Sendable {
    private struct State {
        /// Pages in the log as of our last commit.
        var frames = 0
        /// So many of them have been copied into the file.
        var copied = 0
        /// Bytes of its file, as far as we have looked.
        var size: Int64 = 0
    }

    private let state = Mutex(State())

    /// A checkpoint costs two more fsyncs and stops the writes: at 32 MiB of log it comes a tenth as often as by default,
    /// and a page written many times meanwhile is copied once.
    private let checkpointFrames: Int
    /// Pages that room is made for: commits go on while the log is copied.
    private var roomyFrames: Int { checkpointFrames + checkpointFrames / 4 }
    /// One page with what the log says about it, and what stands before the first.
    private static let frameBytes: Int64 = 4096 + 24
    private static let headBytes: Int64 = 32
    private static let step: Int64 = 1 << 20
    /// So much room is enough for now.
    private static let margin: Int64 = 256 << 10

    /// So many pages the writer itself copies between two commits.
    private let mostRest: Int

    /// - Parameters:
    ///   - checkpointPages: So many pages are copied into the file at once.
    ///   - mostRest: So many of them may be left for the writer: a few milliseconds' worth.
    init(checkpointPages: Int, mostRest: Int) {
        checkpointFrames = checkpointPages
        self.mostRest = mostRest
    }

    /// Bytes of a log that room has been made for.
    private var fullSize: Int64 { Self.headBytes + Int64(roomyFrames) * Self.frameBytes }

    /// Begins to count the pages of the connection's commits, in place of SQLite's own checkpoints.
    ///
    /// Must outlive the connection's last commit.
    func watch(_ database: Database) {
        let count:
            @convention(c) (
                UnsafeMutableRawPointer?, OpaquePointer?, UnsafePointer<CChar>?, Int32
            ) -> Int32 = { log, _, _, frames in
                guard let log else { return SQLITE_OK }
                Unmanaged<WriteAheadLog>.fromOpaque(log).takeUnretainedValue().state.withLock {
                    // Fewer than before: the log has begun anew.
                    if frames < $0.frames { $0.copied = 0 }
                    $0.frames = Int(frames)
                }
                return SQLITE_OK
            }
        sqlite3_wal_hook(database.sqliteConnection, count, Unmanaged.passUnretained(self).toOpaque())
    }

    /// Writes zeros behind the log's end where that is near.
    ///
    /// Only inside of a write transaction, and only behind the file's end: no process but this one can write there now, and
    /// zeros are what no reader of the log takes for a page. A failure is not one of the transaction.
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
        // Before its first page the log's head has to be written by SQLite.
        if size >= Self.headBytes, size < fullSize {
            size += Self.writeZeros(min(Self.step, fullSize - size), at: size) {
                methods.pointee.xWrite(file, $0, $1, $2)
            }
        }
        state.withLock { [size] in $0.size = size }
    }

    /// How many have been written.
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

    /// SQLite's own files take less than 128 KiB at once.
    private static let zeros = [UInt8](repeating: 0, count: 64 << 10)

    /// What is to be done about a log that may have grown to its full length.
    enum Need {
        case nothing
        /// So few pages are left to copy that the next commit may well wait for them; it then begins the log anew.
        case copyRest
        /// So many that commits had better go on beside it.
        case copyBeside
    }

    var need: Need {
        state.withLock {
            guard $0.frames >= checkpointFrames else { return .nothing }
            return $0.frames - $0.copied <= mostRest ? .copyRest : .copyBeside
        }
    }

    /// Copies what it can of the log into the file; on any connection, and beside commits on another one.
    func checkpoint(_ database: Database) throws {
        var (frames, copied): (CInt, CInt) = (0, 0)
        let result = sqlite3_wal_checkpoint_v2(
            database.sqliteConnection,
            "main",
            SQLITE_CHECKPOINT_PASSIVE,
            &frames,
            &copied
        )
        // Readers and other processes may be in its way: then a later commit tries again.
        guard result & 0xFF == SQLITE_IOERR else {
            state.withLock { [copied] in $0.copied = min(max(Int(copied), 0), $0.frames) }
            return
        }
        throw DatabaseError(resultCode: ResultCode(rawValue: sqlite3_extended_errcode(database.sqliteConnection)))
    }
}
