import GRDB
import GRDBSQLite
import Records
import RelayCore
import StoreKit

// The planted faults of this module. Each function does what the code should do, or makes one mistake that the
// simulation must find. Release builds contain only the former.

extension SQLiteWriter.Cache {
    /// Returns the change number for a count of changes, which is the count itself.
    func number(at count: UInt64) -> UInt64 {
        // Swaps the numbers of each pair: the greater one is committed before the smaller one.
        PlantedFault.numberOutsideTransaction.isPlanted ? count ^ 1 : count
    }
}

extension StoredState {
    /// Returns the last change number used, which is the greatest in the file.
    static func lastNumber(_ greatest: UInt64) -> UInt64 {
        PlantedFault.numberReused.isPlanted && greatest > 8 ? greatest - 2 : greatest
    }
}

extension StoreFailure {
    /// Returns whether a failed write makes all others fail until the next start though nothing was lost: never.
    static func lasts(_ error: any Error) -> Bool {
        PlantedFault.fullDiskStops.isPlanted && (error as? DatabaseError)?.resultCode == .SQLITE_FULL
    }
}

extension SQLiteStore {
    /// Returns how many change numbers to skip when an epoch starts.
    ///
    /// Random, so that two continuations of the same earlier state hardly use the same numbers.
    static func leap(_ random: UInt64) -> UInt64 {
        PlantedFault.numberReused.isPlanted ? 0 : random % (1 << 20)
    }

    private struct TooEarly: Error {}

    /// Answers or reports the batch before its commit, and returns whether it did: normally not.
    func commitsTooLate(_ batch: [any StoreWrite]) -> Bool {
        let (answers, tells) = (PlantedFault.answerBeforeCommit.isPlanted, PlantedFault.noticeBeforeCommit.isPlanted)
        guard answers || tells, let scheduler else { return false }
        var done: Commit?
        _ = try? transaction { writer in
            batch.forEach { $0.run(in: writer) }
            try writer.finish()
            done = writer.commit
            throw TooEarly()
        }
        if answers { batch.forEach { $0.finish(nil) } }
        if tells, let done, !done.isEmpty { onCommit(done) }
        // Some steps later, so that other work runs in between.
        wait(12, scheduler) { [weak self] in
            guard let self, let done = try? self.transaction({ writer in batch.forEach { $0.run(in: writer) } })
            else { return }
            if answers, !done.isEmpty { self.onCommit(done) }
            if tells { batch.forEach { $0.finish(nil) } }
        }
        return true
    }

    private func wait(_ turns: Int, _ scheduler: @escaping CommitScheduler, _ body: @escaping @Sendable () -> Void) {
        scheduler { [weak self] in turns == 0 ? body() : self?.wait(turns - 1, scheduler, body) ?? () }
    }
}

extension SQLiteWriter {
    /// Returns whether an asset must be kept because a record uses it.
    func needs(_ hash: AssetHash) throws -> Bool { try isUsed(hash) && !PlantedFault.usedFileCleared.isPlanted }
}

extension CheckedFile {
    /// Returns whether a page copied from the log is written into the file: always.
    func isWritten(page number: Int, of size: Int) -> Bool {
        guard PlantedFault.logCopiedWithGap.isPlanted, number % 3 == 0 else { return true }
        // A file that is being created has no log.
        guard !path.hasSuffix(StoreLayout.draftEnding) else { return true }
        // A missing new page would be noticed by readers of its neighbours.
        var end: sqlite3_int64 = 0
        return methods?.pointee.xFileSize(file, &end) != SQLITE_OK || number * size > Int(end)
    }
}

extension PageChecksum {
    /// The verdict on a page with a wrong checksum.
    static var damaged: Verdict { PlantedFault.pageSumUnchecked.isPlanted ? .good : .damaged }
}

extension Backup {
    /// Whether a restored store refuses the tokens of the one before: yes.
    static var renewsEpochs: Bool { !PlantedFault.epochOutlivesRestore.isPlanted }
}
