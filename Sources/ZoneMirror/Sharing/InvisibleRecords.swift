import GRDB
import Records
import ZoneKit

/// Records of another user's zone that still exist but are no longer visible to this user.
///
/// A store that keeps copies leaves their objects in place until a round has fetched all changes. Only then is it
/// known whether the whole zone has ended, and linked objects are copied together. See SharingRules.md, "The end of a
/// share".
enum InvisibleRecords {
    private static let areInvisible = "d.\(RecordTable.unsettled) AND d.state = '\(RecordState.invisible.rawValue)'"

    static func exist(_ db: Database) throws -> Bool {
        try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM mirror_record d WHERE \(areInvisible))") ?? false
    }

    static func names(_ db: Database, zone: Int64) throws -> Set<String> {
        let sql = "SELECT d.name FROM mirror_record d WHERE d.zone = ? AND \(areInvisible)"
        return try String.fetchSet(db, sql: sql, arguments: [zone])
    }

    /// Returns the invisible records that have appeared in another zone of the same owner; their objects are still
    /// here.
    static func visibleInOtherZones(_ db: Database, zone: Int64) throws -> Set<String> {
        try String.fetchSet(
            db,
            sql: """
                SELECT d.name FROM mirror_record d JOIN mirror_record r ON r.name = d.name AND r.zone <> d.zone
                JOIN mirror_zone z ON z.id = r.zone
                WHERE d.zone = ? AND \(areInvisible) AND r.state IN \(RecordTable.inZone)
                AND z.owner = (SELECT owner FROM mirror_zone WHERE id = d.zone)
                """,
            arguments: [zone]
        )
    }
}

extension Importer {
    /// Whether the store copies objects before access to them ends.
    var keepsCopies: Bool {
        guard file.scope == .shared, case .keepCopy? = file.description.cloud?.losingAccess else { return false }
        return true
    }

    /// Handles a record that was not deleted but became invisible to this user; its unsent changes are dropped.
    func lostVisibility(of known: KnownRecord) throws {
        if keepsCopies, known.oid != nil { return try records.hide(known) }
        try removeInvisible(known)
    }

    /// Removes the object of such a record; its many-to-many links stay on the relay for the users who still see them.
    func removeInvisible(_ known: KnownRecord) throws {
        if let oid = known.oid, hasOutbox, try OutboxRow.find(db, oid) != nil {
            dropped.append(oid)
            try records.discardChange(of: oid)
        }
        try remove(known, keepingPending: false)
    }

    /// Returns those records missing from a full fetch of a shared zone that were in a share which is missing too.
    func lostWithShares(_ deleted: [String], in zone: KnownZone) throws -> Set<String> {
        guard file.scope == .shared else { return [] }
        let shares = try deleted.filter {
            try KnownRecord.find(db, zone: zone.id, name: $0)?.type == Share.recordType
        }
        guard !shares.isEmpty else { return [] }
        return Set(
            try deleted.filter { name in
                guard !shares.contains(name), let share = try ShareCache.name(db, zone: zone.id, record: name) else {
                    return false
                }
                return shares.contains(share)
            }
        )
    }
}

extension MirrorSync {
    /// Removes the objects that became invisible without their whole zone; called after all changes were fetched.
    func removeInvisibleObjects(_ progress: inout FetchProgress) async throws {
        guard file.scope == .shared else { return }
        let zones = try await file.pool.read { db in
            try InvisibleRecords.exist(db) ? try KnownZone.all(db) : []
        }
        let (file, now) = (file, conditions.wallClock())
        for zone in zones {
            let (names, visibleInOtherZones) = try await file.pool.read { db in
                (
                    try InvisibleRecords.names(db, zone: zone.id),
                    try InvisibleRecords.visibleInOtherZones(db, zone: zone.id)
                )
            }
            guard !names.isEmpty else { continue }
            progress.details += try store.keepCopy(of: zone, only: names.subtracting(visibleInOtherZones))
            progress.details += try await file.pool.write { db -> [MirrorEvent.Detail] in
                try Importer.run(db, file, at: now) { importer in
                    for name in names {
                        guard let known = try KnownRecord.find(db, zone: zone.id, name: name), known.state == .invisible
                        else { continue }
                        try importer.removeInvisible(known)
                    }
                    return importer.dropped.isEmpty ? [] : [.droppedChanges(importer.dropped)]
                }
            }
        }
    }
}
