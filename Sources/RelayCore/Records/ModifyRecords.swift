package import Records
package import Wire

/// One write of a client: some operations on records of one zone, together or each for itself.
///
/// See Wire.md, "Saving records". A class, as its operations are: from the request to the disk and back it goes through
/// many hands.
package final class ModifyRecords: Sendable {
    /// A class, since it goes through many hands and never changes.
    package final class Operation: Sendable {
        package let kind: OperationType
        package let record: RecordInput
        /// The record's name, or the one made for it.
        package let name: String
        /// Its fields against the schema of `schemaVersion`; `nil` where that could not be done yet.
        // Set by `prepare`, on the thread that makes the request, before it is any other's.
        nonisolated(unsafe) private(set) var prepared: PreparedFields?

        package convenience init(_ kind: OperationType, _ record: consuming RecordInput, name: String) {
            self.init(kind, record, name: name, prepared: nil)
        }

        fileprivate init(
            _ kind: OperationType,
            _ record: consuming RecordInput,
            name: String,
            prepared: PreparedFields?
        ) {
            self.kind = kind
            self.record = record
            self.name = name
            self.prepared = prepared
        }

        fileprivate func prepare(
            as type: KnownType,
            in zone: ZoneID,
            of database: DatabaseAddress,
            rules: SchemaRules
        ) {
            guard let fields = try? FieldPreparation(record, ofType: type, in: zone, of: database, rules: rules) else {
                return
            }
            prepared = PreparedFields(fields)
        }
    }

    /// What became of one operation.
    package enum Outcome: Hashable, Sendable {
        case saved(StoredRecord)
        case deleted(name: String, type: String?)
        /// With the record now on the server, when it was that which stood in the way.
        // Elsewhere, since all outcomes would be as large as this one otherwise.
        indirect case failed(name: String, RelayError, server: StoredRecord?)

        package var error: RelayError? {
            if case .failed(_, let error, _) = self { error } else { nil }
        }

        /// The record that the client is told of.
        fileprivate var record: StoredRecord? {
            switch self {
            case .saved(let record): record
            case .failed(_, _, let server): server
            case .deleted: nil
            }
        }

        var hasFailed: Bool {
            if case .failed = self { true } else { false }
        }
    }

    package struct Result: Sendable {
        package var zone: Zone
        /// One for each operation, in their order.
        package var outcomes: [Outcome]
        /// Was nothing applied because one failed? Then the innocent ones failed with `atomicError`.
        package var isAtomicFailure: Bool
        /// Of the schema by which it was decided; -1 where that is not how it is now.
        package var schemaVersion: Int
    }

    package let database: DatabaseAddress
    /// Full, as `DatabaseAddress.zone` gives it.
    package let zone: ZoneID
    package let isAtomic: Bool
    package let rules: SchemaRules
    package let now: Timestamp
    /// Makes and changes shares; `nil`: the caller makes none.
    package let shareEdit: ShareEdit?
    /// Makes record names that nobody can guess.
    package let newName: @Sendable () -> String
    /// How many bytes of records the answer has room for; `nil`: any number.
    package let answerRoom: Int?
    /// Whether the answer is to have fields of the records whose operations do not say so themselves.
    package let wantsFields: Bool
    /// What the client calls this write; `nil`: it may not be repeated.
    package let mark: WriteMark?
    package let operations: [Operation]
    /// Of the schema that it was prepared with.
    package let schemaVersion: Int

    /// Does ahead of the writer what can be done with the schema as it is now: the writer's time is everybody's.
    ///
    /// The operations are to be nobody else's. `knownType` may keep what it makes for as long as the version stays.
    package init(
        _ operations: [Operation],
        in zone: ZoneID,
        of database: DatabaseAddress,
        atomically isAtomic: Bool,
        schema: Schema,
        rules: SchemaRules,
        now: Timestamp,
        shareEdit: ShareEdit? = nil,
        newName: @escaping @Sendable () -> String,
        answerRoom: Int? = nil,
        wantsFields: Bool = true,
        knownType: (String, Schema) -> KnownType = { KnownType($0, in: $1) }
    ) {
        self.newName = newName
        self.operations = operations
        self.zone = zone
        self.database = database
        self.isAtomic = isAtomic && !zone.isDefault
        self.rules = rules
        self.now = now
        self.shareEdit = shareEdit
        self.answerRoom = answerRoom
        self.wantsFields = wantsFields
        mark = nil
        schemaVersion = schema.version
        var known: KnownType?
        for operation in operations {
            guard !operation.kind.isDelete, let name = operation.record.recordType else { continue }
            let type = known.flatMap { $0.name == name ? $0 : nil } ?? knownType(name, schema)
            known = type
            operation.prepare(as: type, in: zone, of: database, rules: rules)
        }
    }

    private init(_ request: ModifyRecords, _ operations: [Operation], mark: WriteMark?) {
        newName = request.newName
        self.operations = operations
        zone = request.zone
        database = request.database
        isAtomic = request.isAtomic
        rules = request.rules
        now = request.now
        shareEdit = request.shareEdit
        answerRoom = request.answerRoom
        wantsFields = request.wantsFields
        self.mark = mark
        schemaVersion = request.schemaVersion
    }

    /// The same under the name that the client gave it.
    package func marked(_ mark: WriteMark?) -> ModifyRecords {
        ModifyRecords(self, operations, mark: mark)
    }

    private func with(_ operations: [Operation]) -> ModifyRecords {
        ModifyRecords(self, operations, mark: mark)
    }

    /// The same with other names for its records, and for those below them the parents that they mean.
    func renamed(_ name: (String) -> String) -> ModifyRecords {
        with(
            operations.map { operation in
                var record = operation.record
                if let parent = record.parent ?? nil { record.parent = .some(name(parent)) }
                return Operation(operation.kind, record, name: name(operation.name), prepared: operation.prepared)
            }
        )
    }

    /// Decides all operations on the state before the commit, then writes what was decided.
    package func run(in writer: any StoreWriter) throws(RelayError) -> Result {
        guard let order = orderWithSharesLast else { return try carryOut(in: writer) }
        let result = try with(order.map { operations[$0] }).carryOut(in: writer)
        var outcomes = result.outcomes
        for (place, index) in order.enumerated() { outcomes[index] = result.outcomes[place] }
        return Result(
            zone: result.zone,
            outcomes: outcomes,
            isAtomicFailure: result.isAtomicFailure,
            schemaVersion: result.schemaVersion
        )
    }

    private func carryOut(in writer: any StoreWriter) throws(RelayError) -> Result {
        guard let zone = try writer.zone(zone, in: database) else { throw .zoneNotFound }
        let request = byKeptNames(zone.aliases)
        let before = try writer.records(named: request.operations.map(\.name), in: zone.whole)
        let bondCount = BondCount(limit: rules.limits.bondsPerWrite)
        var decision = try request.decided(over: before, in: zone, by: writer, bondCount: bondCount)
        // Room that turns out not to be made is no room for the rest of the request either.
        var nonGivers: Set<Int> = []
        while !decision.falseGivers.isSubset(of: nonGivers), !(isAtomic && decision.hasFailed) {
            nonGivers.formUnion(decision.falseGivers)
            decision = try request.decided(over: before, in: zone, by: writer, besides: nonGivers, bondCount: bondCount)
        }
        try checkRoom(for: decision.outcomes)

        // A repeat has been carried out as a whole when it came first, whatever has become of its records.
        if isAtomic, decision.earlier == nil, decision.hasFailed {
            if !Self.refusesWhole { try decision.write(to: writer, zone: zone) }
            let outcomes = decision.viewed(decision.outcomesOfRefusal(), of: self)
            return Result(zone: zone, outcomes: outcomes, isAtomicFailure: true, schemaVersion: -1)
        }
        try decision.write(to: writer, zone: zone)
        try keep(decision.outcomes, after: decision.earlier, in: writer)
        let outcomes = decision.viewed(decision.outcomes, of: self)
        return Result(
            zone: try writer.zone(self.zone, in: database) ?? zone,
            outcomes: light(outcomes),
            isAtomicFailure: false,
            schemaVersion: decision.grown.isEmpty ? decision.schema.version : -1
        )
    }

    /// A short request may be about long records, which its answer repeats as they are then; those that stand in the way of
    /// one come whole.
    private func checkRoom(for outcomes: [Outcome]) throws(RelayError) {
        guard var room = answerRoom else { return }
        for (outcome, operation) in zip(outcomes, operations) where outcome.hasFailed || wantsFields(of: operation) {
            room -= outcome.record?.fields.count ?? 0
        }
        guard room >= 0 else { throw .tooMuch(for: rules.limits) }
    }

    private func wantsFields(of operation: Operation) -> Bool {
        operation.record.desiredKeys.map { !$0.isEmpty } ?? wantsFields
    }

    /// The outcomes without the fields that nobody wants back: they are held until the answer is made, and many may wait.
    private func light(_ outcomes: [Outcome]) -> [Outcome] {
        zip(outcomes, operations).map { outcome, operation in
            guard case .saved(var record) = outcome, !wantsFields(of: operation) else { return outcome }
            record.fields = FieldsJSON.empty
            return .saved(record)
        }
    }

    /// What becomes of each operation; nothing is written yet.
    ///
    /// `nonGivers` are those, by their places, whose deletions and shrinking make no room.
    private func decided(
        over before: [String: StoredRecord],
        in zone: Zone,
        by writer: any StoreWriter,
        besides nonGivers: Set<Int> = [],
        bondCount: BondCount
    ) throws(RelayError) -> Decision {
        let room = try rules.limits.quota.room(in: zone.id, by: database.scope, from: writer)
        var decision = Decision(
            schema: try writer.schema,
            before: before,
            request: self,
            now: zone.stamp(at: now),
            in: writer,
            quota: QuotaLedger(room, of: zone, in: writer),
            bondCount: bondCount
        )
        decision.quota.nonGivers = nonGivers
        decision.sharing = try sharingState(of: zone, before: before, in: writer)
        if let view = zone.view, view.isPartial {
            decision.aliases = view.aliases
            decision.hides = { name throws(RelayError) in try writer.hides(name, from: zone) }
            decision.avoidTakenNames()
        }
        if database.scope == .public, !database.isOperators {
            decision.isUnreadable = unreadableRecords(of: zone, decision.schema, in: writer)
        }
        decision.earlier = try earlier(in: writer)
        for operation in decision.request.operations { decision.decide(operation) }
        try decision.keepBonds(in: writer, zone)
        try decision.keepShares(in: writer)
        return decision
    }
}

extension RelayError {
    package static let anotherZone = RelayError(.badRequest, "The record's zoneID is not that of the request.")
    static let parentElsewhere = RelayError.badRequest(
        "A record's parent, and the root of a share, have to be in the zone of the request."
    )
    static let nameOfShare = RelayError.badRequest(
        "\(Share.zoneWideName) is the name for the share of a whole zone. Give the record another one."
    )
    static let recordExists = RelayError(.conflict, "record to insert already exists")
    package static let accessDenied = RelayError(
        .accessDenied,
        "This needs a permission that the caller does not have."
    )
}
