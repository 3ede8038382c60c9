import GRDB
import Records
import ZoneKit

/// Determines the share zones of new and newly linked objects.
///
/// See SharingRules.md, "What is shared".
extension SaveWriter {
    /// Assigns zones to new objects of a shared store that have no link of their own: they go to the zone of the
    /// objects that link to them.
    mutating func settleHomeless() throws {
        for item in homeless {
            let closure = ShareClosure(db: db, file: file)
            let zones = try closure.newcomers(from: object(item), home: home ?? 0).zones
            guard zones.count < 2 else { throw Self.crossing(object(item)) }
            guard let table = file.mapping.tables[item.key.entity] else { continue }
            guard let zone = zones.first else {
                // Its link's target is gone, so the object would never belong to a share.
                if let lost = try lostTarget(of: item, table) { throw MirrorError.unavailable(lost) }
                continue
            }
            try reserve(item, table, in: zone)
        }
    }

    private func lostTarget(of item: SavePlan.Item, _ table: TableForm) throws -> MirrorContext.Key? {
        for position in table.links {
            guard let id = String.fromDatabaseValue(item.pending.row[position]),
                let destination = table.columns[position].link?.destination,
                try file.mapping.tables[destination]?.row(db, id) == nil
            else { continue }
            return MirrorContext.Key(entity: destination, id: id)
        }
        return nil
    }

    /// Returns the zone of the share that a new object was assigned to; `nil` if that share of this user has ended
    /// since.
    func assignedZone(_ home: MirrorContext.ShareHome, _ item: SavePlan.Item) throws -> Int64? {
        if let zone = try KnownZone.find(db, home.zone) { return zone.id }
        guard file.scope == .shared else { return nil }
        throw MirrorError(
            .objectUnavailable,
            "\(object(item)) was assigned to a share that has ended or that this user has left."
        )
    }

    mutating func reserve(_ item: SavePlan.Item, _ table: TableForm, in zone: Int64) throws {
        relinked.append(object(item))
        if file.scope == .shared, file.description.unpermittedWrites == .reject,
            try !ShareCache.canWrite(db, zone: zone, record: nil)
        {
            let object = object(item)
            throw MirrorError(
                .permissionFailure([object]),
                "\(object) belongs to a share that this user may only read. Ask its owner for write permission."
            )
        }
        try KnownRecord.reserve(
            db,
            zone: zone,
            name: item.key.id,
            oid: item.key.id,
            entity: table.name,
            type: file.mapping.recordType(of: table)
        )
    }

    /// Returns the share zone of an object that this one is linked to; `nil` for the home zone.
    func zoneByLinks(_ item: SavePlan.Item, _ table: TableForm) throws -> Int64? {
        guard let home, !table.links.isEmpty else { return nil }
        var found: Int64?
        for position in table.links {
            guard let id = String.fromDatabaseValue(item.pending.row[position]),
                let zone = try KnownRecord.zone(db, oid: id), zone != home
            else { continue }
            if let found, found != zone { throw Self.crossing(object(item)) }
            found = zone
        }
        return found
    }

    /// Returns whether an object was removed because access to it ended; then there is nothing to merge.
    func wentWithShare(_ id: String) throws -> Bool {
        guard file.scope == .shared else { return false }
        let sql = """
            SELECT EXISTS (SELECT 1 FROM mirror_change o JOIN mirror_change s ON s.txn = o.txn
                WHERE o.oid = ? AND o.kind = 3 AND s.entity = ? AND s.kind = 3)
            """
        return try Bool.fetchOne(db, sql: sql, arguments: [id, Share.recordType]) ?? false
    }

    /// Moves objects that are linked with a shared object into its zone, with all objects connected to them.
    func joinShares() throws {
        guard let home, file.scope == .private else { return }
        for object in relinked {
            let closure = ShareClosure(db: db, file: file)
            // Connected objects are in one zone, so it is enough to look at the ends of the new links.
            let ends = try [object] + closure.targets(of: object)
            var shared = Set(try ends.map { try KnownRecord.zone(db, oid: $0.name.text) ?? home })
            shared.remove(home)
            guard let zone = shared.first else { continue }
            let (newcomers, met) = try closure.newcomers(from: object, home: home)
            guard shared.union(met).count == 1 else { throw Self.crossing(object) }
            if !newcomers.isEmpty { try ShareMoves.rebind(db, newcomers, to: zone, file: file) }
        }
    }

    static func crossing(_ object: ObjectID) -> MirrorError {
        MirrorError(
            .crossShareRelationship,
            "\(object) cannot be related to objects of two different shares. Remove it from one of them first."
        )
    }
}
