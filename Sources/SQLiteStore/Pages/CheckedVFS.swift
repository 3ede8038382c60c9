import CSQLiteSettings
import Foundation
package import GRDB
import GRDBSQLite
import RelaySystem

/// A SQLite VFS that verifies a checksum of every page; wraps each of the system's files in a `CheckedFile`.
///
/// A page that is not as it was written is reported as an input/output error (`SQLITE_IOERR_DATA`) and never returned;
/// its place is in `DamageLog`. Modelled on SQLite's checksum VFS (sqlite.org/cksumvfs.html), except for the log:
/// SQLite has computed a frame's checksum before the frame gets here. So a page gets its checksum when it is written
/// into the database file, and in the log the frame's own checksum is verified.
///
/// Other programs can read the files. A program that writes to them leaves pages with wrong checksums; its `VACUUM`
/// leaves pages without checksums, which are accepted as they are.
package enum CheckedVFS {
    static let ioError = SQLITE_IOERR | 1 << 8
    static let shortRead = SQLITE_IOERR | 2 << 8
    static let damaged = SQLITE_IOERR | 32 << 8

    private static let name = "zonecast-pages"

    /// Returns the name to open the file at `path` by: a URI, or the path if SQLite was built without URIs.
    package static func address(of path: String) -> String {
        guard isRegistered else { return path }
        var escaped = path.hasPrefix("/") ? "file://" : "file:"
        for scalar in path.unicodeScalars {
            switch scalar {
            case "%": escaped += "%25"
            case "?": escaped += "%3f"
            case "#": escaped += "%23"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped + "?vfs=" + name
    }

    /// Reserves room for checksums in a new file; must be called before a connection first writes to the file.
    ///
    /// Has no effect on a file without that room, except that copies made by `VACUUM INTO` have it.
    package static func reserveChecksumSpace(_ database: Database) {
        guard isRegistered else { return }
        var size = CInt(PageChecksum.size)
        sqlite3_file_control(database.sqliteConnection, "main", SQLITE_FCNTL_RESERVE_BYTES, &size)
    }

    /// Runs `body`, which commits, and writes the frames of the commit in as few calls as possible.
    static func bufferingFrames(_ database: Database, _ body: () throws -> Void) rethrows {
        var file: UnsafeMutablePointer<sqlite3_file>?
        sqlite3_file_control(database.sqliteConnection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file)
        // In memory, and if SQLite was built without URIs, the file is not a `CheckedFile`.
        guard let file, file.pointee.pMethods == UnsafePointer(methods), let log = with(file, else: nil, { $0 }) else {
            return try body()
        }
        log.bufferFrames(true)
        defer { log.bufferFrames(false) }
        try body()
    }

    // Written once, below, under the lock of the static's initialization and before SQLite gets it; then only read.
    nonisolated(unsafe) private static let methods = makeMethods()

    private static let isRegistered: Bool = {
        // Otherwise each of SQLite's allocations, some thirty per record, takes a global lock to count bytes.
        _ = zonecast_sqlite_count_no_memory()
        guard sqlite3_compileoption_used("USE_URI") != 0, let system = sqlite3_vfs_find(nil) else { return false }
        // SQLite uses the structure for as long as the process runs.
        let ours = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        ours.initialize(to: system.pointee)
        ours.pointee.zName = UnsafePointer(strdup(name))
        ours.pointee.szOsFile = CInt(MemoryLayout<Head>.size)
        ours.pointee.pNext = nil
        ours.pointee.xOpen = { _, name, file, flags, outFlags in CheckedVFS.open(name, file, flags, outFlags) }
        ours.pointee.xDelete = { _, name, syncsFolder in
            guard let system = sqlite3_vfs_find(nil), let delete = system.pointee.xDelete else {
                return CheckedVFS.ioError
            }
            return delete(system, name, syncsFolder)
        }
        return sqlite3_vfs_register(ours, 0) == SQLITE_OK
    }()

    /// The memory that SQLite provides for each open file.
    private struct Head {
        /// SQLite's part: the pointer to the methods.
        var base: sqlite3_file
        var file: Unmanaged<CheckedFile>
    }

    private static func open(
        _ name: UnsafePointer<CChar>?,
        _ file: UnsafeMutablePointer<sqlite3_file>?,
        _ flags: CInt,
        _ outFlags: UnsafeMutablePointer<CInt>?
    ) -> CInt {
        // Looked up each time: a test replaces the system's VFS by a disk of its own.
        guard let file, let system = sqlite3_vfs_find(nil), let open = system.pointee.xOpen else {
            return SQLITE_CANTOPEN
        }
        file.pointee.pMethods = nil
        let memory = UnsafeMutableRawPointer.allocate(byteCount: Int(system.pointee.szOsFile), alignment: 16)
        memory.initializeMemory(as: UInt8.self, repeating: 0, count: Int(system.pointee.szOsFile))
        let real = memory.assumingMemoryBound(to: sqlite3_file.self)
        var granted = flags
        var status = open(system, name, real, flags, &granted)
        if status != SQLITE_OK, flags & SQLITE_OPEN_WAL != 0, let name, isOnReadOnlyDisk(log: String(cString: name)) {
            // The log was removed when the file was closed, and cannot be created here. An empty one is equivalent.
            status = open(system, emptyFile, real, SQLITE_OPEN_WAL | SQLITE_OPEN_READONLY, &granted)
        }
        outFlags?.pointee = granted
        guard status == SQLITE_OK else {
            if let close = real.pointee.pMethods?.pointee.xClose { _ = close(real) }
            memory.deallocate()
            return status
        }
        let checked = CheckedFile(real, path: name.map { String(cString: $0) }, flags: flags | granted)
        UnsafeMutableRawPointer(file).assumingMemoryBound(to: Head.self).initialize(
            to: Head(base: sqlite3_file(pMethods: UnsafePointer(methods)), file: .passRetained(checked))
        )
        return SQLITE_OK
    }

    // Never changed; SQLite uses the name for as long as the file is open.
    nonisolated(unsafe) private static let emptyFile = UnsafePointer(strdup("/dev/null"))

    private static func isOnReadOnlyDisk(log: String) -> Bool {
        access(log, F_OK) != 0 && FreeSpace.isReadOnly((log as NSString).deletingLastPathComponent)
    }

    private static func close(_ file: UnsafeMutablePointer<sqlite3_file>?) -> CInt {
        guard let file else { return SQLITE_OK }
        let checked = UnsafeMutableRawPointer(file).assumingMemoryBound(to: Head.self).pointee.file
        let real = checked.takeUnretainedValue().file
        let status = real.pointee.pMethods?.pointee.xClose?(real) ?? SQLITE_OK
        checked.release()
        UnsafeMutableRawPointer(real).deallocate()
        return status
    }

    /// Runs `body` on the `CheckedFile` behind SQLite's file.
    @inline(__always) private static func with<Value>(
        _ file: UnsafeMutablePointer<sqlite3_file>?,
        else failure: Value,
        _ body: (CheckedFile) -> Value
    ) -> Value {
        guard let file else { return failure }
        return UnsafeMutableRawPointer(file).assumingMemoryBound(to: Head.self).pointee.file
            ._withUnsafeGuaranteedRef(body)
    }

    /// Does the same after held-back frames are written, for calls that need the file in the state that SQLite expects.
    private static func flushed(_ file: UnsafeMutablePointer<sqlite3_file>?, _ body: (CheckedFile) -> CInt) -> CInt {
        with(file, else: ioError) { file in
            let status = file.flushBuffered()
            return status == SQLITE_OK ? body(file) : status
        }
    }

    /// Returns a page where the system has mapped it, if the page is as it was written.
    private static func fetch(
        _ file: CheckedFile,
        _ offset: sqlite3_int64,
        _ count: CInt,
        _ page: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
    ) -> CInt {
        page?.pointee = nil
        guard let page, file.isMappable, let fetch = file.methods?.pointee.xFetch else { return SQLITE_OK }
        let status = fetch(file.file, offset, count, page)
        guard status == SQLITE_OK, let mapped = page.pointee else { return status }
        if !file.isGoodMapped(mapped, count: Int(count), at: Int(offset)) {
            page.pointee = nil
            // SQLite reads the page instead.
            return file.methods?.pointee.xUnfetch?(file.file, offset, mapped) ?? SQLITE_OK
        }
        return SQLITE_OK
    }

    private static func makeMethods() -> UnsafeMutablePointer<sqlite3_io_methods> {
        var table = sqlite3_io_methods()
        table.iVersion = 3
        table.xClose = { CheckedVFS.close($0) }
        table.xRead = { file, bytes, count, offset in
            CheckedVFS.with(file, else: CheckedVFS.ioError) {
                $0.read(UnsafeMutableRawBufferPointer(start: bytes, count: Int(count)), at: Int(offset))
            }
        }
        table.xWrite = { file, bytes, count, offset in
            CheckedVFS.with(file, else: CheckedVFS.ioError) {
                $0.write(UnsafeRawBufferPointer(start: bytes, count: Int(count)), at: Int(offset))
            }
        }
        table.xFetch = { file, offset, count, page in
            CheckedVFS.with(file, else: SQLITE_OK) { CheckedVFS.fetch($0, offset, count, page) }
        }
        passOn(&table)
        let kept = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        kept.initialize(to: table)
        return kept
    }

    /// The remaining methods call the system's.
    private static func passOn(_ table: inout sqlite3_io_methods) {
        table.xTruncate = { file, size in
            CheckedVFS.flushed(file) { $0.methods?.pointee.xTruncate?($0.file, size) ?? 1 }
        }
        table.xSync = { file, flags in
            CheckedVFS.flushed(file) { $0.methods?.pointee.xSync?($0.file, flags) ?? 1 }
        }
        table.xFileSize = { file, size in
            CheckedVFS.flushed(file) { $0.methods?.pointee.xFileSize?($0.file, size) ?? 1 }
        }
        table.xLock = { file, level in
            CheckedVFS.with(file, else: CheckedVFS.ioError) { $0.methods?.pointee.xLock?($0.file, level) ?? 1 }
        }
        table.xUnlock = { file, level in
            CheckedVFS.with(file, else: CheckedVFS.ioError) { $0.methods?.pointee.xUnlock?($0.file, level) ?? 1 }
        }
        table.xCheckReservedLock = { file, answer in
            CheckedVFS.with(file, else: CheckedVFS.ioError) {
                $0.methods?.pointee.xCheckReservedLock?($0.file, answer) ?? 1
            }
        }
        table.xFileControl = { file, operation, argument in
            CheckedVFS.with(file, else: SQLITE_NOTFOUND) {
                $0.methods?.pointee.xFileControl?($0.file, operation, argument) ?? SQLITE_NOTFOUND
            }
        }
        table.xSectorSize = { file in
            CheckedVFS.with(file, else: 4_096) { $0.methods?.pointee.xSectorSize?($0.file) ?? 4_096 }
        }
        table.xDeviceCharacteristics = { file in
            CheckedVFS.with(file, else: 0) { $0.methods?.pointee.xDeviceCharacteristics?($0.file) ?? 0 }
        }
        table.xShmMap = { file, region, size, extends, memory in
            CheckedVFS.with(file, else: CheckedVFS.ioError) { file in
                file.index.map(file.path, isReadOnly: file.isReadOnly && region == 0, memory) {
                    file.methods?.pointee.xShmMap?(file.file, region, size, extends, memory) ?? 1
                }
            }
        }
        table.xShmLock = { file, offset, count, flags in
            CheckedVFS.with(file, else: CheckedVFS.ioError) { file in
                file.index.lock { file.methods?.pointee.xShmLock?(file.file, offset, count, flags) ?? 1 }
            }
        }
        table.xShmBarrier = { file in
            CheckedVFS.with(file, else: ()) { $0.methods?.pointee.xShmBarrier?($0.file) ?? () }
        }
        table.xShmUnmap = { file, deletes in
            CheckedVFS.with(file, else: SQLITE_OK) { $0.methods?.pointee.xShmUnmap?($0.file, deletes) ?? 0 }
        }
        table.xUnfetch = { file, offset, page in
            CheckedVFS.with(file, else: SQLITE_OK) { $0.methods?.pointee.xUnfetch?($0.file, offset, page) ?? 0 }
        }
    }
}
