import GRDB
import SyncCore
import ZoneKit

/// Checking the outbox after each commit to the store.
extension MirrorSync {
    /// Called after each commit to the store.
    ///
    /// Checks run one at a time: an older result reported after a newer one would leave a change unsent until the next
    /// commit.
    func outboxChanged() async {
        await outboxLook.enter()
        defer { outboxLook.leave() }
        let file = file
        if (try? await file.pool.read { try OutboxRow.hasWaiting($0) }) == true { lookAgainLater() }
        let look = try? await file.pool.read { db -> (count: Int, isFull: Bool, mayGo: Bool) in
            let isUnsent = try State.text(db, .hasUnsent) != nil
            let count = try OutboxRow.count(db, free: true) + (isUnsent ? 1 : 0)
            guard try State.text(db, .quotaIsFull) != nil else { return (count, false, count > 0) }
            // Deletions are sent, wherever they are in the outbox.
            if try OutboxRow.hasDeletion(db) { return (count, true, true) }
            let exporter = try Exporter(db, file)
            let first = try OutboxRow.next(db, after: -1, limit: Self.lookedAt)
            return (count, true, try first.contains { try exporter.makesRoom($0) })
        }
        let count = look?.count ?? 0
        tell(.outboxChanged(isEmpty: look?.mayGo != true))
        if look?.isFull == true, count > 0 { lookForSpaceLater() }
        let isLarge = count > file.description.cloud?.outboxWarning ?? .max
        if isLarge, !hasWarned { await note(.notice, details: [.outboxIsLarge(count)]) }
        hasWarned = isLarge
    }

    /// While the quota is exceeded, the number of changes checked for one that needs no space.
    private static let lookedAt = 1_000

    /// Schedules a later retry of changes that found no space; another device may free some.
    func lookForSpaceLater() {
        guard spaceWatch == nil, conditions.isAutomatic, !isStopped else { return }
        let time = conditions.time
        spaceWatch = time.start { [weak self] in
            guard (try? await time.sleep(time.now() + Self.spaceInterval)) != nil else { return }
            await self?.lookForSpace()
        }
    }

    private func lookForSpace() async {
        spaceWatch = nil
        try? await file.pool.write { db in
            try State.set(db, .quotaIsFull, nil)
            try OutboxRow.releaseZoneless(db)
        }
        await outboxChanged()
    }

    /// Schedules a later retry of changes that wait for something, even if nothing reports its arrival.
    private func lookAgainLater() {
        guard waitWatch == nil, conditions.isAutomatic, !isStopped else { return }
        let time = conditions.time
        waitWatch = time.start { [weak self] in
            guard (try? await time.sleep(time.now() + Self.spaceInterval)) != nil else { return }
            await self?.lookAgain()
        }
    }

    private func lookAgain() async {
        waitWatch = nil
        try? await file.pool.write { try OutboxRow.releaseWaiting($0) }
        await outboxChanged()
    }

    /// The interval between retries of changes that found no space or that wait for something.
    private static let spaceInterval = Duration.seconds(900)
}
