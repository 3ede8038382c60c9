import GRDB
import Records
import SyncCore
import ZoneKit

extension Importer {
    /// Merges a pending change with the relay's version, in record names; drops the entry when nothing is left to send.
    func merge(
        _ table: TableForm,
        _ oid: String,
        _ theirs: [DatabaseValue],
        _ current: [DatabaseValue],
        _ known: KnownRecord?,
        _ zone: KnownZone
    ) throws -> [DatabaseValue] {
        let mine = mapping.settled(try names.toRelay(current, table, oid, db), in: table)
        let base = mapping.row(of: known?.serverFields() ?? [:], in: table)
        let resolved = try file.description.cloud?.mergeResolvers[table.name].flatMap { resolver in
            try resolve(resolver, table, oid, base: base, mine: mine, theirs: theirs)
        }
        guard let outcome = resolved ?? PropertyMerge.edits(base: base, memory: mine, store: theirs, policy: policy),
            let values = outcome.values
        else {
            conflicts.append(oid)
            try Refusals.add(
                db,
                oid: oid,
                entity: table.name,
                operation: .save,
                mine: mapping.fields(of: mine, in: table),
                error: .init(code: 14, message: "Changed here and on the relay; the store's policy merges nothing."),
                at: now
            )
            return theirs
        }
        for dropped in outcome.dropped { try decide(table, oid, dropped) }
        if values == theirs { try OutboxRow.drop(db, oid) }
        return values
    }

    /// Lets the program merge; what it drops of this side's changes is written down as with every policy.
    private func resolve(
        _ resolver: MergeResolver,
        _ table: TableForm,
        _ oid: String,
        base: [DatabaseValue],
        mine: [DatabaseValue],
        theirs: [DatabaseValue]
    ) throws -> PropertyMerge.Outcome<DatabaseValue>? {
        guard mine != base, theirs != base, mine != theirs else { return nil }
        func named(_ row: [DatabaseValue]) -> [String: DatabaseValue] {
            Dictionary(zip(table.columns.map(\.name), row)) { $1 }
        }
        let states = MergeStates(
            entity: table.name,
            name: RecordName(oid),
            base: named(base),
            mine: named(mine),
            theirs: named(theirs)
        )
        guard let merged = resolver(states) else { return nil }
        let values = table.columns.indices.map { merged[table.columns[$0].name] ?? theirs[$0] }
        let dropped = values.indices.filter { mine[$0] != base[$0] && values[$0] != mine[$0] }
            .map { PropertyMerge.Outcome.Dropped(position: $0, kept: values[$0], dropped: mine[$0]) }
        return PropertyMerge.Outcome(values: values, dropped: dropped)
    }

    private func decide(
        _ table: TableForm,
        _ oid: String,
        _ dropped: PropertyMerge.Outcome<DatabaseValue>.Dropped
    ) throws {
        try db.execute(
            sql: """
                INSERT INTO mirror_decision(at, oid, entity, property, kept, dropped, policy)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                now.timeIntervalSince1970, oid, table.name, table.columns[dropped.position].name,
                dropped.kept.description, dropped.dropped.description, policy.rawValue,
            ]
        )
    }
}
