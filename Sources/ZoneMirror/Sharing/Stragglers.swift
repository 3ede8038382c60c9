import GRDB
import Records
import SyncCore
import ZoneKit

/// What hangs on shared objects and has stayed behind in the home zone.
///
/// A save puts what is linked to shared objects into their share. Of what was made on one of the owner's devices before it
/// heard that another one had shared them, neither device could know that. So when a round has told of objects that have
/// moved, what is left behind is looked for, and follows them with the next sending. See SharingRules.md,
/// "What is shared".
struct Stragglers {
    let db: Database
    let file: StoreFile

    /// Where the store is with it; kept with what was imported, so that no crash makes it be forgotten.
    private enum Stage: String {
        /// Not all that moves need have been read yet.
        case possible
        case found
    }

    /// Something has turned up in another zone.
    static func mayBe(_ db: Database) throws { try State.set(db, .stragglers, Stage.possible.rawValue) }

    /// All has been read that there was: notes whether anything has to follow, as changes to be sent.
    func look() throws {
        guard try State.text(db, .stragglers) == Stage.possible.rawValue else { return }
        let found = try followers()
        try State.set(db, .stragglers, found.isEmpty ? nil : Stage.found.rawValue)
        for object in found.flatMap(\.objects) {
            try OutboxRow.add(db, object.name.text, entity: object.entity, .save)
        }
    }

    /// Puts what was found into the zones that it hangs on.
    func join() throws {
        guard try State.text(db, .stragglers) == Stage.found.rawValue else { return }
        for (objects, zone) in try followers() { try ShareMoves.rebind(db, objects, to: zone, file: file) }
        try State.set(db, .stragglers, nil)
    }

    /// What hangs on objects of one share; what hangs on several stays where it is.
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

    /// The objects in the home zone at one end of a link whose other end is elsewhere.
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
