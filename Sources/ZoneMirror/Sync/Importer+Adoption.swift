import GRDB
import Records
import ZoneKit

extension Importer {
    /// Creates objects for records whose type the model has only now, and fills new columns.
    func adopt(_ changes: [String: [LayoutChange]]) throws {
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
        for (name, changes) in changes {
            if let table = mapping.tables[name] { try fill(changes, of: table) }
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

    private func fill(_ changes: [LayoutChange], of table: TableForm) throws {
        let oids = try String.fetchAll(
            db,
            sql: "SELECT oid FROM mirror_record WHERE entity = ? AND fields IS NOT NULL",
            arguments: [table.name]
        )
        let returns = changes.count { if case .returns = $0.cause { true } else { false } } == table.columns.count
        for oid in oids {
            guard let known = try KnownRecord.find(db, oid: oid), var row = try table.row(db, oid) else { continue }
            let isPending = hasOutbox ? try OutboxRow.find(db, oid) != nil : false
            // The pending change is based on the version that this device had then; newer versions are fetched again
            // and merged.
            if returns, isPending {
                if known.tag == KnownRecord.unseen { try askAgain(for: oid, known.type) }
                continue
            }
            let (zone, fields) = (known.zone, known.serverFields())
            let relayed = mapping.row(of: fields, in: table)
            let theirs = try names.toLocal(relayed, table, of: (known.name, oid), zone: zone, db)
            for change in changes {
                guard let position = table.index[change.column.name],
                    !keeps(row[position], change, fields, isPending: isPending)
                else { continue }
                row[position] = theirs.values[position]
            }
            try table.update(db, oid, row)
            try keep(theirs.unresolved, of: table, oid, zone)
            if hasLinks { try resolveLinks(to: known.name, zone: zone, as: oid, table) }
            try askForFiles(of: oid, known.allFields(), changes.map(\.column), known.type)
        }
    }

    /// Returns whether a column's value must be kept in place of the record's.
    private func keeps(
        _ value: DatabaseValue,
        _ change: LayoutChange,
        _ fields: [String: FieldValue],
        isPending: Bool
    ) -> Bool {
        let fallback = change.column.attribute?.defaultValue ?? .null
        return switch change.cause {
        // Another program that had this model earlier has changed the value.
        case .new: isPending && value != fallback
        case .returns: false
        case .newDefault(let before):
            value != before || fields[mapping.field(change.column)] != nil
                || fields[mapping.assetField(change.column)] != nil
        }
    }

    /// Fetches records again whose assets were not fetched because no attribute used them.
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
        if isMissing { try askAgain(for: oid, type) }
    }

    private func askAgain(for oid: String, _ type: String) throws {
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
