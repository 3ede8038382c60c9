import GRDB
import SyncCore
import ZoneKit

/// The look at what is to be sent, after each commit to the store.
extension MirrorSync {
    /// Something was committed to the store.
    ///
    /// One look at a time: an older one that is told after a newer one would leave a change lying until the next.
    func outboxChanged() async {
        await outboxLook.enter()
        defer { outboxLook.leave() }
        let file = file
        if (try? await file.pool.read { try OutboxRow.hasWaiting($0) }) == true { lookAgainLater() }
        let look = try? await file.pool.read { db -> (count: Int, isFull: Bool, mayGo: Bool) in
            let isUnsent = try State.text(db, .hasUnsent) != nil
            let count = try OutboxRow.count(db, free: true) + (isUnsent ? 1 : 0)
            guard try State.text(db, .quotaIsFull) != nil else { return (count, false, count > 0) }
            // Wherever they stand in the line, deletions go on.
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

    /// Of so many changes is asked whether one of them takes no space, when there is none.
    private static let lookedAt = 1_000

    /// What finds no space waits, without being tried again and again; space may be made elsewhere.
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

    /// What waits for something else is tried again now and then, also where nothing tells that this has come.
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

    /// Between two tries whether the user's space is still full, or what is waited for still missing.
    private static let spaceInterval = Duration.seconds(900)
}
