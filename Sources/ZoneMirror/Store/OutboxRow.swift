package import Foundation
package import GRDB
package import Records
package import SyncCore
import Wire
import ZoneKit

/// An object with changes that the relay has not confirmed.
///
/// The triggers write these rows. The changes themselves are the difference between the object's row and the record
/// that the relay had last.
package struct OutboxRow {
    package var oid: String
    var entity: String
    package var operation: Outbox.Operation
    /// Increases with each change of any object.
    package var version: Int64
    var tries: Int
    package var state: ChangeState
    var error: String?
    var place: Int64
    /// CloudKit's error code.
    var code: Int?

    private static func make(_ row: BoundStatement) -> OutboxRow {
        OutboxRow(
            oid: row.text(0),
            entity: row.text(1),
            operation: row.text(2) == "delete" ? .delete : .save,
            version: row.int(3),
            tries: Int(row.int(4)),
            state: ChangeState(rawValue: row.text(5)) ?? .ready,
            error: row.optionalText(6),
            place: row.int(7),
            code: row.optionalInt(8).map { Int($0) }
        )
    }

    private static let isOwn = "account IS NULL"
    private static let isReady = "held IS NULL AND account IS NULL"
    private static let select = """
        SELECT oid, entity, op, version, tries, CASE WHEN \(isOwn) THEN coalesce(held, 'ready') ELSE 'parked' END, error,
            place, code FROM mirror_outbox WHERE\(" ")
        """
    private static let byIdentity = select + "oid = ?"

    package static func find(_ db: Database, _ oid: String) throws -> OutboxRow? {
        let statement = try BoundStatement(db, byIdentity)
        statement.bind(1, oid)
        return try statement.first(make)
    }

    /// The next changes that can be sent, oldest first.
    static func next(_ db: Database, after place: Int64, limit: Int) throws -> [OutboxRow] {
        let sql = select + "\(isReady) AND place > ? ORDER BY place LIMIT ?"
        let statement = try BoundStatement(db, sql)
        statement.bind(1, place)
        statement.bind(2, Int64(limit))
        return try statement.all(make)
    }

    package static func all(_ db: Database) throws -> [OutboxRow] {
        try BoundStatement(db, select + "\(isOwn) ORDER BY place").all(make)
    }

    package static func count(_ db: Database, sendableOnly: Bool = false) throws -> Int {
        let sql = "SELECT count(*) FROM mirror_outbox WHERE \(sendableOnly ? isReady : isOwn)"
        return try Int.fetchOne(db, sql: sql) ?? 0
    }

    /// Returns whether an object has a change of a user who is not signed in.
    static func belongsToOtherUser(_ db: Database, _ oid: String) throws -> Bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM mirror_outbox WHERE oid = ? AND account IS NOT NULL)"
        return try Bool.fetchOne(db.cachedStatement(sql: sql), arguments: [oid]) ?? false
    }

    /// Returns whether a deletion can be sent.
    static func hasDeletion(_ db: Database) throws -> Bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM mirror_outbox WHERE \(isReady) AND op = 'delete')"
        return try Bool.fetchOne(db, sql: sql) ?? false
    }

    /// Returns whether the parent of a change is itself unsent or refused.
    static func hasUnsentParent(_ db: Database, of item: Outgoing) throws -> Bool {
        guard let parent = item.write.parent ?? nil else { return false }
        let sql = """
            SELECT EXISTS (
                SELECT 1 FROM mirror_outbox o LEFT JOIN mirror_record r ON r.oid = o.oid
                WHERE o.oid <> ? AND coalesce(r.name, o.oid) = ?
            ) OR EXISTS (SELECT 1 FROM mirror_refused WHERE name = ?)
            """
        return try Bool.fetchOne(db, sql: sql, arguments: [item.oid, parent, parent]) ?? false
    }

    /// Returns whether a change waits for something that will come.
    static func hasWaiting(_ db: Database) throws -> Bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM mirror_outbox WHERE held = 'waiting' AND \(isOwn))"
        return try Bool.fetchOne(db, sql: sql) ?? false
    }

    /// The changes that wait for something that will come, another model included, oldest first.
    static func waiting(_ db: Database) throws -> [OutboxRow] {
        try BoundStatement(db, select + "held IN ('waiting', 'noTable') AND \(isOwn) ORDER BY place").all(make)
    }

    /// The error for a caller that asked to send a change which has to wait.
    var reasonToWait: CKError {
        let code = code.flatMap { CKError.Code(rawValue: $0) } ?? .referenceViolation
        return CKError(code, error ?? "It depends on an object that is not on the relay yet.")
    }
}

/// The changes that the relay refused permanently.
///
/// See Sync.md, "Refused writes".
package enum Refusals {
    package struct Cause: Sendable {
        var code: Int
        var message: String

        package init(code: Int, message: String) {
            self.code = code
            self.message = message
        }
    }

    package static func add(
        _ db: Database,
        oid: String,
        entity: String,
        operation: Outbox.Operation,
        mine: [String: FieldValue],
        pairs: Data?,
        error: Cause,
        at date: Date,
        tries: Int = 1
    ) throws {
        let known = try KnownRecord.find(db, oid: oid)
        let base = known.flatMap { $0.state.isInZone ? KnownRecord.encode($0.serverFields()) : nil }
        try db.execute(
            sql: """
                INSERT INTO mirror_refused(oid, entity, zone, name, op, mine, code, message, at, tries, base, pairs)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                oid, entity, known?.zone, known?.name ?? oid, operation.rawValue, KnownRecord.encode(mine), error.code,
                error.message, date.timeIntervalSince1970, tries, base, pairs,
            ]
        )
        try RecordTable(db).changeRefused(oid, operation)
    }

    /// Removes a change that was retried or discarded.
    package static func decided(_ db: Database, _ id: Int64) throws {
        try db.execute(sql: "DELETE FROM mirror_refused WHERE id = ?", arguments: [id])
    }

    /// Notes under which version of the relay's schema changes were refused.
    static func setSchema(_ db: Database, _ version: some DatabaseValueConvertible, where condition: String) throws {
        try db.execute(sql: "UPDATE mirror_refused SET schema = ? WHERE \(condition)", arguments: [version])
    }

    /// Parks the retried changes of the user who was signed in, and returns those of `user`.
    package static func switchUser(_ db: Database, from before: String?, to user: String?) throws {
        if let before, before != user {
            try db.execute(sql: "UPDATE mirror_refused SET account = ? WHERE account IS NULL", arguments: [before])
        }
        try db.execute(sql: "UPDATE mirror_refused SET account = NULL WHERE account = ?", arguments: [user])
    }

    /// Returns whether refused changes of an object, of any user, wait for a decision.
    package static func exist(_ db: Database, for oid: String) throws -> Bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM mirror_refused WHERE oid = ?)"
        return try Bool.fetchOne(db, sql: sql, arguments: [oid]) ?? false
    }
}
