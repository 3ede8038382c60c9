import GRDB

/// Links that a save has just written, to objects that are not there: another context has deleted them since they were read,
/// or they are still to come.
///
/// Other devices will show such links as open ones, and so does this one.
struct LostTargets {
    let db: Database
    let file: StoreFile
    /// What was deleted here, as far as the history goes back; read where it matters.
    private var deleted: Set<String>?

    init(_ db: Database, _ file: StoreFile) {
        self.db = db
        self.file = file
    }

    /// Whether some of an object's links lead there.
    mutating func areAmong(_ row: [DatabaseValue], _ table: TableForm) throws -> Bool {
        for position in table.links where try isLost(row[position], table.columns[position], table) { return true }
        return false
    }

    /// Opens those of one object, and deletes a pair that has lost an end.
    ///
    /// Returns the row as it is then; `nil` where it was deleted.
    mutating func open(_ id: String, _ table: TableForm, _ row: [DatabaseValue]) throws -> [DatabaseValue]? {
        let lost = try table.links.filter { try isLost(row[$0], table.columns[$0], table) }
        guard !lost.isEmpty else { return row }
        if table.entity == nil {
            try table.delete(db, id)
            return nil
        }
        var open = row
        for position in lost { open[position] = .null }
        // What the user has done is noted, and to be sent.
        try StoreFile.unnoticed(db) { try table.update(db, id, open) }
        let zone = try KnownRecord.zone(db, oid: id) ?? file.homeZone.map { try KnownZone.make(db, $0).id } ?? 0
        for position in lost {
            guard let target = String.fromDatabaseValue(row[position]) else { continue }
            let name = try KnownRecord.find(db, oid: target)?.name ?? target
            try OpenLinks.keep(db, id, table.name, table.columns[position].name, zone, to: name)
        }
        return open
    }

    /// Pairs, and links of one to one, come about by themselves with a target that was never here: they wait as they are.
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
