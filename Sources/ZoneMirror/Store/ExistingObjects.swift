import Foundation
import GRDB
import Records

/// Queues the objects that a store held before it was mirrored.
///
/// These are the objects that the relay does not have and that are not in the outbox. The triggers record every later
/// change. Runs with each new layout of the file, in the same transaction: after a crash either nothing has happened
/// or every object is in the outbox.
struct ExistingObjects {
    let db: Database
    let file: StoreFile

    /// The author of these changes in the history.
    static let author = "zonecast.mirrored"

    /// Queues all of them and stores their number for the event that reports them.
    ///
    /// - Parameters:
    ///   - wasMirrored: Whether the file was mirrored before. Two objects with the same id are an error only the first
    ///   time; a file that is already in use stays readable.
    ///   - now: The time of the history's transaction.
    /// - Throws: `storage` if two objects of a store that is mirrored for the first time have the same id.
    func queue(wasMirrored: Bool, at now: Date) throws {
        let transaction = try HistoryTable.begin(db, author: Self.author, at: now)
        var count = 0
        for name in file.mapping.tableNames {
            try note(name, transaction)
            if file.mapping.tables[name]?.entity != nil { count += db.changesCount }
        }
        guard try !HistoryTable.discardIfEmpty(db, transaction) else { return }
        if !wasMirrored { try checkNames(transaction) }
        try RecordTable(db).queue(changesOf: transaction)
        try nameRecords(transaction)
        if count > 0 { try State.set(db, .existingObjects, count) }
    }

    /// Adds a table's rows to the history, which numbers them.
    private func note(_ table: String, _ transaction: Int64) throws {
        let isUnknown = """
            NOT EXISTS (SELECT 1 FROM mirror_record r WHERE r.oid = t.id AND r.entity = ?)
            AND NOT EXISTS (SELECT 1 FROM mirror_outbox o WHERE o.oid = t.id AND o.entity = ?)
            AND id NOT IN (SELECT oid FROM mirror_refused)
            """
        try HistoryTable.noteUpdates(db, of: table, where: isUnknown, [table, table], in: transaction)
    }

    /// Throws if objects of two entities have the same id, because record names are unique within a zone.
    private func checkNames(_ transaction: Int64) throws {
        let sql = """
            SELECT oid, min(entity), max(entity) FROM mirror_change WHERE txn = ? GROUP BY oid HAVING count(*) > 1 LIMIT 1
            """
        guard let row = try Row.fetchOne(db, sql: sql, arguments: [transaction]) else { return }
        throw MirrorError(
            .storage,
            """
            \(file.description.url.lastPathComponent) has a \(row[1] as String) and a \(row[2] as String) with the id \
            \(row[0] as String). In a mirrored store each object needs a unique id: change one of them while the store \
            is local.
            """
        )
    }

    /// Assigns other record names to objects whose ids are not valid record names.
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
            try RecordTable(db).address(
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
    /// Reports once, as an event, the objects that the store held before it was mirrored.
    func reportExistingObjects() async {
        guard let count = try? await file.pool.read({ try State.number($0, .existingObjects) }) else { return }
        await store.note(.setup, done: Int(count), details: [.localData(Int(count))])
        try? await file.pool.write { try State.set($0, .existingObjects, nil) }
    }
}
