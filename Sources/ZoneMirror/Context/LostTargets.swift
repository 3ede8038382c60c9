import GRDB

/// Handles links, written by a save, whose target is not in the store.
///
/// Another context has deleted the target since it was read, or it has not arrived yet. Other devices will show such
/// links as open, and so does this one.
struct LostTargets {
    let db: Database
    let file: StoreFile
    /// The objects deleted here, as far as the history goes back; read when first needed.
    private var deleted: Set<String>?

    init(_ db: Database, _ file: StoreFile) {
        self.db = db
        self.file = file
    }

    /// Returns whether some of an object's links have lost their target.
    mutating func areAmong(_ row: [DatabaseValue], _ table: TableForm) throws -> Bool {
        for position in table.links where try isLost(row[position], table.columns[position], table) { return true }
        return false
    }

    /// Makes such links of one object open; deletes a many-to-many link that has lost an end.
    ///
    /// Returns the row after that; `nil` if it was deleted.
    mutating func open(_ id: String, _ table: TableForm, _ row: [DatabaseValue]) throws -> [DatabaseValue]? {
        let lost = try table.links.filter { try isLost(row[$0], table.columns[$0], table) }
        guard !lost.isEmpty else { return row }
        if table.entity == nil {
            try table.delete(db, id)
            return nil
        }
        var open = row
        for position in lost { open[position] = .null }
        // The user's change itself is recorded and will be sent.
        try StoreFile.unnoticed(db) { try table.update(db, id, open) }
        let zone = try KnownRecord.zone(db, oid: id) ?? file.homeZone.map { try KnownZone.make(db, $0).id } ?? 0
        for position in lost {
            guard let target = String.fromDatabaseValue(row[position]) else { continue }
            let name = try KnownRecord.find(db, oid: target)?.name ?? target
            try OpenLinks.keep(db, id, table.name, table.columns[position].name, zone, to: name)
        }
        return open
    }

    /// Many-to-many and one-to-one links to an object that was never here are resolved on its arrival; they stay as
    /// they are.
    private mutating func isLost(_ value: DatabaseValue, _ column: ColumnForm, _ table: TableForm) throws -> Bool {
        guard let target = String.fromDatabaseValue(value), let link = column.link else { return false }
        let here = "SELECT EXISTS (SELECT 1 FROM \(link.destination.quoted) WHERE id = ?)"
        if try Bool.fetchOne(db.cachedStatement(sql: here), arguments: [target]) == true { return false }
        guard table.entity == nil || column.back != nil else { return true }
        let deleted = try deleted ?? String.fetchSet(db, sql: "SELECT oid FROM mirror_change WHERE kind = 3")
        self.deleted = deleted
        return deleted.contains(target)
    }
}
