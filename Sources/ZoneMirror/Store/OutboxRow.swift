import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

/// An object with changes that the relay has not confirmed.
///
/// The triggers write these rows. The changes themselves are the difference between the object's row and the record
/// that the relay had last.
struct OutboxRow {
    var oid: String
    var entity: String
    var operation: Outbox.Operation
    /// Increases with each change of any object.
    var version: Int64
    /// Whether the change may have reached the relay already.
    var isAttempted: Bool
    var tries: Int
    /// Why the change is not sent yet; `nil` if it can be sent.
    var blockReason: String?
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
            isAttempted: row.bool(4),
            tries: Int(row.int(5)),
            blockReason: row.optionalText(6),
            error: row.optionalText(7),
            place: row.int(8),
            code: row.optionalInt(9).map { Int($0) }
        )
    }

    private static let select =
        "SELECT oid, entity, op, version, isAttempted, tries, held, error, place, code FROM mirror_outbox WHERE "
    private static let byIdentity = select + "oid = ?"

    static func find(_ db: Database, _ oid: String) throws -> OutboxRow? {
        let statement = try BoundStatement(db, byIdentity)
        statement.bind(1, oid)
        return try statement.first(make)
    }

    /// The next changes that can be sent, oldest first.
    static func next(_ db: Database, after place: Int64, limit: Int) throws -> [OutboxRow] {
        let sql = select + "account IS NULL AND held IS NULL AND place > ? ORDER BY place LIMIT ?"
        let statement = try BoundStatement(db, sql)
        statement.bind(1, place)
        statement.bind(2, Int64(limit))
        return try statement.all(make)
    }

    static func all(_ db: Database) throws -> [OutboxRow] {
        try BoundStatement(db, select + "account IS NULL ORDER BY place").all(make)
    }

    static func count(_ db: Database, sendableOnly: Bool = false) throws -> Int {
        let sql = "SELECT count(*) FROM mirror_outbox WHERE account IS NULL" + (sendableOnly ? " AND held IS NULL" : "")
        return try Int.fetchOne(db, sql: sql) ?? 0
    }

    /// Parks the previous user's unsent changes in a file that users share, and makes those of `user` active again.
    ///
    /// Parked changes, in the outbox and among the refused ones that are retried, are not sent, counted or listed
    /// until their user is back. A `nil` user has none; a `nil` previous user parks nothing.
    static func switchUser(_ db: Database, from before: String?, to user: String?) throws {
        if let before, before != user { try SentRequest.removeAll(db) }
        for table in ["mirror_outbox", "mirror_refused"] {
            if let before, before != user {
                try db.execute(sql: "UPDATE \(table) SET account = ? WHERE account IS NULL", arguments: [before])
            }
            try db.execute(sql: "UPDATE \(table) SET account = NULL WHERE account = ?", arguments: [user])
        }
    }

    /// Returns whether an object has a change of a user who is not signed in.
    static func belongsToOtherUser(_ db: Database, _ oid: String) throws -> Bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM mirror_outbox WHERE oid = ? AND account IS NOT NULL)"
        return try Bool.fetchOne(db.cachedStatement(sql: sql), arguments: [oid]) ?? false
    }

    /// Returns whether a deletion can be sent.
    static func hasDeletion(_ db: Database) throws -> Bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM mirror_outbox WHERE held IS NULL AND account IS NULL AND op = 'delete')"
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

    static func drop(_ db: Database, _ oid: String) throws {
        try db.cachedStatement(sql: "DELETE FROM mirror_outbox WHERE oid = ?").execute(arguments: [oid])
    }

    /// Makes an object's change sendable again: what it waited for is here or will not come.
    static func unblock(_ db: Database, _ oid: String) throws {
        try db.cachedStatement(sql: "UPDATE mirror_outbox SET held = NULL WHERE oid = ?").execute(arguments: [oid])
    }

    /// Makes changes without a zone sendable again, because there may now be room for another zone.
    static func unblockWithoutZone(_ db: Database) throws {
        try db.execute(sql: "UPDATE mirror_outbox SET held = NULL WHERE held = 'noZone'")
    }

    /// Makes changes without a table sendable again, because the model may have the table again.
    static func unblockWithoutTable(_ db: Database) throws {
        try db.execute(sql: "UPDATE mirror_outbox SET held = NULL WHERE held = 'noTable'")
    }

    /// Returns whether a change waits for something that will come.
    static func hasWaiting(_ db: Database) throws -> Bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM mirror_outbox WHERE held = 'waiting' AND account IS NULL)"
        return try Bool.fetchOne(db, sql: sql) ?? false
    }

    /// The changes that wait for something that will come, another model included, oldest first.
    static func waiting(_ db: Database) throws -> [OutboxRow] {
        try BoundStatement(db, select + "held IN ('waiting', 'noTable') AND account IS NULL ORDER BY place").all(make)
    }

    /// The error for a caller that asked to send a change which has to wait.
    var reasonToWait: CKError {
        let code = code.flatMap { CKError.Code(rawValue: $0) } ?? .referenceViolation
        return CKError(code, error ?? "It depends on an object that is not on the relay yet.")
    }

    /// Makes all waiting changes sendable again, because what they waited for may be there now.
    static func unblockWaiting(_ db: Database) throws {
        try db.execute(sql: "UPDATE mirror_outbox SET held = NULL WHERE held = 'waiting'")
    }

    /// Removes an object's change that the relay has confirmed as `version`; a later change stays.
    static func confirmed(_ db: Database, _ oid: String, version: Int64) throws {
        try db.cachedStatement(sql: "DELETE FROM mirror_outbox WHERE oid = ? AND version <= ?")
            .run([oid.databaseValue, version.databaseValue])
        if db.changesCount == 0 {
            try db.cachedStatement(sql: "UPDATE mirror_outbox SET tries = 0, error = NULL, code = NULL WHERE oid = ?")
                .run([oid.databaseValue])
        }
    }

    /// Queues an object that no statement has changed.
    static func add(_ db: Database, _ oid: String, entity: String, _ operation: Outbox.Operation) throws {
        let sql = """
            INSERT INTO mirror_change(txn, oid, entity, kind) VALUES ((SELECT txn FROM mirror_local), ?, ?, ?)
            """
        let kind: ChangeKind = operation == .delete ? .delete : .update
        try db.execute(sql: sql, arguments: [oid, entity, kind.rawValue])
        let number = db.lastInsertedRowID
        try db.execute(
            sql: """
                INSERT INTO mirror_outbox(place, oid, entity, op, version) VALUES (?, ?, ?, ?, ?)
                ON CONFLICT(oid) DO UPDATE SET op = excluded.op, version = excluded.version, held = NULL
                """,
            arguments: [number, oid, entity, operation.rawValue, number]
        )
    }
}

/// The changes that the relay refused permanently.
///
/// See Sync.md, "Refused writes".
enum Refusals {
    struct Cause: Sendable {
        var code: Int
        var message: String
    }

    static func add(
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
        let base = known.flatMap { $0.tag == nil ? nil : KnownRecord.encode($0.serverFields()) }
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
        try OutboxRow.drop(db, oid)
    }

    /// Returns whether refused changes of an object, of any user, wait for a decision.
    static func exist(_ db: Database, for oid: String) throws -> Bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM mirror_refused WHERE oid = ?)"
        return try Bool.fetchOne(db, sql: sql, arguments: [oid]) ?? false
    }
}
