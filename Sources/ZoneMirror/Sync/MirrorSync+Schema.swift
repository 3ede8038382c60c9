import Foundation
import GRDB
import Records
import SyncCore
import Wire
public import ZoneKit

/// Retrying changes that the relay refused because of its schema, after the schema has changed.
///
/// See Sync.md, "Refused writes".
extension MirrorSync {
    /// Schedules a check of the relay's schema for changes that were refused because of it.
    func scheduleSchemaCheck() {
        guard schemaCheckTask == nil, conditions.isAutomatic, !isStopped, conditions.time.testEnvironment == nil else {
            return
        }
        let time = conditions.time
        schemaCheckTask = time.start { [weak self] in
            guard (try? await time.sleep(time.now() + Self.schemaInterval)) != nil else { return }
            await self?.schemaCheckDue()
        }
    }

    private func schemaCheckDue() async {
        schemaCheckTask = nil
        await checkSchema()
    }

    /// The interval between schema checks, as long as there are such changes.
    static let schemaInterval = Duration.seconds(900)

    /// Retries refused changes if the schema has changed since the last check.
    ///
    /// Makes no request if nothing was refused for a reason that a schema change can fix.
    func checkSchema() async {
        // The public database has no such call, but the schema belongs to the container.
        let own = container.privateCloudDatabase.client
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
        scheduleSchemaCheck()
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

extension MirrorSync {
    /// The interval between checks of one user's permissions, in seconds.
    private static let rightsInterval: TimeInterval = 300

    /// Fetches the permissions of the user's roles at the first poll of a user, and from time to time afterwards.
    func refreshRights() async {
        guard isPublic, let generation = try? link.connection().credentials.current.generation else { return }
        let now = conditions.wallClock()
        if let last = lastRightsFetch, last.generation == generation,
            abs(now.timeIntervalSince(last.at)) < Self.rightsInterval
        {
            return
        }
        lastRightsFetch = (generation, now)
        guard let rights = try? await link.database.limits().rights else { return }
        let types = file.mapping.recordTypes
        let known = try? await file.pool.read { db in
            try Row.fetchAll(db, sql: "SELECT type, rights FROM mirror_right").reduce(into: [String: Rights]()) {
                $0[$1[0]] = Rights(rawValue: $1[1])
            }
        }
        guard known != rights.filter({ types.contains($0.key) }) else { return }
        try? await file.pool.write { try GrantedRights.store($0, rights, of: types) }
    }

    /// Adds the numbers to an event that the quota is exceeded.
    func withNumbers(_ details: [MirrorEvent.Detail], needed: Int) async -> [MirrorEvent.Detail] {
        guard details.contains(.quotaExceeded()), link.isPrivate,
            let storage = try? await link.database.limits().storage
        else { return details }
        return details.map { detail in
            detail == .quotaExceeded()
                ? .quotaExceeded(used: storage.used, limit: storage.limit, needed: Int64(needed)) : detail
        }
    }
}

extension MirroredContainer {
    /// Returns the relay's limits for the current user in a store's database, and the space used.
    ///
    /// - Throws: `wrongStore` for a store that mirrors nothing, and `relay` with the call's error.
    public func limits(of store: StoreID) async throws(MirrorError) -> RelayLimits {
        guard let sync = sync(store) else { throw MirrorError(.wrongStore, "The store mirrors no database.") }
        do {
            return try await sync.link.database.limits()
        } catch {
            throw MirrorError(from: error)
        }
    }
}
