import GRDB
import Records
import Wire
import ZoneKit

/// Determines the parent record of new objects where a record is shared with its children instead of a whole zone.
///
/// A model can define it by a relationship (`Relationship.isParent`). Otherwise, an object created in another user's
/// hierarchy must still be part of it, or the relay refuses it. Its parent is then the first object of the hierarchy
/// that it is linked to, or the root. See Sharing.md, "Shares of one record".
struct Hierarchies {
    private let db: Database
    private let file: StoreFile
    /// The zones that have records shared with their children.
    private let zones: Set<Int64>
    private let names: RecordNameTranslator

    init(_ db: Database, _ file: StoreFile, _ names: RecordNameTranslator) throws {
        self.db = db
        self.file = file
        self.names = names
        let statement = try db.cachedStatement(sql: "SELECT zone, name FROM mirror_share")
        let shares = try Row.fetchAll(statement)
        let whole = Set(shares.filter { $0[1] == CKRecordNameZoneWideShare }.map { $0[0] as Int64 })
        zones = Set(shares.map { $0[0] as Int64 }).subtracting(whole)
    }

    /// Returns the name of the parent that an object's record should have, or `nil` if it needs none.
    ///
    /// `row` has links as record names.
    func parent(of oid: String, _ row: [DatabaseValue], _ table: TableLayout) throws -> String? {
        var seen: Set<String> = []
        return try parent(of: oid, row, table, &seen)
    }

    private func parent(
        of oid: String,
        _ row: [DatabaseValue],
        _ table: TableLayout,
        _ seen: inout Set<String>
    ) throws -> String? {
        if let position = table.parent { return String.fromDatabaseValue(row[position]) }
        guard !zones.isEmpty, let known = try KnownRecord.find(db, oid: oid), zones.contains(known.zone) else {
            return nil
        }
        seen.insert(known.name)
        // The record has a parent, or one was assigned to it.
        if known.parent != nil { return known.parent }
        if try ShareCache.name(db, zone: known.zone, record: known.name) != nil { return nil }
        for position in table.links {
            guard let name = String.fromDatabaseValue(row[position]), seen.insert(name).inserted,
                try isInHierarchy(name, known.zone, &seen)
            else { continue }
            return name
        }
        return file.scope == .shared ? try Self.root(db, zone: known.zone) : nil
    }

    /// Returns whether a record is in a hierarchy, or is new and will be; its own parent is determined then.
    private func isInHierarchy(_ name: String, _ zone: Int64, _ seen: inout Set<String>) throws -> Bool {
        if try ShareCache.name(db, zone: zone, record: name) != nil { return true }
        guard let known = try KnownRecord.find(db, zone: zone, name: name), !known.state.isInZone, let oid = known.oid,
            let table = known.entity.flatMap({ file.mapping.tables[$0] }), let row = try table.row(db, oid),
            let parent = try parent(of: oid, names.toRelay(row, table, oid, db), table, &seen)
        else { return false }
        try note(parent, of: oid)
        return true
    }

    /// Returns whether a record loses its parent because its link to the parent was removed.
    func losesParent(_ row: [DatabaseValue], _ table: TableLayout, _ known: KnownRecord?) -> Bool {
        guard let position = table.parent else { return false }
        return row[position].isNull && known?.parent != nil
    }

    /// Stores the parent of a record that is about to be sent, so that its own children count as part of the
    /// hierarchy.
    func note(_ parent: String, of oid: String) throws {
        try RecordTable(db).setParent(parent, of: oid)
    }

    /// Returns the root record of a share, or of the zone's only share.
    static func root(_ db: Database, zone: Int64, share: String? = nil) throws -> String? {
        let sql = "SELECT name FROM mirror_record WHERE zone = ?1 AND share = coalesce(?2, share) ORDER BY id LIMIT 2"
        let roots = try String.fetchAll(db.cachedStatement(sql: sql), arguments: [zone, share])
        return share == nil && roots.count > 1 ? nil : roots.first
    }
}

extension Outgoing: SendItem {
    /// Returns the changes with parents before their children, otherwise in the same order.
    ///
    /// See Sync.md, "Sending".
    static func inDependencyOrder(_ items: [Outgoing]) -> [Outgoing] {
        guard items.contains(where: { ($0.write.parent ?? nil) != nil }) else { return items }
        let positions = Dictionary(items.enumerated().map { ($1.write.recordName, $0) }) { first, _ in first }
        var (isPlaced, ordered): ([Bool], [Outgoing]) = (Array<Bool>(repeating: false, count: items.count), [])
        for start in items.indices where !isPlaced[start] {
            var (chain, next): ([Int], Int?) = ([], start)
            while let position = next, !isPlaced[position] {
                isPlaced[position] = true
                chain.append(position)
                next = (items[position].write.parent ?? nil).flatMap { positions[$0] }
            }
            ordered += chain.reversed().map { items[$0] }
        }
        return ordered
    }
}
