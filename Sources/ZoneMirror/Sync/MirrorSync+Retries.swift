import Foundation
import GRDB
import Records
import SyncCore
import ZoneKit

/// Trying again later what cannot be sent now, even if nothing reports that it is possible.
extension MirrorSync {
    private static let retryInterval = Duration.seconds(900)

    func retryLater(_ retry: ExportState.Retry) {
        guard exports.retries[retry] == nil, conditions.isAutomatic, !isStopped else { return }
        let time = conditions.time
        exports.retries[retry] = time.start { [weak self] in
            guard (try? await time.sleep(time.now() + Self.retryInterval)) != nil else { return }
            await self?.retry(retry)
        }
    }

    private func retry(_ retry: ExportState.Retry) async {
        exports.retries[retry] = nil
        switch retry {
        case .quota:
            try? await file.pool.write { db in
                try State.set(db, .quotaIsFull, nil)
                try RecordTable(db).release(.zoneFreed)
            }
            await outboxChanged()
        case .waiting:
            try? await file.pool.write { try RecordTable($0).release(.dependencyArrived) }
            await outboxChanged()
        case .schema: await checkSchema()
        }
    }
}

/// Checking the outbox after each commit to the store.
extension MirrorSync {
    /// Called after each commit to the store.
    ///
    /// Checks run one at a time: an older result reported after a newer one would leave a change unsent until the next
    /// commit.
    func outboxChanged() async {
        await exports.checkLock.enter()
        defer { exports.checkLock.leave() }
        let file = file
        if (try? await file.pool.read { try OutboxRow.hasWaiting($0) }) == true { retryLater(.waiting) }
        let status = try? await file.pool.read { db -> (count: Int, isFull: Bool, mayGo: Bool) in
            let isUnsent = try State.text(db, .hasUnsent) != nil
            let count = try OutboxRow.count(db, sendableOnly: true) + (isUnsent ? 1 : 0)
            guard try State.text(db, .quotaIsFull) != nil else { return (count, false, count > 0) }
            // Deletions are sent, wherever they are in the outbox.
            if try OutboxRow.hasDeletion(db) { return (count, true, true) }
            let exporter = try Exporter(db, file)
            let first = try OutboxRow.next(db, after: -1, limit: Self.quotaScanLimit)
            return (count, true, try first.contains { try exporter.makesRoom($0) })
        }
        let count = status?.count ?? 0
        handle(.outboxChanged(isEmpty: status?.mayGo != true))
        if status?.isFull == true, count > 0 { retryLater(.quota) }
        let isLarge = count > file.description.cloud?.outboxWarning ?? .max
        if isLarge, !exports.hasWarned { await store.note(.notice, details: [.outboxIsLarge(count)]) }
        exports.hasWarned = isLarge
    }

    /// While the quota is exceeded, the number of changes checked for one that needs no space.
    private static let quotaScanLimit = 1_000
}

/// Retrying changes that the relay refused because of its schema, after the schema has changed.
///
/// See Sync.md, "Refused writes".
extension MirrorSync {
    /// Retries refused changes if the schema has changed since the last check.
    ///
    /// Makes no request if nothing was refused for a reason that a schema change can fix.
    func checkSchema() async {
        // The public database has no such call, but the schema belongs to the container.
        let own = store.container.privateCloudDatabase.client
        guard await hasSchemaRefusals(), let version = try? await own.schemaVersion() else { return }
        let file = file
        let count = try? await file.pool.write { db -> Int in
            // Changes refused since the last check were refused under the current schema.
            try Refusals.setSchema(db, version, where: "schema IS NULL")
            let rows = try Row.fetchAll(
                db,
                sql: RefusedRow.select + " WHERE code = ? AND schema <> ? AND account IS NULL ORDER BY id",
                arguments: [CKError.Code.invalidArguments.rawValue, version]
            )
            let applied = try rows.map { RefusedRow($0) }.filter { try $0.apply(db, file, automatically: true) }
            for row in applied { try Refusals.decided(db, row.id) }
            // The others wait for a decision, whatever the schema is.
            let isOfSchema = "code = \(CKError.Code.invalidArguments.rawValue) AND account IS NULL"
            try Refusals.setSchema(db, version, where: isOfSchema)
            return applied.count
        }
        if let count, count > 0 { await outboxChanged() }
        if conditions.time.testEnvironment == nil { retryLater(.schema) }
    }

    private func hasSchemaRefusals() async -> Bool {
        let found = try? await file.pool.read { db in
            try Bool.fetchOne(
                db,
                sql: "SELECT EXISTS (SELECT 1 FROM mirror_refused WHERE code = ?)",
                arguments: [CKError.Code.invalidArguments.rawValue]
            )
        }
        return found ?? false
    }
}
