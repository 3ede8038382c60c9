import GRDB
import Records
import SyncCore
import ZoneKit

extension Importer {
    /// Merges a pending change with the relay's version, with links as record names; removes the change if nothing is
    /// left to send.
    func merge(
        _ table: TableLayout,
        _ oid: String,
        _ theirs: [DatabaseValue],
        _ current: [DatabaseValue],
        _ known: KnownRecord?,
        _ zone: KnownZone
    ) throws -> [DatabaseValue] {
        var (mine, theirs) = (mapping.roundTripped(try names.toRelay(current, table, oid, db), in: table), theirs)
        let base = mapping.row(of: known?.serverFields() ?? [:], in: table)
        let resolved = try file.description.cloud?.mergeResolvers[table.name].flatMap { resolver in
            try resolve(resolver, table, oid, known, base: base, mine: mine, theirs: theirs)
        }
        let arrived = theirs
        if resolved == nil { try mergeProperties(table, oid, known, base, &mine, &theirs) }
        guard let outcome = resolved ?? PropertyMerge.edits(base: base, memory: mine, store: theirs, policy: policy),
            let values = outcome.values
        else {
            let what = "Changed here and on the relay, and the store's policy does not merge."
            try storeForDecision(table, oid, .save, mapping.fields(of: mine, in: table), what)
            return arrived
        }
        for dropped in outcome.dropped {
            try decide(table, oid, dropped, resolved == nil ? .policy(policy) : .resolver)
        }
        if values == arrived, !keepsOutboxRow { try records.discardChange(of: oid) }
        return values
    }

    /// Resolves properties that have their own merge rule; the merge policy then sees no conflict in them.
    private func mergeProperties(
        _ table: TableLayout,
        _ oid: String,
        _ known: KnownRecord?,
        _ base: [DatabaseValue],
        _ mine: inout [DatabaseValue],
        _ theirs: inout [DatabaseValue]
    ) throws {
        let resolvers = file.description.cloud?.propertyResolvers ?? [:]
        guard !resolvers.isEmpty || !table.lastEditWinsColumns.isEmpty else { return }
        let times =
            table.lastEditWinsColumns.isEmpty ? nil : (mine: try ownTimes(oid), theirs: theirTimes(since: known))
        let isOfBoth = Self.hasCommonBase(known)
        // If the record was created again, the rest of its old version shows which values both sides started from.
        let left = isOfBoth ? [:] : known?.serverFields() ?? [:]
        for position in table.columns.indices
        where mine[position] != base[position] && theirs[position] != base[position]
            && (isOfBoth || left[mapping.field(table.columns[position])] != nil || mine[position] != theirs[position])
        {
            let column = table.columns[position]
            let (ours, other) = (mine[position], theirs[position])
            let winner: DatabaseValue
            let rule: MergeDecision.Rule
            let states = [base[position], ours, other]
            let inSQL = column.isDate ? states.map(ExactDate.inSQL) : states
            let own = resolvers["\(table.name).\(column.name)"]?(inSQL[0], inSQL[1], inSQL[2])
            if let own = Self.fitting(own, column, among: states) {
                (winner, rule) = (own, .resolver)
            } else if column.lastEditWins, ours != other, let times {
                let isOurs = (times.mine[column.name] ?? .max) > times.theirs(column.name)
                (winner, rule) = (isOurs ? ours : other, .lastEditWins)
            } else {
                continue
            }
            for lost in Set([ours, other]) where lost != winner {
                try decide(table, oid, .init(position: position, kept: winner, dropped: lost), rule)
            }
            (mine[position], theirs[position]) = (winner, winner)
        }
    }

    /// Returns whether both sides changed the same version.
    ///
    /// Then two equal changes count as two, for example an increment on each of two devices. If both sides created the
    /// object, they count as one.
    private static func hasCommonBase(_ known: KnownRecord?) -> Bool { known?.state.isInZone == true }

    /// Returns the times at which the properties of the imported record were edited.
    ///
    /// A time that has not changed since the known version is ignored for a newer value: the program that wrote that
    /// value stores no times.
    private func theirTimes(since known: KnownRecord?) -> (String) -> Int64 {
        let times = EditTimes(arriving?.fields[mapping.editTimesField])
        let before = EditTimes(known?.serverFields()[mapping.editTimesField])
        let saved = arriving?.modified?.at.milliseconds ?? 0
        return { name in
            guard let time = times[name], time != before[name] else { return saved }
            return time
        }
    }

    private func ownTimes(_ oid: String) throws -> EditTimes {
        try EditTimes.date(db, now)
        return try EditTimes(db, of: oid)
    }

