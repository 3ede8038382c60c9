import GRDB
import Records
import ZoneKit

extension Importer {
    /// Gives objects to records that the model knows only now, and values to columns that are new.
    func adopt(added: [String: [ColumnForm]]) throws {
        for (zone, name, type, fields) in try unknownRecords() {
            guard let table = mapping.table(forType: type, fields: fields) else { continue }
            let theirs = mapping.row(of: fields, in: table)
            let record = Record(id: RecordID(name, in: zone.zone), type: type, fields: fields)
            let oid = try place(theirs, record, nil, table, zone)
            try db.execute(
                sql: "UPDATE mirror_record SET oid = ?, entity = ? WHERE zone = ? AND name = ?",
                arguments: [oid, table.name, zone.id, name]
            )
            try askForFiles(of: oid, fields, table.columns, type)
        }
        for (name, columns) in added {
            if let table = mapping.tables[name] { try fill(columns, of: table) }
        }
    }

    private func unknownRecords() throws -> [(KnownZone, String, String, [String: FieldValue])] {
        let zones = Dictionary(uniqueKeysWithValues: try KnownZone.all(db).map { ($0.id, $0) })
        let rows = try Row.fetchAll(db, sql: "SELECT zone, name FROM mirror_record WHERE oid IS NULL")
        return try rows.compactMap { row in
            let (zone, name): (Int64, String) = (row[0], row[1])
            guard let home = zones[zone], let known = try KnownRecord.find(db, zone: zone, name: name) else {
                return nil
            }
            return (home, name, known.type, known.serverFields())
        }
    }

    private func fill(_ columns: [ColumnForm], of table: TableForm) throws {
        let oids = try String.fetchAll(
            db,
            sql: "SELECT oid FROM mirror_record WHERE entity = ? AND fields IS NOT NULL",
            arguments: [table.name]
        )
        for oid in oids {
            guard let known = try KnownRecord.find(db, oid: oid), var row = try table.row(db, oid) else { continue }
            let zone = known.zone
            let fields = mapping.row(of: known.serverFields(), in: table)
            let theirs = try names.toLocal(fields, table, of: (known.name, oid), zone: zone, db)
            for column in columns {
                if let position = table.index[column.name] { row[position] = theirs.values[position] }
            }
            try table.update(db, oid, row)
            try keep(theirs.unresolved, of: table, oid, zone)
            if hasLinks { try resolveLinks(to: known.name, zone: zone, as: oid, table) }
            try askForFiles(of: oid, known.allFields(), columns, known.type)
        }
    }

    /// Nobody fetched values in files that no attribute stood for: their records are asked for once more.
    private func askForFiles(
        of oid: String,
        _ fields: [String: FieldValue],
        _ columns: [ColumnForm],
        _ type: String
    ) throws {
        let isMissing = columns.contains { column in
            column.attribute?.type.hasLargeForm == true && fields[mapping.field(column)] == nil
                && fields[mapping.assetField(column)] != nil
        }
        guard isMissing else { return }
        let isPublic = file.scope == .public
        try db.execute(
            sql: "UPDATE mirror_record SET tag = ? WHERE oid = ?",
            arguments: [isPublic ? KnownRecord.unseen : KnownRecord.awaited, oid]
        )
        if isPublic {
            try db.execute(sql: "DELETE FROM mirror_poll WHERE type = ?", arguments: [type])
        } else {
            try State.set(db, .awaitsRecords, "1")
        }
    }
}
