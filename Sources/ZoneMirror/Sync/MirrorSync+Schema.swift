import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

/// Retrying changes that the relay refused because of its schema, after the schema has changed.
///
/// See Sync.md, "Refused writes".
extension MirrorSync {
    /// Schedules a check of the relay's schema for changes that were refused because of it.
    func watchSchema() {
        guard schemaWatch == nil, conditions.isAutomatic, !isStopped, conditions.time.surroundings == nil else {
            return
        }
        let time = conditions.time
        schemaWatch = time.start { [weak self] in
            guard (try? await time.sleep(time.now() + Self.schemaInterval)) != nil else { return }
            await self?.schemaWatchRang()
        }
    }

    private func schemaWatchRang() async {
        schemaWatch = nil
        await lookAtSchema()
    }

    /// The interval between schema checks, as long as there are such changes.
    static let schemaInterval = Duration.seconds(900)

    /// Retries refused changes if the schema has changed since the last check.
    ///
    /// Makes no request if nothing was refused for a reason that a schema change can fix.
    func lookAtSchema() async {
        guard await hasSchemaRefusals(), let version = try? await link.schemaVersion() else { return }
        let file = file
        let count = try? await file.pool.write { db -> Int in
            // Changes refused since the last check were refused under the current schema.
            try db.execute(sql: "UPDATE mirror_refused SET schema = ? WHERE schema IS NULL", arguments: [version])
            let rows = try Row.fetchAll(
                db,
                sql: RefusedRow.select + " WHERE code = ? AND schema <> ? AND account IS NULL ORDER BY id",
                arguments: [CKError.Code.invalidArguments.rawValue, version]
            )
            let applied = try rows.map { RefusedRow($0) }.filter { try $0.apply(db, file, byItself: true) }
            for row in applied {
                try db.execute(sql: "DELETE FROM mirror_refused WHERE id = ?", arguments: [row.id])
            }
            // The others wait for a decision, whatever the schema is.
            try db.execute(
                sql: "UPDATE mirror_refused SET schema = ? WHERE code = ? AND account IS NULL",
                arguments: [version, CKError.Code.invalidArguments.rawValue]
            )
            return applied.count
        }
        if let count, count > 0 { await outboxChanged() }
        watchSchema()
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

extension MirrorLink {
    /// Fetches the version of the relay's schema; a different number means a different schema.
    func schemaVersion() async throws(CKError) -> Int64 {
        var writer = JSONWriter(reserving: 64)
        writer.object { body in
            body.member("schemaVersion", true)
            body.member("resultsLimit", 1)
        }
        // The public database has no such call, but the schema belongs to the container.
        let own = CKContainer(sharing: database.session).privateCloudDatabase
        let document = try await own.call("changes/database", writer.bytes)
        return try reading { () throws(JSONError) in try document.root.required("schemaVersion").int64() }
    }
}