    /// Calls the application's merge resolver; local changes that it drops are recorded as with any policy.
    private func resolve(
        _ resolver: MergeResolver,
        _ table: TableLayout,
        _ oid: String,
        _ known: KnownRecord?,
        base: [DatabaseValue],
        mine: [DatabaseValue],
        theirs: [DatabaseValue]
    ) throws -> PropertyMerge.Outcome<DatabaseValue>? {
        guard mine != base, theirs != base, Self.hasCommonBase(known) || mine != theirs else { return nil }
        func named(_ row: [DatabaseValue]) -> [String: DatabaseValue] {
            Dictionary(zip(table.columns.map(\.name), table.inSQL(row))) { $1 }
        }
        let states = MergeStates(
            entity: table.name,
            name: RecordName(oid),
            base: named(base),
            mine: named(mine),
            theirs: named(theirs)
        )
        guard let merged = resolver(states) else { return nil }
        let values = table.columns.indices.map { position in
            let column = table.columns[position]
            let states = [base[position], mine[position], theirs[position]]
            return Self.fitting(merged[column.name], column, among: states) ?? theirs[position]
        }
        let dropped = values.indices.filter { mine[$0] != base[$0] && values[$0] != mine[$0] }
            .map { PropertyMerge.Outcome.Dropped(position: $0, kept: values[$0], dropped: mine[$0]) }
        return PropertyMerge.Outcome(values: values, dropped: dropped)
    }

    /// Returns the value of the application's rule if the column's type can hold it; otherwise the object could not be
    /// read again.
    ///
    /// A rule receives dates as SQL stores them; the date it returns is stored exactly.
    private static func fitting(
        _ value: DatabaseValue?,
        _ column: ColumnLayout,
        among states: [DatabaseValue]
    ) -> DatabaseValue? {
        guard let value, value.isNull || RecordMapping.fieldValue(value, column) != nil else { return nil }
        return column.isDate ? states.first { ExactDate.inSQL($0) == value } ?? value : value
    }

    /// Returns whether an object that was deleted here is restored because it was changed on the relay.
    ///
    /// A many-to-many link that has lost an end stays deleted under every policy.
    func restoresDeletedObject(
        _ table: TableLayout,
        _ oid: String,
        _ theirs: [DatabaseValue],
        _ known: KnownRecord?,
        _ zone: KnownZone
    ) throws -> Bool {
        if table.entity == nil {
            let row = try names.toLocal(theirs, table, of: (known?.name ?? oid, oid), zone: zone.id, db)
            if !row.unresolved.isEmpty { return false }
        }
        if let stays = PropertyMerge.keepsObjectDeletedInMemory(policy) { return stays }
        guard theirs != mapping.row(of: known?.serverFields() ?? [:], in: table) else { return false }
        let what = "Deleted here and changed on the relay, and the store's policy does not resolve this conflict."
        try storeForDecision(table, oid, .delete, [:], what)
        return true
    }

    /// Handles an object that was changed here but deleted on the relay: its change waits for a decision or is
    /// recorded as dropped.
    func editLostToDeletion(_ table: TableLayout, _ oid: String, _ known: KnownRecord, _ acceptsDeletion: Bool) throws {
        guard !table.columns.isEmpty, let current = try table.row(db, oid) else { return }
        let mine = mapping.roundTripped(try names.toRelay(current, table, oid, db), in: table)
        let base = mapping.row(of: known.serverFields(), in: table)
        guard mine != base else { return }
        if policy == .error, !acceptsDeletion {
            let what = "Changed here and deleted on the relay, and the store's policy does not resolve this conflict."
            return try storeForDecision(table, oid, .save, mapping.fields(of: mine, in: table), what)
        }
        let isByPolicy = PropertyMerge.keepsObjectDeletedInStore(policy) == false
        for position in mine.indices where mine[position] != base[position] {
            let rule = isByPolicy ? MergeDecision.Rule.policy(policy) : .deletion
            try decide(table, oid, .init(position: position, kept: .null, dropped: mine[position]), rule)
        }
    }

    /// Stores a change for a later decision.
    func storeForDecision(
        _ table: TableLayout,
        _ oid: String,
        _ operation: Outbox.Operation,
        _ mine: [String: FieldValue],
        _ what: String
    ) throws {
        conflicts.append(oid)
        let cause = Refusals.Cause(code: CKError.Code.serverRecordChanged.rawValue, message: what)
        let pairs = operation == .save ? try RefusedPair.encoded(of: oid, table.name, mapping, db) : nil
        try Refusals.add(
            db,
            oid: oid,
            entity: table.name,
            operation: operation,
            mine: mine,
            pairs: pairs,
            error: cause,
            at: now
        )
    }

    private func decide(
        _ table: TableLayout,
        _ oid: String,
        _ dropped: PropertyMerge.Outcome<DatabaseValue>.Dropped,
        _ rule: MergeDecision.Rule
    ) throws {
        let isDate = table.columns[dropped.position].isDate
        let words = [dropped.kept, dropped.dropped].map { (isDate ? ExactDate.inSQL($0) : $0).description }
        let property = table.columns[dropped.position].name
        try MergeDecision.write(db, oid, table.name, property, kept: words[0], dropped: words[1], rule, at: now)
    }
}
