import GRDB
import Records
import SyncCore
import ZoneKit

/// All objects connected to some objects by links in either direction.
///
/// See SharingRules.md, "What is shared".
struct ShareClosure {
    let db: Database
    let file: StoreFile

    /// Returns the objects and all connected ones, including many-to-many links.
    func objects(from start: [ObjectID]) throws -> [ObjectID] {
        var found = Set(start)
        var order = start
        var next = 0
        while next < order.count {
            let object = order[next]
            next += 1
            for other in try neighbours(of: object) where found.insert(other).inserted { order.append(other) }
        }
        return order
    }

    /// Returns the unshared objects connected to an object, including itself if unshared, and the zones of connected
    /// shares.
    func newcomers(from start: ObjectID, home: Int64) throws -> (objects: [ObjectID], zones: Set<Int64>) {
        var (seen, waiting): (Set<ObjectID>, [ObjectID]) = ([start], [start])
        var (newcomers, zones): ([ObjectID], Set<Int64>) = ([], [])
        while let object = waiting.popLast() {
            let zone = try KnownRecord.zone(db, oid: object.name.text) ?? home
            if zone == home { newcomers.append(object) } else { zones.insert(zone) }
            guard zone == home || object == start else { continue }
            for other in try neighbours(of: object) where seen.insert(other).inserted { waiting.append(other) }
        }
        return (newcomers, zones)
    }

    /// Returns the targets of the links that an object itself stores.
    func targets(of object: ObjectID) throws -> [ObjectID] {
        guard let table = file.mapping.tables[object.entity], let row = try table.row(db, object.name.text) else {
            return []
        }
        var found: [ObjectID] = []
        for position in table.links {
            guard let id = String.fromDatabaseValue(row[position]), let link = table.columns[position].link,
                !link.stopsSharing
            else { continue }
            found.append(ObjectID(store: file.id, entity: link.destination, name: RecordName(id)))
        }
        return found
    }

    private func neighbours(of object: ObjectID) throws -> [ObjectID] {
        var found = try targets(of: object)
        for other in file.mapping.tables.values {
            for position in other.links where other.columns[position].link?.destination == object.entity {
                let back = other.columns[position].link
                if back?.stopsSharing == true || stops(back, at: object.entity) { continue }
                let sql = "SELECT id FROM \(other.name.quoted) WHERE \(other.columns[position].name.quoted) = ?"
                for id in try String.fetchAll(db, sql: sql, arguments: [object.name.text]) {
                    found.append(ObjectID(store: file.id, entity: other.name, name: RecordName(id)))
                }
            }
        }
        return found
    }

    /// Returns whether the inverse relationship stops the sharing.
    private func stops(_ link: Relationship?, at entity: String) -> Bool {
        guard let name = link?.inverse else { return false }
        return file.model.entities[entity]?.relationships.first { $0.name == name }?.stopsSharing == true
    }
}

/// Finds objects in the home zone that are linked to shared objects, and moves them to the share.
///
/// A save puts objects linked to shared objects into their share. But if one device of the owner created such an
/// object before it learned that another device had shared its target, neither device could do that. So when a round
/// has reported moved objects, the objects left behind are searched and moved with the next send. See SharingRules.md,
/// "What is shared".
struct UnsharedLinkedObjects {
    let db: Database
    let file: StoreFile

    /// The stage of the search, stored with the import so that a crash does not lose it.
    private enum Stage: String {
        /// Some changes that the search needs may not have been fetched yet.
        case possible
        case found
    }

    /// Notes that an object has appeared in another zone.
    static func markPossible(_ db: Database) throws {
        try State.set(db, .unsharedLinkedObjects, Stage.possible.rawValue)
    }

    /// Checks, after all changes were fetched, whether objects must move, so that a send is scheduled.
    func search() throws {
        guard try State.text(db, .unsharedLinkedObjects) == Stage.possible.rawValue else { return }
        let found = try linkedGroups()
        try State.set(db, .unsharedLinkedObjects, found.isEmpty ? nil : Stage.found.rawValue)
        for object in found.flatMap(\.objects) {
            try RecordTable(db).queue(object.name.text, entity: object.entity, .save)
        }
    }

    /// Moves the objects found to the zones of the objects they are linked to.
    func moveToShares() throws {
        guard try State.text(db, .unsharedLinkedObjects) == Stage.found.rawValue else { return }
        for (objects, zone) in try linkedGroups() { try ShareMoves.reassign(db, objects, to: zone, file: file) }
        try State.set(db, .unsharedLinkedObjects, nil)
    }

    /// Returns the objects linked to objects of one share; those linked to several stay where they are.
    private func linkedGroups() throws -> [(objects: [ObjectID], zone: Int64)] {
        guard let home = try file.homeZone.flatMap({ try KnownZone.find(db, $0)?.id }) else { return [] }
        let closure = ShareClosure(db: db, file: file)
        var seen: Set<ObjectID> = []
        var found: [(objects: [ObjectID], zone: Int64)] = []
        for object in try objectsLinkedAcrossZones(in: home) where !seen.contains(object) {
            let (newcomers, zones) = try closure.newcomers(from: object, home: home)
            seen.formUnion(newcomers)
            guard zones.count == 1, let zone = zones.first, try isShared(zone) else { continue }
            let rest = try newcomers.filter { try OutboxRow.find(db, $0.name.text)?.operation != .delete }
            found.append((rest, zone))
        }
        return found
    }

    /// Returns the objects in the home zone that are linked to an object in another zone.
    private func objectsLinkedAcrossZones(in home: Int64) throws -> [ObjectID] {
        var found: [ObjectID] = []
        for table in file.mapping.tables.values.sorted(by: { $0.name < $1.name }) {
            for position in table.links {
                guard let link = table.columns[position].link, !link.stopsSharing else { continue }
                let sql = """
                    SELECT a.oid, a.entity, b.oid, b.entity, a.zone = :home FROM \(table.name.quoted) o
                    JOIN mirror_record a ON a.oid = o.id
                    JOIN mirror_record b ON b.oid = o.\(table.columns[position].name.quoted)
                    WHERE (a.zone = :home) <> (b.zone = :home) ORDER BY a.id
                    """
                for row in try Row.fetchAll(db, sql: sql, arguments: ["home": home]) {
                    let at = row[4] ? 0 : 2
                    found.append(ObjectID(store: file.id, entity: row[at + 1], name: RecordName(row[at])))
                }
            }
        }
        return found
    }

    private func isShared(_ zone: Int64) throws -> Bool {
        guard try KnownZone.find(db, id: zone)?.isEnding == false else { return false }
        let sql = "SELECT 1 FROM mirror_share WHERE zone = ? AND name = ?"
        return try Bool.fetchOne(db, sql: sql, arguments: [zone, CKRecordNameZoneWideShare]) ?? false
    }
}

extension UnsharedLinkedObjects {
    static func find(in file: StoreFile) async throws {
        guard try await file.pool.read({ try State.text($0, .unsharedLinkedObjects) }) != nil else { return }
        try await file.pool.write { try UnsharedLinkedObjects(db: $0, file: file).search() }
    }

    static func moveToShares(in file: StoreFile) async throws {
        guard try await file.pool.read({ try State.text($0, .unsharedLinkedObjects) }) != nil else { return }
        try await file.pool.write { try UnsharedLinkedObjects(db: $0, file: file).moveToShares() }
    }
}
