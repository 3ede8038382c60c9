import GRDB
import GRDBSQLite
import Records
import RelayCore

// Where planted faults take hold in this module. Each is what the code would do anyway, and one mistake that the simulation
// has to find; in a release only the first is left.

extension SQLiteWriter.Memory {
    /// The change number that is given out as the so-manieth: that one.
    func number(at count: UInt64) -> UInt64 {
        // Two and two change places: the first of them is committed before the one below it.
        PlantedFault.numberOutsideTransaction.isPlanted ? count ^ 1 : count
    }
}

extension SQLiteWriter {
    /// The share as it is written down: as it is.
    static func written(_ share: Share?, over old: Share?) -> Share? {
        guard PlantedFault.removedParticipantServed.isPlanted, var share, let old else { return share }
        let known = Set(share.participants.map(\.id))
        share.participants += old.participants.filter { !known.contains($0.id) && $0.hasAccepted }
        return share
    }

    /// Whom of those concerned a commit is told to: all.
    static func told(_ audience: [CommittedChange.Participant]) -> [CommittedChange.Participant] {
        PlantedFault.participantUntold.isPlanted ? [] : audience
    }
}

extension StoredState {
    /// The last number that was given out: the greatest that is in the file.
    static func lastNumber(_ greatest: UInt64) -> UInt64 {
        PlantedFault.numberReused.isPlanted && greatest > 8 ? greatest - 2 : greatest
    }
}

extension StoreFailure {
    /// Whether a write that failed says that no other will succeed before the next start, though nothing was lost: no.
    static func lasts(_ error: any Error) -> Bool {
        PlantedFault.fullDiskStops.isPlanted && (error as? DatabaseError)?.resultCode == .SQLITE_FULL
    }
}

extension SQLiteStore {
    /// How many numbers are left out between two lives: so many that another future would hardly give the same ones.
    static func leap(_ random: UInt64) -> UInt64 {
        PlantedFault.numberReused.isPlanted ? 0 : random % (1 << 20)
    }

    private struct TooEarly: Error {}

    /// Whether the batch is answered, or told of, before it is committed: no, and then nothing has happened.
    func commitsTooLate(_ batch: [any StoreWrite]) -> Bool {
        let (answers, tells) = (PlantedFault.answerBeforeCommit.isPlanted, PlantedFault.noticeBeforeCommit.isPlanted)
        guard answers || tells, let later else { return false }
        var done: Commit?
        _ = try? transaction { writer in
            batch.forEach { $0.run(in: writer) }
            try writer.finish()
            done = writer.commit
            throw TooEarly()
        }
        if answers { batch.forEach { $0.finish(nil) } }
        if tells, let done, !done.isEmpty { onCommit(done) }
        // Some time later: the others have had a few turns.
        wait(12, later) { [weak self] in
            guard let self, let done = try? self.transaction({ writer in batch.forEach { $0.run(in: writer) } })
            else { return }
            if answers, !done.isEmpty { self.onCommit(done) }
            if tells { batch.forEach { $0.finish(nil) } }
        }
        return true
    }

    private func wait(_ turns: Int, _ later: @escaping CommitLater, _ body: @escaping @Sendable () -> Void) {
        later { [weak self] in turns == 0 ? body() : self?.wait(turns - 1, later, body) ?? () }
    }
}

extension SQLiteWriter {
    /// Whether an asset must stay: where a record uses it.
    func needs(_ hash: AssetHash) throws -> Bool { try isUsed(hash) && !PlantedFault.usedFileCleared.isPlanted }
}

extension CheckedFile {
    /// Whether a page that is copied out of the log is written into the file: each is.
    func isWritten(page number: Int, of size: Int) -> Bool {
        guard PlantedFault.logCopiedWithGap.isPlanted, number % 3 == 0 else { return true }
        // A file that is being made has no log.
        guard !path.hasSuffix(StoreLayout.draftEnding) else { return true }
        // One that is new would be missed by whoever reads its neighbours.
        var end: sqlite3_int64 = 0
        return methods?.pointee.xFileSize(file, &end) != SQLITE_OK || number * size > Int(end)
    }
}

extension PageSum {
    /// What is wrong is called so.
    static var damaged: Verdict { PlantedFault.pageSumUnchecked.isPlanted ? .good : .damaged }
}

extension Backup {
    /// Whether a restored store refuses what was known of the one before: yes.
    static var renewsEpochs: Bool { !PlantedFault.epochOutlivesRestore.isPlanted }
}
