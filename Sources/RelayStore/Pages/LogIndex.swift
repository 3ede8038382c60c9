import GRDBSQLite

/// SQLite's index of a write-ahead log: a file beside it, or memory if no such file can be created.
///
/// Without this, data on a disk that is mounted read-only or full could not even be read, exactly when it must be
/// copied to another disk. For files that it may not write, SQLite can work without the index file
/// (`SQLITE_READONLY_CANTINIT`, sqlite.org/rescode.html): it then reads the log at the start of each read.
struct LogIndex {
    /// Never reset: the index must not change during a read.
    private var isInMemory = false
    /// Whether there is a file in which other processes can see our locks.
    private var hasFile = true

    private static let isUnusable = SQLITE_READONLY | 5 << 8
    /// In bytes: an index takes at least 32 KiB, and grows with its log.
    private static let leastRoom: UInt64 = 1 << 20

    /// Maps a part of the index, or returns SQLite's code for working without one.
    ///
    /// `map` asks the system for the part and stores its address in `part`. `path` is the path of the database file;
    /// `isReadOnly` is whether this is the first part and the caller never writes through it.
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
            // No process has an index, and there may be no room for one. Others see our locks in the file, and wait.
            isInMemory = FreeSpace.bytes(in: path).map { $0 < Self.leastRoom } ?? false
        }
        return isInMemory ? Self.isUnusable : status
    }

    /// Without an index file no other process can be using the database: the disk is read-only.
    func lock(_ lock: () -> CInt) -> CInt { hasFile ? lock() : SQLITE_OK }
}
