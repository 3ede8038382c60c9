import Foundation
import GRDB

extension StoreLayout {
    /// What a file's name ends with while it is being made.
    static let draftEnding = ".new"

    /// Makes a store's file where there is none and was none, with its layout, at one stroke.
    ///
    /// One that was merely begun would look like one that has lost everything.
    static func makeFile(_ path: String, _ disk: DiskCalls) throws {
        try makeMissing(path, disk)
        StoreMark.make(for: path)
    }

    /// Throws where what lies in a store's place is another program's, or where only a later version knows how to write it.
    ///
    /// Each store is made with its layout at one stroke. To begin one in a file without would tell devices that all of their
    /// zones are gone.
    static func demandOurs(_ queue: DatabaseQueue, _ path: String) throws {
        let (migrator, name) = (migrator, (path as NSString).lastPathComponent)
        let (done, known) = (try queue.read { try migrator.appliedIdentifiers($0) }, Set(migrator.migrations))
        if done.isDisjoint(with: known) {
            guard let mark = StoreMark.name(for: path) else { return }
            let fault = "\(name) is no store of a relay; to begin with nothing in its place, remove it and \(mark)"
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
        // A process that is being started just now holds a copy of the descriptor: closing alone would leave it the lock.
        defer { flock(lock, LOCK_UN) }
        guard access(path, F_OK) != 0 else { return }
        let draft = path + draftEnding
        for ending in ["", "-wal", "-shm"] { unlink(draft + ending) }
        var configuration = Configuration()
        configuration.prepareDatabase { database in
            CheckedVFS.leaveRoom(database)
            // Flushed below, all at once. What a log could not bring into the file nobody would be told of.
            try database.execute(sql: "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF")
        }
        let queue = try DatabaseQueue(path: CheckedVFS.address(of: draft), configuration: configuration)
        try migrate(queue)
        // With nothing in it yet: its first use then has nothing to change in the file.
        try queue.keepDurableLog()
        try queue.close()
        // What stays beside it is of no use under this name.
        for ending in ["-wal", "-shm"] { unlink(draft + ending) }
        try disk.flush(draft)
        guard disk.rename(draft, path) == 0 else { throw DiskCalls.Failure("rename") }
        try disk.flush(folder)
    }
}
