import GRDBSQLite

/// What SQLite knows of a write-ahead log: a file beside it, or memory of its own where no such file can be made.
///
/// Without the file nobody could even read what lies on a disk that is mounted read-only, or has no room left: of all times
/// when somebody wants to bring data to another one. SQLite does without for files that it may not write
/// (`SQLITE_READONLY_CANTINIT`, sqlite.org/rescode.html): it reads the log whenever it begins to read.
struct LogIndex {
    /// Once so, always so: what is read must not change under whoever reads.
    private var isInMemory = false
    /// Whether there is a file that others would find us in.
    private var hasFile = true

    private static let isUnusable = SQLITE_READONLY | 5 << 8
    /// In bytes: an index takes 32 KiB, and more with its log.
    private static let leastRoom: UInt64 = 1 << 20

    /// Gives SQLite a part of the index, or its own code for that it has to do without.
    ///
    /// `map` asks the system for the part, and puts it where `part` says; `path` is the database's file, and `isReadOnly` whether
    /// it is the first part and nothing is to be written by way of it.
    mutating func map(
        _ path: String,
        isReadOnly: Bool,
        _ part: UnsafeMutablePointer<UnsafeMutableRawPointer?>?,
        _ map: () -> CInt
    ) -> CInt {
        if isInMemory { return Self.isUnusable }
        let status = map()
        if status == SQLITE_CANTOPEN, FreeSpace.isReadOnly(path) {
            (isInMemory, hasFile) = (true, false)
        } else if status == SQLITE_OK, isReadOnly, part?.pointee == nil {
            // Nobody has an index, and there may be no room for one. Others find us in the file, and wait for us.
            isInMemory = FreeSpace.bytes(in: path).map { $0 < Self.leastRoom } ?? false
        }
        return isInMemory ? Self.isUnusable : status
    }

    /// Where there is no file nobody else can be there: the disk takes none.
    func lock(_ lock: () -> CInt) -> CInt { hasFile ? lock() : SQLITE_OK }
}
