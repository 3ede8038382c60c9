import GRDB

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
