import Foundation
import GRDB

/// Removing objects that several devices have created for the same thing.
///
/// The simplest way to avoid duplicates is to give such objects names that every device derives in the same way; see
/// `RecordName.init(_:)`. If it is too late for that, `deduplicate` keeps the one with the smallest name, so that
/// every device keeps the same. See ReadingAndHistory.md, "Duplicates".
extension MirroredContainer {
    /// Keeps one of the objects that have equal values in some properties, in every store and zone.
    ///
    /// Links are moved to the object that stays. In a mirrored store, the others are deleted only after a later send
    /// and fetch have succeeded, so that no device loses both, and only if they are still equal to the one that stays.
    /// Objects are left alone if the user may not change them, if one of the properties has no value, or if they are
    /// marked as deleted.
    ///
    /// - Parameters:
    ///   - type: The entity.
    ///   - keys: The names of the properties.
    /// - Returns: The number of objects to remove.
    /// - Throws: `unknownProperty` for a property that is not stored, or if there is none; SQLite's errors.
    @discardableResult
    public func deduplicate<T: SyncedRecord>(_ type: T.Type, by keys: String...) async throws(MirrorError) -> Int {
        if keys.isEmpty {
            throw MirrorError(.unknownProperty, "Name the properties by which duplicates of \(T.entityName) are found.")
        }
        var count = 0
        for file in stores.files(holding: T.entityName) {
            guard let table = file.mapping.tables[T.entityName] else { continue }
            if let unknown = keys.first(where: { table.index[$0] == nil }) {
                throw MirrorError(.unknownProperty, "\(T.entityName) has no stored property \(unknown).")
            }
            let permissions = Permissions(file: file, account: stores.account)
            count += try await writing(file.id) { db in
                let count = try Duplicates(db: db, file: file, table: table).markDuplicates(
                    by: keys,
                    permissions: permissions
                )
                // A local store has no other devices to wait for.
                if !file.isMirrored { try Duplicates.removeConfirmed(db, file) }
                return count
            }
        }
        return count
    }
}

/// Finds the duplicates in one store and removes them later.
struct Duplicates {
    let db: Database
    let file: StoreFile
    let table: TableLayout

    func markDuplicates(by keys: [String], permissions: Permissions) throws -> Int {
        let columns = keys.map { "t.\($0.quoted)" }.joined(separator: ", ")
        let text = String(decoding: try JSONEncoder().encode(keys), as: UTF8.self)
        let sql = """
            SELECT t.id, \(columns), coalesce(r.zone, 0) FROM \(table.name.quoted) t
            LEFT JOIN mirror_record r ON r.oid = t.id
            WHERE t.id NOT IN (SELECT oid FROM mirror_duplicate)\(isLive("t")) ORDER BY t.id
            """
        var groups: [[DatabaseValue]: [String]] = [:]
        for row in try Row.fetchAll(db, sql: sql) {
            // An unsent object goes to the home zone.
            var zone: Int64 = row[keys.count + 1]
            if zone == 0 { zone = try file.homeZone.flatMap { try KnownZone.find(db, $0)?.id } ?? 0 }
            let key = (1...keys.count).map { row[$0] as DatabaseValue } + [zone.databaseValue]
            // Objects with an unknown value are not duplicates.
            if key.contains(where: \.isNull) { continue }
            groups[key, default: []].append(row[0])
        }
        var count = 0
        for ids in groups.values where ids.count > 1 {
            guard let survivor = ids.first else { continue }
            for id in ids.dropFirst() where try permissions.canDelete(db, oid: id) {
                try moveLinks(from: id, to: survivor)
                try db.execute(
                    sql: "INSERT INTO mirror_duplicate(oid, entity, keeper, keys) VALUES (?, ?, ?, ?)",
                    arguments: [id, table.name, survivor, text]
                )
                count += 1
            }
        }
        return count
    }

    /// Returns a condition that excludes objects marked as deleted: they neither replace an object nor are replaced.
    private func isLive(_ row: String) -> String {
        guard let mark = table.entity?.softDeletion, table.index[mark] != nil else { return "" }
        return " AND \(row).\(mark.quoted) IS NULL"
    }

    /// Moves the links to one object to the other.
    private func moveLinks(from id: String, to survivor: String) throws {
        for other in file.mapping.tables.values {
            for position in other.links where other.columns[position].link?.destination == table.name {
                let column = other.columns[position]
                if case .pairs(let form) = other.kind {
                    try movePairs(form, column.name, from: id, to: survivor)
                    continue
                }
                let (name, link) = (other.name.quoted, column.name.quoted)
                // The other object keeps its own link if it has room for one only.
                let isSingle = column.link.flatMap { file.model.inverse(of: $0) }.map { !$0.isToMany } ?? false
                let free = isSingle ? " AND NOT EXISTS (SELECT 1 FROM \(name) WHERE \(link) = ?1)" : ""
                try db.execute(
                    sql: "UPDATE \(name) SET \(link) = ?1 WHERE \(link) = ?2\(free)",
                    arguments: [survivor, id]
                )
            }
        }
    }

