import Foundation
import GRDB

/// A many-to-many link of an object whose creation the relay refused; it is restored with the object.
///
/// On the relay the link is a record of its own, but it is not offered for a decision by itself: without the object it
/// links nothing.
struct RefusedPair: Codable {
    let table: String
    let id: String
    /// The ids of the linked objects, in the order of the table's columns.
    let ends: [String]

    /// Returns an object's links, encoded for its refused change, or `nil` if it has none.
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

    /// Links the objects again, as a change of the user.
    ///
    /// If one of them is not here, its own restoration does this. `share` is the zone of the share in which to create
    /// the link; `nil` means the usual zone.
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
