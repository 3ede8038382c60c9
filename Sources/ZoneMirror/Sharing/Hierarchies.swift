import GRDB
import Records
import Wire
import ZoneKit

/// Which record a new one hangs below, where not a whole zone is shared but a record with its children.
///
/// A model can say it by a link (`Relationship.isParent`). Where it does not, what is made in somebody else's hierarchy has
/// to stand in it all the same, or the relay refuses it: below the first object of the hierarchy that it is linked to, else
/// below the root. See Sharing.md, "Shares of one record".
struct Hierarchies {
    private let db: Database
    private let file: StoreFile
    /// The zones in which records are shared with their children.
    private let zones: Set<Int64>
    private let names: NameSpace

    init(_ db: Database, _ file: StoreFile, _ names: NameSpace) throws {
        self.db = db
        self.file = file
        self.names = names
        let statement = try db.cachedStatement(sql: "SELECT zone, name FROM mirror_share")
        let shares = try Row.fetchAll(statement)
        let whole = Set(shares.filter { $0[1] == CKRecordNameZoneWideShare }.map { $0[0] as Int64 })
        zones = Set(shares.map { $0[0] as Int64 }).subtracting(whole)
    }

    /// The name of the parent that an object's record should have; `nil` where there is nothing to say.
    ///
    /// `row` has links as record names.
    func parent(of oid: String, _ row: [DatabaseValue], _ table: TableForm) throws -> String? {
        var seen: Set<String> = []
        return try parent(of: oid, row, table, &seen)
    }

    private func parent(
        of oid: String,
        _ row: [DatabaseValue],
        _ table: TableForm,
        _ seen: inout Set<String>
    ) throws -> String? {
        if let position = table.parent { return String.fromDatabaseValue(row[position]) }
        guard !zones.isEmpty, let known = try KnownRecord.find(db, oid: oid), zones.contains(known.zone) else {
            return nil
        }
        seen.insert(known.name)
        // It stands in one, or was told where to.
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

    /// Whether a record stands in a hierarchy, or is new and will: then its own parent is settled now.
    private func isInHierarchy(_ name: String, _ zone: Int64, _ seen: inout Set<String>) throws -> Bool {
        if try ShareCache.name(db, zone: zone, record: name) != nil { return true }
        guard let known = try KnownRecord.find(db, zone: zone, name: name), known.tag == nil, let oid = known.oid,
            let table = known.entity.flatMap({ file.mapping.tables[$0] }), let row = try table.row(db, oid),
            let parent = try parent(of: oid, names.toRelay(row, table, oid, db), table, &seen)
        else { return false }
        try note(parent, of: oid)
        return true
    }

    /// Whether a record that the relay has below another is to stand alone: its link to the parent was cut.
    func losesParent(_ row: [DatabaseValue], _ table: TableForm, _ known: KnownRecord?) -> Bool {
        guard let position = table.parent else { return false }
        return row[position].isNull && known?.parent != nil
    }

    /// Remembers the parent of a record that is about to be sent: its own children are in the hierarchy from now on.
    func note(_ parent: String, of oid: String) throws {
        try db.cachedStatement(sql: "UPDATE mirror_record SET parent = ? WHERE oid = ? AND tag IS NULL")
            .execute(arguments: [parent, oid])
    }

    /// The root of a share, or of the only one of a zone.
    static func root(_ db: Database, zone: Int64, share: String? = nil) throws -> String? {
        let sql = "SELECT name FROM mirror_record WHERE zone = ?1 AND share = coalesce(?2, share) ORDER BY id LIMIT 2"
        let roots = try String.fetchAll(db.cachedStatement(sql: sql), arguments: [zone, share])
        return share == nil && roots.count > 1 ? nil : roots.first
    }
}

extension Array<Outgoing> {
    /// Parents before their children, where both are here; all else in its order.
    ///
    /// See Sync.md, "Sending".
    func parentsFirst() -> [Outgoing] {
        guard contains(where: { ($0.write.parent ?? nil) != nil }) else { return self }
        let positions = Dictionary(enumerated().map { ($0.element.write.recordName, $0.offset) }) { first, _ in first }
        var (isPlaced, ordered): ([Bool], [Outgoing]) = (Array<Bool>(repeating: false, count: count), [])
        for start in indices where !isPlaced[start] {
            var (chain, next): ([Int], Int?) = ([], start)
            while let position = next, !isPlaced[position] {
                isPlaced[position] = true
                chain.append(position)
                next = (self[position].write.parent ?? nil).flatMap { positions[$0] }
            }
            ordered += chain.reversed().map { self[$0] }
        }
        return ordered
    }
}
