import Foundation
import GRDB

/// A link between many and many that went with an object whose making the relay refused; it comes back with it.
///
/// On the relay it is a record of its own, but nobody's decision: without the object it pairs nothing.
struct RefusedPair: Codable {
    let table: String
    let id: String
    /// The objects that it pairs, in the order of the table's columns.
    let ends: [String]

    /// Those of an object, as they are written down with its refused change; `nil` where it has none.
    static func encoded(of oid: String, _ table: String, _ mapping: RecordMapping, _ db: Database) throws -> Data? {
        var pairs: [RefusedPair] = []
        for (other, column) in mapping.incoming[table] ?? [] where other.entity == nil {
            let sql = "SELECT id FROM \(other.name.quoted) WHERE \(column.quoted) = ?"
            for id in try String.fetchAll(db.cachedStatement(sql: sql), arguments: [oid]) {
                let ends = try other.row(db, id)?.compactMap { String.fromDatabaseValue($0) } ?? []
                guard ends.count == other.columns.count else { continue }
                pairs.append(RefusedPair(table: other.name, id: id, ends: ends))
            }
        }
        return pairs.isEmpty ? nil : try JSONEncoder().encode(pairs)
    }

    static func decode(_ data: Data?) -> [RefusedPair] {
        data.flatMap { try? JSONDecoder().decode([RefusedPair].self, from: $0) } ?? []
    }

    /// Pairs the objects again, as the user's change; where one of them is not here, its own coming back does that.
    ///
    /// `share`: the zone of the share that the pair is to be made in; `nil`: its usual one.
    func restore(_ db: Database, _ mapping: RecordMapping, share: Int64?) throws {
        guard let form = mapping.tables[table], form.entity == nil, ends.count == form.columns.count,
            try zip(form.columns, ends).allSatisfy({ try Self.isHere($1, $0, mapping, db) }),
            try form.insertIfNew(db, id, ends.map(\.databaseValue)), let share, try KnownRecord.find(db, oid: id) == nil
        else { return }
        let type = mapping.recordType(of: form)
        try KnownRecord.reserve(db, zone: share, name: id, oid: id, entity: table, type: type)
    }

    private static func isHere(
        _ oid: String,
        _ column: ColumnForm,
        _ mapping: RecordMapping,
        _ db: Database
    ) throws -> Bool {
        guard let target = column.link.flatMap({ mapping.tables[$0.destination] }) else { return false }
        return try target.row(db, oid) != nil
    }
}
