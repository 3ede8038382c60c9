import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

/// Finds the share for changes that were not saved by a context.
///
/// A context's save moves objects linked to shared objects into their share. For changes by SQL, GRDB, or a program
/// that does not mirror the file, this happens when they are about to be sent. See SharingRules.md, "What is shared".
extension Exporter {
    enum Place {
        /// The object stays in its zone, or goes to the zone for new objects.
        case settled
        /// The object and those linked to it go to a share; the relay must move existing records before anything else
        /// is sent.
        case moves
        /// The object is linked to several shares, of which this is one.
        case crosses(Int64)
    }

    /// Puts an object into the share that its links lead to, if it is not in one yet.
    func place(_ row: OutboxRow) throws -> Place {
        guard row.operation == .save, let table = file.mapping.tables[row.entity] else { return .settled }
        let object = ObjectID(store: file.id, entity: row.entity, name: RecordName(row.oid))
        let known = try KnownRecord.find(db, oid: row.oid)
        if file.scope == .shared, known == nil { return try placeGuest(object, table) }
        guard file.scope == .shared || file.scope == .private, names.hasManyZones, !table.links.isEmpty else {
            return .settled
        }
        let ends = try newEnds(row, table, known)
        guard !ends.isEmpty else { return .settled }
        let home = try file.homeZone.flatMap { try KnownZone.find(db, $0)?.id }
        if let known, known.tag != nil, known.zone != home {
            let others = try ends.compactMap { try KnownRecord.zone(db, oid: $0) }
            if others.contains(where: { $0 != known.zone && $0 != home }) { return .crosses(known.zone) }
        }
        return try home.map { try placeOwn(object, known, home: $0) } ?? .settled
    }

    /// In a shared store, every zone belongs to a share.
    private func placeGuest(_ object: ObjectID, _ table: TableForm) throws -> Place {
        let zones = try ShareClosure(db: db, file: file).newcomers(from: object, home: 0).zones
        guard let zone = zones.first else { return .settled }
        guard zones.count == 1 else { return .crosses(zone) }
        let (oid, type) = (object.name.text, file.mapping.recordType(of: table))
        try KnownRecord.reserve(db, zone: zone, name: oid, oid: oid, entity: table.name, type: type)
        return .settled
    }

    /// The objects that an object is linked to now, but not in the record that the relay had last.
    private func newEnds(_ row: OutboxRow, _ table: TableForm, _ known: KnownRecord?) throws -> [String] {
        guard let values = try table.row(db, row.oid) else { return [] }
        let base = file.mapping.row(of: known?.tag == nil ? [:] : known?.serverFields() ?? [:], in: table)
        let mine = try names.toRelay(values, table, row.oid, db)
        return table.links.filter { mine[$0] != base[$0] && table.columns[$0].link?.stopsSharing != true }
            .compactMap { String.fromDatabaseValue(values[$0]) }
    }

    /// Linked objects are in one zone, so it is enough to look at the targets of the new links.
    private func placeOwn(_ object: ObjectID, _ known: KnownRecord?, home: Int64) throws -> Place {
        let closure = ShareClosure(db: db, file: file)
        let ends = try [object] + closure.targets(of: object)
        let zones = Set(try ends.map { try KnownRecord.zone(db, oid: $0.name.text) ?? home })
        guard zones.contains(home), let zone = zones.first(where: { $0 != home }) else { return .settled }
        let (newcomers, met) = try closure.newcomers(from: object, home: home)
        guard zones.union(met).subtracting([home]).count == 1 else {
            // An object that is in a share already stays there, with a link that leads out of it.
            return (known?.zone ?? home) == home ? .crosses(zone) : .settled
        }
        guard !newcomers.isEmpty, try KnownZone.find(db, id: zone)?.isEnding == false else { return .settled }
        try ShareMoves.rebind(db, newcomers, to: zone, file: file)
        return .moves
    }

    /// A change that fails without being sent to the relay.
    func refused(_ row: OutboxRow, _ zone: Int64) throws -> Outgoing? {
        guard let zone = try KnownZone.find(db, id: zone)?.zone else { return nil }
        let type = file.mapping.tables[row.entity].map { file.mapping.recordType(of: $0) }
        var item = Outgoing(row, in: zone, .init(.create, row.oid, recordType: type), size: 0)
        item.trouble = CKError(
            .alreadyShared,
            "It cannot be related to objects of two different shares. Remove it from one of them first."
        )
        return item
    }
}
