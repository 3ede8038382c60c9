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

    /// Throws if a store's file belongs to another program, or if only a later version may write it.
    ///
    /// Each store gets its file and its tables in one step. Creating tables in a file without them would tell devices
    /// that all their zones are gone.
    static func demandOurs(_ queue: DatabaseQueue, _ path: String) throws {
        let (migrator, name) = (migrator, (path as NSString).lastPathComponent)
        let (done, known) = (try queue.read { try migrator.appliedIdentifiers($0) }, Set(migrator.migrations))
        if done.isDisjoint(with: known) {
            guard let mark = StoreMark.name(for: path) else { return }
            let fault = "\(name) is not a relay's store; to start with an empty one, remove it and \(mark)"
            DamageLedger.note(fault, of: path)
            throw StoreFailure.damaged("\(path): \(fault)")
        }
        guard done.isSubset(of: known) else { throw StoreFailure.later }
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
        try migrate(queue)
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
