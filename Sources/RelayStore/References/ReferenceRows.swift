import GRDB
import Records
import RelayCore
import Wire

/// The table of references by target, updated in the transaction that changes a record.
enum ReferenceRows {
    /// Returns the references of a record: its parent, and fields with `DELETE_SELF` or `VALIDATE`.
    static func references(of record: StoredRecord) throws -> Set<StoredReference> {
        var found: Set<StoredReference> = []
        if let parent = record.parent { found.insert(.parent(parent, of: record.name)) }
        for (field, reference) in try FieldsJSON.enforcedReferences(in: record.fields) {
            if let stored = StoredReference(reference, from: record.name, field: field) { found.insert(stored) }
        }
        return found
    }

    static func insert(_ reference: StoredReference, zone: Int64, _ database: Database) throws {
        try run("INSERT OR IGNORE INTO reference VALUES (?, ?, ?, ?, ?)", reference, zone, database)
    }

    static func delete(_ reference: StoredReference, zone: Int64, _ database: Database) throws {
        let sql = "DELETE FROM reference WHERE zone = ? AND target = ? AND kind = ? AND source = ? AND field = ?"
        try run(sql, reference, zone, database)
    }

    private static func run(_ sql: String, _ reference: StoredReference, _ zone: Int64, _ database: Database) throws {
        let statement = try SQL(sql, in: database)
        statement.bind(1, zone)
        statement.bind(2, reference.target)
        statement.bind(3, Int64(reference.kind.rawValue))
        statement.bind(4, reference.source)
        statement.bind(5, reference.field)
        try statement.run()
    }
}

extension SQLiteWriter {
    func updateReferences(of record: StoredRecord, over before: StoredRecord?, in zone: Zone) throws {
        let old = try before.map { try ReferenceRows.references(of: $0) } ?? []
        let new = try ReferenceRows.references(of: record)
        guard old != new else { return }
        for removed in old.subtracting(new) { try ReferenceRows.delete(removed, zone: zone.number, database) }
        for added in new.subtracting(old) { try ReferenceRows.insert(added, zone: zone.number, database) }
    }
}

extension SQLiteReader {
    func visitReferences(
        to targets: [String],
        in zone: Zone,
        _ visit: (StoredReference) -> ReferenceVisit
    ) throws(RelayError) {
        try attempt {
            let statement = try SQL(
                "SELECT kind, source, field FROM reference WHERE zone = ? AND target = ? ORDER BY kind, source, field",
                in: database
            )
            targets: for target in targets {
                defer { statement.reset() }
                statement.bind(1, zone.number)
                statement.bind(2, target)
                while try statement.step() {
                    guard let kind = StoredReference.Kind(rawValue: Int(statement.int(0))) else {
                        throw StoreFailure.damaged("a reference to \(target) has an unknown kind")
                    }
                    let found = StoredReference(kind, to: target, from: statement.text(1), field: statement.text(2))
                    switch visit(found) {
                    case .next: continue
                    case .nextTarget: continue targets
                    case .stop: return
                    }
                }
            }
        }
    }

    func countDeleteSelf(
        to targets: [String],
        in zone: Zone,
        atMost limit: Int
    ) throws(RelayError) -> [String: Int] {
        try attempt {
            let statement = try SQL(
                "SELECT count(*) FROM (SELECT 1 FROM reference WHERE zone = ? AND target = ? AND kind = 1 LIMIT ?)",
                in: database
            )
            var counts: [String: Int] = [:]
            for target in targets {
                defer { statement.reset() }
                statement.bind(1, zone.number)
                statement.bind(2, target)
                statement.bind(3, Int64(limit))
                if try statement.step() { counts[target] = Int(statement.int(0)) }
            }
            return counts
        }
    }
}
