import GRDB
import Records
import RelayCore

/// The table of references by target, updated in the transaction that changes a record.
extension SQLiteWriter {
    func insert(_ references: [StoredReference], in zone: Int64) throws {
        try run("INSERT OR IGNORE INTO reference VALUES (?, ?, ?, ?, ?)", references, zone)
    }

    func delete(_ references: [StoredReference], in zone: Int64) throws {
        let sql = "DELETE FROM reference WHERE zone = ? AND target = ? AND kind = ? AND source = ? AND field = ?"
        try run(sql, references, zone)
    }

    private func run(_ sql: String, _ references: [StoredReference], _ zone: Int64) throws {
        let statement = try SQL(sql, in: database)
        for reference in references {
            statement.bind(1, zone)
            statement.bind(2, reference.target)
            statement.bind(3, Int64(reference.kind.rawValue))
            statement.bind(4, reference.source)
            statement.bind(5, reference.field)
            try statement.run()
        }
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
