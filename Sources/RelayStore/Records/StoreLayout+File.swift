import Foundation
import GRDB

extension StoreLayout {
    /// The suffix of a file's name while the file is being created.
    static let draftEnding = ".new"

    /// Creates a store's file with its tables, in one step, if there is none and has been none.
    ///
    /// A file that was only begun would look like one that has lost everything.
    static func makeFile(_ path: String, _ disk: DiskCalls) throws {
        try makeMissing(path, disk)
        StoreMark.make(for: path)
    }

    /// Throws if a store's file belongs to another program, or `LayoutError` if this version cannot open it.
    ///
    /// Each store gets its file and its tables in one step. Creating tables in a file without them would tell devices
    /// that all their zones are gone.
    static func demandOurs(_ database: Database, _ path: String) throws {
        guard try database.tableExists("zone_run") else {
            guard let mark = StoreMark.name(for: path) else { return }
            let name = (path as NSString).lastPathComponent
            let fault = "\(name) is not a relay's store; to start with an empty one, remove it and \(mark)"
            DamageLedger.note(fault, of: path)
            throw StoreFailure.damaged("\(path): \(fault)")
        }
        _ = try file.version(of: database)
    }

    private static func makeMissing(_ path: String, _ disk: DiskCalls) throws {
        guard access(path, F_OK) != 0 else { return }
        try LogCheck.demandWhole(path)
        let folder = (path as NSString).deletingLastPathComponent
        let lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard lock >= 0 else { throw DiskCalls.Failure("open") }
        defer { close(lock) }
        while flock(lock, LOCK_EX) != 0 { guard errno == EINTR else { throw DiskCalls.Failure("flock") } }
        // A process that is just being started has a copy of the descriptor: closing ours would not release the lock.
        defer { flock(lock, LOCK_UN) }
        guard access(path, F_OK) != 0 else { return }
        let draft = path + draftEnding
        for ending in ["", "-wal", "-shm"] { unlink(draft + ending) }
        var configuration = Configuration()
        configuration.prepareDatabase { database in
            CheckedVFS.leaveRoom(database)
            // Flushed below, all at once. Without a log: a failure to copy it into the file would not be reported.
            try database.execute(sql: "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF")
        }
        let queue = try DatabaseQueue(path: CheckedVFS.address(of: draft), configuration: configuration)
        try queue.inDatabase { try file.migrate($0) }
        // While the file is empty, so that its first use need not change it.
        try queue.keepDurableLog()
        try queue.close()
        // Useless once the file has another name.
        for ending in ["-wal", "-shm"] { unlink(draft + ending) }
        try disk.flush(draft)
        guard disk.rename(draft, path) == 0 else { throw DiskCalls.Failure("rename") }
        try disk.flush(folder)
    }
}