    /// Moves many-to-many links, whose ids are derived from their ends.
    private func movePairs(_ form: JoinTableLayout, _ column: String, from id: String, to survivor: String) throws {
        let name = form.tableName.quoted
        let sql = "SELECT id, source, target FROM \(name) WHERE \(column.quoted) = ?"
        for row in try Row.fetchAll(db, sql: sql, arguments: [id]) {
            var (source, target): (String?, String?) = (row[1], row[2])
            if column == "source" { source = survivor } else { target = survivor }
            try db.execute(sql: "DELETE FROM \(name) WHERE id = ?", arguments: [row[0] as String])
            guard let source, let target else { continue }
            try db.execute(
                sql: """
                    INSERT INTO \(name)(id, source, target) SELECT ?1, ?2, ?3
                    WHERE NOT EXISTS (SELECT 1 FROM \(name) WHERE id = ?1 OR (source = ?2 AND target = ?3))
                    """,
                arguments: [form.name(of: source, target), source, target]
            )
        }
    }

    /// Clears links with a cascade rule whose target both objects have, so that it is not deleted.
    private func keepTargets(of id: String, for survivor: String) throws {
        for position in table.links where table.columns[position].link?.deleteRule == .cascade {
            let (name, column) = (table.name.quoted, table.columns[position].name.quoted)
            try db.execute(
                sql: """
                    UPDATE \(name) SET \(column) = NULL
                    WHERE id = ? AND \(column) = (SELECT \(column) FROM \(name) WHERE id = ?)
                    """,
                arguments: [id, survivor]
            )
        }
    }

    /// Finds the duplicates of adopted objects; called after everything on the relay was fetched.
    static func markAdopted(_ db: Database, _ file: StoreFile) throws {
        guard let text = try State.text(db, .mergeKeys) else { return }
        let keys = (try? JSONDecoder().decode([String: [String]].self, from: Data(text.utf8))) ?? [:]
        let account = Account(user: try State.text(db, .account), status: .signedIn)
        for (name, properties) in keys.sorted(by: { $0.key < $1.key }) {
            guard let table = file.mapping.tables[name], !properties.isEmpty,
                properties.allSatisfy({ table.index[$0] != nil })
            else { continue }
            let permissions = Permissions(file: file, account: account)
            _ = try Duplicates(db: db, file: file, table: table).markDuplicates(
                by: properties,
                permissions: permissions
            )
        }
        try State.set(db, .mergeKeys, nil)
    }

    /// Notes that everything marked so far was sent.
    static func exported(_ db: Database) throws { try db.execute(sql: "UPDATE mirror_duplicate SET isExported = 1") }

    /// Removes duplicates marked before the last send, if they still are duplicates; called after a successful fetch.
    static func removeConfirmed(_ db: Database, _ file: StoreFile) throws {
        let sql = """
            SELECT oid, entity, keeper, keys FROM mirror_duplicate
            WHERE isExported = 1 OR NOT EXISTS (SELECT 1 FROM mirror_outbox)
            """
        for row in try Row.fetchAll(db, sql: sql) {
            let (oid, entity, survivor, text): (String, String, String, String) = (row[0], row[1], row[2], row[3])
            let keys = (try? JSONDecoder().decode([String].self, from: Data(text.utf8))) ?? []
            if let table = file.mapping.tables[entity] {
                try Duplicates(db: db, file: file, table: table).remove(oid, doubling: survivor, in: keys)
            }
            try db.execute(sql: "DELETE FROM mirror_duplicate WHERE oid = ?", arguments: [oid])
        }
    }

    /// Removes a duplicate; links added to it since it was marked are moved to the object that stays.
    private func remove(_ oid: String, doubling survivor: String, in keys: [String]) throws {
        guard keys.allSatisfy({ table.index[$0] != nil }) else { return }
        let name = table.name.quoted
        let agree = keys.map { " AND k.\($0.quoted) = d.\($0.quoted)" }.joined()
        let zone = "(SELECT zone FROM mirror_record WHERE oid = "
        let isDouble = try Bool.fetchOne(
            db,
            sql: """
                SELECT EXISTS (SELECT 1 FROM \(name) d, \(name) k
                WHERE d.id = ?1 AND k.id = ?2 AND \(zone)?1) IS \(zone)?2)\(agree)\(isLive("k")))
                """,
            arguments: [oid, survivor]
        )
        guard isDouble == true else { return }
        try moveLinks(from: oid, to: survivor)
        try keepTargets(of: oid, for: survivor)
        try table.delete(db, oid)
    }
}
