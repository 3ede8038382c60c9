import GRDB
import Records
import SyncCore
import ZoneKit

/// Finds objects in the home zone that are linked to shared objects, and moves them to the share.
///
/// A save puts objects linked to shared objects into their share. But if one device of the owner created such an
/// object before it learned that another device had shared its target, neither device could do that. So when a round
/// has reported moved objects, the objects left behind are searched and moved with the next send. See SharingRules.md,
/// "What is shared".
struct Stragglers {
    let db: Database
    let file: StoreFile

    /// The stage of the search, stored with the import so that a crash does not lose it.
    private enum Stage: String {
        /// Some changes that the search needs may not have been fetched yet.
        case possible
        case found
    }

    /// Notes that an object has appeared in another zone.
    static func mayBe(_ db: Database) throws { try State.set(db, .stragglers, Stage.possible.rawValue) }

    /// Checks, after all changes were fetched, whether objects must move, so that a send is scheduled.
    func look() throws {
        guard try State.text(db, .stragglers) == Stage.possible.rawValue else { return }
        let found = try followers()
        try State.set(db, .stragglers, found.isEmpty ? nil : Stage.found.rawValue)
        for object in found.flatMap(\.objects) {
            try OutboxRow.add(db, object.name.text, entity: object.entity, .save)
        }
    }

    /// Moves the objects found to the zones of the objects they are linked to.
    func join() throws {
        guard try State.text(db, .stragglers) == Stage.found.rawValue else { return }
        for (objects, zone) in try followers() { try ShareMoves.rebind(db, objects, to: zone, file: file) }
        try State.set(db, .stragglers, nil)
    }

    /// Returns the objects linked to objects of one share; those linked to several stay where they are.
    private func followers() throws -> [(objects: [ObjectID], zone: Int64)] {
        guard let home = try file.homeZone.flatMap({ try KnownZone.find(db, $0)?.id }) else { return [] }
        let closure = ShareClosure(db: db, file: file)
        var seen: Set<ObjectID> = []
        var found: [(objects: [ObjectID], zone: Int64)] = []
        for object in try leftBehind(in: home) where !seen.contains(object) {
            let (newcomers, zones) = try closure.newcomers(from: object, home: home)
            seen.formUnion(newcomers)
            guard zones.count == 1, let zone = zones.first, try isShared(zone) else { continue }
            let rest = try newcomers.filter { try OutboxRow.find(db, $0.name.text)?.operation != .delete }
            found.append((rest, zone))
        }
        return found
    }

    /// Returns the objects in the home zone that are linked to an object in another zone.
    private func leftBehind(in home: Int64) throws -> [ObjectID] {
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

extension MirrorSync {
    func lookForStragglers() async throws {
        let file = file
        guard try await file.pool.read({ try State.text($0, .stragglers) }) != nil else { return }
        try await file.pool.write { try Stragglers(db: $0, file: file).look() }
    }

    func joinStragglers() async throws {
        let file = file
        guard try await file.pool.read({ try State.text($0, .stragglers) }) != nil else { return }
        try await file.pool.write { try Stragglers(db: $0, file: file).join() }
    }
}
