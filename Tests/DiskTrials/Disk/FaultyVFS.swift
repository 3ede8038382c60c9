import Foundation
import GRDBSQLite

/// Connects SQLite to `FaultyDisk`: the system's VFS, wrapped at each call that changes something.
///
/// It is the process's default VFS once it is registered. It passes files outside the simulated folders to the system's
/// VFS. Each simulated file is a two-word header followed by the system's file.
enum FaultyVFS {
    /// The header of a file.
    ///
    /// SQLite allocates the memory.
    struct Head {
        /// SQLite's part, with the method table.
        var base: sqlite3_file
        var owner: Unmanaged<OpenFile>
    }

    final class OpenFile: Sendable {
        let disk: FaultyDisk
        let path: String
        /// Whether the first flush also flushes the folder, as for journals.
        let flushesFolder: Bool

        init(disk: FaultyDisk, path: String, flushesFolder: Bool) {
            self.disk = disk
            self.path = path
            self.flushesFolder = flushesFolder
        }
    }

    private static let headSize = (MemoryLayout<Head>.size + 15) / 16 * 16

    // Initialized once, before SQLite sees the VFS, and only read afterwards.
    nonisolated(unsafe) private static let system: UnsafeMutablePointer<sqlite3_vfs>? = sqlite3_vfs_find("unix")
    nonisolated(unsafe) private static let methods = makeMethods()
    private static let isRegistered: Bool = {
        guard let system else { return false }
        // SQLite keeps a pointer to the structure for the lifetime of the process.
        let ours = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        ours.initialize(to: system.pointee)
        ours.pointee.zName = UnsafePointer(strdup("zonecast-faulty"))
        ours.pointee.szOsFile = system.pointee.szOsFile + CInt(headSize)
        ours.pointee.pNext = nil
        ours.pointee.xOpen = { _, name, file, flags, outFlags in FaultyVFS.open(name, file, flags, outFlags) }
        ours.pointee.xDelete = { _, name, syncsFolder in FaultyVFS.remove(name, syncsFolder) }
        return sqlite3_vfs_register(ours, 1) == SQLITE_OK
    }()

    static func register() { precondition(isRegistered, "SQLite has no VFS named unix") }

    /// The system's file behind the header.
    private static func real(_ file: UnsafeMutablePointer<sqlite3_file>?) -> UnsafeMutablePointer<sqlite3_file>? {
        file.map { (UnsafeMutableRawPointer($0) + headSize).assumingMemoryBound(to: sqlite3_file.self) }
    }

    private static func owner(_ file: UnsafeMutablePointer<sqlite3_file>?) -> OpenFile? {
        guard let file else { return nil }
        return UnsafeMutableRawPointer(file).assumingMemoryBound(to: Head.self).pointee.owner.takeUnretainedValue()
    }

    // MARK: The file system

