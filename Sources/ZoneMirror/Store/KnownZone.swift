import Foundation
package import GRDB
package import Records
import SyncCore

/// A zone's row in `mirror_zone`, which only this type writes.
package struct KnownZone {
    package var id: Int64
    package var zone: ZoneID
    var token: String?
    /// Whether the relay is known to have the zone.
    var isThere: Bool
    /// Not 0 during a full fetch from the beginning, after which records that were not listed are removed.
    var sweep: Int64
    /// Whether the relay no longer has the zone.
    ///
    /// Its objects are kept until all changes were fetched, since they may have moved to another zone.
    var isEnding = false

    private static let select = "SELECT id, name, owner, token, isThere, sweep, isEnding FROM mirror_zone "
    private static let byName = select + "WHERE name = ? AND owner = ?"
    private static let byNumber = select + "WHERE id = ?"

    private static func make(_ row: BoundStatement) -> KnownZone {
        KnownZone(
            id: row.int(0),
            zone: ZoneID(row.text(1), owner: UserID(row.text(2))),
            token: row.optionalText(3),
            isThere: row.bool(4),
            sweep: row.int(5),
            isEnding: row.bool(6)
        )
    }

    static func find(_ db: Database, _ zone: ZoneID) throws -> KnownZone? {
        let statement = try BoundStatement(db, byName)
        statement.bind(1, zone.zoneName)
        statement.bind(2, zone.owner.recordName)
        return try statement.first(make)
    }

    static func find(_ db: Database, id: Int64) throws -> KnownZone? {
        let statement = try BoundStatement(db, byNumber)
        statement.bind(1, id)
        return try statement.first(make)
    }

    static func all(_ db: Database) throws -> [KnownZone] {
        try BoundStatement(db, select + "ORDER BY id").all(make)
    }

    /// Marks a zone that the relay no longer has; it is not certain yet that its objects are gone too.
    static func end(_ db: Database, _ zone: ZoneID) throws {
        guard let known = try find(db, zone) else { return }
        try known.set(db, "token = NULL, isThere = 0, isUnfetched = 0, sweep = 0, isEnding = 1")
    }

    /// Finds a zone, or adds it if it is not known.
    package static func make(_ db: Database, _ zone: ZoneID) throws -> KnownZone {
        if let known = try find(db, zone) { return known }
        try db.execute(
            sql: "INSERT INTO mirror_zone(name, owner) VALUES (?, ?)",
            arguments: [zone.zoneName, zone.owner.recordName]
        )
        return KnownZone(id: db.lastInsertedRowID, zone: zone, token: nil, isThere: false, sweep: 0)
    }

    // MARK: Changes

    private func set(_ db: Database, _ values: String, _ arguments: StatementArguments = []) throws {
        try db.cachedStatement(sql: "UPDATE mirror_zone SET \(values) WHERE id = ?").execute(
            arguments: arguments + [id]
        )
    }

    /// The zones that have changes to fetch.
    static func unfetched(_ db: Database) throws -> [ZoneID] {
        try BoundStatement(db, select + "WHERE isUnfetched = 1 ORDER BY id").all(make).map(\.zone)
    }

    /// Forgets how far all zones were read.
    static func forgetTokens(_ db: Database) throws { try db.execute(sql: "UPDATE mirror_zone SET token = NULL") }

    /// Notes that the relay has the zone.
    func exists(_ db: Database) throws { try set(db, "isThere = 1") }

    /// Notes that the zone has changes to fetch.
    func changed(_ db: Database) throws { try set(db, "isThere = 1, isUnfetched = 1, isEnding = 0") }

    /// Stores how far the zone has been read.
    func read(_ db: Database, to token: SyncToken, moreComing: Bool, at date: Date) throws {
        try set(
            db,
            "token = ?, isThere = 1, isUnfetched = ?, isEnding = 0, fetchedAt = ?",
            [token.text, moreComing, date.timeIntervalSince1970]
        )
    }

    /// Notes that the relay did not find the zone; its objects stay, because it is created again.
    func notFound(_ db: Database) throws { try set(db, "isThere = 0, token = NULL") }

    /// Notes that the zone was lost, after its objects were removed.
    func lost(_ db: Database) throws {
        try set(db, "token = NULL, isThere = 0, isUnfetched = 0, sweep = 0, isEnding = 0")
    }

    func remove(_ db: Database) throws { try db.execute(sql: "DELETE FROM mirror_zone WHERE id = ?", arguments: [id]) }

    /// Begins a full fetch, after which records that were not listed are removed.
    ///
    /// Does nothing for a zone without known records.
    mutating func beginSweep(_ db: Database, _ number: Int64) throws {
        let hasRecords = try Bool.fetchOne(
            db,
            sql: "SELECT EXISTS (SELECT 1 FROM mirror_record WHERE zone = ? AND state IN \(RecordTable.inZone))",
            arguments: [id]
        )
        guard hasRecords == true else { return }
        sweep = number
        try set(db, "sweep = ?", [number])
    }

    func endSweep(_ db: Database) throws { try set(db, "sweep = 0") }

    /// Returns a mark that distinguishes the copies of the zone's current objects from those of an earlier share.
    ///
    /// Generated once and stored with the zone, so that an interrupted copy is repeated with the same ids.
    func copySeries(_ db: Database) throws -> String {
        let sql = "SELECT copies FROM mirror_zone WHERE id = ?"
        if let copySeries = try String.fetchOne(db, sql: sql, arguments: [id]) { return copySeries }
        let copySeries = RecordName().text
        try set(db, "copies = ?", [copySeries])
        return copySeries
    }
}
