import Foundation
import GRDB
import Records
import Wire
import ZoneKit

/// The shares that a store knows, with their participants.
///
/// Built from the relay's responses; `share` returns them as `CKShare` objects without a request.
struct ShareCache {
    let db: Database
    let file: StoreFile

    /// A share with this user's permission and its participants.
    struct Entry: Sendable {
        var zone: KnownZone
        var record: Record
        var details: ClientShare
    }

    /// Stores a share whose record is already stored, and returns what has changed.
    @discardableResult
    static func store(_ db: Database, _ details: ClientShare, named name: String, zone: Int64) throws -> Change {
        let old = try Data.fetchOne(
            db,
            sql: "SELECT details FROM mirror_share WHERE zone = ? AND name = ?",
            arguments: [zone, name]
        ).flatMap { ClientShare(json: [UInt8]($0)) }
        try db.execute(
            sql: """
                INSERT INTO mirror_share(zone, name, details, permission) VALUES (?, ?, ?, ?)
                ON CONFLICT(zone, name) DO UPDATE SET details = excluded.details, permission = excluded.permission
                """,
            arguments: [zone, name, Data(details.json), details.currentUser?.permission]
        )
        return Change(old, details)
    }

    /// What has changed in a share.
    enum Change {
        case created, updated, participantsChanged, unchanged

        init(_ old: ClientShare?, _ new: ClientShare) {
            guard let old else {
                self = .created
                return
            }
            if Set(old.participants) != Set(new.participants) {
                self = .participantsChanged
            } else {
                self = old == new ? .unchanged : .updated
            }
        }
    }

    /// Removes one share of a zone, or all of them; returns whether there was any.
    @discardableResult
    static func remove(_ db: Database, zone: Int64, named name: String? = nil) throws -> Bool {
        if let name {
            try db.execute(sql: "DELETE FROM mirror_share WHERE zone = ? AND name = ?", arguments: [zone, name])
        } else {
            try db.execute(sql: "DELETE FROM mirror_share WHERE zone = ?", arguments: [zone])
        }
        return db.changesCount > 0
    }

    // MARK: Reading

    func all() throws -> [Entry] {
        let rows = try Row.fetchAll(db, sql: "SELECT zone, name, details FROM mirror_share ORDER BY zone, name")
        return try rows.compactMap { try entry($0[0], $0[1], $0[2]) }
    }

    /// Returns the share that contains a record of the store.
    func entry(of record: KnownRecord) throws -> Entry? {
        guard let name = try Self.name(db, zone: record.zone, record: record.name) else { return nil }
        return try entry(zone: record.zone, named: name)
    }

    func entry(zone: Int64, named name: String) throws -> Entry? {
        let sql = "SELECT details FROM mirror_share WHERE zone = ? AND name = ?"
        guard let details = try Data.fetchOne(db, sql: sql, arguments: [zone, name]) else { return nil }
        return try entry(zone, name, details)
    }

    private func entry(_ zone: Int64, _ name: String, _ json: Data) throws -> Entry? {
        guard let home = try KnownZone.find(db, id: zone), let details = ClientShare(json: [UInt8](json)),
            let known = try KnownRecord.find(db, zone: zone, name: name)
        else { return nil }
        return Entry(zone: home, record: try known.record(db, in: home.zone), details: details)
    }

    /// Returns the name of the share that contains a record: the zone's, or that of its hierarchy.
    static func name(_ db: Database, zone: Int64, record: String) throws -> String? {
        let names = try String.fetchAll(
            db.cachedStatement(sql: "SELECT name FROM mirror_share WHERE zone = ?"),
            arguments: [zone]
        )
        if names.isEmpty { return nil }
        if names.contains(CKRecordNameZoneWideShare) { return CKRecordNameZoneWideShare }
        let sql = """
            WITH RECURSIVE up(parent, share, height) AS (
                SELECT parent, share, 0 FROM mirror_record WHERE zone = ? AND name = ?
                UNION ALL
                SELECT r.parent, r.share, up.height + 1 FROM mirror_record r JOIN up ON r.name = up.parent
                WHERE r.zone = ? AND up.share IS NULL AND up.height < 100)
            SELECT share FROM up WHERE share IS NOT NULL LIMIT 1
            """
        return try String.fetchOne(db.cachedStatement(sql: sql), arguments: [zone, record, zone])
    }

    /// Returns whether this user may write a record of a zone; for a new record, whether anywhere in the zone.
    static func canWrite(_ db: Database, zone: Int64, record: String?) throws -> Bool {
        let rows = try Row.fetchAll(
            db.cachedStatement(sql: "SELECT name, permission FROM mirror_share WHERE zone = ?"),
            arguments: [zone]
        )
        let words = Dictionary(rows.map { ($0[0] as String, $0[1] as String?) }) { $1 }
        let readWrite = CKShare.ParticipantPermission.readWrite.word
        if let zoneWide = words[CKRecordNameZoneWideShare] { return zoneWide == readWrite }
        if let record, let name = try name(db, zone: zone, record: record) { return words[name] == readWrite }
        return words.values.contains(readWrite)
    }
}

extension ShareCache.Entry {
    /// Returns the share as a `CKShare`.
    ///
    /// `memory` has the user and the base address of links.
    func share(_ scope: DatabaseScope, _ memory: CallerInfo) -> CKShare? {
        var reader = RecordReader(scope: scope, caller: memory)
        return reader.record(record, details) as? CKShare
    }
}
