import GRDB
import Records
import SyncCore
import ZoneKit

/// Resolves conflicts between objects of different entities with the same name; a zone has each name once, and the
/// relay's record keeps it.
extension Importer {
    /// Removes the local object of another entity that has an imported record's name, and returns what is known of the
    /// record itself.
    ///
    /// If the relay knew that object, it is gone there, since its name is in use. If it was never sent, it waits for a
    /// decision: another device was first.
    func clearName(
        of record: Record,
        _ known: KnownRecord?,
        _ table: TableForm,
        _ zone: KnownZone
    ) throws -> KnownRecord? {
        if let known, known.entity == nil || known.entity == table.name { return known }
        let name = record.id.recordName
        if let known, known.tag != nil {
            try remove(known, keepingPending: false)
            try dropPairs(with: name, zone: zone.id)
            return nil
        }
        guard hasOutbox, let pending = try OutboxRow.find(db, known?.oid ?? name), pending.entity != table.name,
            try known != nil || KnownRecord.find(db, oid: name) == nil
        else { return known }
        try giveUp(pending, known, in: zone)
        return nil
    }

    private func giveUp(_ pending: OutboxRow, _ known: KnownRecord?, in zone: KnownZone) throws {
        let oid = pending.oid
        if let table = mapping.tables[pending.entity], let row = try table.row(db, oid) {
            let mine = mapping.fields(of: try names.toRelay(row, table, oid, db), in: table)
            let what = "On the relay, an object of another entity has this name. Insert it with another name."
            try leave(table, oid, pending.operation, mine, what)
            try noteDeletion(table, oid)
            try takeAway(table, oid, named: known?.name ?? oid)
        }
        try OutboxRow.drop(db, oid)
        guard let known else { return }
        try dropPairs(with: known.name, zone: zone.id)
        try KnownRecord.remove(db, id: known.id)
    }
}