    private static func open(
        _ name: UnsafePointer<CChar>?,
        _ file: UnsafeMutablePointer<sqlite3_file>?,
        _ flags: CInt,
        _ outFlags: UnsafeMutablePointer<CInt>?
    ) -> CInt {
        guard let system, let open = system.pointee.xOpen, let file else { return SQLITE_CANTOPEN }
        guard let name, case let path = String(cString: name), let disk = FaultyDisk.disk(of: path) else {
            return open(system, name, file, flags, outFlags)
        }
        file.pointee.pMethods = nil
        let isNew = access(path, F_OK) != 0
        if isNew, flags & SQLITE_OPEN_CREATE != 0 {
            switch disk.verdict(on: .create) {
            case nil: break
            case .isFull, .isCutShort: return SQLITE_FULL
            case .fails, .losesPower: return SQLITE_CANTOPEN
            }
        }
        let status = open(system, name, real(file), flags, outFlags)
        guard status == SQLITE_OK else { return status }
        disk.opened(path)
        // As the system does: a process that may create a journal flushes the folder even if another process created
        // the file.
        let flushesFolder =
            flags & SQLITE_OPEN_CREATE != 0
            && flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL) != 0
        let owner = OpenFile(disk: disk, path: path, flushesFolder: flushesFolder)
        UnsafeMutableRawPointer(file).assumingMemoryBound(to: Head.self).initialize(
            to: Head(base: sqlite3_file(pMethods: UnsafePointer(methods)), owner: .passRetained(owner))
        )
        return SQLITE_OK
    }

    private static func remove(_ name: UnsafePointer<CChar>?, _ syncsFolder: CInt) -> CInt {
        guard let system, let remove = system.pointee.xDelete else { return extended(SQLITE_IOERR, 10) }
        guard let name, case let path = String(cString: name), let disk = FaultyDisk.disk(of: path) else {
            return remove(system, name, syncsFolder)
        }
        guard disk.verdict(on: .remove) == nil else { return extended(SQLITE_IOERR, 10) }
        let status = remove(system, name, syncsFolder)
        if status == SQLITE_OK {
            disk.removed(path)
            if syncsFolder != 0 { disk.flushedFolder((path as NSString).deletingLastPathComponent) }
        }
        return status
    }

    /// SQLite's macros for extended error codes are not imported into Swift.
    private static func extended(_ code: CInt, _ detail: CInt) -> CInt { code | detail << 8 }

    // MARK: Files

    private static func write(
        _ file: UnsafeMutablePointer<sqlite3_file>?,
        _ bytes: UnsafeRawPointer?,
        _ count: CInt,
        _ offset: sqlite3_int64
    ) -> CInt {
        guard let owner = owner(file), let bytes, let real = real(file),
            let write = real.pointee.pMethods.pointee.xWrite
        else { return extended(SQLITE_IOERR, 3) }
        func put(_ count: CInt) -> CInt {
            let status = write(real, bytes, count, offset)
            if status == SQLITE_OK {
                let content = [UInt8](UnsafeRawBufferPointer(start: bytes, count: Int(count)))
                owner.disk.changed(owner.path, .write(offset: Int(offset), bytes: content))
            }
            return status
        }
        switch owner.disk.verdict(on: .write) {
        case nil: return put(count)
        case .fails, .losesPower: return extended(SQLITE_IOERR, 3)
        case .isFull: return SQLITE_FULL
        case .isCutShort:
            // A disk writes whole sectors.
            let half = Int(offset) + Int(count) / 2
            let part = half / DiskFile.sector * DiskFile.sector - Int(offset)
            if part > 0 { _ = put(CInt(part)) }
            return SQLITE_FULL
        }
    }

    private static func sync(_ file: UnsafeMutablePointer<sqlite3_file>?) -> CInt {
        guard let owner = owner(file) else { return extended(SQLITE_IOERR, 4) }
        guard owner.disk.verdict(on: .sync) == nil else {
            owner.disk.flushed(owner.path, successfully: false)
            return extended(SQLITE_IOERR, 4)
        }
        // The simulation replaces the real flush, so no real one is needed.
        owner.disk.flushed(owner.path, successfully: true)
        if owner.flushesFolder { owner.disk.flushedFolder((owner.path as NSString).deletingLastPathComponent) }
        return SQLITE_OK
    }

    private static func truncate(_ file: UnsafeMutablePointer<sqlite3_file>?, _ size: sqlite3_int64) -> CInt {
        guard let owner = owner(file), let real = real(file), owner.disk.verdict(on: .truncate) == nil,
            let status = real.pointee.pMethods.pointee.xTruncate?(real, size)
        else { return extended(SQLITE_IOERR, 6) }
        if status == SQLITE_OK { owner.disk.changed(owner.path, .truncate(size: Int(size))) }
        return status
    }

    private static func read(
        _ file: UnsafeMutablePointer<sqlite3_file>?,
        _ bytes: UnsafeMutableRawPointer?,
        _ count: CInt,
        _ offset: sqlite3_int64
    ) -> CInt {
        guard let owner = owner(file), let real = real(file), owner.disk.verdict(on: .read) == nil else {
            return extended(SQLITE_IOERR, 1)
        }
        return real.pointee.pMethods.pointee.xRead?(real, bytes, count, offset) ?? extended(SQLITE_IOERR, 1)
    }

    private static func close(_ file: UnsafeMutablePointer<sqlite3_file>?) -> CInt {
        guard let file, let real = real(file) else { return SQLITE_OK }
        let status = real.pointee.pMethods.pointee.xClose?(real) ?? SQLITE_OK
        UnsafeMutableRawPointer(file).assumingMemoryBound(to: Head.self).pointee.owner.release()
        return status
    }

    /// All other methods are the system's.
    private static func makeMethods() -> UnsafeMutablePointer<sqlite3_io_methods> {
        var table = sqlite3_io_methods()
        table.iVersion = 3
        table.xClose = { FaultyVFS.close($0) }
        table.xRead = { FaultyVFS.read($0, $1, $2, $3) }
        table.xWrite = { FaultyVFS.write($0, $1, $2, $3) }
        table.xTruncate = { FaultyVFS.truncate($0, $1) }
        table.xSync = { file, _ in FaultyVFS.sync(file) }
        table.xFileSize = { FaultyVFS.real($0)?.pointee.pMethods.pointee.xFileSize?(FaultyVFS.real($0), $1) ?? 1 }
        table.xLock = { FaultyVFS.real($0)?.pointee.pMethods.pointee.xLock?(FaultyVFS.real($0), $1) ?? 1 }
        table.xUnlock = { FaultyVFS.real($0)?.pointee.pMethods.pointee.xUnlock?(FaultyVFS.real($0), $1) ?? 1 }
        table.xCheckReservedLock = {
            FaultyVFS.real($0)?.pointee.pMethods.pointee.xCheckReservedLock?(FaultyVFS.real($0), $1) ?? 1
        }
        table.xFileControl = {
            FaultyVFS.real($0)?.pointee.pMethods.pointee.xFileControl?(FaultyVFS.real($0), $1, $2) ?? 1
        }
        table.xSectorSize = { FaultyVFS.real($0)?.pointee.pMethods.pointee.xSectorSize?(FaultyVFS.real($0)) ?? 512 }
        table.xDeviceCharacteristics = {
            FaultyVFS.real($0)?.pointee.pMethods.pointee.xDeviceCharacteristics?(FaultyVFS.real($0)) ?? 0
        }
        table.xShmMap = {
            FaultyVFS.real($0)?.pointee.pMethods.pointee.xShmMap?(FaultyVFS.real($0), $1, $2, $3, $4) ?? 1
        }
        table.xShmLock = { FaultyVFS.real($0)?.pointee.pMethods.pointee.xShmLock?(FaultyVFS.real($0), $1, $2, $3) ?? 1 }
        table.xShmBarrier = { FaultyVFS.real($0)?.pointee.pMethods.pointee.xShmBarrier?(FaultyVFS.real($0)) }
        table.xShmUnmap = { FaultyVFS.real($0)?.pointee.pMethods.pointee.xShmUnmap?(FaultyVFS.real($0), $1) ?? 1 }
        table.xFetch = { FaultyVFS.real($0)?.pointee.pMethods.pointee.xFetch?(FaultyVFS.real($0), $1, $2, $3) ?? 1 }
        table.xUnfetch = { FaultyVFS.real($0)?.pointee.pMethods.pointee.xUnfetch?(FaultyVFS.real($0), $1, $2) ?? 1 }
        let kept = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        kept.initialize(to: table)
        return kept
    }
}
