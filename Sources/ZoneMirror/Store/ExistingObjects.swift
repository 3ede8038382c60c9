import Foundation
import GRDB
import Records

/// The objects of a mirrored store that the relay does not have and that nothing waits to send: those that the store held
/// before it was mirrored.
///
/// Every later change passes the triggers. So this runs with each new layout of the file, in the layout's transaction: after
/// a crash either nothing has happened, or every object waits in the outbox.
struct ExistingObjects {
    let db: Database
    let file: StoreFile

    /// The author in the history.
    static let author = "zonecast.mirrored"

    /// Queues all of them, and notes their number for the event that tells of them.
    ///
    /// - Parameters:
    ///   - wasMirrored: Whether the file was mirrored before. Two objects of one id are an error only the first time; a file that
    ///     is in use already stays readable.
    ///   - now: When the history says that they were queued.
    /// - Throws: `storage` where two objects of a store that is mirrored for the first time have one id.
    func queue(wasMirrored: Bool, at now: Date) throws {
        try db.execute(
            sql: "INSERT INTO mirror_transaction(author, at) VALUES (?, ?)",
            arguments: [Self.author, now.timeIntervalSince1970]
        )
        let transaction = db.lastInsertedRowID
        var count = 0
        for name in file.mapping.tableNames {
            try note(name, transaction)
            if file.mapping.tables[name]?.entity != nil { count += db.changesCount }
        }
        guard
            try Bool.fetchOne(
                db,
                sql: "SELECT EXISTS (SELECT 1 FROM mirror_change WHERE txn = ?)",
                arguments: [transaction]
            )
                == true
        else {
            return try db.execute(sql: "DELETE FROM mirror_transaction WHERE id = ?", arguments: [transaction])
        }
        if !wasMirrored { try checkNames(transaction) }
        try db.execute(
            sql: """
                INSERT OR IGNORE INTO mirror_outbox(place, oid, entity, op, version)
                SELECT seq, oid, entity, 'save', seq FROM mirror_change WHERE txn = ? ORDER BY seq
                """,
            arguments: [transaction]
        )
        try nameRecords(transaction)
        if count > 0 { try State.set(db, .existingObjects, count) }
    }

    /// Notes a table's rows in the history, which numbers them.
    private func note(_ table: String, _ transaction: Int64) throws {
        try db.execute(
            sql: """
                INSERT INTO mirror_change(txn, oid, entity, kind) SELECT ?, id, ?, ? FROM \(table.quoted) t
                WHERE NOT EXISTS (SELECT 1 FROM mirror_record r WHERE r.oid = t.id AND r.entity = ?)
                AND NOT EXISTS (SELECT 1 FROM mirror_outbox o WHERE o.oid = t.id AND o.entity = ?)
                AND id NOT IN (SELECT oid FROM mirror_refused)
                """,
            arguments: [transaction, table, ChangeKind.update.rawValue, table, table]
        )
    }

    /// Names are those of records, which a zone has once, whatever their type.
    private func checkNames(_ transaction: Int64) throws {
        let sql = """
            SELECT oid, min(entity), max(entity) FROM mirror_change WHERE txn = ? GROUP BY oid HAVING count(*) > 1 LIMIT 1
            """
        guard let row = try Row.fetchOne(db, sql: sql, arguments: [transaction]) else { return }
        throw MirrorError(
            .storage,
            """
            \(file.description.url.lastPathComponent) has a \(row[1] as String) and a \(row[2] as String) with the id \
            \(row[0] as String). In a mirrored store each object needs an id of its own: change one of them while the store \
            is local.
            """
        )
    }

    /// Gives objects whose ids the relay takes for no record names records of other names.
    private func nameRecords(_ transaction: Int64) throws {
        guard let home = file.homeZone else { return }
        let odd = try Row.fetchAll(
            db,
            sql: "SELECT oid, entity FROM mirror_change WHERE txn = ?",
            arguments: [transaction]
        )
        .map { (oid: $0[0] as String, entity: $0[1] as String) }
        .filter { !NameRules.isRecordName($0.oid) }
        guard !odd.isEmpty else { return }
        let zone = try KnownZone.make(db, home)
        for (oid, entity) in odd {
            guard let table = file.mapping.tables[entity] else { continue }
            try KnownRecord.reserve(
                db,
                zone: zone.id,
                name: RecordName().text,
                oid: oid,
                entity: entity,
                type: file.mapping.recordType(of: table)
            )
        }
    }
}

extension MirrorSync {
    /// Tells, once, of the objects that the store held before it was mirrored.
    func tellOfExisting() async {
        guard let count = try? await file.pool.read({ try State.number($0, .existingObjects) }) else { return }
        await note(.setup, done: Int(count), details: [.localData(Int(count))])
        try? await file.pool.write { try State.set($0, .existingObjects, nil) }
    }
}
